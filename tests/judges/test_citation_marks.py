"""Which texts are citations, which only look like them, and what the numbers of an imported answer mean."""

import asyncio
from types import SimpleNamespace

import pytest

from ragrounds.base.records import Attempt, Call, Called, Entered, Gold, Left, Question
from ragrounds.evals.judges.claims import ClaimJudge
from ragrounds.evals.scorers.citations import CITATIONS, marks_inside, read_citations
from ragrounds.evals.trace.traces import TracedCall
from tests.judges.doubles import judged
from tests.rows import each_row

SHOWN = {number: number - 1 for number in range(1, 10)} | {12345678: 0}


@each_row(
    ("mark", "numbers"),
    [
        ("[1-3]", (1, 2, 3)), ("[1–3]", (1, 2, 3)), ("[1, 2]", (1, 2)), ("[1; 3, 5]", (1, 3, 5)),
        ("[1 and 2]", (1, 2)),
        ("[1]–[3]", (1, 2, 3)), ("【1】", (1,)), ("［1，2］", (1, 2)), ("[^1]", (1,)),
        ("[[2]](https://example.org)", (2,)),
        ("(Source 9)", (9,)), ("(see Sources 1 and 3)", (1, 3)), ("[Doc. 1, Doc. 2]", (1, 2)), ("[citation:3]", (3,)),
        ("【1†source】", (1,)), ("[文档1]", (1,)), ("<sup>2</sup>", (2,)), ("<cite>[1]</cite>", (1,)),
        ("[PMID: 12345678]", (1,)), ("(PMID 12345678)", (1,)), ("¹", (1,)), ("¹,³", (1, 3)), ("¹⁻³", (1, 2, 3)),
    ],
)  # fmt: skip
def test_citations(mark, numbers):
    read = read_citations(f"Blue helps{'' if mark[0] in '¹' else ' '}{mark}.", SHOWN)
    assert (read.text, read.places) == ("Blue helps.", tuple(number - 1 for number in numbers))
    assert not read.unread
    assert read_citations(f"Blue helps {mark}." if mark[0] != "¹" else f"Blue helps{mark}.", {}).fabricated


@each_row("mark", ["[**1**]", "[\u200b1]", "&#91;1&#93;"])
def test_citations_in_markup(mark):
    assert read_citations(marks_inside(f"Blue helps {mark}."), SHOWN).places == (0,)


@each_row(
    "text",
    [
        "It lasts 4 [2, 9] days.", "It lasts 4,5 [2, 9] days.", "It fell by 7 [6, 8] percent.",
        "A median of 3.5 [1–8] months",
        "12 % [8, 15] of them",
        "(95 % CI [12, 45])", "the range [2, 9]", "interquartile range [1-3]", "an interval of [1, 4]",
        "置信区间 [1, 3]",
        "5 × 10⁹/L", "20 kg/m²", "Ca²⁺ and 3 cm³", "x[i]", "[1.2, 3.4]", "(3)", "(Table 2)", "2 × 10¹²",
    ],
)  # fmt: skip
def test_numbers_that_cite_nothing(text):
    read = read_citations(text, SHOWN)
    assert (read.text, read.places, read.fabricated, read.unread) == (text, (), (), ())


def test_a_list_after_a_number_that_is_outside_it_cites():
    assert read_citations("500 mg [1, 2]", SHOWN).places == (0, 1)
    assert read_citations("since 2019 [2, 9]", SHOWN).places == (1, 8)
    assert read_citations("of 3 trials [2, 4]", SHOWN).places == (1, 3)


def test_what_looks_like_a_citation_is_counted():
    read = read_citations("Blue helps [Smith 2019] [2019] [3-1] (Doe et al., 2020) [1].", SHOWN)
    assert read.places == (0,)
    assert read.unread == ("[Smith 2019]", "[2019]", "[3-1]", "(Doe et al., 2020)")


def test_marks_after_a_full_stop_and_definitions_of_footnotes():
    assert marks_inside("One.¹ Two.<sup>2</sup> Three.【1】\n[^1]: Smith 2019.\nFour.") == (
        "One ¹. Two <sup>2</sup>. Three 【1】.\n\nFour."
    )


def imported(text, contexts):
    call = Call(key="", kind="model", role="answering", node="imported", actor="a", at=0.0, seconds=0.0)
    changes = {"answer": text} | ({"passages": [{"text": context} for context in contexts]} if contexts else {})
    events = (
        Entered(step=0, node="model", at=0.0), Called(step=0, call=call), Left(step=0, seconds=0.0, changes={}),
        Entered(step=1, node="answer", at=0.0), Left(step=1, seconds=0.0, changes=changes),
    )  # fmt: skip
    attempt = Attempt(run="r", question_id="q", epoch=0, status="completed", text=text, events=events)
    judge = ClaimJudge(method=CITATIONS, traced=lambda attempt: [TracedCall(call)], verifier="lexical")
    question = Question(id="q", benchmark="b", text="Which?", kind="long")
    answers = judged(
        judge,
        [attempt],
        {"q": question},
        {"q": Gold(question_id="q", answer="x")},
        SimpleNamespace(spec="lexical"),
        None,
    )
    return {score.scorer: score for score in asyncio.run(answers)[0].scores}


def test_citations_of_an_imported_answer_mean_the_contexts_of_its_row():
    text = "Blue dye helps the kidneys [2]. Dogs bark loudly [1]. Cats sleep [7] [Smith 2019]."
    scores = imported(text, ["Dogs bark loudly.", "Blue dye helps the kidneys."])
    assert scores["citation-recall"].value == pytest.approx(2 / 3)
    assert scores["citation-precision"].value == 1.0
    assert scores["citation-recall"].reason == "not read as citations: 1, such as [Smith 2019]"
    assert scores["fabricated-citations"].value == 1.0
    assert scores["fabricated-citations"].reason.startswith("never shown: [7]; ")
    without = imported(text, [])
    assert {score.value for score in without.values()} == {None}
    assert "not known" in without["fabricated-citations"].reason
