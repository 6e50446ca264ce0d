"""`query_generation`: write a text first and search with it (R2MED, Tables 3 and 4).

* ``hyde``: a hypothetical document, zero-shot (Gao et al., 2022).
* ``query2doc``: the same after two fixed examples (Wang et al., 2023).
* ``lamer``: the same after the ten passages that the question itself finds, 512 words of each (Shen et al., 2023). The
  paper takes them by BM25; here it is the agent's own retriever, which is BM25 unless it says otherwise.
* ``answer[agent=search_o1]``: the final answer of any agent, its reasoning left out, with HyDE's combination.

The combination of text and question to a query is a table (R2MED, Section 4.2 and Appendix E.2): lexical retrievers get
one string, dense retrievers one or several, whose vectors' mean is searched for.

One text a query (the first HyDE took eight). The graph is put before any retriever: it reads nothing but the
question's stem and writes `query` and `dense`. As an agent of its own its answer is the text, which a judge can mark;
with ``documents=10`` it also searches for that many passages with the query, so that right texts are shown next to the
passages that they find (R2MED, Figure 5). No node of it sees the options, and an agent that answers here gets a
question without options.
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
from ragrounds.graphs.documents import fitted, render_documents
from ragrounds.graphs.model_text import without_thought
from ragrounds.graphs.shapes import searched
from ragrounds.graphs.state import END, START, Graph, Runtime, graph_of, int_parameter, word

QueryPart = Literal["text", "document"]
"""Part of a query: the question's own text, or the text generated for it."""
SEPARATOR = " [SEP] "


class CombinationRule(Struct, frozen=True):
    """Row of the table."""

    lexical: tuple[QueryPart, ...]
    """Parts that are joined by spaces."""
    dense: tuple[tuple[QueryPart, ...], ...]
    """Strings: each inner tuple is one string, joined by ``[SEP]``. The mean is taken over the outer tuple."""


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
    """Return the query for a question's `text` and the `document` generated for it."""
    parts: dict[QueryPart, str] = {"text": text, "document": document}
    rule = RULES[way]
    return Query(
        " ".join(parts[part] for part in rule.lexical),
        tuple(SEPARATOR.join(parts[part] for part in group) for group in rule.dense),
    )


PROMPTS = ("query_generation/hyde", "query_generation/query2doc", "query_generation/lamer")
CANDIDATES, WORDS = 10, 512


class GeneratedQuery(TypedDict, total=False):
    """Output for a graph that contains this graph."""

    query: str | None
    """Query of lexical retrievers."""
    dense: list[str]
    """Texts whose vectors' mean dense retrievers search for."""


class State(GeneratedQuery, total=False):
    candidates: list[str]
    """Ids of the passages that LameR shows."""
    document: str
    """Generated text."""
    answer: str
    """Generated text, if this graph is an agent of its own (R2MED, Figure 5, judges it)."""


def build() -> Graph:
    """Build the graph START → (candidates →) generate → combine (→ search) → END."""

    def first(state: State, runtime: Runtime[Context]) -> str:
        return "candidates" if way(runtime.context).name == "lamer" else "generate"

    def after_combination(state: State, runtime: Runtime[Context]) -> str:
        return "search" if int_parameter(runtime.context, "documents", 0, least=0) else END

    nodes = {"candidates": candidates, "generate": generate, "combine": combine, "search": search}
    ways = {START: (first, ["candidates", "generate"]), "combine": (after_combination, ["search", END])}
    return graph_of(State, nodes, ways, output=GeneratedQuery)


def nests(parameters: Mapping[str, Value]) -> bool:
    """Return True if another graph runs inside this one: see :func:`ragrounds.graphs.catalogue.nests`."""
    return str(parameters.get("query_generation", "")).startswith("answer")


def way(context: Context) -> Spec:
    """Return the agent's way of generation.

    Raises:
        UserError: the name is unknown, or `answer` names no agent.
    """
    spec = parse(word(context, "query_generation", "hyde"))
    if spec.name not in RULES:
        raise UserError(
            f"Unknown query_generation {spec.name!r}.{nearest(spec.name, RULES)} Known: {', '.join(RULES)}."
        )
    if spec.name == "answer" and "agent" not in spec.parameters:
        raise UserError("query_generation=answer needs an agent, such as answer[agent=search_o1].")
    return spec


async def candidates(state: State, runtime: Runtime[Context]) -> State:
    """Find the passages that LameR shows the model."""
    return {"candidates": await searched(runtime.context, CANDIDATES)}


async def generate(state: State, runtime: Runtime[Context]) -> State:
    """Ask the model for the text, by the agent's way of generation."""
    context, generation = runtime.context, way(runtime.context)
    if generation.name == "answer":
        return {"document": without_thought(await context.answer_of(str(generation.parameters["agent"])))}
    values = {"question": context.stem.text}

    def prompt(documents: str) -> tuple[Message, ...]:
        """Render the prompt with these documents, if the way of generation shows any."""
        extra = {"documents": documents} if generation.name == "lamer" else {}
        return context.prompts.render(f"query_generation/{generation.name}", context.stem.language, **values, **extra)

    passages = [context.passage(id) for id in state.get("candidates", [])]
    short = [replace(passage, text=" ".join(passage.text.split(maxsplit=WORDS)[:WORDS])) for passage in passages]
    fitting = fitted(context, short, prompt, role="querying") if short else ()
    reply = await context.ask(prompt(render_documents(fitting)), role="querying")
    return {"document": without_thought(reply.text)}


async def combine(state: State, runtime: Runtime[Context]) -> State:
    """Combine question and text to the query. Without a text, the question is the query."""
    context, document = runtime.context, state.get("document", "")
    if not document:
        context.note("nothing_generated", "the question itself is searched for")
        return {"query": context.stem.text, "dense": [], "answer": ""}
    query = combined(way(context).name, context.stem.text, document)
    return {"query": query.text, "dense": list(query.dense), "answer": document}


async def search(state: State, runtime: Runtime[Context]) -> State:
    """Search for the query. No node reads the passages."""
    query = Query(str(state.get("query")), tuple(state.get("dense", [])))
    await runtime.context.search(query, int_parameter(runtime.context, "documents", 0, least=0))
    return {}
