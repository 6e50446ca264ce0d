"""`medagents`: experts analyse the question and its options, agree on a report, and it decides (Tang et al., 2024).

Section 3, as in the authors' code: `question_experts` (5) and `option_experts` (2) are gathered; those of the question
analyse it without its options, those of the options weigh each by these analyses; a report is made of all. Every
expert votes on it; those who object say how to revise it; it is revised and voted on again, at most `votes` (3) times.

A ballot is its first word of consent or of refusal ("I do not agree" refuses); one that holds neither consents, with
the note `unclear_ballot`. ``ballots=letters`` reads it as the authors' program does: the first "yes" or "no", also
inside a word ("I know" refuses), and consent where neither is there.

Sees the options: all nodes but `gather` and `analyse`; nothing is searched. Differs: experts come as JSON, where
theirs are between marks, and each once. A long question has no experts for options.
"""

from __future__ import annotations

import operator
import re
from typing import Annotated

from ragrounds.base.contracts import Context
from ragrounds.graphs.answer_prompts import PROMPTS as ANSWERING
from ragrounds.graphs.model_text import without_thought
from ragrounds.graphs.shapes import vote
from ragrounds.graphs.state import Graph, Runtime, choice, int_parameter
from ragrounds.graphs.state import State as Shared
from ragrounds.graphs.voices import experts, numbered, say

_BRIEFS = ("experts", "option_experts", "analyse", "weigh", "report", "ballot", "advise", "revise", "decide")
PROMPTS = (*ANSWERING, *(f"medagents/{name}" for name in _BRIEFS))

_BALLOTS = {
    "words": re.compile(r"\b(?:(yes|agrees?|no objections?)|no|not|cannot|disagrees?)\b|n['’]t\b", re.I | re.ASCII),
    "letters": re.compile(r"(yes)|no", re.IGNORECASE),
}
"""Ways to read a ballot → its words of consent, which are a group, and of refusal. The first match counts."""


class State(Shared, total=False):
    askers: list[str]
    """Experts for the question."""
    weighers: list[str]
    """Experts for its options."""
    expert: str
    """Expert of one analysis."""
    analyses: Annotated[list[str], operator.add]
    report: str
    advice: str
    """Advice of the experts who objected in the last vote."""
    votes: int


def build() -> Graph:
    """Build the graph.

    START → gather → gather_further → analyse, for each expert → weigh → report → consult ⇄ revise → answer → END.
    """

    def after_revision(state: State, runtime: Runtime[Context]) -> str:
        """Return the next node: another vote, or the answer if all votes are used."""
        if state["votes"] < int_parameter(runtime.context, "votes", 3):
            return "consult"
        runtime.context.note("no_consensus", "the report was revised after the last vote and not voted on again")
        return "answer"

    return vote(
        State,
        gather,
        gather_further,
        attempts=lambda state, context: [{"expert": expert} for expert in state["askers"]],
        attempt=analyse,
        after=[weigh, report, consult, revise, answer],
        more={
            "consult": (lambda state: "revise" if state["advice"] else "answer", ["revise", "answer"]),
            "revise": (after_revision, ["consult", "answer"]),
        },
    )


async def gather(state: State, runtime: Runtime[Context]) -> State:
    """Ask the model for experts on the question."""
    context, expert_limit = runtime.context, int_parameter(runtime.context, "question_experts", 5)
    text = await say(context, "medagents/experts", "stem", number=str(expert_limit))
    return {"askers": experts(context, text, expert_limit)}


async def gather_further(state: State, runtime: Runtime[Context]) -> State:
    """Ask the model for experts on the question's options."""
    context, expert_limit = runtime.context, int_parameter(runtime.context, "option_experts", 2, 0)
    if not (context.question.options and expert_limit):
        return {"weighers": []}
    text = await say(context, "medagents/option_experts", "question", number=str(expert_limit))
    return {"weighers": experts(context, text, expert_limit)}


async def analyse(state: State, runtime: Runtime[Context]) -> State:
    """Ask an expert to analyse the question."""
    return {"analyses": [await say(runtime.context, "medagents/analyse", "stem", expert=state["expert"])]}


async def weigh(state: State, runtime: Runtime[Context]) -> State:
    """Ask the other experts for their views of the options."""
    seen = {"Analyses": numbered(state["analyses"], state["askers"])}
    return {
        "analyses": [
            await say(runtime.context, "medagents/weigh", "question", seen, expert=expert)
            for expert in state["weighers"]
        ]
    }


async def report(state: State, runtime: Runtime[Context]) -> State:
    """Ask for a report of all analyses."""
    seen = {"Analyses": numbered(state["analyses"], [*state["askers"], *state["weighers"]])}
    return {"report": await say(runtime.context, "medagents/report", "question", seen)}


async def consult(state: State, runtime: Runtime[Context]) -> State:
    """Ask all experts to vote on the report, and those who object to advise."""
    context, seen, advice = runtime.context, {"Report": state["report"]}, dict[str, str]()
    ballots = _BALLOTS[choice(context, "ballots", _BALLOTS)]
    for expert in [*state["askers"], *state["weighers"]]:
        reply = without_thought(await say(context, "medagents/ballot", "question", seen, expert=expert))
        ballot = ballots.search(reply)
        if ballot is None:
            context.note("unclear_ballot", f"{expert}: {reply[:200]}")
        elif ballot[1] is None:
            advice[expert] = await say(context, "medagents/advise", "question", seen, expert=expert)
    return {"advice": numbered([*advice.values()], [*advice]), "votes": state.get("votes", 0) + 1}


async def revise(state: State, runtime: Runtime[Context]) -> State:
    """Ask for a revision of the report by the advice."""
    seen = {"Report": state["report"], "Advice": state["advice"]}
    return {"report": await say(runtime.context, "medagents/revise", "question", seen)}


async def answer(state: State, runtime: Runtime[Context]) -> Shared:
    """Ask for the answer by the report."""
    return {"answer": await say(runtime.context, "medagents/decide", "answer", {"Report": state["report"]})}
