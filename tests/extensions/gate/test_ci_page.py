"""docs/how-to/ci.md: its project records once, passes without a server, and fails as the page shows."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer

import pytest
import yaml

from ragrounds.evals.claims.claims import parse_claim
from tests.extensions.gate.test_pytest_plugin import RECORD, loaded, run
from tests.servers.notes_model import FILES, PAGE, Model

__all__ = ["loaded"]  # what runs need is imported once
pytest_plugins = ["pytester"]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    Model.asked = 0
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.server_close()


@pytest.mark.slow
def test_the_example_is_recorded_replayed_and_fails_as_the_page_says(
    pytester: pytest.Pytester, model: ThreadingHTTPServer
) -> None:
    assert len(FILES) == 5
    for name, text in FILES.items():
        path = pytester.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    run(pytester, "evals", RECORD).assert_outcomes(passed=2, skipped=1)
    assert Model.asked == 20  # three tests share one file
    recorded, assistant = (
        pytester.path / "evals/ragrounds_journal/assistant.jsonl",
        pytester.path / "evals/assistant.py",
    )
    before = recorded.read_bytes()
    assistant.write_text(FILES["evals/assistant.py"].replace('f"{question}\\n\\nEnd', 'f"{question}\\nEnd'))
    run(pytester, "evals", RECORD).assert_outcomes(passed=2, skipped=1)
    assert Model.asked == 30  # one of two agents has another prompt
    assert re.findall(r"^\| (?:the|a) .* \| (\d+) \|", PAGE, re.M) == ["20", "0", "10", "0"]
    recorded.write_bytes(before)
    assistant.write_text(FILES["evals/assistant.py"])
    model.shutdown()
    model.server_close()
    steps = yaml.safe_load(FILES[".github/workflows/evals.yml"])["jobs"]["evals"]["steps"]
    (command,) = [step["run"].split() for step in steps if "pytest evals" in step.get("run", "")]
    assert command == ["pytest", "evals"]
    done = run(pytester, *command[1:], "-rs")
    done.assert_outcomes(passed=2, skipped=1)
    test = pytester.path / "evals" / "test_assistant.py"
    test.write_text(FILES["evals/test_assistant.py"].replace("from_notes) >= 0.6", "from_memory) >= 0.9"))
    failed = run(pytester, "evals", "-k", "notes")
    failed.assert_outcomes(failed=1, deselected=2)
    (shown,) = re.findall(r"^```text\n(\d of \d claims does not hold.*?)\n…\n```$", PAGE, re.M | re.S)
    assert shown in failed.stdout.str()
    assert recorded.read_bytes() == before


def test_every_form_of_claim_on_the_page_can_be_read() -> None:
    (table,) = re.findall(r"\| in words \| claim \|\n\|---\|---\|\n(.*?)\n\n", PAGE, re.S)
    claims = [row.split("`")[1] for row in table.splitlines()]
    assert len(claims) == 5
    for claim in claims:
        parse_claim(claim)
