"""`--workers N`: several processes, one journal and store; whoever dies, nothing is lost and nothing made twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from ragrounds.evals.store import schema
from ragrounds.evals.store.store import Store
from tests.at_work import Start, interrupted, questions_twice, starting, until_asked
from tests.servers.process import Running, openai_server

COUNT = 40


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with starting(questions_twice(tmp_path, COUNT), tmp_path) as begin:
        yield lambda server, *more, **how: begin(server, "--concurrency", "6", "--workers", "2", *more, **how)


def workers(process: subprocess.Popen[str]) -> list[int]:
    """The process ids of a command's workers."""
    task = Path(f"/proc/{process.pid}/task")
    if not task.is_dir():
        pytest.skip("needs /proc")
    children = [int(pid) for thread in task.iterdir() for pid in (thread / "children").read_text().split()]
    return [pid for pid in children if is_worker(Path("/proc") / str(pid))]


def is_worker(process: Path) -> bool:
    """Return True if this process was started, or forked, as a worker."""
    return b"extensions.cluster" in (process / "cmdline").read_bytes() or "worker" in (process / "comm").read_text()


def until(server: Running, answered: int, process: subprocess.Popen[str]) -> None:
    while server.stats()["answered"] < answered:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def gone(pids: list[int], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < end:
        time.sleep(0.02)
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def statuses(home: Path) -> list[Counter[str]]:
    with Store(home) as store:
        return [Counter(store.done(run).values()) for run in store.runs()]


@pytest.mark.slow
def test_equal_to_one_process_and_equal_questions_are_asked_once(start: Start, tmp_path: Path) -> None:
    with openai_server("--latency", "0.02", "--jitter", "0.03") as server:
        spread = start(server, is_forked=False)
        told, said = spread.communicate(timeout=120)
        assert spread.returncode == 0, said
        stats = server.stats()
        alone = start(server, "--workers", "1", "--new")
        again, said_again = alone.communicate(timeout=120)
        assert alone.returncode == 0, said_again
        assert server.stats()["asked"] == stats["asked"]
    assert stats["asked"] == stats["prompts"] == COUNT  # half of the questions, by two agents
    assert f"{COUNT} model calls made, {COUNT} answered from the journal" in said
    assert statuses(tmp_path / "home") == [Counter(completed=COUNT)] * 4
    with Store(tmp_path / "home") as store:
        runs = store.runs()
        spread_scores, alone_scores = (
            [sorted(map(repr, store.scores(run))) for run in two] for two in (runs[:2], runs[2:])
        )
    assert spread_scores == alone_scores
    assert len(spread_scores[0]) >= COUNT
    assert json.loads(told)["questions"] == json.loads(again)["questions"] == COUNT


@pytest.mark.slow
def test_the_questions_of_a_killed_worker_are_taken_up_by_others(start: Start, tmp_path: Path) -> None:
    with openai_server("--latency", "0.3", "--jitter", "0.1") as server:
        process = start(server)
        until(server, 8, process)
        os.kill(workers(process)[0], signal.SIGKILL)
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
        stats = server.stats()
    assert "was ended by SIGKILL; other workers take" in said
    assert statuses(tmp_path / "home") == [Counter(completed=COUNT)] * 2
    assert stats["prompts"] == COUNT
    assert stats["asked"] <= COUNT + 3, "no more is asked again than the worker had in flight"


@pytest.mark.slow
def test_a_worker_that_is_asked_to_end_finishes_what_is_in_flight(start: Start, tmp_path: Path) -> None:
    with openai_server("--latency", "0.4", "--jitter", "0.1") as server:
        process = start(server)
        until(server, 8, process)
        os.kill(workers(process)[0], signal.SIGTERM)
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
        stats = server.stats()
    assert "got SIGTERM and finished the calls in flight; " in said
    assert statuses(tmp_path / "home") == [Counter(completed=COUNT)] * 2
    assert stats["asked"] == stats["prompts"] == COUNT, "nothing that was in flight is lost"


@pytest.mark.slow
def test_when_the_leader_is_killed_its_workers_end_by_themselves(start: Start, tmp_path: Path) -> None:
    with openai_server("--latency", "0.2") as server:
        process = start(server)
        until(server, 6, process)
        pids = workers(process)
        assert len(pids) == 2
        process.kill()
        process.wait()
        assert gone(pids, 15)
        asked = server.stats()["asked"]
        _, said = start(server).communicate(timeout=120)
        stats = server.stats()
    assert statuses(tmp_path / "home") == [Counter(completed=COUNT)] * 2, said
    assert stats["asked"] <= COUNT + 6
    assert asked < COUNT


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.weekly)])
@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_finishes_what_is_in_flight_and_twice_stops_at_once(
    start: Start, tmp_path: Path, times: int, how: signal.Signals
) -> None:
    with openai_server("--latency", "3.0") as server:
        process = start(server)
        until_asked(process, server, 9)  # six are answered and written, three or more in flight
        said = interrupted(process, times, pause=0.2, how=how)
        stats = server.stats()
    assert "the same command resumes" in said
    assert stats["asked"] < COUNT, "the run ended early"
    with Store(tmp_path / "home") as store, store.engine.connect() as connection:
        recorded = connection.execute(sa.select(sa.func.count()).select_from(schema.calls)).scalar()
    if times == 1:
        assert recorded == stats["answered"] == stats["asked"]
    else:
        assert 0 < recorded <= stats["answered"] < stats["asked"]


@pytest.mark.slow
def test_a_budget_ends_the_run_with_all_agents_at_the_same_questions(start: Start, tmp_path: Path) -> None:
    with openai_server("--latency", "0.05") as server:
        process = start(server, "--max-total-tokens", "750")
        _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert "the budget of 750 tokens is used up" in said
    with Store(tmp_path / "home") as store:
        first, second = (set(store.done(run)) for run in store.runs())
    assert first == second
    assert 0 < len(first) < COUNT


@pytest.mark.slow
def test_what_ends_one_worker_for_good_ends_the_run_in_one_line(start: Start) -> None:
    with openai_server("--latency", "0.05") as server:
        process = start(server, "--model", "openai:fault-401")
        _, said = process.communicate(timeout=60)
        asked = server.stats()["asked"]
    assert process.returncode == 2
    assert "401" in said
    assert "Traceback" not in said
    assert asked <= 6


@pytest.mark.slow
def test_more_workers_than_attempts_in_flight_are_refused(start: Start, server: Running) -> None:
    process = start(server, "--concurrency", "1")
    _, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "--workers 2 with --concurrency 1" in said
