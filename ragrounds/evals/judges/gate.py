"""Whether a judge's figures may be shown: what probes of it found (:mod:`ragrounds.evals.judges.probes` makes them)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.evals.scorers.judged import JudgeMethod, LabelMethod
from ragrounds.evals.stats.intervals import Estimate
from ragrounds.records import Run, Score

LEAST = 0.8
"""Share of a kind of probe on which a judge does as an able one does; whose interval ends below it is withheld."""
WITHHELD = "withheld"


class Probing(Struct, frozen=True):
    """How a judge is probed."""

    answers: int | None = None
    """How many answers are probed; 0: none; ``None``: by what judging takes."""
    least: float = LEAST


class ProbeShare(Struct, frozen=True, kw_only=True):
    """How often a judge did as an able one does, on one kind of probe."""

    probe: str
    words: str
    """What an able judge does, after "it": ``says the same again``."""
    share: Estimate


class JudgeGate(Struct, frozen=True, kw_only=True):
    """What the probes of one judge found on one run."""

    judge: str
    answers: int
    calls: int
    """Calls of the probes alone."""
    share: float | None = None
    """Of all calls that judging the run took, those of the probes."""
    shares: tuple[ProbeShare, ...]
    named: tuple[str, ...] = ()
    """What kind of judge it is, where it fails: ``noisy``, ``follows planted verdicts``."""
    withheld: str = ""
    """Why its scores are withheld; empty: they are shown."""
    undecided: tuple[str, ...] = ()
    """The probes on which it is below the least share, but not surely."""

    @property
    def again(self) -> Estimate | None:
        """How often it says the same when it is asked again: 1 less its noise. ``None``: it was not asked."""
        return next((one.share for one in self.shares if one.probe == "again"), None)


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
            reason = next((one.reason for one in given if one.reason.startswith(WITHHELD)), "")
            if reason:
                yield f"{run.id}: the scores under {name} are {reason}."
