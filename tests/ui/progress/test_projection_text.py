"""What a projection says of agents apart and together."""

from __future__ import annotations

from msgspec.structs import replace

from ragrounds.evals.engine.progress import AgentProjection, ProjectedSum, Projection
from ragrounds.ui.projection import projection_text


def test_the_sum_of_agents_says_that_shared_calls_count_twice() -> None:
    calls = ProjectedSum(value=12.0, low=12.0, high=12.0)
    called = {"model_calls": calls, "searches": replace(calls, value=7.0)}
    one = AgentProjection(run="r", name="direct", attempts=12, seen=8, **called, tokens=None, cost=None, seconds=calls)
    both = Projection(agents=(one, one), in_flight=1, **called, tokens=None, cost=None, seconds=calls)
    assert "  total (upper bound): 12 model calls, 7 searches, tokens" in projection_text(both)
    alone = Projection(agents=(one,), in_flight=1, **called, tokens=None, cost=None, seconds=calls)
    assert "total" not in projection_text(alone)
    bound = Projection(agents=(one,), in_flight=1, **called, tokens=None, cost=None, seconds=calls, processor=0.95)
    assert "sets the pace" in projection_text(bound)
    assert "sets the pace" not in projection_text(alone)
