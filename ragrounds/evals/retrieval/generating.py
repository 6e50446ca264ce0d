"""Queries that a model writes before the search: `ragrounds retrieve --query-generation hyde` (R2MED, Tables 3, 4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from msgspec import Struct

from ragrounds.evals.engine.attempt_log import AttemptEnded
from ragrounds.evals.retrieval.rewriting import Rewriter
from ragrounds.models.faults import CallFailed
from ragrounds.records import Query, Usage


class Generated(Struct, frozen=True, kw_only=True):
    """What was written for a set of queries, and what it took."""

    queries: dict[str, Query]
    """Query id → what is searched for. Where nothing could be generated: the query itself."""
    failed: dict[str, str]
    """Query id → why nothing could be generated."""
    usage: Usage | None
    cost_paid: float | None
    cost_uncached: float | None


async def generate(
    rewriter: Rewriter,
    queries: Mapping[str, str],
    *,
    concurrency: int = 16,
    progress: Callable[[int], None] = lambda done: None,
) -> Generated:
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
    waiting = iter(queries.items())

    async def work() -> None:
        for id, text in waiting:
            try:
                written = await rewriter.query(text)
            except (CallFailed, AttemptEnded) as error:
                made[id], failed[id] = Query(text), str(error)
            else:
                made[id] = written.query
                usages.append(written.usage)
                cost_paid.append(written.cost_paid)
                cost_uncached.append(written.cost_uncached)
            progress(len(made))

    async with asyncio.TaskGroup() as group:
        for _ in range(max(1, concurrency)):
            group.create_task(work())
    return Generated(
        queries={id: made[id] for id in queries},
        failed=failed,
        usage=None if None in usages else sum((usage for usage in usages if usage is not None), Usage()),
        cost_paid=_sum(cost_paid),
        cost_uncached=_sum(cost_uncached),
    )


def _sum(values: list[float | None]) -> float | None:
    return None if None in values else sum(value for value in values if value is not None)
