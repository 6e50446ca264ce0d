"""Why an attempt went wrong: each cause from the calls that make it, and from nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from ragrounds.base.contracts import Request, SearchRequest
from ragrounds.base.records import (
    AnswerStatus,
    Attempt,
    Call,
    Gold,
    Message,
    Noted,
    Passage,
    Question,
    Reply,
    Score,
    Status,
    ToolCall,
)
from ragrounds.evals.trace.causes import CAUSES, Cause, cause_of, ends_at
from ragrounds.evals.trace.traces import TracedCall

QUESTION = Question(
    id="q/1", benchmark="q", text="Which nerve palsy causes wrist drop after a humerus fracture?",
    options={"A": "radial nerve", "B": "ulnar nerve"},
)  # fmt: skip
LONG = Question(id="q/2", benchmark="q", text="Name the nerve that is hurt.", kind="long")
GOLD = Gold(question_id="q/1", answer="A", documents=("gold",))
TEXT = (
    "The radial nerve winds round the humerus; where the shaft breaks, it is hurt, and the hand cannot be lifted. " * 2
)


def passage(document: str, text: str = TEXT) -> Passage:
    return Passage(id=f"{document}#1", document=document, title=document, text=text, corpus="books@1")


def call(kind: str, role: str = "answering", error: str = "", node: str = "node") -> Call:
    return Call(key="", kind=kind, role=role, node=node, actor="x", at=1.0, seconds=1.0, error=error)  # type: ignore[arg-type]


def search(query: str, *found: Passage, error: str = "") -> TracedCall:
    asked = SearchRequest(corpus="books@1", query=query, k=5)
    return TracedCall(call("search", "searching", error), searched=asked, passages=found)


def model(prompt: str, role: str = "answering", node: str = "answer") -> TracedCall:
    asked = Request(messages=(Message("user", prompt),))
    return TracedCall(call("model", role, node=node), asked=asked, reply=Reply(text="B"))


def said(text: str) -> TracedCall:
    return TracedCall(call("model"), asked=Request(messages=(Message("user", "?"),)), reply=Reply(text=text))


@dataclass
class Case:
    calls: Sequence[TracedCall]
    question: Question = QUESTION
    gold: Gold = GOLD
    text: str = "The answer is B."
    status: Status = "completed"
    notes: Sequence[Noted] = ()
    scores: Sequence[Score] = field(default_factory=lambda: [score()])

    def cause(self) -> Cause | None:
        attempt = Attempt(
            run="r", question_id=self.question.id, epoch=0, status=self.status, text=self.text,
            reason="" if self.status == "completed" else "no answer in 20 s", events=tuple(self.notes),
        )  # fmt: skip
        return cause_of(attempt, self.calls, self.question, self.gold, self.scores, "strict")


def score(
    value: float | None = 0.0,
    answer_status: AnswerStatus = "answered",
    prediction: str = "B",
    scorer: str = "strict",
    reason: str = "",
) -> Score:
    return Score(
        question_id="q/1", epoch=0, scorer=scorer, value=value, answer_status=answer_status, prediction=prediction,
        reason=reason,
    )  # fmt: skip


YES_NO = Question(id="q/1", benchmark="q", text="Does it heal?", options={"A": "yes", "B": "no"})
UNKNOWN = Gold(question_id="q/1", answer="A")
GOOD, BAD = passage("gold"), passage("other", "Tendons of the thumb.")
PARTLY = Gold(question_id="q/1", answer="A", documents=("gold", "second"))
LOSSES = {
    "gold never found": ("never found", "no gold in 1 search, 1 different passage",
                         Case([search("wrist drop nerve", BAD), model(BAD.text)])),
    "queries drift": ("never found", "no gold in 2 searches, 1 different passage",
                      Case([search("wrist drop humerus", BAD), search("history of plaster", BAD), model("?")])),
    "a query is repeated": ("never found", "no gold in 2 searches, 1 different passage",
                            Case([search("wrist drop", BAD), search("Wrist  drop", BAD), model(BAD.text)])),
    "some gold is found": ("never found", "1 of 2 gold documents were found and shown; never found: second",
                           Case([search("x", GOOD), model(GOOD.text)], gold=PARTLY)),
    "no passage names the option": ("never found", "none of 1 passages names the gold option (a sign, no proof",
                                    Case([search("x", BAD), model("?")], gold=UNKNOWN)),
    "a search fails": ("search failed", "search 1 for 'wrist drop nerve' failed (timeout), and no other found gold",
                       Case([search("wrist drop nerve", error="timeout"), search("nerve", BAD), model(BAD.text)])),
    "an attempt ends at a failed search": ("search failed", "failed (timeout)",
                                           Case([search("x", error="timeout")], status="failed", scores=[])),
    "gold is truncated": ("not shown", "only its beginning was in a prompt: the rest was cut away",
                          Case([search("wrist drop", BAD, GOOD), model(f"Read: {TEXT[:100]}")])),
    "gold is in no prompt": ("not shown", "it is in no later prompt",
                             Case([search("wrist drop", BAD, GOOD), model(BAD.text)])),
    "gold is read by an earlier call": (
        "not shown", "read read it whole, and the prompt of the answer did not hold it",
        Case([search("wrist drop", GOOD), model(GOOD.text, "reading", "read"), model("kept: nothing")])),
    "gold is in the prompt": ("ignored", "it was whole in the prompt of the answer, and the answer does not follow",
                              Case([search("wrist drop", BAD, GOOD), model(f"Read: {GOOD.text} Now answer.")])),
    "a passage names the option": ("ignored", "1 of 2 passages name the gold option (search 1, rank 2), and",
                                   Case([search("x", BAD, GOOD), model("?")], gold=UNKNOWN)),
    "an earlier reply names the option": (
        "ignored", "reply 1 of 2 ended at option A, and the answer is B (a sign, no proof",
        Case([said("So it is the radial nerve."), search("x", BAD), model("?")], gold=UNKNOWN)),
    "the letter is another": ("ignored", "reply 1 of 1 ended at option A, and the answer is B (a sign, no proof",
                              Case([search("x", BAD), model("?")], gold=UNKNOWN,
                                   text="It is the radial nerve: option B.")),
    "no search is made": ("no search", "none is among its calls", Case([model("What is it?")])),
    "no prompt is recorded": ("not known", "calls of it are not recorded", Case([TracedCall(call("model"))])),
    "no later prompt is recorded": ("not known", "which prompts followed is not recorded",
                                    Case([search("x", GOOD), TracedCall(call("model"))])),
    "no gold document is known": ("not known", "no gold document is known: whether it was found cannot be said",
                                  Case([search("x", BAD), model("?")], YES_NO, UNKNOWN)),
    "there is no score": ("not known", "strict gave no score: the judge gave no label",
                          Case([model("?")], question=LONG,
                               scores=[score(None, prediction="", reason="the judge gave no label")])),
    "the attempt fails": ("not ended", "failed: no answer in 20 s",
                          Case([search("x", GOOD)], status="failed", scores=[score(answer_status="empty")])),
    "the answer has no form": ("unreadable", "strict could not read an answer",
                               Case([search("x", GOOD), model(GOOD.text)], scores=[score(0.0, "unreadable", "")])),
    "another scorer reads the gold option": (
        "misjudged", "strict reads B, robust reads A, the gold option",
        Case([model("?")], scores=[score(), score(1.0, prediction="A", scorer="robust")])),
    "only another scorer reads an option": (
        "unreadable", "strict reads no option, mirage reads A, the gold option",
        Case([model("?")], scores=[score(0.0, "unreadable", ""), score(1.0, prediction="A", scorer="mirage")])),
    "a judge rejects the reference": (
        "misjudged", "strict gives 0, and the answer holds 'the radial nerve', the words of the reference. It says: it",
        Case([model("?")], question=LONG, gold=Gold(question_id="q/2", answer="the radial nerve"),
             text="It is **the Radial Nerve**, at the humerus.",
             scores=[score(0.0, prediction="", reason="it names no nerve")])),
}  # fmt: skip
"""What goes wrong → the cause, words of its sentence, and the attempt."""


@pytest.mark.parametrize("loss", LOSSES)
def test_each_cause_from_its_own_calls(loss: str) -> None:
    word, words, case = LOSSES[loss]
    cause = case.cause()
    assert cause is not None
    assert cause.word == word
    assert words in cause.text


def test_a_tool_that_may_have_searched_is_no_answer_from_memory() -> None:
    prompt = Request(messages=(Message("user", "What is it?"), Message("tool", "Found: the radial nerve.")))
    wanted = Reply(text="", calls=(ToolCall(id="1", name="look_up", arguments="{}"),))
    for calls in (
        [TracedCall(call("model"), asked=prompt, reply=Reply(text="B"))],
        [TracedCall(call("model"), asked=Request(messages=(Message("user", "?"),)), reply=wanted), model("?")],
        [model("?"), TracedCall(call("tool"))],
    ):
        cause = Case(calls).cause()
        assert cause is not None
        assert cause.word == "not known"
    assert cause.description == "not known: it called tools x; whether they searched is not known"


def test_every_cause_has_a_case_and_a_meaning() -> None:
    assert {word for word, _, _ in LOSSES.values()} == set(CAUSES)


def test_a_right_attempt_has_no_cause() -> None:
    assert Case([search("x", BAD), model("?")], scores=[score(1.0, prediction="A")]).cause() is None


def test_a_right_long_answer_without_any_required_fact_is_doubted() -> None:
    gold = Gold(question_id="q/2", answer="the radial nerve", facts=(("radial nerve",),))
    doubted = Case([model("?")], question=LONG, gold=gold, text="The ulnar nerve.", scores=[score(1.0)]).cause()
    assert doubted is not None
    assert doubted.word == "misjudged"
    assert Case([model("?")], question=LONG, gold=gold, text="The radial nerve.", scores=[score(1.0)]).cause() is None


def test_the_cause_names_the_hop_and_what_it_rests_on() -> None:
    failed = LOSSES["a search fails"][2].cause()
    assert failed is not None
    assert failed.hop == 1
    assert "timeout" in failed.text
    ignored = LOSSES["gold is in the prompt"][2].cause()
    assert ignored is not None
    assert ignored.hop == 1
    assert "rank 2" in ignored.text


def test_a_note_says_that_what_did_not_fit_was_cut_away() -> None:
    note = Noted(step=1, what="cut", text="the context was full after 1 of 2 passages; 1 dropped")
    cause = Case([search("wrist drop", BAD, GOOD), model(BAD.text)], notes=[note]).cause()
    assert cause is not None
    assert cause.word == "not shown"
    assert "the context was full" in cause.text


def test_an_abstention_says_so_and_keeps_the_cause_below() -> None:
    cause = Case([search("wrist drop", BAD), model(BAD.text)], scores=[score(0.0, "abstained", "")]).cause()
    assert cause is not None
    assert cause.word == "never found"
    assert cause.text.startswith("it abstained; ")


def test_an_option_in_chinese_is_found_inside_a_sentence() -> None:
    asked = Question(id="q/1", benchmark="q", text="哪条神经?", options={"A": "桡神经", "B": "尺神经"})
    cause = Case([search("x", passage("other", "肱骨骨折损伤桡神经。")), model("?")], asked, UNKNOWN).cause()
    assert cause is not None
    assert cause.word == "ignored"
    assert cause.text.startswith("1 of 1 passages name the gold option")


def test_a_partly_right_answer_follows_a_part_of_what_it_was_shown() -> None:
    calls = [search("wrist drop", GOOD), model(GOOD.text)]
    cause = Case(calls, question=LONG, scores=[score(0.5, prediction="1/2")]).cause()
    assert cause is not None
    assert cause.word == "ignored"
    assert cause.text.endswith("the answer follows only a part of it")


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("It may be asthma. So heart failure it is.", "A"),
        ("So congestive heart failure it is.", "B"),
        ("Heart failure fits, and the history argues against asthma.", "A"),
        ("It is heart failure rather than asthma.", "A"),
        ("It is not asthma.", ""),
        ("", ""),
        ("Asthmatic children.", ""),
    ],
)
def test_the_option_that_a_reply_ends_at(text: str, ends: str) -> None:
    options = {"A": "heart failure", "B": "congestive heart failure", "C": "asthma"}
    assert ends_at(text.casefold(), options) == ends
