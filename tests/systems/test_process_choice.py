"""Which process a system runs in: one of its own where it is named by file, ours where it takes ragrounds or is told
to; what is different about a process of its own."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

import ragrounds as rr
from ragrounds.agents.agent import open_agent, read_card
from ragrounds.agents.systems.hosts import HostedSystem
from ragrounds.agents.systems.in_process import InProcessSystem
from ragrounds.agents.systems.kinds import kind_of
from ragrounds.agents.systems.process_choice import reason_here
from ragrounds.base.errors import UserError
from ragrounds.evals.engine.plan import options_with_effect
from ragrounds.evals.store.store import Store

WHERE = "import os\n\ndef ask(question):\n    return str(os.getpid())\n"


@pytest.fixture(autouse=True)
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "where.py").write_text(WHERE)
    return tmp_path


def answers(home: Path, *agents: str, **given: object) -> list[str]:
    """What each agent answered, once for each of them."""
    result = rr.run("sample", list(agents), limit=2, progress=False, home=home, **given)  # type: ignore[arg-type]
    with Store(home) as store:
        return [" ".join(sorted({attempt.text for attempt in store.attempts(run)})) for run in result.runs]


def test_two_versions_of_one_package_each_run_with_their_own_modules_and_variables(there: Path, home: Path) -> None:
    for number in (1, 2):
        folder = there / f"v{number}"
        (folder / "kit").mkdir(parents=True)
        (folder / "kit" / "__init__.py").write_text(f"VERSION = {number}\n")
        (folder / "kit" / "late.py").write_text(f"VERSION = {number}\n")
        (folder / ".env").write_text(f"WRITTEN_BY=writer {number}\n")
        (folder / "langgraph.json").write_text(
            json.dumps({"dependencies": ["."], "graphs": {"agent": "./kit/agent.py:ask"}, "env": ".env"})
        )
        (folder / "kit" / "agent.py").write_text(
            "import os\nfrom kit import VERSION\n\ndef ask(question):\n    from kit.late import VERSION as later\n"
            "    return f'{VERSION} {later} {os.environ[\"WRITTEN_BY\"]} {os.path.basename(os.getcwd())}'\n"
        )
    assert answers(home, "./v1/langgraph.json:agent", "./v2/langgraph.json:agent") == [
        "1 1 writer 1 v1", "2 2 writer 2 v2",
    ]  # fmt: skip
    assert "kit" not in sys.modules
    assert "WRITTEN_BY" not in os.environ


def test_a_file_runs_in_a_process_of_its_own_that_ends_with_the_command(home: Path) -> None:
    (own,) = answers(home, "./where.py:ask")
    assert own.isdigit()
    assert int(own) != os.getpid()
    assert not Path(f"/proc/{own}").exists()
    with Store(home) as store:
        assert [run.identity["process"] for run in store.runs()] == ["its own"]


def test_in_process_is_said_and_keeps_it_in_ours(
    home: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragrounds.base.plugins._SAID", set())
    assert answers(home, "./where.py:ask", in_process=True) == [str(os.getpid())]
    assert "./where.py:ask runs in this process, not in its own: in_process=true." in caplog.messages
    with Store(home) as store:
        (run,) = store.runs()
    assert run.agent == "./where.py:ask[in_process=true]"
    assert run.identity["process"] == "ours"
    assert run.asked is not None
    assert "./where.py:ask[in_process=true]" in run.asked.options
    assert answers(home, "./where.py:ask[in_process=true]") == [str(os.getpid())]


def test_a_run_stores_no_option_that_its_agent_ignores() -> None:
    given = ("--model", "openai:x", "--base-url", "http://x", "--limit", "3", "--corpus", "lib")
    assert options_with_effect(open_agent("./where.py:ask"), given) == ("--limit", "3")
    assert options_with_effect(open_agent("direct"), given) == given[:-2]
    assert options_with_effect(open_agent("vanilla_rag"), given) == given


def test_an_edited_file_is_loaded_anew(there: Path, home: Path) -> None:
    (there / "told.py").write_text("def ask(question):\n    return 'first'\n")
    assert answers(home, "./told.py:ask") == ["first"]
    kind_of(read_card("./told.py:ask")).open()
    (there / "told.py").write_text("def ask(question):\n    return 'second'\n")
    assert answers(home, "./told.py:ask") == ["second"]


def test_an_interpreter_of_its_own(there: Path, home: Path) -> None:
    (there / "bin").mkdir()
    python = there / "bin" / "python"
    python.write_text(f'#!/bin/sh\nTAKEN=yes exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (there / "taken.py").write_text("import os\n\ndef ask(question):\n    return os.environ.get('TAKEN', 'no')\n")
    assert answers(home, "./taken.py:ask", "./where.py:ask", python="bin/python")[0] == "yes"
    assert answers(home, "./taken.py:ask") == ["no"]
    (there / "mine.toml").write_text('system = "taken.py:ask"\npython = "bin/python"\n')
    assert answers(home, "mine.toml") == ["yes"]


def test_what_takes_ragrounds_stays_in_our_process(there: Path) -> None:
    (there / "taking.py").write_text("from ragrounds.base.records import Question\n" + WHERE)
    (there / "beside.py").write_text("import taking\n" + WHERE)
    for name in ("taking", "beside"):
        card = open_agent(f"./{name}.py:ask").card
        assert "ragrounds" in reason_here(card)
        assert isinstance(kind_of(card).open(), InProcessSystem)
    assert reason_here(read_card("./where.py:ask")) == ""
    assert isinstance(kind_of(read_card("./where.py:ask")).open(), HostedSystem)
    (there / "later.py").write_text("import importlib\n\nimportlib.import_module('ragrounds')\n" + WHERE)
    assert isinstance(kind_of(read_card("./later.py:ask")).open(), InProcessSystem)


def test_an_interpreter_for_what_runs_in_our_process_is_refused(there: Path, home: Path) -> None:
    (there / "taking.py").write_text("import ragrounds\n" + WHERE)
    for agent, given in (("./taking.py:ask[python=python3]", {}), ("./taking.py:ask", {"python": "python3"})):
        with pytest.raises(UserError, match=r"imports ragrounds(: python|$|\.$)"):
            rr.run("sample", agent, limit=1, progress=False, home=home, **given)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="`in_process` is for your own systems"):
        rr.run("sample", "direct", limit=1, progress=False, home=home, in_process=True)


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("./nowhere.py:ask", "There is no file 'nowhere.py'"),
        ("nowhere.module:ask", "There is no module 'nowhere.module'"),
        ("./where.py:asked", r"\./where\.py:asked: there is no 'asked'\. Did you mean 'ask'\? It has: ask\."),
        ("./where.py", r"\./where\.py: which one\? Expected \./where\.py:NAME\. It has: ask\."),
        ("./broken.py:ask", r"importing .*broken\.py failed: ZeroDivisionError: .*\(broken\.py, line 1\)"),
        ("./where.py:ask[config.a=1]", r"\./where\.py:ask is a function: config has no effect on it"),
        ("./where.py:ask[python=./none]", "none' cannot be started"),
    ],
)
def test_what_is_wrong_is_said_by_its_name(there: Path, agent: str, said: str) -> None:
    (there / "broken.py").write_text("1 / 0\n")
    with pytest.raises(UserError, match=said):
        kind_of(open_agent(agent).card).open()
