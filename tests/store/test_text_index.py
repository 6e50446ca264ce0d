"""What is said in attempts is found: words, phrases, any language, as soon as an attempt is written."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from ragrounds.evals.store import schema
from ragrounds.evals.store.database import exclusive_transaction
from ragrounds.evals.store.index_backlog import Backlog, index_missing, missing
from ragrounds.evals.store.snippets import NOWHERE, snippets
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.text_folding import TextQueryError, fold, spans_of, terms_of, words_of
from ragrounds.evals.store.text_index import clear, find_attempts
from ragrounds.records import Reply, Usage
from tests.engine.conftest import planned, replayed
from tests.engine.doubles import ScriptedModel, ScriptedSearcher, always, questions

PASSAGES = (
    "Lymphedema of the upper limb after axillary dissection; the left limb stays free.",
    "急性左心衰竭患者常有双下肢水肿和呼吸困难。",
    "L’œdème aigu du poumon exige un traitement rapide.",
    "Über das Ödem an der Straße: größere Fälle.",
)


def kept_on(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store on the database that the fixture's parameter names."""
    url = request.getfixturevalue("url") if request.param == "postgresql" else None
    with Store(tmp_path / "store", url) as opened:
        yield opened


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    yield from kept_on(request, tmp_path)


async def filled(store: Store, reply: str = '{"answer_choice": "B"} I think it is \x00 lymphangitis.') -> int:
    """A run of three attempts with searches, and one of two without; gives the number of the first."""
    asked, golds = questions(3)
    model = ScriptedModel(say=lambda request: Reply(text=reply, usage=Usage(1, 1), reasoning="Perhaps erysipelas"))
    one = planned(store, "vanilla_rag", asked, golds, model, ScriptedSearcher(texts=PASSAGES))
    await replayed(store, [one], asked, golds)
    two = planned(store, "direct", asked[:2], golds, ScriptedModel(say=always('{"answer_choice": "A"}')))
    await replayed(store, [two], asked[:2], golds)
    return store.number(one.run)


def found(store: Store, text: str, *fields: str, complete: bool = True) -> list[tuple[str, str]]:
    """What a search finds: it makes what is missing of the index first, as every search of a user's does."""
    if complete:
        index_missing(store, store.runs())
    numbers = [store.number(run) for run in store.runs()]
    names = {store.number(run): run.agent for run in store.runs()}
    return sorted((names[run], id) for run, id, _ in find_attempts(store.engine, numbers, text, fields))


ALL = [("vanilla_rag", f"t/{n}") for n in range(3)]
CASES = [
    ("lymphedema", ALL),
    ("LYMPHEDEMA limb", ALL),
    ("limb upper", ALL),
    ('"upper limb"', ALL),
    ('"limb upper"', []),
    ('"upper limb', ALL),
    ("„upper limb“", ALL),
    ("lymphed*", ALL),
    ('"upper lim"*', ALL),
    ("lymphed", []),
    ("水肿", ALL),
    ("下肢", ALL),
    ("左心衰", ALL),
    ("肿水", []),
    ("心水", []),
    ("oedeme", ALL),
    ("œdème", ALL),
    ("ŒDEME", ALL),
    ("odem", ALL),
    ("strasse", ALL),
    ("grossere", ALL),
    ("lymphangitis", ALL),
    ("erysipelas", ALL),
    ('"number 1"', [("direct", "t/1"), ("vanilla_rag", "t/1")]),
    ("lymphangitis upper", ALL),
    ("nowhere", []),
    ("lymphedema nowhere", []),
    ('lymphedema" OR "nowhere', []),
    ("lymphedema OR nowhere", []),
    ("{reply} : lymphedema", []),
    ("NOT lymphedema", []),
    ("limb -left", ALL),
    ("^lymphedema", ALL),
    ("'; DROP TABLE attempts; --lymphedema", []),
]


ELSEWHERE = ('"number 1"', "lymphangitis", "erysipelas", "lymphangitis upper")
"""In other fields than the passages."""


@pytest.mark.parametrize(("text", "places"), [case for case in CASES if case[0] not in ELSEWHERE])
def test_folding_finds_what_the_table_says_in_a_text_too(text: str, places: list[object]) -> None:
    hit = all(any(spans_of(passage, [term]) for passage in PASSAGES) for term in terms_of(text))
    assert hit == bool(places)


async def test_what_is_found(store: Store) -> None:
    await filled(store)
    assert {text: found(store, text) for text, _ in CASES} == dict(CASES)


async def test_fields_say_where(store: Store) -> None:
    await filled(store)
    assert found(store, "lymphedema", "passage") == ALL
    assert found(store, "lymphedema", "reply", "answer", "query", "question") == []
    assert found(store, "lymphangitis", "reply") == found(store, "lymphangitis", "answer") == ALL
    assert found(store, "erysipelas", "reply") == ALL
    assert found(store, "erysipelas", "answer") == []
    assert found(store, "number 2", "query") == [("vanilla_rag", "t/2")]
    assert found(store, "three", "question") == sorted([*ALL, ("direct", "t/0"), ("direct", "t/1")])


def test_no_word_is_an_error_that_teaches() -> None:
    for text in ("", "   ", '""', "*", "- . !"):
        with pytest.raises(TextQueryError, match="lymph"):
            terms_of(text)


def test_folding() -> None:
    assert words_of("Größe, naïve_œuvre e\u0301tude ﬁbrosis CO₂ Łódź") == [
        "grosse", "naive", "oeuvre", "etude", "fibrosis", "co2", "lodz"
    ]  # fmt: skip
    assert words_of("水肿edema") == ["水", "肿", "edema"]
    assert fold("plain Text, as it is") == "plain Text, as it is"
    assert words_of("\ud800 lone") == ["lone"]
    text = "The Ödeme of the UPPER  limb, upper limbs."
    spans = spans_of(text, terms_of('"upper limb" ode*'))
    assert [text[begin:end] for begin, end in spans] == ["Ödeme", "UPPER  limb"]
    assert [("双下肢水肿和"[a:b]) for a, b in spans_of("双下肢水肿和", terms_of("肢水肿"))] == ["肢水肿"]
    assert spans_of("e\u0301tude", terms_of("etude")) == [(0, 6)]


async def test_a_retry_replaces_and_a_removed_run_is_gone(store: Store) -> None:
    number = await filled(store)
    assert found(store, "lymphangitis") == ALL
    [run] = [one for one in store.runs() if store.number(one) == number]
    asked, golds = questions(3)
    with store.engine.begin() as connection:
        connection.execute(
            sa.update(schema.attempts).values(status="failed").where(schema.attempts.c.question_id == "t/1")
        )
    again = planned(
        store, "vanilla_rag", asked, golds, ScriptedModel(say=always("nothing")), ScriptedSearcher(texts=())
    )
    await replayed(store, [again], asked, golds, mode="fresh")
    assert found(store, "lymphangitis") == [ALL[0], ALL[2]]
    assert found(store, "nothing") == [ALL[1]]
    store.remove(run)
    assert found(store, "lymphedema") == found(store, "nothing") == []


KILLED = """
import os, signal, sys
from pathlib import Path
from ragrounds.evals.store import index_backlog
from ragrounds.evals.store.store import Store
index_backlog._BATCH = 10
def killed(step, rows):
    if rows >= 50:
        os.kill(os.getpid(), signal.SIGKILL)
with Store(Path(sys.argv[1])) as store:
    index_backlog.index_missing(store, store.runs(), killed)
"""


async def test_an_indexing_that_is_killed_goes_on(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        asked, golds = questions(100)
        one = planned(store, "vanilla_rag", asked, golds, ScriptedModel(say=always("some words")), ScriptedSearcher())
        await replayed(store, [one], asked, golds)
        killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)  # noqa: ASYNC221
        assert killed.returncode == -signal.SIGKILL
        assert missing(store.engine, [1]) == 50
        assert len(found(store, "some words", complete=False)) == 50
        assert index_missing(store, store.runs()) == Backlog(made=50, unreadable=0)
        assert len(found(store, "some words")) == 100


async def test_what_is_missing_is_made_again(store: Store) -> None:
    await filled(store)
    runs = store.runs()
    numbers = [store.number(run) for run in runs]
    cases = [*CASES, ("erysipelas lymphangitis", ALL)]
    assert missing(store.engine, numbers) == 5  # no attempt waits for the index
    assert missing(store.engine, numbers, texts=False) == 0
    assert not any(found(store, text, complete=False) for text, _ in cases)
    before = {text: found(store, text) for text, _ in cases}
    with store.engine.connect() as connection:
        facts = connection.execute(sa.select(schema.facts)).all()
    assert missing(store.engine, numbers) == 0
    with exclusive_transaction(store.engine) as connection:
        clear(connection)
        connection.execute(sa.delete(schema.facts).where(schema.facts.c.question_id == "t/0"))
    assert [missing(store.engine, [one]) for one in sorted(numbers)] == [3, 2]
    assert not any(found(store, text, complete=False) for text, _ in cases)
    told: list[int] = []
    assert index_missing(store, runs, lambda step, rows: told.append(rows)) == Backlog(made=5, unreadable=0)
    assert told[-1] == 5
    assert {text: found(store, text) for text, _ in cases} == before
    with store.engine.connect() as connection:
        assert sorted(connection.execute(sa.select(schema.facts)).all()) == sorted(facts)
    assert index_missing(store, runs) == Backlog(made=0, unreadable=0)


async def test_what_was_made_again_is_indexed_again_and_a_damaged_attempt_is_left_out(store: Store) -> None:
    await filled(store)
    numbers = [store.number(run) for run in store.runs()]
    assert len(found(store, "lymphedema")) == 3
    with store.engine.begin() as connection:
        connection.execute(sa.update(schema.text_attempts).values(at=0.0))  # as of an attempt before
        connection.execute(
            sa.update(schema.attempts).values(body=b"no record").where(schema.attempts.c.question_id == "t/0")
        )
    assert missing(store.engine, numbers) == 5
    assert index_missing(store, store.runs()) == Backlog(made=3, unreadable=2)
    assert missing(store.engine, numbers) == 2


async def test_snippets_show_where_it_stands(store: Store) -> None:
    number = await filled(store)
    [place] = [(number, "t/1", 0)]
    [one] = snippets(store, [place], '"upper limb" lymphed*')
    assert (one.field, one.call) == ("passage", 0)
    assert one.text == PASSAGES[0]
    assert [one.text[begin:end] for begin, end in one.spans] == ["Lymphedema", "upper limb"]
    [one] = snippets(store, [place], "lymphangitis")
    assert (one.field, one.call) == ("reply", 1)
    assert [one.text[begin:end] for begin, end in one.spans] == ["lymphangitis"]
    [one] = snippets(store, [place], "lymphangitis", ["answer"])
    assert (one.field, one.call) == ("answer", None)
    [one] = snippets(store, [place], "水肿")
    assert [one.text[begin:end] for begin, end in one.spans] == ["水肿"]
    assert snippets(store, [place], "nowhere") == [NOWHERE]
    assert snippets(store, [(number, "t/9", 0), (99, "t/1", 0)], "limb") == [NOWHERE, NOWHERE]


async def test_a_long_text_is_cut_around_the_word(store: Store) -> None:
    number = await filled(store, "start " * 100 + "the needle\nin it " + "end " * 200)
    [one] = snippets(store, [(number, "t/1", 0)], "needle")
    assert len(one.text) <= 200
    assert one.text.startswith("… ")
    assert one.text.endswith("…")
    assert "the needle in it end" in one.text
    [span] = one.spans
    assert one.text[slice(*span)] == "needle"


async def test_readers_notes_are_found_as_soon_as_they_are_written(store: Store) -> None:
    number = await filled(store)
    row = {"run": number, "question_id": "t/2", "epoch": 0, "author": "ann", "mark": "star", "text": "Query drift?"}
    with store.engine.begin() as connection:
        connection.execute(sa.insert(schema.notes), {**row, "at": 1.0})
    assert found(store, "query drift") == found(store, "star", "note") == [ALL[2]]
    assert found(store, "drift", "reply") == []
    assert snippets(store, [(number, "t/2", 0)], "drift")[0].text == "Query drift?"
