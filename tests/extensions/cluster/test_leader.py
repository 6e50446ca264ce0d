"""The leader of a replay_distributed replay, with workers in this process whose lines can be cut at any point."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from ragrounds.base.contracts import FinishedAttempt
from ragrounds.base.errors import StopRun
from ragrounds.evals.benchmarks import Benchmark, load, select
from ragrounds.evals.engine.plan import PlannedRun, Recipe, plan
from ragrounds.evals.engine.replayed_runs import ReplayedRuns
from ragrounds.evals.scorers import scorers_for
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.extensions.cluster.leader import WorkerOptions, replay_distributed
from ragrounds.extensions.cluster.protocol import (
    Assignment,
    AttemptReport,
    CapacityShare,
    WorkerSetup,
    from_worker,
    to_worker,
)
from ragrounds.extensions.cluster.worker import Inbox, serve
from ragrounds.models.providers import BASELINE
from ragrounds.models.traffic import set_share, share

RECIPE = Recipe(agents=("direct", "vanilla_rag[top_k=1]"), model=BASELINE, corpus="sample")


@pytest.fixture(autouse=True)
def own_share() -> Iterator[None]:
    """Workers set what part of the limits is this process's."""
    yield
    set_share(1.0)


class LoopLine:
    """A line to a worker on the same event loop. `after`: attempts of which is told before the line is cut."""

    def __init__(self, name: str, after: int | None = None) -> None:
        self.name = name
        self.sent: list[object] = []
        self.told = 0
        self.other: LoopLine | None = None
        self.meetings: list[str] = []
        """Questions that came while the other worker held some."""
        self._after = after
        self._inbox: Inbox = asyncio.Queue()
        self._outbox: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._work = asyncio.create_task(serve(self._inbox, self._outbox.put_nowait))
        self._work.add_done_callback(lambda done: self._outbox.put_nowait(None))

    def post(self, frame: bytes) -> None:
        message = to_worker(frame)
        if isinstance(message, Assignment) and self.other is not None and self.other.held:
            self.meetings.append(message.question.id)
        self.sent.append(message)
        self._inbox.put_nowait(frame)

    async def receive(self) -> bytes | None:
        frame = await self._outbox.get()
        if frame is not None and isinstance(from_worker(frame), AttemptReport):
            if self.told == self._after:
                await self._all_in_flight_written()
                return None
            self.told += 1
        return frame

    async def _all_in_flight_written(self) -> None:
        while not self._outbox.empty() and not self._work.done():
            await self._outbox.get()
            await asyncio.sleep(0.05)

    process_note = ""

    async def beat(self) -> float:
        return 0.0

    async def activity(self) -> None:
        return None

    async def kill(self) -> None:
        self._work.cancel()

    async def end(self) -> str:
        self._inbox.put_nowait(None)
        await self._work
        return "was cut" if self.told == self._after else ""

    @property
    def held(self) -> int:
        """Attempts that are in the worker's hands."""
        return sum(len(one.planned_runs) for one in self.sent if isinstance(one, Assignment)) - self.told

    def got(self, kind: type) -> list[object]:
        return [message for message in self.sent if isinstance(message, kind)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path) as opened:
        yield opened


@pytest.fixture
def benchmark_(tmp_path: Path) -> Benchmark:
    return select(load("sample", tmp_path), limit=30)


async def led(
    store: Store,
    home: Path,
    loaded: Benchmark,
    planned_runs: list[PlannedRun],
    lines: list[LoopLine],
    concurrency: int = 5,
) -> tuple[list[FinishedAttempt], list[str]]:
    heard: list[FinishedAttempt] = []
    said: list[str] = []
    journal = StoreJournal(store)

    async def open_links() -> list[LoopLine]:
        return lines

    try:
        await replay_distributed(
            ReplayedRuns(store, journal, planned_runs, scorers_for),
            loaded.questions,
            loaded.golds,
            open_links=open_links,
            options=WorkerOptions(recipe=RECIPE, home=home, url=None, say=said.append),
            concurrency=concurrency,
            listener=heard.append,
        )
    finally:
        journal.close()
    return heard, said


async def test_what_a_lost_worker_wrote_and_could_not_tell_is_not_made_again(
    store: Store, tmp_path: Path, benchmark_: Benchmark
) -> None:
    planned_runs = plan(store, benchmark_, RECIPE, home=tmp_path)
    lines = [LoopLine("first", after=7), LoopLine("second")]
    heard, said = await led(store, tmp_path, benchmark_, planned_runs, lines)
    assert Counter((one.run.id, one.attempt.question_id) for one in heard) == Counter(
        (planned.run.id, question.id) for planned in planned_runs for question in benchmark_.questions
    )
    untold = [one for one in heard if one.attempt.events]  # read from the store: others come without their events
    assert untold, "the first worker had written more than it could tell"
    assert lines[0].told + lines[1].told + len(untold) == 60
    assert len(said) == 1
    assert said[0].startswith("first was cut; ")


async def test_the_share_of_a_lost_worker_goes_to_the_others(
    store: Store, tmp_path: Path, benchmark_: Benchmark
) -> None:
    planned_runs = plan(store, benchmark_, RECIPE, home=tmp_path)
    lines = [LoopLine("first", after=2), LoopLine("second")]
    await led(store, tmp_path, benchmark_, planned_runs, lines, concurrency=5)
    begun = [line.got(WorkerSetup)[0] for line in lines]
    assert [(one.concurrency, one.share) for one in begun if isinstance(one, WorkerSetup)] == [(3, 0.5), (2, 0.5)]
    assert lines[1].got(CapacityShare) == [CapacityShare(5, 1.0)]
    assert share() == 1.0, "which the worker keeps to"


async def test_equal_questions_are_with_one_worker_at_a_time(
    store: Store, tmp_path: Path, benchmark_: Benchmark
) -> None:
    one = benchmark_.questions[0]
    twins = tuple(replace(one, id=f"{one.id}-{number}") for number in range(20))
    golds = {twin.id: replace(benchmark_.golds[one.id], question_id=twin.id) for twin in twins}
    alike = replace(benchmark_, questions=twins, golds=golds)
    planned_runs = plan(store, alike, RECIPE, home=tmp_path)
    lines = [LoopLine("first"), LoopLine("second")]
    lines[0].other, lines[1].other = lines[1], lines[0]
    heard, _ = await led(store, tmp_path, alike, planned_runs, lines)
    assert len(heard) == 40
    assert lines[0].meetings + lines[1].meetings == []


async def test_different_questions_are_shared_out(store: Store, tmp_path: Path, benchmark_: Benchmark) -> None:
    planned_runs = plan(store, benchmark_, RECIPE, home=tmp_path)
    lines = [LoopLine("first"), LoopLine("second")]
    lines[0].other, lines[1].other = lines[1], lines[0]
    await led(store, tmp_path, benchmark_, planned_runs, lines)
    assert lines[0].told + lines[1].told == 60
    assert min(line.told for line in lines) >= 10
    assert lines[0].meetings + lines[1].meetings


async def test_a_worker_with_other_prompts_ends_the_run_and_names_them(
    store: Store, tmp_path: Path, benchmark_: Benchmark
) -> None:
    planned_runs = plan(store, benchmark_, RECIPE, home=tmp_path)
    other = replace(planned_runs[0].run, identity={**planned_runs[0].run.identity, "prompts": "of another version"})
    changed = [replace(planned_runs[0], run=other), planned_runs[1]]
    with pytest.raises(StopRun, match=r"The agent 'direct' differs .* in: prompts\. Every machine needs"):
        await led(store, tmp_path, benchmark_, changed, [LoopLine("only")])


async def test_no_worker_is_started_where_nothing_is_left(store: Store, tmp_path: Path, benchmark_: Benchmark) -> None:
    planned_runs = plan(store, benchmark_, RECIPE, home=tmp_path)
    await led(store, tmp_path, benchmark_, planned_runs, [LoopLine("only")])
    line = LoopLine("idle")
    heard, _ = await led(store, tmp_path, benchmark_, planned_runs, [line])
    assert heard == []
    assert line.sent == []
    await line.end()
