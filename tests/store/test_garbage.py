"""`gc`: what nothing refers to goes, what anything refers to stays, and a kill in the middle changes nothing."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from ragrounds.base.errors import UserError
from ragrounds.base.records import FINAL, Call
from ragrounds.evals.store import schema
from ragrounds.evals.store.care.garbage import Garbage, RowVolume, collect_garbage
from ragrounds.evals.store.database import reclaim_space
from ragrounds.evals.store.leases import Lease
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import trace
from tests.conftest import Cli
from tests.engine.conftest import attempts, planned, replayed
from tests.engine.doubles import ScriptedModel, ScriptedSearcher, always, questions
from tests.forked import run_python
from tests.store.making import contents, stopped_run, two_in_an_arena

LONG = '{"answer_choice": "A"} ' + "a long reply " * 80


def swept(store: Store, **options: Any) -> Garbage:
    return collect_garbage(store.engine, FINAL, **{"hours": 0.0, "remove": True, **options})


def held(store: Store) -> dict[str, int]:
    tables = (schema.calls, schema.blobs, schema.questions)
    with store.engine.connect() as connection:
        return {t.name: connection.execute(sa.select(sa.func.count()).select_from(t)).scalar_one() for t in tables}


async def two_runs(store: Store, count: int = 6) -> list[Any]:
    """Two runs of other questions that share passages, and nothing else."""
    searcher = ScriptedSearcher(texts=[f"{i} " + "a passage " * 90 for i in range(3)])
    made = []
    for start in (0, count):
        asked, golds = questions(2 * count)
        asked = asked[start : start + count]
        model = ScriptedModel(say=always(f"{LONG} {start}"))
        made.append(planned(store, "vanilla_rag", asked, golds, model, searcher))
        await replayed(store, made[-1:], asked, golds)
    return made


async def test_what_runs_refer_to_stays(store: Store) -> None:
    await two_runs(store)
    before = held(store)
    assert swept(store) == Garbage(
        calls=RowVolume(), texts=RowVolume(), questions=RowVolume(), recent=RowVolume(), outside=RowVolume()
    )
    assert held(store) == before


async def test_what_a_removed_run_alone_referred_to_goes(store: Store) -> None:
    first, second = await two_runs(store)
    everything = held(store)
    store.remove(first.run)
    planned = swept(store, remove=False)
    assert held(store) == everything
    done = swept(store)
    assert done == planned
    assert done.calls.count == 6  # its model's calls; its searches were made for no attempt's money
    assert done.outside.count == 6
    assert done.texts.count == 1  # the reply; the passages belong to the other run as well
    assert done.calls.bytes > 0 < done.texts.bytes
    assert held(store)["questions"] == 6
    traces = [trace(store, second.run, id) for id in attempts(store, second.run)]
    replies = {call.reply.text for one in traces for step in one.steps for call in step.calls if call.reply}
    assert replies == {f"{LONG} 6"}
    again = swept(store, outside=True)
    assert (again.calls.count, again.outside) == (6, RowVolume())
    assert swept(store, outside=True).calls == RowVolume()
    silent = ScriptedModel(say=lambda request: AssertionError("nothing may be called"))
    asked, golds = questions(12)
    again_run = replace(second, models={"model": silent})
    assert (await replayed(store, [again_run], asked[6:], golds, mode="replay")).calls_made == 0


async def test_the_young_stay(store: Store) -> None:
    first, _ = await two_runs(store)
    store.remove(first.run)
    done = swept(store, hours=1.0)
    assert (done.calls, done.recent.count) == (RowVolume(), 12)


async def test_what_an_unfinished_attempt_has_paid_stays(store: Store) -> None:
    stopped = await stopped_run(store, 3, last=4)
    assert swept(store, outside=True).calls == RowVolume()
    _, model = await stopped.resume(store)
    assert len(model.asked) == 3


async def test_what_judges_said_of_a_run_stays_as_long_as_the_run(store: Store) -> None:
    first, second = await two_runs(store)
    key = next(iter(attempts(store, first.run).values())).events[1].call.key  # type: ignore[union-attr]
    judged = Call(key=key, kind="model", role="judging", node="judge", actor="m", at=0.0, seconds=0.0)
    store.add_scores(second.run, [], [judged])
    store.remove(first.run)
    assert swept(store, outside=True).calls.count == 11  # one of the twelve is what the second run's scores rest on
    store.remove(second.run)
    assert swept(store, outside=True).calls.count == 13
    assert held(store) == {"calls": 0, "blobs": 0, "questions": 0}


async def test_arenas_keep_their_calls_when_their_runs_are_gone(tmp_path: Path) -> None:
    await two_in_an_arena(tmp_path)
    with Store(tmp_path) as store:
        asked = held(store)["calls"]
        assert asked == 24
        for run in store.runs():
            store.remove(run)
        assert swept(store, outside=True).calls.count == 0
        assert held(store)["calls"] == asked


async def test_another_run_in_this_moment_ends_it(store: Store) -> None:
    first, _ = await two_runs(store)
    with pytest.raises(UserError, match="in this moment"):
        swept(store, runs=[first.run.id])


KILLED = """
import os, signal, sys
from pathlib import Path
import sqlalchemy as sa
from ragrounds.evals.store.leases import Lease
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.care.garbage import collect_garbage
from ragrounds.base.records import FINAL
deletes = 0
with Store(Path(sys.argv[1])) as store:
    @sa.event.listens_for(store.engine, "after_cursor_execute")
    def after(connection, cursor, statement, *more):
        global deletes
        deletes += statement.startswith("DELETE")
        if deletes == int(sys.argv[2]): os.kill(os.getpid(), signal.SIGKILL)
    collect_garbage(store.engine, FINAL, hours=0.0, remove=True)
"""


@pytest.mark.parametrize("deletes", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 3))])
async def test_killed_in_the_middle_it_has_removed_nothing(tmp_path: Path, deletes: int) -> None:
    with Store(tmp_path) as store:
        first, _ = await two_runs(store)
        store.remove(first.run)
    before = contents(tmp_path / "store.sqlite")
    assert killed(tmp_path, deletes) == -signal.SIGKILL
    assert contents(tmp_path / "store.sqlite") == before
    with Store(tmp_path) as store:
        assert swept(store).calls.count == 6


def killed(home: Path, deletes: int) -> int:
    command = [sys.executable, "-c", KILLED, str(home), str(deletes)]
    return run_python(command, env={**os.environ}).returncode


async def test_what_was_removed_is_given_back_to_the_disk(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        made = await two_runs(store, 60)
        for one in made:
            store.remove(one.run)
        with store.engine.connect() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        swept(store, outside=True)
        assert reclaim_space(store.engine) == ""
        with store.engine.connect() as connection:
            assert connection.exec_driver_sql("PRAGMA page_count").scalar_one() < pages / 2


def test_the_command_says_what_it_would_do_asks_and_does_it(command: Cli, home: Path) -> None:
    assert command("run", "--limit", "5", "--agent", "direct", "--display", "none").returncode == 0
    assert command("runs", "rm", "direct").returncode == 0
    told = command("runs", "gc", "--older-than", "0", "--dry-run")
    assert told.returncode == 0
    assert "5 recorded calls" in told.stderr
    asked = command("runs", "gc", "--older-than", "0")  # nobody is there to say yes
    assert asked.returncode == 2
    assert "--yes" in asked.stderr
    with closing(sqlite3.connect(home / "store.sqlite")) as connection:
        assert connection.execute("SELECT count(*) FROM calls").fetchone() == (5,)
    done = command("runs", "gc", "--older-than", "0", "--yes", "--json")
    assert done.returncode == 0, done.stderr
    assert '"count": 5' in done.stdout
    with closing(sqlite3.connect(home / "store.sqlite")) as connection:
        assert connection.execute("SELECT count(*) FROM calls").fetchone() == (0,)
    assert "Nothing to remove" in command("runs", "gc", "--older-than", "0").stderr


def test_it_waits_for_a_run_that_is_going(command: Cli, home: Path) -> None:
    for agent in ("direct", "direct_cot"):
        assert command("run", "--limit", "3", "--agent", agent, "--display", "none").returncode == 0
    assert command("runs", "rm", "direct").returncode == 0
    with Store(home) as store, Lease(store.engine, [store.runs()[0].id]):
        for words in (["gc", "--older-than", "0", "--yes"], ["rm", "direct_cot"]):
            done = command("runs", *words)
            assert done.returncode == 2
            assert "is being made by process" in done.stderr
        assert held(store)["calls"] == 6
