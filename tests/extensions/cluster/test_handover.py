"""`--workers auto`: a run begins in one process, and workers take up the rest where that saves time. Nothing is asked
twice, whatever ends it."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ragrounds as rr
from ragrounds.base.errors import UserError
from ragrounds.evals.engine import scheduler
from ragrounds.evals.store.store import Store
from ragrounds.extensions.cluster.clusters import local
from tests.at_work import Start, interrupted, questions_twice, starting, until_asked
from tests.conftest import Cli
from tests.extensions.cluster.test_leader import LoopLine
from tests.servers.any_form import AnyForm
from tests.servers.process import Running, openai_server

COUNT = 120
HERE = 40
EAGER = f"""
import asyncio
import ragrounds.evals.engine.scheduler as scheduler
scheduler.START = scheduler.WINDOW = 0.0001
scheduler.BUSY = (0.0, 99.0)
scheduler.processors = scheduler.room_for_more = lambda: 2
begun, begin = [], scheduler.Handover.next
async def wait(self):
    while self._lead and len(begun) >= {HERE} and not self.handed_over and not (self._leading and self._leading.done()):
        await asyncio.sleep(0.01)
    begun.append(1)
    return await begin(self)
scheduler.Handover.next = wait
from ragrounds.cli.entry import main
main()
"""
"""The command, which starts workers as soon as it has measured its pace, however slow it is, and waits for them after
`HERE` questions."""
STARTS = "2 workers share the rest; --workers 1 keeps one process."


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    return questions_twice(tmp_path, COUNT)


@pytest.fixture
def start(questions: Path, tmp_path: Path) -> Iterator[Start]:
    with starting(questions, tmp_path) as begin:

        def started(server: Running, *more: str, code: str = EAGER, home: str = "home") -> subprocess.Popen[str]:
            return begin(server, "--concurrency", "8", *more, program=("-c", code), home=home)

        yield started


def outcome(home: Path) -> list[list[str]]:
    """All statuses, texts and scores of a home's runs."""
    with Store(home) as store:
        return [
            sorted(f"{attempt.question_id} {attempt.status} {attempt.text}" for attempt in store.attempts(run))
            + sorted(map(repr, store.scores(run)))
            for run in store.runs()
        ]


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make runs start workers as soon as they have measured their pace."""
    for name, value in {"START": 0.0001, "WINDOW": 0.0001, "BUSY": (0.0, 99.0)}.items():
        monkeypatch.setattr(scheduler, name, value)
    for name in ("processors", "room_for_more"):
        monkeypatch.setattr(scheduler, name, lambda: 2)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    next_question = scheduler.Handover.next

    def hand_over(after: int, reports: int | None = None) -> None:
        """Wait for workers in this process after so many questions. Their lines are cut after `reports` attempts."""
        begun: list[int] = []

        async def wait(handover: Any) -> Any:
            while len(begun) >= after and handover._lead and not handover.handed_over:  # no event says so
                assert handover._leading is None or not handover._leading.done(), "the workers could not take part"
                await asyncio.sleep(0.001)
            begun.append(1)
            return await next_question(handover)

        async def open_lines(count: int) -> list[LoopLine]:
            return [LoopLine(f"worker {number}", reports) for number in range(count)]

        monkeypatch.setattr(scheduler.Handover, "next", wait)
        monkeypatch.setattr(local, "open_pipes", open_lines)

    return hand_over


def test_workers_share_the_rest_and_a_run_that_lost_them_resumes(
    command: Cli, served: AnyForm, tmp_path: Path, eager: Callable[..., None]
) -> None:
    path, lock, in_flight, texts = questions_twice(tmp_path, 24), threading.Lock(), [0], list[str]()

    def says(body: dict[str, Any]) -> str:
        with lock:
            in_flight.append(in_flight[-1] + 1)
            texts.append(str(body["messages"]))
        time.sleep(0.01)
        with lock:
            in_flight.append(in_flight[-1] - 1)
        return "The answer is A"

    def run(home: str, *options: str) -> subprocess.CompletedProcess[str]:
        words = ["run", "--benchmark", f"jsonl:{path}", "--agent", "direct", "--agent", "direct_cot", *options]
        words += ["--model", "openai:m", "--base-url", served.url, "--display", "none", "--concurrency", "8"]
        return command(*words, RAGROUNDS_HOME=str(tmp_path / home))

    served.says = says
    eager(after=8)
    handed = run("home")
    assert handed.returncode == 0, handed.stderr
    assert handed.stderr.count(STARTS) == 1
    assert len(texts) == len(set(texts)) == 24  # half of the questions, by two agents
    assert max(in_flight) <= 8
    assert "24 model calls made, 24 answered from the journal" in handed.stderr
    eager(after=8, reports=3)
    assert "All workers ended: worker " in run("lost").stderr
    eager(after=24)  # it waits for none
    assert run("lost").returncode == 0
    assert len(texts) <= 24 + 24 + 8, "no more is asked twice than was in flight"
    assert run("alone", "--workers", "1").returncode == 0
    assert outcome(tmp_path / "home") == outcome(tmp_path / "lost") == outcome(tmp_path / "alone")


@pytest.mark.slow
def test_killed_while_workers_are_at_it_and_resumed_by_the_same_command(start: Start, tmp_path: Path) -> None:
    with openai_server("--latency", "0.1", "--jitter", "0.1") as server:
        killed = start(server)
        until_asked(killed, server, 2 * HERE)  # with equal questions and two agents, more than this process asks alone
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
        again = start(server)
        _, said = again.communicate(timeout=120)
        assert again.returncode == 0, said
        stats = server.stats()
        assert stats["prompts"] == COUNT
        assert stats["asked"] <= COUNT + 8, "no more is asked twice than was in flight"
        alone = start(server, "--workers", "1", home="alone")
        alone.communicate(timeout=120)
    assert outcome(tmp_path / "home") == outcome(tmp_path / "alone")


@pytest.mark.slow
def test_a_budget_and_a_ctrl_c_end_workers_too(start: Start, tmp_path: Path) -> None:
    with openai_server("--latency", "0.1", "--jitter", "0.1") as server:
        bounded = start(server, "--max-total-tokens", "2500")
        _, said = bounded.communicate(timeout=120)
        assert bounded.returncode == 0, said
        assert STARTS in said
        assert "the budget of 2,500 tokens is used up" in said
        assert server.stats()["asked"] < COUNT
    with openai_server("--latency", "0.1", "--jitter", "0.1") as server:
        pressed = start(server, home="pressed")
        until_asked(pressed, server, 2 * HERE)
        told = interrupted(pressed, 1)
        assert "Finishing the calls in flight" in told
        stats = server.stats()
        assert stats["asked"] == stats["answered"] == stats["prompts"] < COUNT


@pytest.mark.slow
def test_failed_attempts_are_not_asked_again_by_workers(start: Start, tmp_path: Path) -> None:
    with openai_server("--latency", "0.1", "--faults", "0.3", "--mix", "400=1") as server:
        handed = start(server, "--fail-after", "never")
        _, said = handed.communicate(timeout=120)
        assert STARTS in said
        with Store(tmp_path / "home") as store:
            failed = sum(Counter(store.done(run).values())["failed"] for run in store.runs())
        stats = server.stats()
    assert 0 < stats["asked"] - stats["answered"] <= failed  # equal questions in flight together fail by one call


@pytest.mark.slow
def test_where_workers_cannot_take_part_the_process_goes_on_alone(start: Start, tmp_path: Path) -> None:
    broken = "import sys; sys.executable = '/bin/false'\n" + EAGER
    with openai_server("--latency", "0.05") as server:
        process = start(server, code=broken)
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
        assert server.stats()["asked"] == COUNT
    assert "Workers could not take part, so that this process continues alone" in said


@pytest.mark.usefixtures("eager")
def test_an_object_stays_in_its_process(questions: Path, home: Path) -> None:
    seen = []

    def answering(question: str) -> str:
        seen.append(question)
        return "A"

    result = rr.run(f"jsonl:{questions}", [answering], concurrency=8)
    assert len(seen) >= COUNT
    assert not result.ended


@pytest.mark.parametrize("given", ["two", "0", "1.5"])
def test_what_is_no_number_of_workers_is_refused(questions: Path, home: Path, given: str) -> None:
    with pytest.raises(UserError, match="workers"):
        rr.run(f"jsonl:{questions}", "direct", workers=given)  # type: ignore[arg-type]
