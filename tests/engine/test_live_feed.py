"""Attempts in flight: seen with their steps while they run, by this process and by others, with nothing written."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ragrounds.evals.engine.in_flight import IN_FLIGHT, LiveAttempt
from ragrounds.evals.engine.live_feed import LiveWatcher, live_feed
from ragrounds.evals.store.store import Store
from ragrounds.processes import this_machine
from ragrounds.records import Called, Entered, Left
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
    model = ScriptedModel(delay=1.0)
    one = planned(store, "vanilla_rag[top_k=2]", asked, golds, model)
    going = asyncio.ensure_future(replayed(store, [one], asked, golds))
    await _until_asked(model, 3)
    watcher = LiveWatcher(store.home)
    told = await asyncio.to_thread(watcher.attempts)
    assert told == IN_FLIGHT.attempts()
    assert {live.question_id for live in told} == set(golds)
    live = told[0]
    assert (live.run, live.agent, live.node, live.steps, live.calls) == (one.run.id, one.run.agent, "answer", 2, 1)
    assert [(call.kind, call.actor, call.what, call.node) for call in live.doing] == [
        ("model", "test:scripted", "answering", "answer")
    ]
    events = await asyncio.to_thread(watcher.events, live.run, live.question_id, 0)
    assert events is not None
    assert [type(event) for event in events] == [Entered, Called, Left, Entered]
    assert await asyncio.to_thread(watcher.events, live.run, live.question_id, 0, 3) == events[3:]
    assert attempts(store, one.run) == {}, "nothing is written before an attempt has ended"
    await going
    assert await asyncio.to_thread(watcher.attempts) == ()
    assert await asyncio.to_thread(watcher.events, live.run, live.question_id, 0) is None
    kept = attempts(store, one.run)[live.question_id].events
    assert kept[: len(events)] == events
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


def test_nobody_without_the_token_is_told_anything(tmp_path: Path) -> None:
    with live_feed(tmp_path):
        (file,) = (tmp_path / "live").iterdir()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        place = json.loads(file.read_text())
        for garbage in (b"\x00\x00\x00\x05hello", b"\xff\xff\xff\xff", b"", _question("wrong token")):
            with socket.create_connection(("127.0.0.1", place["port"]), timeout=5) as asking:
                asking.sendall(garbage)
                asking.shutdown(socket.SHUT_WR)
                assert asking.recv(100) == b""
        assert LiveWatcher(tmp_path).attempts() == ()
    assert not list((tmp_path / "live").iterdir())


def _question(token: str) -> bytes:
    import msgspec

    said = msgspec.msgpack.encode({"token": token})
    return len(said).to_bytes(4, "big") + said


@pytest.mark.parametrize("said", [b"", b"\xff\xff\xff\xff", b"\x00\x00\x00\x03abc", b"\x00\x00\x00\x01\xc0"])
def test_whatever_answers_in_place_of_a_dead_process_is_not_believed(tmp_path: Path, said: bytes) -> None:
    folder = tmp_path / "live"
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = {"port": server.getsockname()[1], "token": "t", "pid": 1, "machine": this_machine()}
        (folder / "1-a.json").write_text(json.dumps(place))
        (folder / "2-b.json").write_text("{broken")

        async def _ask() -> tuple[LiveAttempt, ...]:
            asking = asyncio.ensure_future(asyncio.to_thread(LiveWatcher(tmp_path).attempts))
            connection, _ = await asyncio.to_thread(server.accept)
            with connection:
                connection.sendall(said)
            return await asking

        assert asyncio.run(_ask()) == ()


def test_the_file_of_a_dead_process_is_removed_and_one_of_another_machine_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "live"
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    dead, other = folder / "1-a.json", folder / "2-b.json"
    for file, machine in ((dead, this_machine()), (other, "elsewhere")):
        file.write_text(json.dumps({"port": port, "token": "t", "pid": 1, "machine": machine}))
        os.utime(file, (time.time() - 60,) * 2)
    assert LiveWatcher(tmp_path).attempts() == ()
    assert [file.name for file in folder.iterdir()] == [other.name]


def test_blocks_that_overlap_share_one_feed(tmp_path: Path) -> None:
    with live_feed(tmp_path):
        with live_feed(tmp_path):
            assert len(list((tmp_path / "live").iterdir())) == 1
        assert len(list((tmp_path / "live").iterdir())) == 1
    assert not list((tmp_path / "live").iterdir())


def test_where_nothing_can_be_written_the_attempts_are_made_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "live").write_text("a file in the way")
    with live_feed(tmp_path):
        assert LiveWatcher(tmp_path).attempts() == ()


_SOURCE = """
import asyncio, sys
from pathlib import Path
from ragrounds.evals.engine.attempt_log import AttemptLog
from ragrounds.evals.engine.in_flight import IN_FLIGHT
from ragrounds.evals.engine.live_feed import live_feed
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
        watcher = LiveWatcher(tmp_path)
        (live,) = watcher.attempts()
        assert (live.run, live.node, live.steps) == ("r", "search", 2)
        assert [(call.actor, call.what) for call in live.doing] == [("bm25", "oedema")]
        events = watcher.events("r", live.question_id, 0)
        assert events is None or len(events) == 3, "an id that cannot be encoded is not found again; nothing breaks"
        other.kill()
    assert watcher.attempts() == ()
    assert len(list((tmp_path / "live").iterdir())) == 1, "it has just died: the file is young"
    (file,) = (tmp_path / "live").iterdir()
    os.utime(file, (time.time() - 60,) * 2)
    assert watcher.attempts() == ()
    assert not list((tmp_path / "live").iterdir())
