"""The built-in graphs for LangGraph's server and Studio: `langgraph dev` opens each by its name (``langgraph.json``).

Each is a graph of one node, inside which the built-in graph runs as in an attempt of a run: with its prompts, the caps
of its agent and the journal of the user's home, so that a repeated question is not paid for again. The context
(:class:`StudioChoices`) chooses the model. Only the settings of the server's owner choose its address, since any page
of the web may send requests. No attempt is stored.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from langgraph.graph import StateGraph
from langgraph.runtime import Runtime
from msgspec import structs
from typing_extensions import TypedDict

from ragrounds.agents.agent import open_agent
from ragrounds.api.agent_texts import recipe_of
from ragrounds.api.run_request import RunArguments
from ragrounds.api.servers import probe_model_servers
from ragrounds.api.workspace import chosen_settings, closing, open_store
from ragrounds.base.errors import UserError, unknown
from ragrounds.base.records import Question
from ragrounds.base.specs import Spec
from ragrounds.evals.benchmarks import load
from ragrounds.evals.engine.context import AttemptContext
from ragrounds.evals.engine.plan import OpenedAgent, asked_models, open_agents
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.graphs import catalogue
from ragrounds.models.options import starts_server
from ragrounds.models.providers import BASELINE
from ragrounds.prompts.loader import PromptFolder

_AGENT_OF_PART = {"reason_in_documents": "search_o1"}
"""Graphs that are no agent's → the agent whose parameters they use; their input is the question as a query."""


_MODEL = re.compile(r"(?:[\w.-]+:[\w./:@-]+)?", re.ASCII)
_NAME = re.compile(r"[\w.-]*", re.ASCII)


class StudioQuestion(TypedDict, total=False):
    """Question, as it is typed in Studio."""

    question: str
    options: dict[str, str]
    """Options by letter; empty for an open question."""
    language: str
    gold: list[str]
    """Ids of the documents that hold the answer, only for the oracle."""


class StudioAnswer(TypedDict, total=False):
    """Answer with the final state of the built-in graph, and the number of its calls."""

    answer: str
    choice: str
    found: dict[str, Any]
    calls: dict[str, int]


class _State(StudioQuestion, StudioAnswer, total=False):
    pass


@dataclass(frozen=True)
class StudioChoices:
    """Choices of the context. Empty fields are as in the settings, or as for the sample benchmark."""

    model: str = ""
    """Model as ``PROVIDER:NAME``."""
    corpus: str = ""
    """Name of an index."""
    parameters: dict[str, Any] = field(default_factory=dict)
    """Parameters of the graph, such as ``{"top_k": 8}``."""


def studio_graph(name: str) -> Any:
    """Compile a built-in graph for LangGraph's server.

    Raises:
        UserError: the graph is unknown.
    """
    inner = catalogue.build(name).compile(name=name)

    async def attempt(state: StudioQuestion, runtime: Runtime[StudioChoices]) -> StudioAnswer:
        """Answer the question by the built-in graph."""
        options = state.get("options") or {}
        question = Question(
            id="studio",
            benchmark="studio/studio",
            text=state.get("question", ""),
            kind="choice" if options else "long",
            options=options,
            language=state.get("language") or "en",
        )
        gold = tuple(state.get("gold") or ())
        inputs = {"query": question.text} if name in _AGENT_OF_PART else {}
        async with _attempt_context(name, runtime.context or StudioChoices(), question, gold) as context:
            final_state = await inner.ainvoke(inputs, context=context)
            calls = {kind: count for kind, count in context.calls.items() if count}
        return {
            "answer": final_state.get("answer", ""),
            "choice": final_state.get("choice", ""),
            "found": final_state,
            "calls": calls,
        }

    graph = StateGraph(_State, context_schema=StudioChoices, input_schema=StudioQuestion, output_schema=StudioAnswer)
    graph.add_node(name, attempt)
    graph.add_edge("__start__", name)
    graph.add_edge(name, "__end__")
    return graph.compile(name=name)


@asynccontextmanager
async def _attempt_context(
    name: str, choices: StudioChoices, question: Question, gold: tuple[str, ...]
) -> AsyncIterator[AttemptContext]:
    """Open the context of one attempt with its store, models and journal, until the block ends."""
    # In a thread, as the server forbids file access on its event loop.
    store, opened = await asyncio.to_thread(_open_agent, name, choices)
    agent, journal = opened.agent, await asyncio.to_thread(StoreJournal, store)
    try:
        async with closing(opened.all_models, journal):
            yield AttemptContext(
                item=question,
                epoch=0,
                parameters=agent.parameters,
                models=opened.models,
                searcher=opened.searcher,
                toolbox=opened.tools,
                prompts=PromptFolder(agent.card.prompts, agent.layout),
                journal=journal,
                limits=agent.caps,
                question_only=agent.card.question_only,
                gold=gold if agent.card.oracle else None,
            )
    finally:
        await asyncio.to_thread(store.close)


def _open_agent(name: str, choices: StudioChoices) -> tuple[Store, OpenedAgent]:
    settings, agent = chosen_settings(), _AGENT_OF_PART.get(name, name)
    if not _MODEL.fullmatch(choices.model) or starts_server(choices.model or BASELINE):
        raise UserError(f"The model {choices.model!r} is not PROVIDER:NAME; RAGROUNDS_BASE_URL says where it is asked.")
    if not _NAME.fullmatch(choices.corpus):
        raise UserError(f"The corpus {choices.corpus!r} is not the name of an index: see `ragrounds index ls`.")
    for key in choices.parameters:
        if key not in (parameters := open_agent(agent).parameters) or key in catalogue.agents_in(name):
            raise unknown("parameter", key, parameters, "ragrounds list agents " + agent)
    request = RunArguments(
        agents=(str(Spec(agent, choices.parameters)),),
        model=choices.model or None,
        corpus=choices.corpus or None,
        settings=settings,
    )
    recipe = recipe_of(request, load("sample", settings.home))
    store = open_store(settings)
    probed = probe_model_servers(store, asked_models(recipe))
    recipe = structs.replace(recipe, served=probed.texts, servers=probed.facts)
    return store, open_agents(recipe, settings.home)[0]


globals().update({name: studio_graph(name) for name in catalogue.names()})  # the server reads names from `__dict__`
