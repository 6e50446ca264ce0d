"""The order of calls of FlashRAG's pipelines and of FLARE's own program on scripted replies, beside ours.

Recorded from RUC-NLPIR/FlashRAG at 1ee5249 (flashrag/pipeline) and jzbjyb/FLARE at ec4b06b (src/openai_api.py with its
settings for 2WikiMultihopQA), run with a scripted model and retriever. Where ours differs, `change` says how: the
reasons stand in docs/reference/strategies.md.
"""

import math
from dataclasses import dataclass, field

import pytest

from ragrounds.graphs.self_rag import RELEVANT, SUPPORT, USE, mark
from ragrounds.models.options import cards
from tests.graphs.playing import LONG, play
from tests.graphs.test_strategies import doubting, marked, said, short

Q = LONG.text


@dataclass(frozen=True)
class Case:
    """One pipeline of theirs on a script."""

    agent: str
    script: list
    """What our model says. Theirs said the same in its own form."""
    theirs: str
    """``s`` for a search, ``m`` for a call of the generator."""
    queries: list = field(default_factory=list)
    """Theirs; only the order of words in one, and a full stop at its end, may differ."""
    change: tuple = ("", "")
    """What of theirs is not in ours, or is elsewhere, and what stands for it."""


FIRST = ("s m", "m")
CASES = [
    Case("ircot", ["Clots are treated. More.", "So the answer is: heparin.", "x"], "s m s m", [Q, "Clots are treated"],
         ("s m s m", "s m s m m")),
    Case("ircot[steps=2]", ["One.", "Two.", "x"], "s m s m s", [Q, "One", "Two"], ("s m s m s", "s m s m m")),
    Case("iter_retgen", ["a", "b"], "s m s m", [Q, f"{Q} a"]),
    Case("iter_retgen[rounds=3]", ["a", "b", "c"], "s m s m s m", [Q, f"{Q} a", f"{Q} b"]),
    Case("self_ask[reading=false]", ["Follow up: first?\n", "Heparin.\nSo the final answer is: Heparin."], "s m s m",
         [Q, "first?"], FIRST),
    Case("flare[first_search=false,theta=0.4,steps=2]",
         [doubting("Clots need heparin. It is.", "heparin."), "Heparin is it. It helps.", doubting("It is first.")],
         "m s m m", ["Clots need"]),
    Case("flare[first_search=false,theta=0.2,steps=2]", [doubting("One. Two."), doubting("Two.")], "m m"),
    Case("flare[first_search=false,theta=0.2,steps=1]", [doubting("Heparin.", "Heparin.")], "m"),
    Case("flare",  # its own program
         [doubting("Clots need heparin. It is.", "heparin."), "Heparin is it. It helps.", doubting("It is first.")],
         "s m s m m m", [Q, "Clots need"], ("m m m", "m m")),
    Case("flare", [doubting("One is one. Two is two."), doubting("Two is two.")], "s m m m m", [Q],
         ("m m m m", "m m")),
    Case("self_rag[mode=tokens,top_k=2]", [marked(("[No Retrieval]", 0.7), ("[Retrieval]", 0.3)), "Heparin.", "x"],
         "s m m m", [Q], ("s m m m", "m s m m")),
    Case("self_rag[mode=tokens]", [marked(("[No Retrieval]", 0.9), ("[Retrieval]", 0.1)), "Heparin."], "s m m", [Q],
         ("s m m", "m m")),
    Case("sure", [said(candidates=["heparin", "aspirin"]), "H.", "True", "A.", "False", "Passage 1", "Passage 2"],
         "s m m m m m m m", [Q]),
]  # fmt: skip


def words(query):
    return sorted(query.rstrip(".").replace(". ", " ").split())


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.agent}-{case.theirs}")
async def test_calls_come_in_their_order_but_for_what_is_said(case):
    played = await play(case.agent, case.script, LONG)
    assert played.attempt.status == "completed", played.attempt.reason
    ours = " ".join(call[0] for call in short(played.calls).split())
    changed = case.change[1] if case.theirs == case.change[0] else case.theirs.replace(*case.change, 1)
    assert ours == changed
    searched = [words(query) for query in played.shelf.queries]
    assert [query for query in map(words, case.queries) if query in searched] == searched


def test_marks_are_weighed_as_theirs_are():
    """Their scores of these tokens are 3.5169 and 1.1165, of which exp(-1/7) and exp(-1/3) are the texts' own."""
    first = marked(
        ("[Relevant]", 0.9), ("Heparin.", 0.9), ("[Fully supported]", 0.8), ("[Partially supported]", 0.1),
        ("[No support / Contradictory]", 0.1), ("[Utility:5]", 0.9), ("[Utility:1]", 0.1),
    )  # fmt: skip
    second = marked(("[Irrelevant]", 0.6), ("[Relevant]", 0.4), ("Aspirin.", 0.9))
    for reply, theirs, tokens in ((first, 3.5169, 7), (second, 1.1165, 3)):
        score = sum(mark(reply, family) for family in (RELEVANT, SUPPORT, USE))
        assert score + math.exp(-1 / tokens) == pytest.approx(theirs, abs=1e-4)


async def test_a_model_of_self_rags_is_written_to_as_its_authors_do():
    said = ["[Relevant] Heparin. [Fully supported][Utility:5][Retrieval]", "[Relevant] It helps."]
    played = await play("self_rag[mode=tokens,retrieval=always,top_k=1,segments=2]", said, LONG)
    first, second = (cards()["selfrag"].render(asked.messages, asked.prefix) for asked in played.model.requests)
    asked = f"### Instruction:\n{Q}\n\n### Response:\n"
    passage = "[Retrieval]<paragraph>Title 1\nText of passage 1.</paragraph>"
    assert first == f"{asked}{passage}"
    assert second == f"{asked}[Relevant] Heparin. [Fully supported][Utility:5]{passage}"
    assert played.attempt.text == "Heparin. It helps."
