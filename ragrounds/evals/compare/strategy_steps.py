"""Steps that make a strategy what it is, and in how many attempts of a run they happened.

A model that never searches turns a search strategy into a direct answer with a longer prompt. Counts of the stored
attempts show it; no trace is read.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ragrounds.base.records import Attempt, Run

FEWEST = 20
"""Number of attempts from which on a step that never happened changes how a run is read."""
_CALLS_WITHOUT_REVISION = {"critique": 2}
"""Graph → model calls of an attempt whose first answer was accepted: the answer and its critique."""


class StrategyStep(Struct, frozen=True, kw_only=True):
    """Step of a run's strategy, and the number of completed attempts in which it happened."""

    verb: str
    """``searched``, ``used a tool`` or ``revised``."""
    attempts: int
    of: int
    equal_agent: str = ""
    """Built-in agent that answers as this one does without the step; empty if no agent does."""

    @property
    def is_rare(self) -> bool:
        """True if it happened in less than half of the attempts."""
        return 2 * self.attempts < self.of

    @property
    def never_happened(self) -> bool:
        """True if it happened in no attempt, and there are enough attempts to rely on that."""
        return not self.attempts and self.of >= FEWEST


def strategy_steps(run: Run, attempts: Sequence[Attempt]) -> tuple[StrategyStep, ...]:
    """Return the steps of a run's strategy; empty if it has none that its stored counts show."""
    identity, completed = run.identity, [attempt for attempt in attempts if attempt.status == "completed"]
    prompting = (identity.get("parameters") or {}).get("prompting")
    equal_agent = "" if identity.get("inner") else {"cot": "direct_cot", "direct": "direct"}.get(str(prompting), "")
    counts: dict[str, int] = {}
    if identity.get("tools"):
        counts["used a tool"] = sum(bool(attempt.searches or attempt.tool_calls) for attempt in completed)
    elif identity.get("retriever") and not identity.get("oracle"):  # an oracle gets its documents without a search
        counts["searched"] = sum(bool(attempt.searches) for attempt in completed)
    if least := _CALLS_WITHOUT_REVISION.get(str(identity.get("graph"))):
        counts["revised"] = sum(attempt.model_calls > least for attempt in completed)
    return tuple(
        StrategyStep(verb=verb, attempts=count, of=len(completed), equal_agent=equal_agent)
        for verb, count in counts.items()
    )
