"""`query_generation`: write a text first and search with it (R2MED, Tables 3 and 4).

* ``hyde``: a hypothetical document, zero-shot (Gao et al., 2022).
* ``query2doc``: the same after two fixed examples (Wang et al., 2023).
* ``lamer``: the same after the ten passages that the question itself finds, 512 words of each (Shen et al., 2023). The
  paper takes them by BM25; here it is the agent's own retriever, which is BM25 unless it says otherwise.
* ``answer[agent=search_o1]``: the final answer of any agent, its reasoning left out, with HyDE's combination.

How the text and the question become a query is a table (R2MED, Section 4.2 and Appendix E.2): lexical retrievers get
one string, dense retrievers one or several, whose vectors' mean is searched for.

One text a query (the first HyDE took eight). The graph stands in front of any retriever: it reads nothing but the
question's stem and writes `query` and `dense`. As an agent of its own its answer is the text, which a judge can mark;
with ``documents=10`` it also searches for that many passages with the query, so that right texts stand beside what
they find (R2MED, Figure 5). The options are seen by no node of it, and an agent that answers here is given a question
without options.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace
from typing_extensions import TypedDict

from ragrounds.base.contracts import Context
from ragrounds.base.errors import UserError, nearest
from ragrounds.base.records import Message, Query
from ragrounds.base.specs import Spec, Value, parse
from ragrounds.graphs.documents import fitted, written
from ragrounds.graphs.model_text import without_thought
from ragrounds.graphs.state import END, START, Graph, Runtime, graph_of, whole, word

QueryPart = Literal["text", "document"]
"""The question's own text, or what was generated for it."""
SEPARATOR = " [SEP] "


class CombinationRule(Struct, frozen=True):
    """One row of the table."""

    lexical: tuple[QueryPart, ...]
    """Joined by spaces."""
    dense: tuple[tuple[QueryPart, ...], ...]
    """Each inner tuple is one string, joined by ``[SEP]``; the mean is taken over the outer one."""


_MEAN: tuple[tuple[QueryPart, ...], ...] = (("text",), ("document",))
RULES: Mapping[str, CombinationRule] = MappingProxyType(
    {
        "hyde": CombinationRule(lexical=("document",), dense=_MEAN),
        "query2doc": CombinationRule(lexical=("text", "text", "document"), dense=(("text", "document"),)),
        "lamer": CombinationRule(lexical=("text", "document"), dense=_MEAN),
        "answer": CombinationRule(lexical=("document",), dense=_MEAN),
    }
)


def combined(way: str, text: str, document: str) -> Query:
    """The query for a question's `text` and the `document` generated for it."""
    parts: dict[QueryPart, str] = {"text": text, "document": document}
    rule = RULES[way]
    return Query(
        " ".join(parts[part] for part in rule.lexical),
        tuple(SEPARATOR.join(parts[part] for part in group) for group in rule.dense),
    )


PROMPTS = ("query_generation/hyde", "query_generation/query2doc", "query_generation/lamer")
CANDIDATES, WORDS = 10, 512


class Made(TypedDict, total=False):
    """What a graph that holds this one gets."""

    query: str | None
    """What lexical retrievers search for."""
    dense: list[str]
    """Texts whose vectors' mean dense retrievers search for."""


class State(Made, total=False):
    candidates: list[str]
    """Ids of the passages that LameR shows."""
    document: str
    """What was generated."""
    answer: str
    """The same, where this graph is an agent of its own (R2MED, Figure 5, judges it)."""


def build() -> Graph:
    """START → (candidates →) generate → combine (→ search) → END."""
    nodes = {"candidates": candidates, "generate": generate, "combine": combine, "search": search}
    ways = {START: (_first, ["candidates", "generate"]), "combine": (_then, ["search", END])}
    return graph_of(State, nodes, ways, output=Made)


def nests(parameters: Mapping[str, Value]) -> bool:
    """Whether another graph runs inside this one: see :func:`ragrounds.graphs.catalogue.nests`."""
    return str(parameters.get("query_generation", "")).startswith("answer")


def way(context: Context) -> Spec:
    """The agent's way of generation.

    Raises:
        UserError: there is none of that name, or `answer` names no agent.
    """
    given = parse(word(context, "query_generation", "hyde"))
    if given.name not in RULES:
        raise UserError(
            f"Unknown query_generation {given.name!r}.{nearest(given.name, RULES)} Known: {', '.join(RULES)}."
        )
    if given.name == "answer" and "agent" not in given.parameters:
        raise UserError("query_generation=answer needs an agent, such as answer[agent=search_o1].")
    return given


def _first(state: State, runtime: Runtime[Context]) -> str:
    return "candidates" if way(runtime.context).name == "lamer" else "generate"


def _then(state: State, runtime: Runtime[Context]) -> str:
    return "search" if whole(runtime.context, "documents", 0, least=0) else "__end__"


async def candidates(state: State, runtime: Runtime[Context]) -> State:
    """Find the passages that LameR shows the model."""
    found = await runtime.context.search(Query.of(runtime.context.stem), CANDIDATES)
    return {"candidates": [passage.id for passage in found]}


async def generate(state: State, runtime: Runtime[Context]) -> State:
    """Have the text written, by the agent's way of generation."""
    context, chosen = runtime.context, way(runtime.context)
    if chosen.name == "answer":
        return {"document": without_thought(await context.answer_of(str(chosen.parameters["agent"])))}
    values = {"question": context.stem.text}

    def prompt(documents: str) -> tuple[Message, ...]:
        """With these documents, where the way of generation shows any."""
        shown = {"documents": documents} if chosen.name == "lamer" else {}
        return context.prompts.render(f"query_generation/{chosen.name}", context.stem.language, **values, **shown)

    found = [context.passage(id) for id in state.get("candidates", [])]
    short = [replace(passage, text=_first_words(passage.text)) for passage in found]
    kept = fitted(context, short, prompt, role="querying") if short else ()
    reply = await context.ask(prompt(written(kept)), role="querying")
    return {"document": without_thought(reply.text)}


async def combine(state: State, runtime: Runtime[Context]) -> State:
    """Combine question and text into what is searched for; without a text, search for the question."""
    context, document = runtime.context, state.get("document", "")
    if not document:
        context.note("nothing_generated", "the question itself is searched for")
        return {"query": context.stem.text, "dense": [], "answer": ""}
    query = combined(way(context).name, context.stem.text, document)
    return {"query": query.text, "dense": list(query.dense), "answer": document}


async def search(state: State, runtime: Runtime[Context]) -> State:
    """Find what the query finds; nobody reads it."""
    query = Query(str(state.get("query")), tuple(state.get("dense", [])))
    await runtime.context.search(query, whole(runtime.context, "documents", 0, least=0))
    return {}


def _first_words(text: str) -> str:
    words = text.split(maxsplit=WORDS)
    return " ".join(words[:WORDS])
