"""The full-text index beside everything else that is done to a store: gc, damage, copies, checks."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

from ragrounds.contracts import Request
from ragrounds.errors import UserError
from ragrounds.evals.store import schema
from ragrounds.evals.store.attempt_texts import attempt_fields
from ragrounds.evals.store.database import open_source, open_target
from ragrounds.evals.store.garbage import collect_garbage
from ragrounds.evals.store.index_backlog import index_missing, missing
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.text_folding import words_of
from ragrounds.evals.store.traces import TracedCall
from ragrounds.evals.store.transfer import copy_runs, read_runs
from ragrounds.evals.store.verification import Findings, Verification
from ragrounds.records import FINAL, Attempt, Call, Left, Message, Noted, Reply, ToolCall, Usage
from tests.engine.conftest import planned, replayed
from tests.engine.doubles import ScriptedModel, ScriptedSearcher, always, questions
from tests.store.test_text_index import filled, found, kept_on


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    yield from kept_on(request, tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "file") as opened:
        yield opened


def numbers(store: Store) -> list[int]:
    return [store.number(run) for run in store.runs()]


def words(store: Store) -> int:
    with store.engine.connect() as connection:
        return int(connection.exec_driver_sql("SELECT count(*) FROM text_words").scalar_one())


async def test_gc_empties_an_index_of_which_most_is_forgotten_and_a_search_makes_it_again(store: Store) -> None:
    number = await filled(store)
    assert len(found(store, "lymphedema")) == 3
    before = words(store)
    assert collect_garbage(store.engine, FINAL, hours=0, remove=True).documents == 0
    store.remove(next(run for run in store.runs() if store.number(run) == number))
    seen = collect_garbage(store.engine, FINAL, hours=0)
    assert seen.documents > 0
    assert words(store) == before
    assert collect_garbage(store.engine, FINAL, hours=0, remove=True).documents == seen.documents
    assert (words(store), missing(store.engine, numbers(store))) == (0, 2)
    assert [id for _, id in found(store, '"question number"')] == ["t/0", "t/1"]
    asked, golds = questions(1)
    one = planned(store, "vanilla_rag", asked, golds, ScriptedModel(), ScriptedSearcher())
    await replayed(store, [one], asked, golds)
    assert found(store, "lymphedema") == [("vanilla_rag", "t/0")]  # from the journal, indexed once more


async def test_a_few_forgotten_documents_stay(store: Store) -> None:
    await filled(store)
    assert found(store, "lymphedema")
    store.remove(next(run for run in store.runs() if run.agent == "direct"))
    assert collect_garbage(store.engine, FINAL, hours=0, remove=True).documents == 0
    assert len(found(store, "lymphedema", complete=False)) == 3
    assert found(store, '"question number"', complete=False)


def damage(store: Store, statement: str) -> None:
    with sqlite3.connect(store.place) as connection:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    "statement",
    ["UPDATE text_words_data SET block = x'deadbeef' WHERE id > 10", "DELETE FROM text_words_data WHERE id = 10"],
)
async def test_a_damaged_index_stops_no_run_and_is_made_again(file: Store, statement: str) -> None:
    await filled(file)
    assert len(found(file, "lymphedema")) == 3
    damage(file, statement)
    asked, golds = questions(33)
    asked = asked[3:]
    model, searcher = ScriptedModel(say=always("later words")), ScriptedSearcher()
    one = planned(file, "vanilla_rag", asked, golds, model, searcher)
    await replayed(file, [one], asked, golds)
    assert len(file.done(one.run)) == 30
    with pytest.raises(UserError, match="runs index --anew"):
        found(file, "lymphedema", complete=False)
    findings = Findings()
    Verification(file.engine, findings).walk()
    assert ("damage", "full-text index") in findings.found
    index_missing(file, file.runs(), anew=True)
    assert len(found(file, "later words")) == 30
    assert len(found(file, "lymphedema")) == 3
    findings = Findings()
    Verification(file.engine, findings).walk()
    assert not findings.found


async def test_doctor_counts_what_is_missing(store: Store) -> None:
    await filled(store)
    assert found(store, "lymphedema")
    with store.engine.begin() as connection:
        connection.execute(sa.delete(schema.facts).where(schema.facts.c.question_id == "t/1"))
    findings = Findings()
    Verification(store.engine, findings).walk()
    assert findings.found == {("note", "attempts without facts"): 2}
    assert findings.checked["words of the full-text index"] > 20
    assert all("ragrounds runs index" in one.what for one in findings.kept)


async def test_a_store_without_the_index_works_and_gets_it(file: Store) -> None:
    damage(file, "DROP TABLE text_words")  # as a SQLite without FTS5 makes a store
    await filled(file)
    with pytest.raises(UserError, match="no FTS5"):
        found(file, "lymphedema", complete=False)
    with file.engine.connect() as connection:
        assert connection.execute(sa.select(schema.facts)).first() is not None
    assert missing(file.engine, numbers(file)) == 0
    index_missing(file, file.runs())
    assert len(found(file, "lymphedema")) == 3


HOSTILE = {
    "long words": " ".join(f"{n:x}" + "y" * 190 for n in range(1800)) + " needle",
    "one word": "z" * 300_000 + " needle",
    "signs": "'\\\"\0:*&|!<->()" * 5000 + " needle",
    "surrogates": "\ud800" * 1000 + " needle",
    "expands": "\ufdfa" * 20_000 + " needle",
    "wide": " ".join(chr(0x20000 + n) * 60 for n in range(400)) + " needle",
}


def test_marks_upon_marks_are_not_sorted() -> None:
    start = time.process_time()
    assert words_of("a" + "\u0315\u0300" * 200_000 + " needle") == ["a", "needle"]
    assert time.process_time() - start < 2


async def test_no_text_stops_the_index(store: Store) -> None:
    asked, golds = questions(len(HOSTILE))
    replies = iter(HOSTILE.values())
    model = ScriptedModel(say=lambda request: Reply(text=next(replies), usage=Usage(1, 1)))
    one = planned(store, "direct", asked, golds, model)
    await replayed(store, [one], asked, golds)
    assert len(found(store, "needle", "reply")) == len(HOSTILE)
    assert len(found(store, "needle", "answer")) == len(HOSTILE)


async def test_two_processes_may_index_the_same_passages(store: Store, tmp_path: Path) -> None:
    texts = [f"shared passage number {n} of many" for n in range(40)]
    asked, golds = questions(30)
    url = None if store.engine.dialect.name == "sqlite" else store.engine.url.render_as_string(False)

    def run(agent: str) -> None:
        with Store(tmp_path / "store", url) as own:
            one = planned(own, agent, asked, golds, ScriptedModel(), ScriptedSearcher(texts=texts))
            asyncio.run(replayed(own, [one], asked, golds))
            index_missing(own, own.runs())

    agents = [f"vanilla_rag[top_k={count}]" for count in (40, 39, 38)]
    with ThreadPoolExecutor(3) as threads:
        for _ in threads.map(run, agents):
            pass
    assert len(found(store, '"number 3 of many"')) == 90
    with store.engine.connect() as connection:
        held = connection.execute(sa.select(schema.text_shared.c.doc)).scalars().all()
        own_texts = connection.execute(sa.select(schema.text_attempts.c.doc)).scalars().all()
    assert len(held) == len(set(held)) == 40 + 30
    assert len({*held, *own_texts}) == len(held) + 90


async def test_prompts_of_other_systems_are_found_and_our_own_are_not() -> None:
    call = Call(key="00", kind="model", role="answering", node="n", actor="m", at=0.0, seconds=0.0)
    turns = (Message("system", "Instructions"), Message("user", "Begin here"), Message("tool", "Tool result"))
    grown = (*turns[:1], Message("user", "Begin here and go on"), Message("assistant", "Said"))
    tool = ToolCall(id="1", name="lookup", arguments='{"term": "edema"}')
    traced = (
        TracedCall(call, asked=Request(messages=turns), reply=Reply(text="Said", reasoning="Thought", calls=(tool,))),
        TracedCall(call, asked=Request(messages=grown), reply=Reply(text="More")),
        TracedCall(call, used={"deep": ["asked"]}, gave={"given": {"x": "answered"}}),
    )
    attempt = Attempt(
        run="r", question_id="q", epoch=0, status="failed", text="Final", reason="why",
        events=(Noted(step=0, what="tool", text="tool said"), Noted(step=0, what="trace_full", text="left out"),
                Left(step=0, seconds=0.1, error="node failed")),
    )  # fmt: skip
    fields = {name: [text for text, _ in found] for name, found in attempt_fields(attempt, traced, True).items()}
    assert fields["prompt"] == ["Begin here", "Tool result", " and go on"]
    assert fields["reply"] == ["Thought", "Said", "lookup", '{"term": "edema"}', "", "More"]
    assert fields["tool"] == ["asked", "answered", "tool", "tool said"]
    assert fields["reason"] == ["why", "", "", "", "node failed"]
    assert fields["note"] == ["trace_full", "left out"]
    assert attempt_fields(attempt, traced, False)["prompt"] == []


def note(store: Store, author: str, text: str, at: float, run: int | None = None) -> None:
    row = {"run": run or min(numbers(store)), "question_id": "t/1", "epoch": 0, "author": author, "mark": "star"}
    with store.engine.begin() as connection:
        connection.execute(sa.delete(schema.notes).where(schema.notes.c.author == author))
        connection.execute(sa.insert(schema.notes), {**row, "text": text, "at": at})


def notes(engine: sa.Engine) -> list[tuple[str, str]]:
    with engine.connect() as connection:
        rows = connection.execute(sa.select(schema.notes).order_by(schema.notes.c.author))
        return [(row.author, row.text) for row in rows]


async def test_notes_go_along_and_are_added_to_a_run_that_is_there(file: Store, tmp_path: Path) -> None:
    await filled(file)
    note(file, "ann", "first", 1.0)
    copy = tmp_path / "runs.ragrounds"
    with open_target(str(copy)) as engine:
        copy_runs(file.engine, engine, read_runs(file.engine), FINAL)
        assert notes(engine) == [("ann", "first")]
        with engine.connect() as connection:
            assert not any(connection.execute(sa.select(table)).first() for table in schema.DERIVED)
    note(file, "ann", "second", 2.0)
    note(file, "bob", "his", 1.0)
    with open_target(str(copy)) as engine:
        assert copy_runs(file.engine, engine, read_runs(file.engine), FINAL).runs == ()
        assert notes(engine) == [("ann", "second"), ("bob", "his")]
    note(file, "ann", "third", 3.0)
    with open_source(str(copy)) as engine:
        copy_runs(engine, file.engine, read_runs(engine), FINAL)
    assert notes(file.engine) == [("ann", "third"), ("bob", "his")]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE notes SET question_id = 'no'", "1 of them are of questions"),
        ("UPDATE notes SET author = 'a' || char(27)", "control characters"),
        ("UPDATE notes SET text = x'00ff'", "wrong kind"),
        ("UPDATE notes SET at = 'noon'", "wrong kind"),
        (f"UPDATE notes SET text = '{'x' * 20_001}'", "20,001 characters"),
    ],
)
async def test_a_copied_note_is_not_believed(file: Store, tmp_path: Path, change: str, said: str) -> None:
    await filled(file)
    note(file, "ann", "first", 1.0)
    damage(file, change)
    with Store(tmp_path / "other") as other, pytest.raises(UserError, match=said):
        copy_runs(file.engine, other.engine, read_runs(file.engine), FINAL)


async def test_a_whole_store_is_a_source_and_its_index_is_not_opened(file: Store, tmp_path: Path) -> None:
    await filled(file)
    assert found(file, "lymphedema")
    damage(file, "UPDATE text_words_data SET block = x'deadbeef'")
    copy = tmp_path / "copy.sqlite"
    with sqlite3.connect(file.place) as whole, sqlite3.connect(copy) as there:
        whole.backup(there)
    with open_source(str(copy)) as engine, Store(tmp_path / "other") as other:
        copy_runs(engine, other.engine, read_runs(engine), FINAL)
        assert missing(other.engine, numbers(other)) == 5
        index_missing(other, other.runs())
        assert len(found(other, "lymphedema")) == 3


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIRTUAL TABLE text_words USING fts5(question, content='', tokenize='porter')",
        "CREATE VIRTUAL TABLE more USING fts5(question)",
        "CREATE TABLE text_words (question)",
        "CREATE VIEW text_words AS SELECT 1",
    ],
)
def test_an_index_of_somebody_elses_is_refused(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "foreign.sqlite"
    with open_target(str(path)):
        pass
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE text_words")
        connection.execute(statement)
    connection.close()
    with pytest.raises(UserError, match="is not a store of ragrounds: it holds the"), open_source(str(path)):
        pass
