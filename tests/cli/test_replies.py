"""What a user sees of a server's odd replies: the table, one answer's trace, a budget, one line where a run stops."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ragrounds.evals.store.store import Store
from tests.conftest import Cli, succeeded
from tests.servers.raw_replies import RawServer, raw_server_thread, slug


@pytest.fixture(scope="module")
def raw() -> Iterator[RawServer]:
    with raw_server_thread() as server:
        yield server


def options(raw: RawServer, kind: str, *more: str) -> list[str]:
    model = f'openai:{slug(kind)}[base_url="{raw.url}",price_input=10000,price_output=10000]'
    return [*"run --agent direct --limit 3 --concurrency 1 --display none --model".split(), model, *more]


def test_a_negative_usage_is_unknown_wherever_it_is_shown_and_voids_no_budget(command: Cli, home, raw) -> None:
    done = succeeded(command(*options(raw, "usage negative", "--max-cost", "1")))
    assert "the budget of $1 is used up: $1.4500" in done.stderr, "the price of what was asked"
    assert "unknown" in done.stdout
    assert "-$" not in done.stdout + done.stderr
    assert "$-" not in done.stdout + done.stderr
    with Store(home) as store:
        [run] = store.runs()
        [attempt] = store.attempts(run)
    shown = command("show", run.id, attempt.question_id, "--full").stdout
    assert "the server counted -5000 input tokens" in shown
    assert "Aspirin inhibits cyclooxygenase." in shown
    assert "unknown" in command("ledger").stdout


def test_a_reply_that_is_too_large_fails_its_attempt_and_says_so(command: Cli, raw) -> None:
    done = command(*options(raw, "gzip of 100 MB"))
    assert done.returncode == 3
    assert "3 failed: too large: the reply has more than 8,388,608 bytes unpacked" in done.stderr


def test_a_redirect_is_one_line(command: Cli, raw) -> None:
    before = len(raw.hits)
    done = command(*options(raw, "307 to another host"))
    assert done.returncode == 2
    [line] = [line for line in done.stderr.splitlines() if line.startswith("ragrounds: ")]
    assert f"redirects to http://127.0.0.2:{raw.port} (307). Redirects are not followed" in line
    assert len([hit for hit in raw.hits[before:] if hit.body["model"]]) == 1
