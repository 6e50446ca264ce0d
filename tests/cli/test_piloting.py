"""`ragrounds run`: the projection from a pilot, and the question above a threshold, with a loopback server."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import ragrounds as rr
from ragrounds.api import pilot
from ragrounds.evals.engine.progress import PILOT, Projection, projection
from ragrounds.evals.store import schema
from ragrounds.evals.store.store import Store
from tests.conftest import Cli, succeeded
from tests.servers.scripted_http import GOOD, Scripted, scripted
from tests.ui.progress.test_screen import Pty

COUNT = 30
RUN = ["run", "--agent", "direct", "--model", "openai:paid", "--display", "none", "--limit", str(COUNT)]
SETTINGS = {"OPENAI_API_KEY": "k", "RAGROUNDS_PROJECT_ABOVE_DOLLARS": "0.05"}


@pytest.fixture
def server() -> Iterator[Scripted]:
    with scripted(lambda prompt, before: GOOD) as made:
        yield made
        assert set(made.asked.values()) == {1}, "nothing is asked twice"


@pytest.fixture
def prices(home: Path) -> None:
    home.mkdir(parents=True)
    (home / "prices.toml").write_text('["openai:paid"]\ninput = 10\noutput = 100\n', encoding="utf-8")


@pytest.mark.usefixtures("prices")
def test_above_the_threshold_somebody_must_say_yes(command: Cli, server: Scripted, home: Path) -> None:
    run = [*RUN, "--base-url", server.url]
    refused = command(*run, **SETTINGS)
    assert refused.returncode == 2
    assert "Estimate for the remaining attempts (from 8 per agent" in refused.stderr
    last = refused.stderr.strip().splitlines()[-1]
    assert "may be above project_above_dollars = 0.05. Give --yes to continue, or limit it with --max-cost" in last
    assert server.calls == 8
    with Store(home) as store:
        (begun,) = store.runs()
        first = [question.id for question in store.questions(begun)[0]][:8]
        assert {question for question, _ in store.settled(begun)} != set(first), "a random sample"
    again = command(*run, **SETTINGS)  # what the pilot asked is not asked again, and the question stands
    assert again.returncode == 2
    assert server.calls == 8
    bounded = succeeded(command(*run, "--max-cost", "0.05", "--concurrency", "1", **SETTINGS))
    assert "Ended early: the budget of $0.05" in bounded.stderr
    succeeded(command(*run, "--yes", **SETTINGS))
    assert server.calls == COUNT


@pytest.mark.usefixtures("prices")
def test_below_the_threshold_it_goes_on_by_itself(command: Cli, server: Scripted, home: Path) -> None:
    (home / "prices.toml").write_text('["openai:paid"]\ninput = 1\noutput = 10\n', encoding="utf-8")
    done = succeeded(command(*RUN, "--base-url", server.url, OPENAI_API_KEY="k"))
    assert "Estimate" not in done.stderr, "the rest takes less than a minute and $0.05"
    assert server.calls == COUNT


@pytest.mark.parametrize("options", [[], ["--yes"], ["--concurrency", "1"]])
@pytest.mark.usefixtures("prices")
def test_a_short_rest_that_costs_more_than_some_cents_is_said(
    command: Cli, server: Scripted, home: Path, options: list[str]
) -> None:
    (home / "prices.toml").write_text('["openai:paid"]\ninput = 100\noutput = 1000\n', encoding="utf-8")
    done = command(*RUN, *options, "--base-url", server.url, OPENAI_API_KEY="k", RAGROUNDS_PROJECT_ABOVE_DOLLARS="100")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Estimate for the remaining attempts") == 1


@pytest.mark.usefixtures("prices")
def test_nobody_waits_while_a_resumed_run_is_projected(
    server: Scripted, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its attempts are read once, before the first call, and summed outside the event loop's thread."""
    (home / "prices.toml").write_text('["openai:paid"]\ninput = 100\noutput = 1000\n', encoding="utf-8")
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    calls_at_read, threads, projections = list[int](), list[threading.Thread](), list[Projection]()

    def observe_read(read: Callable[..., Any]) -> Callable[..., Any]:
        def read_attempts(*arguments: Any) -> Any:
            calls_at_read.append(server.calls)
            return read(*arguments)

        return read_attempts

    def project_attempts(*arguments: Any) -> Projection | None:
        threads.append(threading.current_thread())
        projections.extend(filter(None, [projection(*arguments)]))
        return projections[-1]

    given: Any = {"agents": "direct", "model": "openai:paid", "base_url": server.url, "limit": COUNT, "concurrency": 1}
    with pytest.raises(rr.UserError):  # after its pilot
        rr.run(**given)
    monkeypatch.setattr(Store, "summaries", observe_read(Store.summaries))
    monkeypatch.setattr(Store, "settled", observe_read(Store.settled))
    monkeypatch.setattr(pilot, "projection", project_attempts)
    rr.run(**given, confirmed=True)
    assert calls_at_read.count(PILOT) == 1
    assert not [calls for calls in calls_at_read if PILOT < calls < COUNT]
    assert threading.main_thread() not in threads
    assert [(agent.seen, agent.attempts) for found in projections for agent in found.agents] == [
        (2 * PILOT, COUNT - 2 * PILOT)
    ]


@pytest.mark.usefixtures("prices")
def test_a_resumed_run_makes_a_damaged_attempt_again(
    server: Scripted, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    given: Any = {"agents": "direct", "model": "openai:paid", "base_url": server.url, "limit": 4}
    run = rr.run(**given).runs[0]
    with Store(home) as store:
        damaged = store.summaries(run)[0].question_id
        with store.engine.begin() as connection:
            attempts = schema.attempts
            connection.execute(sa.update(attempts).where(attempts.c.question_id == damaged).values(seconds=99.0))
    again = rr.run(**given)
    assert (again.made, again.reused) == (0, 1)
    with Store(home) as store:
        assert len(store.summaries(run)) == 4


@pytest.mark.usefixtures("prices")
def test_what_fails_in_the_pilot_is_not_made_again_by_the_same_command(command: Cli) -> None:
    with scripted(lambda prompt, before: None) as server:  # a response without choices
        done = command(*RUN, "--base-url", server.url, "--fail-after", "never", OPENAI_API_KEY="k")
        assert f"{COUNT} failed: no choices" in done.stderr
        assert server.calls == COUNT


def test_an_unknown_price_is_unknown_and_nothing_waits(command: Cli, server: Scripted) -> None:
    done = succeeded(command(*RUN, "--base-url", server.url, **SETTINGS))
    assert "$0.00" not in done.stderr.split("model calls made")[0]


@pytest.mark.usefixtures("prices")
def test_minutes_have_a_threshold_of_their_own(command: Cli, server: Scripted) -> None:
    refused = command(*RUN, "--base-url", server.url, OPENAI_API_KEY="k", RAGROUNDS_PROJECT_ABOVE_MINUTES="0")
    assert refused.returncode == 2
    assert "project_above_minutes = 0" in refused.stderr
    assert "--max-time" in refused.stderr


def test_the_baseline_is_not_bothered(command: Cli) -> None:
    done = succeeded(command("run", "--agent", "direct", "--limit", str(COUNT), RAGROUNDS_PROJECT_ABOVE_DOLLARS="0"))
    assert "Estimate" not in done.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("prices")
@pytest.mark.parametrize(("answer", "code", "asked"), [("n", 1, 8), ("y", 0, COUNT)])
def test_at_a_terminal_the_user_is_asked(server: Scripted, home: Path, answer: str, code: int, asked: int) -> None:
    command, terminal = [sys.executable, "-m", "ragrounds", *RUN, "--base-url", server.url], Pty(80, 24)
    with closing(terminal):
        ends = {"stdin": terminal.slave, "stderr": terminal.slave, "stdout": subprocess.DEVNULL}
        run = subprocess.Popen(command, env={**os.environ, **SETTINGS}, **ends)
        os.write(terminal.master, f"{answer}\n".encode())
        assert run.wait(120) == code
        terminal.see("Continue? [y/N]")
    assert server.calls == asked


@pytest.mark.usefixtures("prices")
def test_the_pilot_of_a_watched_run_is_its_first_questions(command: Cli, server: Scripted) -> None:
    run = [*RUN, "--base-url", server.url, "--until", "accuracy(direct) > 99% @ 95%"]
    refused = command(*run, **SETTINGS)
    assert refused.returncode == 2
    assert server.calls == 8
    done = command(*run, "--yes", **SETTINGS)
    assert done.returncode == 1, done.stderr  # the claim fails
    assert "questions, in the random order of --seed 0" in done.stderr
