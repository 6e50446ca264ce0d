"""Gate of a judge: whether its figures may be shown, by the results of its probes.

:mod:`ragrounds.evals.judges.probes` makes the probes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.records import Run, Score
from ragrounds.evals.scorers.judged import JudgeMethod, LabelMethod

LEAST = 0.9
"""Share of the probes that an able judge passes. A judge that is significantly below it is withheld."""
WITHHELD = "withheld"


class Probing(Struct, frozen=True):
    """Settings of the probes of judges."""

    answers: int | None = None
    """Number of answers of a run to probe; 0 for none; ``None`` to choose by the number of judging calls."""
    least: float = LEAST


class JudgeGate(Struct, frozen=True, kw_only=True):
    """Result of the probes of one judge on one run."""

    judge: str
    noise: str
    """Share of verdicts that the judge changes when asked again, with the interval; empty if not known."""
    withheld: str
    """Reason why its scores are withheld; empty if they are shown."""
    words: tuple[str, ...]
    """Lines that describe the result. They contain outside text and must be shown as plain text."""


def probes_of(method: JudgeMethod) -> Any:
    """Return the module that probes judges of this kind; ``None`` if it has none."""
    return import_module(method.probed_by) if isinstance(method, LabelMethod) and method.probed_by else None


def gated(scores: Sequence[Score], gates: Sequence[JudgeGate]) -> tuple[Score, ...]:
    """Return the scores, without values if the judge, or half of a panel, fails its probes. The verdicts stay."""
    failing = [gate for gate in gates if gate.withheld]
    if not failing or 2 * len(failing) < len(gates):
        return tuple(scores)
    reason = f"{WITHHELD}: " + "; ".join(f"{gate.judge.partition('[')[0]} {gate.withheld}" for gate in failing)
    return tuple(replace(score, value=None, reason=reason) for score in scores)


def withheld_reason(scores: Sequence[Score]) -> str:
    """Return the reason why scores are withheld, a failed probe of their judge; empty if they are shown."""
    return next((score.reason for score in scores if score.reason.startswith(WITHHELD)), "")


def withheld_notes(runs: Sequence[Run], scores: Mapping[str, Mapping[str, Sequence[Score]]]) -> Iterator[str]:
    """Yield the reasons why scores of runs are withheld; `scores` are by run and scorer."""
    for run in runs:
        for name, run_scores in scores[run.id].items():
            if reason := withheld_reason(run_scores):
                yield f"{run.id}: the scores under {name} are {WITHHELD}. {reason.removeprefix(f'{WITHHELD}: ')}."
