"""`adaptive_rag`: no search, one search, or many, as the question needs (Adaptive-RAG: Jeong et al., 2024, Section 3).

A classifier names what the question needs: A, the model answers from what it knows; B, one search, as `vanilla_rag`;
C, searches and sentences of reasoning in turns, as `ircot`, whose nodes and parameters these are. `one_search` is B's
number of passages, `top_k` that of each of C's searches.

Sees the options: `answer`. Differs: the model itself is asked for the class (`model=` or `reader=`), where the authors
train T5 on which of the three ways answered a question; a reply that names no class counts as B.
"""

from __future__ import annotations

import re
from typing import Literal

from ragrounds.base.contracts import Context
from ragrounds.graphs import ircot
from ragrounds.graphs.model_text import without_thought
from ragrounds.graphs.shapes import answered, branch, searched
from ragrounds.graphs.state import Graph, Runtime, int_parameter
from ragrounds.graphs.state import State as Shared

PROMPTS = (*ircot.PROMPTS, "adaptive_rag/assess")

_CLASS = re.compile(r"(?<![^\W_])([ABC])(?![^\W_])")


class State(ircot.State, total=False):
    needs: Literal["A", "B", "C"]


def build() -> Graph:
    """Build the graph START → assess → (retrieve | search ⇄ reason |) answer → END."""
    return branch(
        State,
        assess,
        choose_branch=lambda state, context: state["needs"],
        ways={"A": [], "B": [retrieve], "C": [ircot.search, ircot.reason]},
        answer=answer,
        more={
            "reason": (
                lambda state, runtime: "answer" if ircot.over(state, runtime.context) else "search",
                ["search", "answer"],
            )
        },
    )


async def assess(state: State, runtime: Runtime[Context]) -> State:
    """Ask the model whether the question needs no search, one search or many."""
    context, stem = runtime.context, runtime.context.stem
    prompt = context.prompts.render("adaptive_rag/assess", stem.language, question=stem.text)
    classes = _CLASS.findall(without_thought((await context.ask(prompt, role="reading")).text))
    if not classes:
        context.note("no_class", "the reply names none of A, B and C; the question is searched for once")
    needs: Literal["A", "B", "C"] = classes[-1] if classes else "B"
    return {"needs": needs}


async def retrieve(state: State, runtime: Runtime[Context]) -> State:
    """Search once, for the question's stem."""
    return {"passages": await searched(runtime.context, int_parameter(runtime.context, "one_search", 15))}


async def answer(state: State, runtime: Runtime[Context]) -> Shared:
    """Ask for the answer, with the passages if something was searched for."""
    if state["needs"] != "A":
        return await ircot.answer(state, runtime)
    return await answered(runtime.context)
