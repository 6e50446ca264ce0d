"""Queries that a model writes before the search: `ragrounds retrieve --query-generation hyde` (R2MED, Tables 3, 4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from ragrounds.agents.agent import Agent, Limits, open_agent
from ragrounds.base.contracts import Journal, Model, Searcher
from ragrounds.base.records import Noted, Query, Question, Usage
from ragrounds.base.specs import Spec, parse
from ragrounds.evals.engine.attempt_log import AttemptEnded
from ragrounds.evals.engine.context import AttemptContext
from ragrounds.graphs import catalogue
from ragrounds.models.faults import CallFailed
from ragrounds.models.prices import Price
from ragrounds.prompts.loader import PromptFolder


class GeneratedQuery(Struct, frozen=True, kw_only=True):
    """A query and what it took to make it."""

    query: Query
    usage: Usage | None
    cost_paid: float | None
    cost_uncached: float | None
    notes: tuple[Noted, ...]
    failed: str = ""
    """Why nothing could be generated: the query is the text itself. What was paid until then is in the costs."""


class QueryGenerator:
    """Makes a query out of a text by the graph `query_generation`. Its calls are journaled.

    :meth:`query` gives the lexical query, and the texts whose vectors' mean a dense retriever searches for.
    """

    def __init__(
        self,
        way: str | Spec,
        models: Mapping[str, Model],
        searcher: Searcher | None,
        journal: Journal,
        *,
        language: str = "en",
        prompts: str | None = None,
        prices: Mapping[str, Price] = MappingProxyType({}),
    ) -> None:
        """Open a way of generation, such as ``hyde`` or ``answer[agent=search_o1]``.

        Args:
            way: The spec of the way.
            models: By role; ``model`` must be there.
            searcher: What LameR, or a searching agent, searches; the others need none.
            journal: Where calls are recorded.
            language: Of the texts.
            prompts: A folder of the user's own prompts.
            prices: The user's own, for what the searcher uses.

        Raises:
            UserError: there is no such way, or no such agent.
        """
        spec = parse(way) if isinstance(way, str) else way
        self.agent: Agent = open_agent(Spec("query_generation", {"query_generation": str(spec)}))
        self._graph: Any = catalogue.build("query_generation").compile()
        self._models, self._searcher, self._journal = models, searcher, journal
        self._language, self._prompts, self._prices = language, PromptFolder(prompts), prices

    async def query(self, text: str) -> GeneratedQuery:
        """The query for a text: the text itself where a call failed or the provider refused.

        Raises:
            StopRun: the model cannot be asked at all (wrong key, unknown model, server gone).
        """
        session = AttemptContext(
            item=Question(id="query", benchmark="retrieval", text=text, kind="long", language=self._language),
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
            usage=session.usage,
            cost_paid=session.cost_paid,
            cost_uncached=session.cost_uncached,
            notes=tuple(event for event in session.events if isinstance(event, Noted)),
            failed=failed,
        )


class GeneratedQueries(Struct, frozen=True, kw_only=True):
    """What was written for a set of queries, and what it took."""

    queries: dict[str, Query]
    """Query id → what is searched for. Where nothing could be generated: the query itself."""
    failed: dict[str, str]
    """Query id → why nothing could be generated."""
    usage: Usage | None
    cost_paid: float | None
    cost_uncached: float | None


async def generate(
    rewriter: QueryGenerator,
    queries: Mapping[str, str],
    *,
    concurrency: int = 16,
    progress: Callable[[int], None] = lambda done: None,
) -> GeneratedQueries:
    """Write a query for each text, many at a time.

    A query that nothing could be generated for is searched as it is and counted: leaving it out, or failing, would
    change what the mean is over.

    Raises:
        StopRun: the model cannot be asked at all (wrong key, unknown model, server gone).
    """
    made: dict[str, Query] = {}
    failed: dict[str, str] = {}
    usages: list[Usage | None] = []
    cost_paid: list[float | None] = []
    cost_uncached: list[float | None] = []
    remaining = iter(queries.items())

    async def _work() -> None:
        for id, text in remaining:
            written = await rewriter.query(text)
            made[id] = written.query
            if written.failed:
                failed[id] = written.failed
            usages.append(written.usage)
            cost_paid.append(written.cost_paid)
            cost_uncached.append(written.cost_uncached)
            progress(len(made))

    async with asyncio.TaskGroup() as group:
        for _ in range(max(1, concurrency)):
            group.create_task(_work())
    return GeneratedQueries(
        queries={id: made[id] for id in queries},
        failed=failed,
        usage=None if None in usages else sum((usage for usage in usages if usage is not None), Usage()),
        cost_paid=_sum(cost_paid),
        cost_uncached=_sum(cost_uncached),
    )


def _sum(values: list[float | None]) -> float | None:
    return None if None in values else sum(value for value in values if value is not None)
