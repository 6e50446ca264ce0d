"""Attempts that are made again: what is asked, what is kept, what it costs, and what a killed retry leaves.

A real server on loopback keeps an account of its own, which the ledger has to meet.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ragrounds as rr
from ragrounds.api.workspace import user_settings
from ragrounds.evals.engine.progress import ReplayProgress
from ragrounds.evals.store.asked_again import earlier_attempts, retries, settled
from ragrounds.evals.store.garbage import collect_garbage
from ragrounds.evals.store.ledger import ledger, unfinished
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.transfer import copy_runs, read_runs
from ragrounds.records import FINAL, Score
from tests.conftest import ROOT, Cli
from tests.servers.scripted_http import GIVEN, GOOD, WRITTEN, Scripted, scripted

PRICE = (GIVEN * 1000.0 + WRITTEN * 2000.0) / 1e6
"""Dollars of a call, at the prices that a test sets."""
LIMIT = 12


class Sour:
    """Without choices for the first three questions, empty for the next two, then well; asked again, always well."""

    def __init__(self, worst: int = 1) -> None:
        self.seen: dict[str, int] = {}
        self.worst = worst
        """How often a question that begins badly is answered so."""

    def __call__(self, prompt: str, before: int) -> str | None:
        place = self.seen.setdefault(prompt, len(self.seen))
        if before >= self.worst or place >= 5:
            return GOOD
        return None if place < 3 else ""


@pytest.fixture
def server() -> Iterator[Scripted]:
    with scripted(Sour()) as running:
        yield running


@pytest.fixture
def options(server: Scripted) -> list[str]:
    return ["run", "--agent", "direct", "--limit", str(LIMIT), "--model", "openai:m", "--base-url", server.url]


def the_run(store: Store):
    (run,) = store.runs()
    return run


@pytest.mark.slow
def test_what_failed_or_was_empty_is_asked_again_and_the_first_is_kept(
    command: Cli, home: Path, server: Scripted, options: list[str]
) -> None:
    first = command(*options, "--display", "none")
    assert first.returncode == 3, first.stderr
    heading = next(line for line in first.stdout.splitlines() if "failed" in line and "empty" in line)
    assert "empty: the system ended, and its text is empty" in first.stdout
    assert "3 failed: no_choices: the provider gave a response without choices" in first.stderr
    assert heading
    assert server.calls == LIMIT

    # The same command asks nobody: what was answered is in the journal.
    assert command(*options, "--display", "none").returncode == 3
    assert server.calls == LIMIT

    dry = command("runs", "retry", "direct", "--status", "failed", "--dry-run", "--display", "none")
    assert "3 attempts to be made again (3 by status failed)" in dry.stderr
    assert server.calls == LIMIT

    failed = command(
        "runs", "retry", "direct", "--status", "failed", "--fault", "no_choices", "--display", "none", "--json"
    )
    assert failed.returncode == 0, failed.stderr
    told = json.loads(failed.stdout)
    assert (told["attempts"], told["by"], told["became"]) == (3, {"fault no_choices": 3}, {"answered": 3})
    assert (told["made"], server.calls) == (3, LIMIT + 3)

    empty = command("runs", "retry", "direct", "--answer-status", "empty", "--display", "none")
    assert empty.returncode == 0, empty.stderr
    assert "chosen by what came of them" in empty.stderr
    assert "Made again: 2 answered. 2 calls made, 0 answered from the journal" in empty.stdout
    assert "those of a system that tries again" in empty.stdout
    assert server.calls == LIMIT + 5

    shown = " ".join(command("runs", "show", "direct").stdout.split())
    assert shown.count("Figures are of the newest") == 1
    assert "replaced: calls of attempts that were made again, which are in no uncached cost" in shown

    with Store(home) as store:
        run = the_run(store)
        assert set(store.done(run).values()) == {"completed"}
        assert sum(attempt.retry for attempt in store.attempts(run)) == 5
        earlier = [one for key in retries(store, run).numbers for one in earlier_attempts(store, run, *key)]
        assert sorted(one.attempt.status for one in earlier) == ["completed"] * 2 + ["failed"] * 3
        assert {one.attempt.text for one in earlier} == {""}
        assert not retries(store, run).open
        total = ledger(store, [run]).total
        assert (total.calls, total.reused, total.failed) == (server.calls, 0, 0)
        assert total.replaced == 5
        assert total.usage is not None
        assert (total.usage.input, total.usage.output) == (server.calls * GIVEN, server.calls * WRITTEN)
        assert collect_garbage(store.engine, FINAL, hours=0).calls.count == 0
        question = earlier[0].attempt.question_id

    shown = command("show", "direct", question)
    assert "first attempt, replaced (chosen by" in shown.stdout
    figures = command("runs", "show", "direct")
    assert "5 attempts" in figures.stdout
    assert "2 by answer status empty, 3 by fault no_choices" in figures.stdout

    # A new run of the same identity replays what the retries brought, and calls nobody.
    replayed = command(*options, "--new", "--journal", "replay", "--display", "none")
    assert replayed.returncode == 0, replayed.stderr
    assert "0 calls made" in replayed.stderr
    assert server.calls == LIMIT + 5
    with Store(home) as store:
        both = [{one.question_id: one.text for one in store.attempts(run)} for run in store.runs()]
        assert both[0] == both[1]


class Seen(rr.RunListener):
    """Keeps the counts of the live screen."""

    def progress(self, progress: ReplayProgress, *, pilot: bool = False) -> Any:
        self.counts = progress
        return super().progress(progress, pilot=pilot)


@pytest.mark.slow
def test_what_is_paid_is_what_the_server_was_paid_for(home: Path, server: Scripted) -> None:
    """Three attempts fail and two are empty, and all that was asked for them stands in the accounts."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "prices.toml").write_text('["openai:m"]\ninput = 1000.0\noutput = 2000.0\n')
    run = rr.run("sample", "direct", model="openai:m", base_url=server.url, limit=LIMIT)
    rr.retry(run, status="failed", answer_status="empty", dry_run=True)
    seen = Seen()
    assert server.calls == LIMIT
    failed = rr.retry(run, status="failed", confirmed=True, listener=seen)
    (counts,) = seen.counts.runs.values()
    (row,) = failed.comparison.rows
    assert failed.cost_paid == pytest.approx(3 * PRICE)
    # The live screen ends with what the table has, the attempts that were not chosen among it.
    assert counts.cost_paid == pytest.approx(row.cost_paid)
    assert +counts.outcomes == failed.comparison.outcomes()[row.run]
    made = rr.retry(run, answer_status="empty", confirmed=True)
    assert made.cost_paid == pytest.approx(2 * PRICE)
    (row,) = made.comparison.rows
    assert row.cost_paid == pytest.approx(server.calls * PRICE)
    assert row.cost_uncached == pytest.approx(LIMIT * PRICE)
    with Store(home) as store:
        total = ledger(store, store.runs()).total
    assert total.cost_paid == pytest.approx(server.calls * PRICE)
    assert total.cost_uncached == pytest.approx(LIMIT * PRICE)
    assert rr.runs().to_pandas()["cost_paid"].sum() == pytest.approx(server.calls * PRICE)


@pytest.mark.slow
def test_a_budget_that_ends_a_retry_leaves_the_rest_to_be_made(
    command: Cli, home: Path, server: Scripted, options: list[str]
) -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "prices.toml").write_text('["openai:m"]\ninput = 1000.0\noutput = 2000.0\n')
    command(*options, "--display", "none", "--yes")
    words = ("runs", "retry", "direct", "--status", "failed", "--display", "none", "--json", "--concurrency", "1")
    ended = command(*words, "--max-cost", str(PRICE / 2))
    assert json.loads(ended.stdout)["became"] == {"answered": 1}
    assert "Ended early" in ended.stderr
    assert ended.returncode == 3
    assert command(*words, "--yes").returncode == 0
    assert server.calls == LIMIT + 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "option", "word"),
    [("E", "--answer-status", "unreadable"), ("I'm sorry, but I can't help with that.", "--answer-status", "refused")],
)
def test_an_answer_that_is_not_taken_is_asked_again(
    command: Cli, home: Path, server: Scripted, options: list[str], text: str, option: str, word: str
) -> None:
    """The reply was good in form, so the attempt's last call is asked again; a judge's score of the text goes."""
    bad = [json.dumps({"answer_choice": text}) if word == "unreadable" else text]
    server.script = lambda prompt, before: bad[0]
    command(*options, "--display", "none")
    bad[0] = GOOD
    dry = rr.retry("direct", answer_status=word, dry_run=True)
    (question, _), *_ = dry.plan.attempts
    with Store(home) as store:
        judged = Score(question_id=question, epoch=0, scorer="equivalent", value=0.0, answer_status="refused")
        store.add_scores(the_run(store), [judged])
    told = json.loads(command("runs", "retry", "direct", option, word, "--display", "none", "--json").stdout)
    assert told["became"] == {"answered": told["attempts"]}
    assert told["attempts"] == told["made"] == server.calls - LIMIT > 0
    with Store(home) as store:
        run = the_run(store)
        made = {one.question_id: one for one in store.attempts(run)}
        assert (made[question].retry, made[question].text) == (1, GOOD)
        (score,) = store.scores(run, "equivalent")
        assert (score.value, score.answer_status) == (None, "answered")


def test_good_calls_of_the_attempt_are_not_paid_again(command: Cli, home: Path) -> None:
    """A query is written well, and the answer is empty: the search and the first call are reused."""
    answers = [""]

    def script(prompt: str, before: int) -> str:
        return answers[0] if "B. " in prompt else "scurvy gums"

    with scripted(script) as server:
        options = ["run", "--agent", "i_medrag[rounds=1,queries=1]", "--limit", "3", "--model", "openai:m"]
        assert command(*options, "--base-url", server.url, "--display", "none").returncode == 0
        before, answers[0] = server.calls, GOOD
        done = command("runs", "retry", "i_medrag", "--answer-status", "empty", "--display", "none", "--json")
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert told["became"] == {"answered": told["attempts"]}
        assert 0 < told["made"] == server.calls - before < before
        assert told["reused"] > 0
        with Store(home) as store:
            run = the_run(store)
            total = ledger(store, [run]).total
            models = ledger(store, [run], ("role",)).lines
            assert sum(line.calls - line.reused for line in models if line.role != "searching") == server.calls
            assert total.failed == 0


@pytest.mark.slow
def test_other_agents_that_share_a_call_keep_the_first_reply(command: Cli, home: Path, server: Scripted) -> None:
    """Two runs ask the same: the retry of one changes nothing for a later run of the other."""
    options = ["--limit", str(LIMIT), "--model", "openai:m", "--base-url", server.url, "--display", "none"]
    both = ["--agent", "direct", "--agent", "direct[limits.calls=9]"]
    command("run", *both, *options)
    assert server.calls == LIMIT
    command("runs", "retry", "direct", "--status", "failed", "--display", "none")
    assert server.calls == LIMIT + 3
    command("run", "--agent", "direct[limits.calls=9]", *options, "--new", "--journal", "replay")
    with Store(home) as store:
        failed = [sum(status == "failed" for status in store.done(run).values()) for run in store.runs()]
    assert failed == [0, 3, 3]
    # Its own retry finds what the other one's has brought, and pays nothing.
    done = command("runs", "retry", "direct[limits.calls=9]", "--status", "failed", "--display", "none", "--json")
    assert (json.loads(done.stdout)["made"], json.loads(done.stdout)["reused"]) == (0, 3)
    assert server.calls == LIMIT + 3


@pytest.mark.slow
def test_a_retry_may_fail_again_and_be_made_again(
    command: Cli, home: Path, options: list[str], server: Scripted
) -> None:
    server.script = Sour(worst=3)
    command(*options, "--display", "none")
    for expected in ({"failed": 3}, {"failed": 3}, {"answered": 3}):
        done = command("runs", "retry", "direct", "--fault", "no_choices", "--display", "none", "--json")
        assert json.loads(done.stdout)["became"] == expected
        assert done.returncode == (3 if "failed" in expected else 0)
    assert server.calls == LIMIT + 9
    with Store(home) as store:
        run = the_run(store)
        key = next(iter(retries(store, run).numbers))
        assert [one.attempt.retry for one in earlier_attempts(store, run, *key)] == [0, 1, 2]
        assert store.attempt(run, *key).retry == 3
        assert ledger(store, [run]).total.calls == server.calls
    nothing = command("runs", "retry", "direct", "--fault", "no_choices", "--display", "none")
    assert nothing.returncode == 0
    assert "no attempt is of that kind, so nothing is asked again. There are: 10 answered, 2 empty." in nothing.stderr


def test_a_run_with_retries_is_exported_and_imported(
    command: Cli, home: Path, options: list[str], tmp_path: Path
) -> None:
    command(*options, "--display", "none")
    command("runs", "retry", "direct", "--status", "failed", "--display", "none")
    with Store(home) as store, Store(tmp_path / "other") as other:
        copy_runs(store.engine, other.engine, read_runs(store.engine), FINAL)
        run = the_run(store)
        for key in retries(store, run).numbers:
            assert earlier_attempts(other, run, *key) == earlier_attempts(store, run, *key)
        assert ledger(other, [run]).total == ledger(store, [run]).total
        again = copy_runs(store.engine, other.engine, read_runs(store.engine), FINAL)
        assert again.present == (run.id,)
    checked = command("doctor", "--store")
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_killed_in_the_middle_it_is_resumed_and_nothing_is_paid_twice(
    home: Path, options: list[str], server: Scripted, workers: str, command: Cli
) -> None:
    assert command(*options, "--display", "none").returncode == 3
    server.gate.clear()
    words = ["runs", "retry", "direct", "--status", "failed", "--display", "none", "--concurrency", "2"]
    retrying = subprocess.Popen(
        [sys.executable, "-m", "ragrounds", *words, "--workers", workers],
        env={**os.environ, "OPENAI_API_KEY": "none"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    until(lambda: server.calls == LIMIT + 2)
    retrying.send_signal(signal.SIGKILL)
    retrying.wait()
    server.gate.set()
    with Store(home) as store:
        run = the_run(store)
        assert len(retries(store, run).open) == 3
        assert sorted(store.done(run).values()) == ["completed"] * 9 + ["failed"] * 3  # the table is whole
        assert len(settled(store, run)) == 9
    resumed = command(*options, "--display", "none", "--workers", workers, "--concurrency", "2")
    assert resumed.returncode == 0, resumed.stderr
    with Store(home) as store:
        run = the_run(store)
        assert set(store.done(run).values()) == {"completed"}
        assert not retries(store, run).open
        assert unfinished(store, [run]).calls == 0
        # The two that were in flight when the process died are the only ones that were asked once more.
        assert server.calls <= LIMIT + 3 + 2
        assert ledger(store, [run]).total.calls == LIMIT + 3


def until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def test_the_library_does_the_same(home: Path, server: Scripted) -> None:
    run = rr.run("sample", "direct", model="openai:m", base_url=server.url, limit=LIMIT)
    made = rr.retry(run, status="failed", answer_status=["empty"])
    assert (dict(made.became), made.made, made.ended) == ({"answered": 5}, 5, "")
    assert {row.retried for row in made.comparison.rows} == {5}
    assert "Made again: 5 answered." in str(made)
    frame = made.to_pandas("attempts")
    assert frame["retry"].sum() == 5
    assert (rr.runs().to_pandas()["retried"] == 5).all()


@pytest.mark.slow
def test_a_run_whose_command_names_code_makes_them_by_its_own_command(
    command: Cli, home: Path, server: Scripted
) -> None:
    bad = [""]
    server.script = lambda prompt, before: bad[0]
    agent = f"{ROOT / 'docs' / 'examples' / 'own_graph.py'}:build"
    own = [
        "run",
        "--agent",
        agent,
        "--limit",
        "2",
        "--model",
        "openai:m",
        "--base-url",
        server.url,
        "--display",
        "none",
    ]
    assert command(*own).returncode == 0
    with Store(home) as store:
        id = the_run(store).id
    bad[0], before = GOOD, server.calls
    refused = command("runs", "retry", id, "--answer-status", "empty", "--display", "none")
    assert refused.returncode == 2
    assert "2 attempts are set down, and the run's own command makes them again" in refused.stderr
    assert server.calls == before
    assert command(*own).returncode == 0
    assert server.calls > before
    with Store(home) as store:
        assert [attempt.retry for attempt in store.attempts(the_run(store))] == [1, 1]


def test_on_postgresql_too(home: Path, server: Scripted, url: str) -> None:
    settings = user_settings().model_copy(update={"store": url})
    run = rr.run("sample", "direct", model="openai:m", base_url=server.url, limit=LIMIT, settings=settings)
    made = rr.retry(run, status="failed", answer_status="empty", settings=settings)
    assert (dict(made.became), made.made, server.calls) == ({"answered": 5}, 5, LIMIT + 5)
    again = rr.retry(run, status="failed", settings=settings)
    assert (again.became, again.made) == ({}, 0)
    with Store(home, url) as store:
        stored = the_run(store)
        assert sum(attempt.retry for attempt in store.attempts(stored)) == 5
        assert len(retries(store, stored).numbers) == 5
        assert ledger(store, [stored]).total.calls == server.calls
        assert collect_garbage(store.engine, FINAL, hours=0).calls.count == 0
        key = next(iter(retries(store, stored).numbers))
        assert [one.attempt.retry for one in earlier_attempts(store, stored, *key)] == [0]
        store.remove(stored)
        assert not store.runs()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Which attempts are to be made again?"),
        (["--status", "faild"], "It can be blocked, failed, capped, paused."),
        (["--answer-status", "answered"], "It can be abstained, refused, unreadable, empty."),
    ],
)
def test_what_cannot_be_made_again_is_told(command: Cli, options: list[str], words: list[str], message: str) -> None:
    command(*options, "--display", "none")
    done = command("runs", "retry", "direct", *words)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
