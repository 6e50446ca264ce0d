"""Three shapes of strategies, for their files to fill: a loop, a branch and a vote.

A strategy is then its prompts, its decisions and its limits. Each function takes nodes (a node's name is its
function's) and functions of state and context that decide between them.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ragrounds.base.contracts import Context, json_schema
from ragrounds.base.errors import UserError
from ragrounds.base.records import Message, Passage, Query
from ragrounds.base.replies import json_objects
from ragrounds.graphs.answer_prompts import answer_prompt, conclude_prompt
from ragrounds.graphs.documents import fitted, render_documents_for
from ragrounds.graphs.model_text import ending, without_thought
from ragrounds.graphs.state import START, Graph, Runtime, State, Ways, graph_of

Node = Callable[..., Any]


def loop(
    state: type,
    *circle: Node,
    leave: Node | tuple[Node, ...],
    over: Callable[[Any, Context], bool],
    answer: Node,
) -> Graph:
    """Build a graph that repeats the nodes of `circle` until `over` holds after a node of `leave`.

    The answer follows.
    """
    names = [node.__name__ for node in circle]
    ways: dict[str, Any] = dict(zip(names, [*names[1:], names[0]], strict=True))
    for node in leave if isinstance(leave, tuple) else (leave,):
        onward = ways[node.__name__]

        def decided(state: Any, runtime: Runtime[Context], onward: str = onward) -> str:
            return answer.__name__ if over(state, runtime.context) else onward

        ways[node.__name__] = decided, [onward, answer.__name__]
    return graph_of(state, {node.__name__: node for node in (*circle, answer)}, ways)


def branch(
    state: type,
    *before: Node,
    choose_branch: Callable[[Any, Context], str],
    ways: Mapping[str, Sequence[Node]],
    answer: Node,
    more: Ways | None = None,
) -> Graph:
    """Build a graph with the nodes of `before`, then those of the way that `choose_branch` names, then the answer.

    Args:
        state: type of the state between the nodes.
        before: nodes of which the last one judges.
        choose_branch: returns a key of `ways`.
        ways: nodes by name of the way; ways may end in the same nodes. An empty one leads to the answer at once.
        answer: the last node of all.
        more: ways that lead elsewhere, by the name of the node that they leave.
    """
    chains = {way: [node.__name__ for node in (*nodes, answer)] for way, nodes in ways.items()}

    def decided(state: Any, runtime: Runtime[Context]) -> str:
        return chains[choose_branch(state, runtime.context)][0]

    onward: dict[str, Any] = {first: second for chain in chains.values() for first, second in itertools.pairwise(chain)}
    onward[before[-1].__name__] = decided, sorted({chain[0] for chain in chains.values()})
    nodes = {node.__name__: node for node in (*before, *itertools.chain.from_iterable(ways.values()), answer)}
    return graph_of(state, nodes, {**onward, **(more or {})})


def vote(
    state: type,
    *before: Node,
    attempts: Callable[[Any, Context], Sequence[Any]],
    attempt: Node,
    after: Sequence[Node],
    more: Ways | None = None,
) -> Graph:
    """Build a graph with the nodes of `before`, if any, then `attempt` once for each state of `attempts`, all at the
    same time, then the nodes of `after`. A reducer of the state joins the updates of the attempts in their order.
    `more` is as in :func:`branch`.
    """
    join = after[0].__name__

    def spread(state: Any, runtime: Runtime[Context]) -> Any:
        from langgraph.types import Send

        return [Send(attempt.__name__, attempt_state) for attempt_state in attempts(state, runtime.context)] or join

    nodes = {node.__name__: node for node in (*before, attempt, *after)}
    return graph_of(
        state, nodes, {before[-1].__name__ if before else START: (spread, [attempt.__name__, join]), **(more or {})}
    )


async def searched(context: Context, k: int) -> list[str]:
    """Return the ids of the passages that the question's stem finds."""
    return [passage.id for passage in await context.search(Query.from_stem(context.stem), k)]


async def read(
    context: Context, name: str, passages: Sequence[Passage], *, role: str = "reading", **values: str
) -> str:
    """Ask the model for a text on passages by a prompt, which gets the question's stem and `values` too."""

    def prompt(documents: str) -> tuple[Message, ...]:
        all_values = {"question": context.stem.text, **values, "documents": documents}
        return context.prompts.render(name, context.stem.language, **all_values)

    # The window of the role's model may be smaller than that of the answering model.
    fitting = passages if role == "answering" else fitted(context, passages, prompt, role=role)
    reply = await context.ask(prompt(render_documents_for(context, fitting, prompt)), role=role)
    return without_thought(reply.text)


async def answered(context: Context, documents: Sequence[Passage] | str | None = None) -> State:
    """Ask for the answer, with the options shown: from passages, from a text in their place, or from neither."""
    if isinstance(documents, str):
        documents = ending(context, documents or "(none)", context.room(answer_prompt(context, "")))
    elif documents is not None:
        documents = render_documents_for(context, documents, lambda documents: answer_prompt(context, documents))
    return {"answer": (await context.ask(answer_prompt(context, documents))).text}


async def concluded(context: Context, reasoning: str, conclusion: str, *, long: str | None = None) -> State:
    """Map a conclusion that was reached without sight of the options to one of them.

    The answer to a long question is `long`, by default the conclusion itself.
    """
    if not context.question.options:
        return {"answer": conclusion if long is None else long}
    return {"answer": (await context.ask(conclude_prompt(context, reasoning, conclusion))).text}


def by_rank(rankings: Sequence[Sequence[str]], limit: int) -> list[str]:
    """Merge lists of ids rank by rank, each id once, at most `limit` of them."""
    ids = itertools.chain.from_iterable(itertools.zip_longest(*rankings))
    return list(dict.fromkeys(id for id in ids if id))[:limit]


def joined(before: Sequence[str], passages: Iterable[Passage], limit: int | None = None) -> list[str]:
    """Return ids of passages, each once, in the order in which they were found, at most `limit` of them."""
    return list(dict.fromkeys([*before, *(passage.id for passage in passages)]))[:limit]


_SENTENCE = re.compile(
    r"(?:[。！？]|(?<!\bDr)(?<!\bvs)(?<!\bal)(?<!\bSt)(?<!\bFig)[.!?](?=[\"')\]”]*(?:\s+[^\sa-z]|\s*\Z)))[\"')\]”]*|\n"
)
"""Pattern of a sentence's end. A full stop before a small letter belongs to an abbreviation."""


def sentences(text: str) -> list[str]:
    """Return all sentences of a text, each with its mark of punctuation. A line without one is a sentence."""
    ends = [0, *(match.end() for match in _SENTENCE.finditer(text)), len(text)]
    return [sentence for start, end in itertools.pairwise(ends) if (sentence := text[start:end].strip())]


def number(context: Context, name: str, default: float) -> float:
    """Return a parameter that is a number.

    Raises:
        UserError: it is not a number.
    """
    value = context.parameters.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UserError(f"{name} must be a number, not {str(value)!r}.")
    return float(value)


async def ask_object(
    context: Context, messages: Sequence[Message], fields: Mapping[str, object], *, role: str = "answering"
) -> str:
    """Return a reply that should be a JSON object, without thoughts.

    A server that can is made to write one. Strategies that a published profile covers do not ask for it: their papers'
    models wrote freely.

    Args:
        context: the attempt.
        messages: the request.
        fields: JSON schema of each key, in the order in which the model writes them.
        role: role of the call.
    """
    schema = {"type": "object", "properties": fields, "required": [*fields], "additionalProperties": False}
    demanded = json_schema("reply", schema) if context.follows_schemas(role=role) else None
    return without_thought((await context.ask(messages, role=role, response_format=demanded)).text)


def read_object(text: str) -> dict[str, Any]:
    """Return the last JSON object in a model's text; empty if no object can be read."""
    return next((parsed for parsed, _, _ in reversed([*json_objects(text)])), {})
