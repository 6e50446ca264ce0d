"""The same store on PostgreSQL, a real server of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from ragrounds.base.errors import UserError
from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import blob_rows
from ragrounds.evals.store.ledger import ledger, unfinished
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.writer import Writer
from tests.engine.conftest import attempts, planned, replayed
from tests.engine.doubles import ScriptedModel, ScriptedSearcher, always, questions


@pytest.fixture
def store(url: str, tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path, url) as opened:
        yield opened


async def test_runs_attempts_scores_and_traces_are_the_same(store: Store, tmp_path: Path) -> None:
    asked, golds = questions(12)
    text = '{"answer_choice": "A"} ' + "a long reply with a NUL \x00 and \u202e in it " * 40
    kept = []
    with Store(tmp_path / "sqlite") as other:
        for place in (store, other):
            one = planned(place, "vanilla_rag", asked, golds, ScriptedModel(say=always(text)), ScriptedSearcher())
            await replayed(place, [one], asked, golds)
            found = attempts(place, one.run)
            scores = sorted((s.question_id, s.scorer, s.value, s.answer_status) for s in place.scores(one.run))
            kept.append(
                ({id: (a.status, a.text, a.usage, a.model_calls, a.searches) for id, a in found.items()}, scores)
            )
    assert kept[0] == kept[1]
    assert len(kept[0][0]) == 12


async def test_a_run_goes_on_and_shares_its_journal(store: Store) -> None:
    asked, golds = questions(6)
    model = ScriptedModel()
    for _ in range(2):
        await replayed(store, [planned(store, "direct", asked, golds, model)], asked, golds)
    journal = await replayed(store, [planned(store, "direct[limits.calls=3]", asked, golds, model)], asked, golds)
    assert (len(model.asked), journal.calls_made, journal.reused) == (6, 0, 6)


async def test_what_is_streamed_is_read_in_a_transaction(store: Store) -> None:
    asked, golds = questions(3)
    one = planned(store, "direct", asked, golds, ScriptedModel())
    await replayed(store, [one], asked, golds)
    assert len([*store.stream_scores(one.run)]) == len(store.scores(one.run)) > 0


async def test_failed_attempts_are_replaced_and_a_reason_may_hold_anything(store: Store) -> None:
    asked, golds = questions(2)
    bad = ScriptedModel(say=lambda request: ZeroDivisionError("a \x00 and a \ud800"))
    one = planned(store, "direct", asked, golds, bad)
    await replayed(store, [one], asked, golds)
    assert set(store.done(one.run).values()) == {"failed"}
    await replayed(store, [planned(store, "direct", asked, golds, ScriptedModel())], asked, golds)
    assert set(store.done(one.run).values()) == {"completed"}


def test_a_newer_store_is_refused(store: Store, url: str, tmp_path: Path) -> None:
    with store.engine.begin() as connection:
        connection.execute(sa.update(schema.meta).values(value="99"))
    with pytest.raises(UserError, match=f"reads only version {schema.VERSION}"):
        Store(tmp_path, url)


def test_a_server_that_is_not_there_is_one_line_without_the_password(tmp_path: Path) -> None:
    pytest.importorskip("psycopg", reason="needs the extra 'postgresql'")
    with pytest.raises(UserError) as refused:
        Store(tmp_path, "postgresql://me:very-secret@127.0.0.1:9/x")
    assert "very-secret" not in str(refused.value)
    assert "127.0.0.1" in str(refused.value)


async def test_writers_that_meet_at_equal_texts_do_not_wait_for_each_other_in_a_circle(store: Store) -> None:
    first, second = Writer(store.engine), Writer(store.engine)
    for round_ in range(20):
        texts = {bytes([number, round_]): b"x" * 2000 for number in range(200)}
        there, back = blob_rows(texts), blob_rows(dict(reversed(texts.items())))
        await asyncio.gather(first.write(lambda rows=there: rows), second.write(lambda rows=back: rows))  # type: ignore[misc]
    first.close()
    second.close()


async def test_the_ledger_reads_it(store: Store) -> None:
    asked, golds = questions(5)
    one = planned(store, "vanilla_rag[top_k=2]", asked, golds, ScriptedModel())
    await replayed(store, [one], asked, golds)
    total = ledger(store, [one.run]).total
    assert (total.model_calls, total.searches) == (5, 5)
    assert unfinished(store, [one.run]).calls == 0
    with store.engine.begin() as connection:  # as if the process had been killed before these were written
        connection.execute(sa.delete(schema.attempts).where(schema.attempts.c.question_id.in_(["t/0", "t/3"])))
    open_ = unfinished(store, [one.run])
    assert (open_.calls, open_.usage is not None) == (2, True)
