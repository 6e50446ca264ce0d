"""Three shapes of strategies, for their files to fill: a loop, a branch and a vote.

A strategy is then its prompts, its decisions and its limits. Each function takes nodes (a node's name is its
function's) and what decides between them, a function of state and context.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ragrounds.base.contracts import Context
from ragrounds.base.errors import UserError
from ragrounds.base.records import Message, Passage, Query
from ragrounds.graphs.answer_prompts import answer_prompt, conclude_prompt
from ragrounds.graphs.documents import fitted, shown
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
    """The nodes of `circle`, round and round, until `over` holds after a node of `leave`: then the answer."""
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
    judged: Callable[[Any, Context], str],
    ways: Mapping[str, Sequence[Node]],
    answer: Node,
    more: Ways | None = None,
) -> Graph:
    """The nodes of `before`, then those of the way that `judged` names, then the answer.

    Args:
        state: what travels between the nodes.
        before: the last one judges.
        judged: gives a key of `ways`.
        ways: nodes by name of the way; ways may end in the same nodes. An empty one leads to the answer at once.
        answer: the last node of all.
        more: ways that lead elsewhere, by the name of the node that they leave.
    """
    chains = {way: [node.__name__ for node in (*nodes, answer)] for way, nodes in ways.items()}

    def decided(state: Any, runtime: Runtime[Context]) -> str:
        return chains[judged(state, runtime.context)][0]

    onward: dict[str, Any] = {one: other for chain in chains.values() for one, other in itertools.pairwise(chain)}
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
    """The nodes of `before`, if any, then `attempt` once for each state that `attempts` gives, all at the same time,
    then the nodes of `after`. What the attempts write, a reducer of the state joins in their order. `more`: as of
    :func:`branch`."""
    join = after[0].__name__

    def spread(state: Any, runtime: Runtime[Context]) -> Any:
        from langgraph.types import Send

        return [Send(attempt.__name__, one) for one in attempts(state, runtime.context)] or join

    nodes = {node.__name__: node for node in (*before, attempt, *after)}
    return graph_of(
        state, nodes, {before[-1].__name__ if before else START: (spread, [attempt.__name__, join]), **(more or {})}
    )


async def searched(context: Context, k: int) -> list[str]:
    """Ids of the passages that the question's stem finds."""
    return [passage.id for passage in await context.search(Query.of(context.stem), k)]


async def read(
    context: Context, name: str, passages: Sequence[Passage], *, role: str = "reading", **values: str
) -> str:
    """What the model writes of passages by a prompt, which gets the question's stem and `values` too."""

    def prompt(documents: str) -> tuple[Message, ...]:
        given = {"question": context.stem.text, **values, "documents": documents}
        return context.prompts.render(name, context.stem.language, **given)

    kept = passages if role == "answering" else fitted(context, passages, prompt, role=role)  # two windows may differ
    reply = await context.ask(prompt(shown(context, kept, prompt)), role=role)
    return without_thought(reply.text)


async def answered(context: Context, documents: Sequence[Passage] | str) -> State:
    """The answer, the options shown: from passages, or from a text in their place."""
    if isinstance(documents, str):
        documents = ending(context, documents or "(none)", context.room(answer_prompt(context, "")))
    else:
        documents = shown(context, documents, lambda documents: answer_prompt(context, documents))
    return {"answer": (await context.ask(answer_prompt(context, documents))).text}


async def concluded(context: Context, parts: Sequence[str]) -> State:
    """The answer that was written in parts without sight of the options, mapped to one of them; to a long question it
    is the parts themselves."""
    text = " ".join(parts)
    if not context.question.options:
        return {"answer": text}
    return {"answer": (await context.ask(conclude_prompt(context, text, parts[-1]))).text}


def by_rank(found: Sequence[Sequence[str]], most: int) -> list[str]:
    """Ids of several lists, all first ones first, each once, at most so many."""
    ids = itertools.chain.from_iterable(itertools.zip_longest(*found))
    return list(dict.fromkeys(id for id in ids if id))[:most]


def joined(before: Sequence[str], found: Iterable[Passage], most: int | None = None) -> list[str]:
    """Ids of passages, each once, in the order in which they were found, at most so many."""
    return list(dict.fromkeys([*before, *(passage.id for passage in found)]))[:most]


_SENTENCE = re.compile(
    r"(?:[。！？]|(?<!\bDr)(?<!\bvs)(?<!\bal)(?<!\bSt)(?<!\bFig)[.!?](?=[\"')\]”]*(?:\s+[^\sa-z]|\s*\Z)))[\"')\]”]*|\n"
)
"""Where a sentence ends: a small letter after a full stop says that it was an abbreviation's."""


def sentences(text: str) -> list[str]:
    """All sentences of a text, each with its mark of punctuation; a line that has none is one."""
    ends = [0, *(found.end() for found in _SENTENCE.finditer(text)), len(text)]
    return [one for start, end in itertools.pairwise(ends) if (one := text[start:end].strip())]


def number(context: Context, name: str, default: float) -> float:
    """A parameter that is a number.

    Raises:
        UserError: it is something else.
    """
    value = context.parameters.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UserError(f"{name} must be a number, not {str(value)!r}.")
    return float(value)


def read_object(text: str) -> dict[str, Any]:
    """The JSON object in what a model wrote; empty: there is none that can be read."""
    start, stop = text.find("{"), text.rfind("}")
    try:
        read = json.loads(text[start : stop + 1], strict=False) if 0 <= start < stop else {}
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}
