"""Whether a judge's figures may be shown: what its probes found (:mod:`ragrounds.evals.judges.probes` makes them)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.records import Run, Score
from ragrounds.evals.scorers.judged import JudgeMethod, LabelMethod

LEAST = 0.8
"""Share of a kind of probe on which a judge does as an able one does: whose interval ends below it is withheld."""
WITHHELD = "withheld"


class Probing(Struct, frozen=True):
    """How judges are probed."""

    answers: int | None = None
    """How many answers of a run are probed; 0: none; ``None``: by what judging takes."""
    least: float = LEAST


class JudgeGate(Struct, frozen=True, kw_only=True):
    """What the probes of one judge found on one run."""

    judge: str
    noise: str
    """How often it says another thing when it is asked again, with the interval; empty: not known."""
    withheld: str
    """Why its scores are withheld; empty: they are shown."""
    words: tuple[str, ...]
    """What is said of it, a line each; from outside: to be shown as text."""


def probes_of(method: JudgeMethod) -> Any:
    """The module that probes judges of this kind; ``None``: there is none."""
    return import_module(method.probed_by) if isinstance(method, LabelMethod) and method.probed_by else None


def gated(scores: Sequence[Score], gates: Sequence[JudgeGate]) -> tuple[Score, ...]:
    """The scores, without values where the judge fails its probes, or half of a panel do; the verdicts stay."""
    failing = [gate for gate in gates if gate.withheld]
    if not failing or 2 * len(failing) < len(gates):
        return tuple(scores)
    reason = f"{WITHHELD}: " + "; ".join(f"{gate.judge.partition('[')[0]} {gate.withheld}" for gate in failing)
    return tuple(replace(one, value=None, reason=reason) for one in scores)


def withheld_notes(runs: Sequence[Run], scores: Mapping[str, Mapping[str, Sequence[Score]]]) -> Iterator[str]:
    """Why scores of runs are withheld; `scores` are by run and scorer."""
    for run in runs:
        for name, given in scores[run.id].items():
            if reason := next((one.reason for one in given if one.reason.startswith(WITHHELD)), ""):
                yield f"{run.id}: the scores under {name} are {reason}."
