"""What is said in attempts is found: words, phrases, any language, as soon as an attempt is written."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from ragrounds.api.runs import collect_garbage
from ragrounds.base.contracts import Request
from ragrounds.base.errors import StopRun
from ragrounds.base.records import Attempt, Call, Left, Message, Noted, Question, Reply, ToolCall, Usage
from ragrounds.evals.judges.rescoring import refresh_scores
from ragrounds.evals.store import schema
from ragrounds.evals.store.row_sums import summed
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.attempt_filter import AllOf, AnyOf, TextTest, Wanted, parse
from ragrounds.evals.trace.summaries import Pages
from ragrounds.evals.trace.text_folding import TextQueryError, fold, terms_of, words_of
from ragrounds.evals.trace.text_index import FILE
from ragrounds.evals.trace.text_search import TextSearch, call_texts, own_texts, without_texts
from ragrounds.evals.trace.traces import TracedCall
from tests.engine.conftest import planned, replayed
from tests.engine.doubles import ScriptedModel, ScriptedSearcher, always, questions

PASSAGES = (
    "Lymphedema of the upper limb after axillary dissection; the left limb stays free.",
    "急性左心衰竭患者常有双下肢水肿和呼吸困难。",
    "L’œdème aigu du poumon exige un traitement rapide.",
    "Über das Ödem an der Straße: größere Fälle.",
)


async def filled(store: Store, reply: str = '{"answer_choice": "B"} I think it is \x00 lymphangitis.') -> int:
    """A run of three attempts with searches, and one of two without; gives the number of the first."""
    asked, golds = questions(3)
    model = ScriptedModel(say=lambda request: Reply(text=reply, usage=Usage(1000, 100), reasoning="Perhaps erysipelas"))
    one = planned(store, "vanilla_rag", asked, golds, model, ScriptedSearcher(texts=PASSAGES))
    await replayed(store, [one], asked, golds)
    two = planned(store, "direct", asked[:2], golds, ScriptedModel(say=always('{"answer_choice": "A"}')))
    await replayed(store, [two], asked[:2], golds)
    return store.number(one.run)


def search_of(store: Store) -> TextSearch:
    runs = store.runs()
    return TextSearch(store, runs, [store.number(run) for run in runs])


def found(store: Store, text: str, *fields: str, search: TextSearch | None = None) -> list[tuple[str, str]]:
    """What is found when all that was not looked through has been."""
    search, test = search or search_of(store), TextTest(text, fields)
    hits = []
    for number, run in enumerate(store.runs()):
        search.index(number, search.unread(number, [test]), lambda done: None)
        hits += [(run.agent, id) for id in search.questions(number, test).get(0, ())]
        assert not search.unread(number, [test])
    return sorted(hits)


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
    assert fold("plain Text, as it is") == "plain text, as it is"
    assert words_of("\ud800 lone") == ["lone"]


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


async def test_what_was_looked_through_is_remembered_until_it_is_written_again(store: Store) -> None:
    await filled(store)
    search, test = search_of(store), TextTest("lymphedema")
    [number] = [place for place, run in enumerate(store.runs()) if run.agent == "vanilla_rag"]
    assert len(search.unread(number, [test])) == 3
    assert not search.questions(number, test)

    def stop(done: int) -> None:
        raise KeyboardInterrupt

    unread = search.unread(number, [test])
    with pytest.raises(KeyboardInterrupt):
        search.index(number, {("t/1", 0): unread["t/1", 0]}, stop)
    assert search.questions(number, test) == {0: ["t/1"]}
    assert sorted(search.unread(number, [test])) == [("t/0", 0), ("t/2", 0)]
    assert found(store, "lymphedema", search=search) == ALL
    with store.engine.begin() as connection:  # one is made again, and is damaged
        again = sa.update(schema.attempts).where(schema.attempts.c.question_id == "t/0")
        connection.execute(again.values(at=schema.attempts.c.at + 1, body=b"no record"))
    assert found(store, "lymphedema", search=search) == ALL[1:]


async def test_a_filter_that_was_used_before_reads_neither_questions_nor_scores_twice(
    store: Store, statements: list[str]
) -> None:
    await filled(store)
    pages = Pages(store, store.runs())
    pages.complete('"lymphedema"')
    statements.clear()
    pages.complete('"edema"')
    assert not [statement for statement in statements if "FROM questions" in statement]
    for run in store.runs():
        assert not refresh_scores(store, run)
    assert sum("DISTINCT" in statement for statement in statements) == len(store.runs())


async def test_the_index_goes_with_the_words_that_are_removed(home: Path) -> None:
    with Store(home) as filled_store:
        await filled(filled_store)
        assert found(filled_store, "lymphedema") == ALL
    assert (home / FILE).stat().st_mode & 0o777 == 0o600
    collect_garbage(seconds=0, outside=False)
    assert (home / FILE).exists()
    collect_garbage(seconds=0, outside=False, remove=True)
    assert not (home / FILE).exists()


async def test_the_index_is_a_file_that_may_be_deleted_and_is_not_taken_from_another_store(tmp_path: Path) -> None:
    with Store(tmp_path / "a") as first:
        await filled(first)
        assert found(first, "lymphedema") == ALL
        later, file = search_of(first), tmp_path / "a" / FILE
        assert not any(later.unread(number, []) for number in range(2))
        assert found(first, "lymphedema", search=later) == ALL
        shutil.copy(file, tmp_path / "copy")
        file.write_bytes(b"no database" * 1000)
        with pytest.raises(StopRun, match="Delete this file"):
            found(first, "lymphedema")
        file.unlink()
        assert found(first, "lymphedema") == ALL
    with Store(tmp_path / "b") as second:
        await filled(second, reply="the same call was answered in other words")
        shutil.copy(tmp_path / "copy", tmp_path / "b" / FILE)
        assert found(second, "lymphangitis") == []
        assert found(second, "same call", "reply") == ALL


@pytest.mark.parametrize(
    ("where", "rest"),
    [
        ("wrong needle", "wrong"),
        ("wrong or needle", ""),
        ("not (wrong needle)", ""),
        ("wrong and needle and not thread", "wrong"),
        ("(wrong and needle) or (right and thread)", "wrong or right"),
        ("needle", ""),
        ("wrong or not right", "wrong or not right"),
    ],
)
def test_words_are_looked_for_where_the_rest_of_a_filter_holds(where: str, rest: str) -> None:
    def plain(wanted: Wanted | None) -> object:
        """Without brackets around one condition."""
        match wanted:
            case AllOf(parts) | AnyOf(parts):
                each = tuple(plain(part) for part in parts)
                return each[0] if len(each) == 1 else (type(wanted), each)
        return wanted

    assert plain(without_texts(parse(where))) == plain(parse(rest))


async def test_readers_notes_are_found_as_soon_as_they_are_written(store: Store) -> None:
    number = await filled(store)
    row = {"run": number, "question_id": "t/2", "epoch": 0, "author": "ann", "mark": "star", "text": "Query drift?"}
    with store.engine.begin() as connection:
        connection.execute(sa.insert(schema.notes), summed(schema.notes, {**row, "at": 1.0}))
    assert found(store, "query drift") == found(store, "star", "note") == [ALL[2]]
    assert found(store, "drift", "reply") == []


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


async def test_no_text_stops_a_search(store: Store) -> None:
    asked, golds = questions(len(HOSTILE))
    replies = iter(HOSTILE.values())
    model = ScriptedModel(say=lambda request: Reply(text=next(replies), usage=Usage(1000, 100)))
    one = planned(store, "direct", asked, golds, model)
    await replayed(store, [one], asked, golds)
    assert len(found(store, "needle", "reply")) == len(HOSTILE)
    assert len(found(store, "needle", "answer")) == len(HOSTILE)


def test_prompts_of_other_systems_are_found_and_our_own_are_not() -> None:
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
    asked = Question(id="q", benchmark="t", text="Asked", options={"A": "First"})
    fields = dict(own_texts(attempt, asked, ["by a reader"]))
    for one in traced:
        for name, found in call_texts(one, True).items():
            fields[name] = [*fields.get(name, []), *found]
    assert fields["question"] == ["Asked", "First"]
    assert fields["prompt"] == ["Begin here", "Tool result", "Begin here and go on"]
    assert fields["reply"] == ["Thought", "Said", "lookup", '{"term": "edema"}', "", "More"]
    assert fields["tool"] == ["tool", "tool said", "asked", "answered"]
    assert fields["reason"] == ["why", "node failed"]
    assert fields["note"] == ["by a reader", "trace_full", "left out"]
    assert call_texts(traced[0], False)["prompt"] == []
