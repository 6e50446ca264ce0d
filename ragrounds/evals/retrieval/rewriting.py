"""Queries generated for retrieval alone: `ragrounds retrieve --query-generation hyde` (R2MED, Tables 3 and 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ragrounds.agents.agent import Agent, Limits, open_agent
from ragrounds.contracts import Journal, Model, Searcher
from ragrounds.evals.engine.context import AttemptContext
from ragrounds.graphs import catalogue
from ragrounds.prompts.loader import PromptFolder
from ragrounds.records import Noted, Query, Question, Usage
from ragrounds.specs import Spec, parse


class Rewritten(Struct, frozen=True, kw_only=True):
    """A query and what it took to make it."""

    query: Query
    usage: Usage | None
    cost_paid: float | None
    cost_uncached: float | None
    notes: tuple[Noted, ...]


class Rewriter:
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
    ) -> None:
        """Open a way of generation, such as ``hyde`` or ``answer[agent=search_o1]``.

        Args:
            way: The spec of the way.
            models: By role; ``model`` must be there.
            searcher: What LameR, or a searching agent, searches; the others need none.
            journal: Where calls are recorded.
            language: Of the texts.
            prompts: A folder of the user's own prompts.

        Raises:
            UserError: there is no such way, or no such agent.
        """
        spec = parse(way) if isinstance(way, str) else way
        self.agent: Agent = open_agent(Spec("query_generation", {"query_generation": str(spec)}))
        self._graph: Any = catalogue.build("query_generation").compile()
        self._models, self._searcher, self._journal = models, searcher, journal
        self._language, self._prompts = language, PromptFolder(prompts)

    async def query(self, text: str) -> Rewritten:
        """The query for a text.

        Raises:
            ragrounds.models.faults.CallFailed: no reply after all retries.
            ragrounds.evals.engine.attempt_log.AttemptEnded: the provider refused.
        """
        session = AttemptContext(
            item=Question(id="query", benchmark="retrieval", text=text, kind="long", language=self._language),
            epoch=0,
            parameters=self.agent.parameters,
            models=self._models,
            searcher=self._searcher,
            prompts=self._prompts,
            journal=self._journal,
            limits=Limits(),
        )
        state = await self._graph.ainvoke({}, context=session)
        return Rewritten(
            query=Query(state["query"], tuple(state["dense"])),
            usage=session.usage,
            cost_paid=session.cost_paid,
            cost_uncached=session.cost_uncached,
            notes=tuple(event for event in session.events if isinstance(event, Noted)),
        )
