"""The filter language: what each expression chooses, what it says of one it cannot read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec
import pytest
import sqlalchemy as sa

from ragrounds.base.contracts import Request
from ragrounds.base.errors import UserError
from ragrounds.base.records import Call, Gold, Message, Passage, Run
from ragrounds.evals.store import schema
from ragrounds.evals.store.attempt_notes import notes_of, write_note
from ragrounds.evals.store.row_sums import summed
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.attempt_facts import facts_row
from ragrounds.evals.trace.attempt_filter import FilterError, hint, joined, parse, quoted, single_conditions
from ragrounds.evals.trace.filter_fields import BY_NAME, EXAMPLES, FIELDS
from ragrounds.evals.trace.summaries import SORT_WORDS, SORTS, Pages
from ragrounds.evals.trace.traces import TracedCall
from tests.conftest import ROOT
from tests.ui.trace.making import attempt, make_run, quiz_store, score
from tests.uneven import Uneven

COMPILED = (
    "right and hops>2",
    "not wrong",
    "wrong or failed",
    "gold seen",
    "gold not seen",
    "not gold seen",
    "gold rank<=1",
    "gold hop=2 or gold known",
    "not (gold found and right)",
    "faults or failed_calls",
    "note:traceback",
    "note=traceback",
    "subject:cardio and run:seeker",
    "agent:pl*",
    "question:003",
    "question:quiz/00*",
    "about:remedy",
    "status:completed",
    "made",
    "troubled",
    "reason:SERVER",
    "prediction:b",
    "score<50%",
    "cost>0.02",
    "cost=unknown",
    "time>=8s tokens>100 model_calls>1",
    "marked",
    "mark:star",
    "noted",
    'noted:"Look AGAIN"',
    "author:ada",
    "epoch:0",
    "epoch:1",
    "unscored",
)
"""Compared with PostgreSQL too."""


def write_facts(store: Store, run: Run, number: int, **facts: object) -> None:
    """Facts of one attempt."""
    row: dict[str, object] = {
        column.name: None if column.nullable else "" if column.name == "notes" else 0 for column in schema.facts.columns
    }
    made, question = schema.attempts.c, f"quiz/{number:03}"
    row |= {"run": store.number(run), "question_id": question, **facts}
    with store.engine.begin() as connection:
        at = sa.select(made.at).where(made.run == row["run"], made.question_id == question)
        connection.execute(
            sa.insert(schema.facts), summed(schema.facts, row | {"at": connection.execute(at).scalar_one()})
        )


def fill_facts(store: Store) -> None:
    """Facts, marks and notes of the quiz: `seeker` found gold in its second search on 0 and 1, and showed it on 0; on 4
    it found none. Of `plain` no gold is known, and of its attempt at 4 there are no facts."""
    plain, seeker = store.runs()
    for number in range(4):
        write_facts(store, plain, number, steps=1, notes=" traceback " if number == 3 else "", faults=number == 3)
    write_facts(store, seeker, 0, hops=3, gold=1, gold_found=1, gold_seen=1, gold_rank=1, gold_hop=2, faults=1)
    write_facts(store, seeker, 1, hops=2, gold=1, gold_found=1, gold_seen=0, gold_rank=4, gold_hop=2)
    write_facts(store, seeker, 4, hops=3, gold=1, gold_found=0, gold_seen=0)
    write_note(store, seeker, "quiz/004", 0, author="ada", mark="star", text="Look again at the 2nd query.")
    write_note(store, plain, "quiz/001", 0, author="bob", text="fine")


@pytest.fixture(scope="module")
def quiz(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    with quiz_store(tmp_path_factory.mktemp("filters")) as store:
        fill_facts(store)
        yield Pages(store, store.runs())


def chosen(pages: Pages, where: str, sort: str = "asked", descending: bool = True) -> str:
    """The rows that are chosen: the first letter of the agent, and the question's number."""
    rows = pages.read(pages.order(where, sort, descending))
    return " ".join(f"{one.run.agent[0]}{one.question.id[-1]}" for one in rows)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("right and hops>2", "s0"),
        ("RIGHT AND Hops > 2", "s0"),
        ("right hops>=2 hops<3", "s1"),
        ("wrong", "p1 p2 p3 s4"),
        ("not wrong", "p0 p4 p5 s0 s1 s2 s3 s5"),  # a flag and its opposite are all
        ("not not wrong", "p1 p2 p3 s4"),
        ("failed or capped", "p3"),
        ("abstained", "p2"),
        ("not run", "p5 s2 s3 s5"),
        ("not run-in", "p0 p1 p2 p3 p4 p5 s0 s1 s2 s3 s4 s5"),  # a text
        ("not run:seeker-run right", "p0 p4"),
        ("made not right", "p1 p2 p3 s4"),
        ("wrong and (agent:seeker or failed)", "p3 s4"),
        ("wrong and agent:seeker or failed", "p3 s4"),
        ("failed or wrong and agent:seeker", "p3 s4"),
        ("agent:plain", "p0 p1 p2 p3 p4 p5"),
        ("agent:seeker[rounds=3] right", "s0 s1"),
        ("agent:*3] right", "s0 s1"),
        ("run=seeker-run right", "s0 s1"),
        ("gold found", "s0 s1"),
        ("gold not found", "s4"),  # of the others none is known
        ("not gold found", "s4"),
        ("not (gold found)", "s4"),
        ("gold seen", "s0"),
        ("gold found and gold not seen", "s1"),
        ("gold all found", "s0 s1"),
        ("gold rank<=1", "s0"),
        ("gold rank > 1", "s1"),
        ("gold not rank<=1", "s1"),  # of the others no rank is known
        ("gold not all found", "s4"),
        ("gold hop=2", "s0 s1"),
        ("gold known", "s0 s1 s4"),
        ("gold not known made", "p0 p1 p2 p3 p4"),
        ("faults", "p3 s0"),
        ("note:trace", "p3"),
        ("note=trace", ""),
        ("subject:neuro right", "s1"),
        ("question:c01", ""),
        ("question:001", "p1 s1"),
        ("question:quiz/00* right", "p0 p4 s0 s1"),
        ('about:"CASE 4"', "p4 s4"),
        ("reason:server", "p3"),
        ("prediction:a", "p0 p4 s0 s1"),
        ("score<50% made", "p1 p2 p3 s4"),
        ("cost>$0.03", "s0 s1 s4"),
        ("cost=unknown", "p5 s2 s3 s5"),
        ("cost!=unknown agent:plain", "p0 p1 p2 p3 p4"),
        ("time>6 s model_calls=1", "p4"),
        ("time>6000ms model_calls=1", "p4"),
        ("marked", "s4"),
        ("mark:STAR", "s4"),
        ("mark!=star wrong", "p1 p2 p3"),
        ("noted", "p1 s4"),
        ('noted:"2nd QUERY"', "s4"),
        ("author:bob", "p1"),
        ("agent：seeker　wrong", "s4"),
        ("outcome:failed", "p3"),
        ("", "p0 p1 p2 p3 p4 p5 s0 s1 s2 s3 s4 s5"),
    ],
)
def test_what_is_chosen(quiz: Pages, where: str, expected: str) -> None:
    assert chosen(quiz, where) == expected


@pytest.mark.parametrize(
    ("where", "at", "said"),
    [
        ("hopz>3", 0, "Did you mean 'hops'"),
        ("wrong and", 9, "missing at the end"),
        ("wrong and or right", 10, "'or' at 11 needs a condition before it"),
        ("(wrong", 0, "has no )"),
        ("wrong)", 5, "no ( for the )"),
        ('wrong "x', 6, "quote at 7 is not closed"),
        ("hops>many", 5, "expected a number such as 3"),
        ("time>3k", 5, "500ms, 10s or 2min"),
        ("tokens>4s", 7, "4000 or 4k"),
        ("score<1.5x", 6, "0.5 or 50%"),
        ("agent>3", 5, "no number: agent:direct"),
        ("agent:", 5, "needs a value: agent:direct"),
        ("wrong=1", 5, "takes no value"),
        ("time", 0, "time>10s"),
        ("gold", 0, "gold found, gold not seen, gold rank<=5"),
        ("gold rank", 0, "gold rank<=5"),
        ("status:fayled", 7, "Did you mean 'failed'"),
        ("x=1", 0, 'in quotes: "x=…"'),
        ("agent:seekr", 6, "Did you mean 'seeker'"),
        ("subject:heart", 8, "There are: cardiology, neurology"),
        ("(" * 50 + "wrong", 8, "More than 8 brackets in brackets"),
        ("x" * 5000, 4000, "at most 4,000"),
        ("not " * 900, 3600, "missing at the end"),
    ],
)
def test_errors_say_where_and_what_was_expected(quiz: Pages, where: str, at: int, said: str) -> None:
    with pytest.raises(FilterError, match=re.escape(said)) as caught:
        quiz.order(where)
    assert caught.value.position == at


def test_examples_of_all_words_can_be_read() -> None:
    assert len(BY_NAME) == len(FIELDS)
    for field in FIELDS:
        assert parse(field.example) is not None, field.name
    for expression, _ in EXAMPLES:
        assert parse(expression) is not None


@pytest.mark.parametrize(
    "opened",
    [
        "not (made or right and ",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("made and (right or ", "not (marked and not (")),
    ],
)
def test_what_can_be_typed_is_not_too_much_for_the_database(quiz: Pages, opened: str) -> None:
    for field in FIELDS:
        if field.kind != "text" and field.name not in ("agent", "run", "benchmark", "subject"):
            times = 8 // opened.count("(")
            quiz.order(opened * times + field.example + ")" * 8)


@pytest.mark.slow
def test_long_expressions_are_not_too_much_either(quiz: Pages) -> None:
    for one in ("made ", "right or ", "mark:x or "):
        assert len(quiz.order(one * (3990 // len(one)) + "made")) == 8


def test_every_word_says_what_it_is_and_expressions_of_the_page_can_be_read() -> None:
    page = (ROOT / "docs" / "reference" / "filters.md").read_text(encoding="utf-8")
    assert [field.name for field in FIELDS if not field.about] == []
    shown = re.findall(r"^\| `(.+?)` \|", page.partition("## All words")[0], re.M)
    assert len(shown) >= 10
    for expression in shown:
        assert parse(expression) is not None


def test_nothing_that_is_typed_becomes_a_pattern_or_sql(quiz: Pages) -> None:
    for value in ("%", "_", "'", '"', "\\", "'; DROP TABLE attempts; --", "a%b", "[", "\0"):
        for field in ("reason", "noted", "question", "about", "note"):
            assert chosen(quiz, f"{field}:{quoted(value)} wrong") == "", (field, value)
    assert chosen(quiz, "wrong") == "p1 p2 p3 s4"


def test_a_name_that_was_quoted_is_read_as_it_was() -> None:
    for value in ("direct", "vanilla_rag[top_k=8]", 'a "b" c', "back\\slash", "and", "x (y)", "水肿", "“a”", ""):
        test = parse(f"agent:{quoted(value)}")
        assert test is not None
        assert [one.value for one in single_conditions(test)] == [value]  # type: ignore[union-attr]


def test_expressions_are_joined_in_brackets_where_they_need_them(quiz: Pages) -> None:
    assert joined("", " ") == ""
    assert joined("wrong", "") == "wrong"
    assert joined("wrong or right", "agent:seeker") == "(wrong or right) and agent:seeker"
    assert chosen(quiz, joined("wrong or right", "agent:seeker")) == "s0 s1 s4"


def test_a_word_that_is_nearly_one_of_the_language_is_told() -> None:
    assert "Did you mean 'wrong'" in hint("wrnog")
    assert hint("wrong and edema") == ""
    assert hint('"wrnog"') == ""
    # A word that is not finished has no hint, a wrong one has it at once.
    assert "Did you mean 'wrong'" in hint("hops>1 and wron")
    assert hint("hops>1 and wron", is_typing=True) == ""
    assert "Did you mean 'wrong'" in hint("hops>1 and wrnog", is_typing=True)
    assert hint("wrong and (") == ""


def test_what_a_condition_cannot_say_is_counted(quiz: Pages) -> None:
    found = quiz.unknown("gold not seen")
    assert (found.no_gold, found.no_facts) == (4, 1)
    assert not quiz.unknown("wrong")
    assert quiz.unknown("hops>1").no_gold == 0


def test_orders(quiz: Pages) -> None:
    assert set(SORTS) == set(SORT_WORDS)
    for sort in SORTS:
        for descending in (True, False):
            rows = quiz.order("", sort, descending)
            assert sorted(rows) == list(range(12)), sort
    assert chosen(quiz, "gold known", "gold_rank", descending=False) == "s0 s1 s4"  # not found: last
    assert chosen(quiz, "gold known", "gold_rank") == "s1 s0 s4"
    assert chosen(quiz, "made", "agent") == "p0 p1 p2 p3 p4 s0 s1 s4"
    assert chosen(quiz, "made", "agent", descending=False) == "s0 s1 s4 p0 p1 p2 p3 p4"
    assert chosen(quiz, "made", "subject") == "p0 p2 p4 s0 s4 p1 p3 s1"
    assert chosen(quiz, "made", "hops")[:8] == "s0 s4 s1"


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    """The quiz with the facts and the full text that its journal gives."""
    with quiz_store(tmp_path_factory.mktemp("indexed")) as store:
        yield Pages(store, store.runs())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("aspirin agent:seeker", "s0 s1 s4"),  # in what it found
        ("passage:aspirin", "s0 s1 s4"),
        ("query:aspirin", ""),
        ('query:"query 2"', "s0 s1 s4"),
        ('query:"2 query"', ""),
        ("reply:kept wrong", "s4"),
        ('"Case 3"', "p3"),
        ('not "Case 3" wrong', "p1 p2 s4"),
        ("text:remed* right", "p0 p4 s0 s1"),
        ("error:gone", "p3"),
        ("error", "p3"),
        ("passage:thins or error:gone", "p3 s0 s1 s4"),
        ('passage:"thins the blood" and not query:nowhere and right', "s0 s1"),
        ("hops=3 gold seen", "s0 s1 s4"),  # round 0 shows the gold document, doc1
        ("repeated", ""),
        ("note:traceback failed_calls", "p3"),
    ],
)
def test_full_text_and_facts_from_the_journal(indexed: Pages, where: str, expected: str) -> None:
    indexed.complete(where)
    assert indexed.backlog(where) == 0
    assert chosen(indexed, where) == expected


def test_a_text_without_a_word_is_told_where_it_stands(indexed: Pages) -> None:
    with pytest.raises(FilterError, match="word") as caught:
        indexed.order('wrong and "…"')
    assert caught.value.position == 10


def test_epochs(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        run = make_run(store, "twice", 3, epochs=2)
        made = [attempt(run, 0, (), epoch=1), attempt(run, 2, ())]
        store.add_attempts(run, made, [score(0, True, epoch=1), score(2, False)])
        write_note(store, run, "quiz/002", 0, author="ada", mark="x")
        pages = Pages(store, [run])
        assert list(pages.order("right")) == [1]
        assert list(pages.order("epoch:1")) == [1, 3, 5]
        assert list(pages.order("mark:x")) == [4]
        assert list(pages.order("subject:cardio")) == [0, 1, 4, 5]
        pages.complete("remedy")
        assert list(pages.order("remedy right")) == [1]
        assert list(pages.order("remedy")) == [1, 4]
        assert [pages.seek("made", row, 1) for row in range(6)] == [1, 4, 4, 4, 1, 1]
        assert [pages.seek("made", row, -1) for row in range(6)] == [4, 4, 1, 1, 1, 4]


def test_values_for_completion(quiz: Pages) -> None:
    assert quiz.values("agent") == [("plain", 6), ("seeker[rounds=3]", 6)]
    assert quiz.values("subject") == [("cardiology", 6), ("neurology", 6)]
    assert quiz.values("status")[0] == ("completed", 7)
    assert (quiz.values("mark"), quiz.values("note")) == ([("star", 1)], [("traceback", 1)])
    assert quiz.values("hops") == []


def test_marks_and_notes_are_written_changed_and_removed(tmp_path: Path) -> None:
    with quiz_store(tmp_path) as store:
        run = store.runs()[0]
        place = (run.id, "quiz/000", 0)
        assert write_note(store, run, "quiz/000", 0, author="ada", mark=" Star ") is not None
        assert write_note(store, run, "quiz/000", 0, author="ada", text="why?") is not None
        write_note(store, run, "quiz/000", 0, author="bob", text="no idea")
        found = notes_of(store, store.runs())
        assert [(one.author, one.mark, one.text) for one in found[place]] == [
            ("ada", "star", "why?"),
            ("bob", "", "no idea"),
        ]
        write_note(store, run, "quiz/000", 0, author="ada", mark="")
        assert [one.mark for one in notes_of(store, [run])[place]] == ["", ""]
        assert write_note(store, run, "quiz/000", 0, author="ada", text="") is None
        assert write_note(store, run, "quiz/000", 0, author="bob", mark="", text="") is None
        assert notes_of(store, [run]) == {}
        with pytest.raises(UserError, match="not one word"):
            write_note(store, run, "quiz/000", 0, author="ada", mark="two words")


def test_gold_in_prompts_that_were_not_recorded_is_not_known(tmp_path: Path) -> None:
    found = [traced("search", passages=("d1", "d2"))]
    gold = Gold(question_id="quiz/000", answer="A", documents=("d2",))
    with Store(tmp_path) as store:
        run = make_run(store, "remote", 3)
        made = [attempt(run, number, ()) for number in range(3)]
        made[1] = msgspec.structs.replace(made[1], unrecorded=1)
        prompts = [[], [traced("model", "nothing")], [traced("model", f"text of d2 {LONG[:100]}")]]
        number = store.number(run)
        rows = [facts_row(one, [*found, *mine], gold, number)[1] for one, mine in zip(made, prompts, strict=True)]
        assert [row["gold_seen"] for row in rows] == [None, None, 1]
        assert [row["gold_cut"] for row in rows] == [None, None, 1]
        store.add_attempts(run, made)
        with store.engine.begin() as connection:
            connection.execute(sa.insert(schema.facts), rows)
        pages = Pages(store, [run])
        assert chosen(pages, "gold found") == "r0 r1 r2"
        assert chosen(pages, "gold cut") == "r2"
        assert (chosen(pages, "gold seen"), chosen(pages, "gold not seen")) == ("r2", "")
        assert pages.unknown("gold seen").no_prompts == 2
        assert pages.unknown("gold found").no_prompts == 0


LONG = "edema of the upper limb after surgery, " * 10


def traced(kind: Literal["search", "model"], prompt: str = "", passages: tuple[str, ...] = ()) -> TracedCall:
    """A call as it was recorded."""
    call = Call(key="", kind=kind, role="answering", node="n", actor="x", at=0, seconds=0, passages=passages)
    texts = (Passage(id=one, document=one, title="", text=f"text of {one} {LONG}", corpus="c") for one in passages)
    asked = Request(messages=(Message("user", prompt),)) if prompt else None
    return TracedCall(call, asked=asked, passages=tuple(texts))


def test_paid_dollars_and_the_full_price_are_those_of_their_names(uneven: Uneven) -> None:
    with Store(uneven.home) as store:
        pages = Pages(store, [run := uneven.runs["direct"]])
        rows = {row.question.id: row for row in pages.read(range(len(pages)))}
        stored = {attempt.question_id: attempt for attempt in store.attempts(run)}
        for name, field in (("paid", "cost_paid"), ("cost", "cost_uncached")):
            costs = {id: getattr(attempt, field) for id, attempt in stored.items()}
            assert {id: getattr(row, field) for id, row in rows.items()} == pytest.approx(costs)
            middle = sorted(costs.values())[len(costs) // 2]
            chosen = {row.question.id for row in pages.read(pages.order(f"{name}>={middle}"))}
            assert chosen == {id for id, dollars in costs.items() if dollars >= middle}
