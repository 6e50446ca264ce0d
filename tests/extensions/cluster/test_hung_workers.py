"""Workers that hang while they are alive are ended; workers that compute are left alone, however long."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragrounds.base.processes import Activity, activity_of
from ragrounds.evals.store.store import Store
from ragrounds.extensions.cluster.heartbeat import until_hung
from tests.extensions.cluster.test_workers import until, workers
from tests.forked import ForkedLeader
from tests.servers.process import Running, openai_server

COUNT = 30
COMPUTING = """
import itertools
import os
import time
from collections import deque
from pathlib import Path
from typing import TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from ragrounds.base.contracts import Context
from ragrounds.base.records import Message


class State(TypedDict, total=False):
    answer: str


def hold_the_loop():
    time.sleep(2.5)


def hold_the_interpreter():
    begun = time.monotonic()
    deque(itertools.repeat(None, 20_000_000), maxlen=0)
    deque(itertools.repeat(None, int(20_000_000 * 2.5 / (time.monotonic() - begun))), maxlen=0)


async def say(state: State, runtime: Runtime[Context]) -> State:
    if "number 3?" in runtime.context.stem.text:
        HOLD()
    return {"answer": (await runtime.context.ask([Message("user", runtime.context.stem.text)])).text}


def build():
    graph = StateGraph(State, context_schema=Context)
    graph.add_node("say", say)
    graph.add_edge(START, "say")
    graph.add_edge("say", END)
    return graph
"""


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    options = {"A": "one", "B": "two"}
    made = [{"id": f"q{i}", "question": f"Is it number {i}?", "options": options, "answer": "A"} for i in range(COUNT)]
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in made))
    return path


def begun(questions: Path, server: Running, agent: str, *more: str) -> subprocess.Popen[str]:
    words = ["run", "--benchmark", f"jsonl:{questions}", "--agent", agent, "--model", "openai:plain[alias=server]"]
    words += ["--base-url", server.url, "--display", "none", "--concurrency", "6", *more]
    home = {"RAGROUNDS_HOME": str(questions.parent / "home"), "RAGROUNDS_WORKER_TIMEOUT": "1"}
    return ForkedLeader(
        [sys.executable, "-m", "ragrounds", *words],
        env={**os.environ, **home},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def server() -> Iterator[Running]:
    with openai_server("--latency", "0.2", "--jitter", "0.1") as running:
        yield running


@pytest.mark.slow
def test_a_stopped_worker_is_ended_and_its_questions_go_to_others(questions: Path, server: Running) -> None:
    process = begun(questions, server, "direct", "--workers", "3")
    until(server, 6, process)
    stopped = workers(process)[1]
    os.kill(stopped, signal.SIGSTOP)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert f"did not answer for 1 s (process {stopped}, which is stopped) and was ended; other workers take" in said
    assert not Path(f"/proc/{stopped}").exists()
    with Store(questions.parent / "home") as store:
        [run] = store.runs()
        assert Counter(store.done(run).values()) == Counter(completed=COUNT)
    stats = server.stats()
    assert stats["prompts"] == COUNT
    assert stats["asked"] <= COUNT + 2, "no more is asked again than the worker had in flight"


@pytest.mark.slow
@pytest.mark.parametrize("hold", ["hold_the_loop", pytest.param("hold_the_interpreter", marks=pytest.mark.weekly)])
def test_a_worker_that_computes_for_long_is_left_alone(questions: Path, server: Running, hold: str) -> None:
    path = questions.parent / "computing.py"
    path.write_text(COMPUTING.replace("HOLD()", f"{hold}()"))
    process = begun(questions, server, f"{path}:build", "--workers", "2")
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert "was ended" not in said
    with Store(questions.parent / "home") as store:
        [run] = store.runs()
        assert Counter(store.done(run).values()) == Counter(completed=COUNT)
    assert server.stats()["asked"] == COUNT


class Link:
    """A link to a worker that answers as it is told."""

    name, process_note = "worker 1", " (process 7)"

    def __init__(self, used: list[Activity | None], late: float = 60.0) -> None:
        self._used, self._late = used, late

    async def beat(self) -> None:
        await asyncio.sleep(self._late)

    async def activity(self) -> Activity | None:
        return self._used.pop(0) if self._used else Activity(0.0, False, False)


async def hung(link: Link) -> str:
    return await until_hung(link, 0.2)  # type: ignore[arg-type]


async def test_while_it_uses_processor_time_it_is_waited_for() -> None:
    idle, used, more = (Activity(seconds, False, False) for seconds in (1.0, 1.1, 1.2))
    assert "for 0.6 s" in await hung(Link([idle, used, used, more]))
    assert "for 0.2 s" in await hung(Link([None, more]))


async def test_a_process_that_waits_for_a_processor_is_waited_for() -> None:
    waits, stopped = Activity(1.0, True, False), Activity(1.0, True, True)
    assert "for 0.6 s" in await hung(Link([waits, waits, waits, waits]))
    assert "for 0.4 s" in await hung(Link([waits, waits, waits, stopped]))


async def test_an_answer_that_was_read_late_counts() -> None:
    """As where the leader itself was suspended: the time is over, and the answer is there."""
    link = Link([], late=0.21)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(hung(link), 1.0)


def test_a_stopped_process_is_known() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        if activity_of(process.pid) is None:
            pytest.skip("needs /proc")
        assert not activity_of(process.pid).stopped  # type: ignore[union-attr]
        assert activity_of(os.getpid()).running  # type: ignore[union-attr]
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        assert activity_of(process.pid).stopped  # type: ignore[union-attr]
    finally:
        process.kill()
        process.wait()
    assert activity_of(process.pid) is None
