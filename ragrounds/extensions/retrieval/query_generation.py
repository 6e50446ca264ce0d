"""Queries that a model writes before the search: `ragrounds retrieve --query-generation hyde` (R2MED, Tables 3, 4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from ragrounds.agents.agent import Agent, Limits, open_agent
from ragrounds.base.contracts import Journal, Model, Searcher
from ragrounds.base.records import Noted, Query, Question
from ragrounds.base.specs import Spec, parse
from ragrounds.base.spent import Spent, total_spent
from ragrounds.base.text import language_of
from ragrounds.evals.engine.attempt_log import AttemptEnded
from ragrounds.evals.engine.context import AttemptContext
from ragrounds.graphs import catalogue
from ragrounds.models.faults import CallFailed
from ragrounds.models.prices import Price
from ragrounds.prompts.loader import PromptFolder


class GeneratedQuery(Struct, frozen=True, kw_only=True):
    """A generated query, with its tokens and costs."""

    query: Query
    spent: Spent
    notes: tuple[Noted, ...]
    failed: str = ""
    """Reason why nothing could be generated; the query is then the text itself.

    Costs include what was paid until then.
    """


class QueryGenerator:
    """Generator of queries from texts, by the graph `query_generation`. Its calls are journaled.

    :meth:`query` gives the lexical query, and the texts whose vectors' mean a dense retriever searches for.
    """

    def __init__(
        self,
        way: str | Spec,
        models: Mapping[str, Model],
        searcher: Searcher | None,
        journal: Journal,
        *,
        prompts: str | None = None,
        prices: Mapping[str, Price] = MappingProxyType({}),
    ) -> None:
        """Open a way of generation, such as ``hyde`` or ``answer[agent=search_o1]``.

        Args:
            way: spec of the way of generation.
            models: models by role; ``model`` is required.
            searcher: searched by LameR and by searching agents; the others need none.
            journal: records the calls.
            prompts: folder of custom prompts.
            prices: custom prices of the models that the searcher uses.

        Raises:
            UserError: unknown way or agent.
        """
        spec = parse(way) if isinstance(way, str) else way
        self.agent: Agent = open_agent(Spec("query_generation", {"query_generation": str(spec)}))
        self._graph: Any = catalogue.build("query_generation").compile()
        self._models, self._searcher, self._journal = models, searcher, journal
        self._prompts, self._prices = PromptFolder(prompts), prices

    async def query(self, text: str) -> GeneratedQuery:
        """Generate the query for a text. It is the text itself if a call failed or the provider refused.

        Raises:
            StopRun: the model cannot be asked at all (wrong key, unknown model, server gone).
        """
        session = AttemptContext(
            item=Question(id="query", benchmark="retrieval", text=text, kind="long", language=language_of(text)),
            epoch=0,
            parameters=self.agent.parameters,
            models=self._models,
            searcher=self._searcher,
            prompts=self._prompts,
            journal=self._journal,
            prices=self._prices,
            limits=Limits(),
        )
        query, failed = Query(text), ""
        try:
            state = await self._graph.ainvoke({}, context=session)
            query = Query(state["query"], tuple(state["dense"]))
        except (CallFailed, AttemptEnded) as error:
            failed = str(error)
        return GeneratedQuery(
            query=query,
            spent=session.spent,
            notes=tuple(event for event in session.events if isinstance(event, Noted)),
            failed=failed,
        )


class GeneratedQueries(Struct, frozen=True, kw_only=True):
    """Queries that were generated for a set of queries, with their tokens and costs."""

    queries: dict[str, Query]
    """Query id → generated query, or the query itself if nothing could be generated."""
    failed: dict[str, str]
    """Query id → reason why nothing could be generated."""
    spent: Spent


async def generate(
    rewriter: QueryGenerator,
    queries: Mapping[str, str],
    *,
    concurrency: int = 16,
    progress: Callable[[int], None] = lambda done: None,
) -> GeneratedQueries:
    """Generate a query for each text, with many calls in flight.

    If nothing can be generated for a query, the query itself is searched and counted: to leave it out would change the
    set that the mean is taken over.

    Raises:
        StopRun: the model cannot be asked at all (wrong key, unknown model, server gone).
    """
    generated: dict[str, Query] = {}
    failed: dict[str, str] = {}
    parts: list[Spent] = []
    remaining = iter(queries.items())

    async def _work() -> None:
        for id, text in remaining:
            generated_query = await rewriter.query(text)
            generated[id] = generated_query.query
            if generated_query.failed:
                failed[id] = generated_query.failed
            parts.append(generated_query.spent)
            progress(len(generated))

    async with asyncio.TaskGroup() as group:
        for _ in range(max(1, concurrency)):
            group.create_task(_work())
    return GeneratedQueries(
        queries={id: generated[id] for id in queries},
        failed=failed,
        spent=total_spent(parts),
    )
