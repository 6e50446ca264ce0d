"""Attempts in flight: seen while they run, by this process and by others, with nothing in the store."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ragrounds.evals.engine.in_flight import IN_FLIGHT, live_attempts, live_feed
from ragrounds.evals.store.store import Store
from tests.engine.conftest import attempts, planned, replayed
from tests.engine.doubles import ScriptedModel, ScriptedSearcher, questions


async def _until_asked(model: ScriptedModel, count: int) -> None:
    for _ in range(500):
        if len(model.asked) >= count:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the model was not asked")


async def test_what_is_in_flight_is_seen_with_its_steps_and_its_call(store: Store) -> None:
    asked, golds = questions(3)
    model = ScriptedModel(delay=2.0)
    one = planned(store, "vanilla_rag[top_k=2]", asked, golds, model)
    going = asyncio.ensure_future(replayed(store, [one], asked, golds))
    await _until_asked(model, 3)
    for _ in range(200):
        if told := live_attempts(store.home):
            break
        await asyncio.sleep(0.02)
    assert told == IN_FLIGHT.attempts()
    assert {live.question_id for live in told} == set(golds)
    live = told[0]
    assert (live.run, live.agent, live.node, live.steps, live.calls) == (one.run.id, one.run.agent, "answer", 2, 1)
    assert [(call.kind, call.actor, call.what, call.node) for call in live.doing] == [
        ("model", "test:scripted", "answering", "answer")
    ]
    (file,) = (store.home / "live").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert attempts(store, one.run) == {}, "nothing is written before an attempt has ended"
    await going
    assert live_attempts(store.home) == ()
    assert not list((store.home / "live").iterdir())


async def test_a_search_in_flight_says_its_query(store: Store) -> None:
    asked, golds = questions(1)

    class Slow(ScriptedSearcher):
        async def search(self, query: str, k: int) -> list:  # type: ignore[type-arg]
            await asyncio.sleep(0.5)
            return await super().search(query, k)

    going = asyncio.ensure_future(
        replayed(store, [planned(store, "vanilla_rag", asked, golds, None, Slow())], asked, golds)
    )
    for _ in range(100):
        await asyncio.sleep(0.01)
        told = IN_FLIGHT.attempts()
        if told and told[0].doing:
            break
    assert [(call.kind, call.what) for call in told[0].doing] == [("search", asked[0].text)]
    await going


@pytest.mark.parametrize("said", [b"", b"\xff\xff\xff\xff", b"\xc0", b"{broken"])
def test_what_is_no_list_of_attempts_or_of_a_dead_process_is_not_believed(tmp_path: Path, said: bytes) -> None:
    (tmp_path / "live").mkdir()
    broken, dead = tmp_path / "live" / "1-a", tmp_path / "live" / "2-b"
    for file in (broken, dead):
        file.write_bytes(said)
    os.utime(dead, (time.time() - 60,) * 2)
    assert live_attempts(tmp_path) == ()
    assert list((tmp_path / "live").iterdir()) == [broken]


def test_where_nothing_can_be_written_the_attempts_are_made_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "live").write_text("a file in the way")
    with live_feed(tmp_path):
        time.sleep(0.6)
        assert live_attempts(tmp_path) == ()


_SOURCE = """
import asyncio, sys
from pathlib import Path
from ragrounds.evals.engine.attempt_log import AttemptLog
from ragrounds.evals.engine.in_flight import IN_FLIGHT, live_feed
from ragrounds.records import Run
run = Run(id="r", agent="a", benchmark="b", questions="q", count=1, epochs=1, fingerprint="f", identity={}, created=0)
log = AttemptLog()
with live_feed(Path(sys.argv[1])), IN_FLIGHT.flying(run, "q\\ud800", 0, 1.0, log):
    log.entered("t", "think")
    log.left("t", "think", {"said": "lone \\ud800 surrogate"})
    log.entered("u", "search")
    log.begin_call("bm25", "oedema", "search")
    print("ready", flush=True)
    sys.stdin.readline()
"""


def test_another_process_is_watched_and_its_end_by_a_kill_leaves_nothing_wrong(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _SOURCE, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        while not (told := live_attempts(tmp_path)) or not told[0].doing:
            time.sleep(0.02)
        (live,) = told
        assert (live.run, live.node, live.steps) == ("r", "search", 2)
        assert [(call.actor, call.what) for call in live.doing] == [("bm25", "oedema")]
        other.kill()
    (file,) = (tmp_path / "live").iterdir()
    os.utime(file, (time.time() - 60,) * 2)
    assert live_attempts(tmp_path) == ()
    assert not list((tmp_path / "live").iterdir())
