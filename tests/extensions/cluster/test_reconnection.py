"""A restart of PostgreSQL in the middle of a run: real servers, stopped and started by their data folder."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragrounds.base.contracts import Entry, Request
from ragrounds.base.errors import StopRun
from ragrounds.base.records import Message, Reply
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.leases import Lease
from ragrounds.evals.store.store import Store
from tests.engine.conftest import attempts, planned, replayed
from tests.engine.doubles import ScriptedModel, always, questions
from tests.servers.postgresql import Restartable, binaries, database, restartable


@pytest.fixture(scope="module")
def postgres() -> Iterator[Restartable]:
    programs = binaries()
    if programs is None:
        pytest.skip("needs PostgreSQL's server programs (Debian: postgresql)")
    pytest.importorskip("psycopg", reason="needs the extra 'postgresql'")
    with restartable(programs) as server:
        yield server


@pytest.fixture
def url(postgres: Restartable) -> str:
    return database(postgres.url)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["immediate", pytest.param("fast", marks=pytest.mark.weekly)])
async def test_a_run_outlives_a_restart_and_asks_nothing_twice(
    postgres: Restartable, url: str, tmp_path: Path, how: str
) -> None:
    asked, golds = questions(60)
    said: list[str] = []
    model = ScriptedModel(say=always('{"answer_choice": "A"} ' + "long " * 300), delay=0.02)
    with Store(tmp_path, url, say=said.append) as store:
        two = [planned(store, agent, asked, golds, model) for agent in ("direct", "direct_cot")]
        with Lease(store.engine, [one.run.id for one in two]) as lease:

            def restart() -> None:
                while len(model.asked) < 30:
                    time.sleep(0.01)
                postgres.stop(how)
                while not any("does not answer" in line for line in said):
                    time.sleep(0.01)
                postgres.start()

            thread = threading.Thread(target=restart)
            thread.start()
            try:
                journal = await replayed(store, two, asked, golds, concurrency=8, stops=[lease])
            finally:
                thread.join()
        assert [Counter(store.done(one.run).values()) for one in two] == [Counter(completed=60)] * 2
        assert Counter(len(store.scores(one.run, "strict")) for one in two) == {60: 2}
        assert len(model.asked) == journal.calls_made == 120
        for one in two:
            assert {"long long" in attempt.text for attempt in attempts(store, one.run).values()} == {True}
    assert any("does not answer; waiting up to 120 s" in line for line in said)
    assert any("answers again" in line for line in said)
    assert len(said) % 2 == 0


@pytest.mark.slow
async def test_after_the_timeout_there_is_one_line_and_a_call_that_was_paid_is_kept(
    postgres: Restartable, url: str, tmp_path: Path
) -> None:
    asked, golds = questions(40)
    said: list[str] = []
    model = ScriptedModel(delay=0.02)
    with Store(tmp_path, url, timeout=0.5, say=said.append) as store:
        one = planned(store, "direct", asked, golds, model)

        def stop() -> None:
            while len(model.asked) < 12:
                time.sleep(0.01)
            postgres.stop()

        thread = threading.Thread(target=stop)
        thread.start()
        try:
            with pytest.raises(StopRun, match=r"has not answered for \d+ s: .*the same call again"):
                await replayed(store, [one], asked, golds, concurrency=4)
        finally:
            thread.join()
            postgres.start()
        assert "does not answer" in said[0]
        answered = len(model.asked)
        assert answered < 40, "nothing new is asked while the store is away"
    with Store(tmp_path, url) as store:
        again = planned(store, "direct", asked, golds, model)
        await replayed(store, [again], asked, golds)
        assert Counter(store.done(again.run).values()) == Counter(completed=40)
    prompts = Counter(request.messages for request in model.asked)
    assert len(prompts) == 40
    assert sum(prompts.values()) == 40, "what had been answered and could not be written is not asked again"


async def test_reads_and_writes_of_open_connections_go_on(postgres: Restartable, url: str, tmp_path: Path) -> None:
    asked, golds = questions(3)
    with Store(tmp_path, url) as store:
        one = planned(store, "direct", asked, golds)
        journal = await replayed(store, [one], asked, golds)
        journal = StoreJournal(store)
        entry = Entry(
            key=secrets.token_hex(32), kind="model", actor="a", request=Request(messages=(Message("user", "q"),))
        )

        async def make() -> Reply:
            return Reply(text="a")

        assert (await journal.once(entry, make, Reply))[1] is False
        postgres.stop("immediate")
        postgres.start()
        replies = await asyncio.gather(*(journal.once(entry, make, Reply) for _ in range(5)))
        assert [reply.text for reply, _ in replies] == ["a"] * 5
        assert journal.calls_made == 1
        postgres.stop()
        postgres.start()
        assert len(store.done(one.run)) == 3
        store.add_scores(one.run, store.scores(one.run))
        assert planned(store, "direct_cot", asked, golds).run.id in {run.id for run in store.runs()}
        journal.close()
