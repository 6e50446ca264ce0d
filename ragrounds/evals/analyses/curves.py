"""Accuracy against something that was varied between runs: the number of passages (MIRAGE Fig. 3, MRAG Fig. 3), the
model's size with and without retrieval (MRAG Fig. 4). Two analyses, one curve."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from ragrounds.base.errors import UserError
from ragrounds.base.records import Run
from ragrounds.base.specs import parse
from ragrounds.evals.analyses.analysis import Analysis, AnalysisOptions, AnalysisTable
from ragrounds.evals.analyses.pictures import Picture, figure_mark, upwards
from ragrounds.evals.analyses.run_data import ScoredRun, scored_runs
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.scorers import figure_word
from ragrounds.evals.store.store import Store

_SIZE = re.compile(r"(?<![\w.])(?:(\d+)x)?(\d+(?:\.\d+)?)b(?![a-z0-9])", re.IGNORECASE)


class Point(Struct, frozen=True, kw_only=True):
    """One run on a curve."""

    x: float
    run: str
    figure: Figure


class Curve(Struct, frozen=True, kw_only=True):
    """Runs that differ in x alone, by x."""

    name: str
    points: tuple[Point, ...]


class Curves(Struct, frozen=True, kw_only=True):
    """Accuracy against x."""

    x: str
    scorer: str
    curves: tuple[Curve, ...]
    without: tuple[str, ...]
    """Runs that have no x and stand on no curve (no retrieval at all, a size that is not known)."""


def against_parameter(runs: Sequence[ScoredRun], parameter: str = "top_k", seed: int = 0) -> Curves:
    """One curve for each agent, model, retriever and corpus; x is a parameter of the agent."""

    def _x(run: Run) -> float | None:
        value = (run.identity.get("parameters") or {}).get(parameter)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    return _curves(runs, parameter, _x, lambda run: _named(run, parameter), seed)


def against_size(runs: Sequence[ScoredRun], sizes: Mapping[str, float] | None = None, seed: int = 0) -> Curves:
    """One curve for each agent, retriever and corpus; x is the answering model's size in billions of parameters.

    Args:
        runs: of one scorer.
        sizes: model text → size; for others the size is read from the name (``llama-3-70b``; ``8x7b`` is 56).
        seed: of the bootstrap.
    """

    def _x(run: Run) -> float | None:
        model = _model(run)
        return (sizes or {}).get(model, size_of(model))

    return _curves(runs, "billion parameters", _x, lambda run: _named(run, "model"), seed)


def size_of(model: str) -> float | None:
    """Billions of parameters by a model's name; ``None`` where it does not say."""
    found = _SIZE.findall(model.partition("[")[0])
    if not found:
        return None
    experts, size = found[-1]
    return float(size) * (int(experts) if experts else 1)


def _curves(
    runs: Sequence[ScoredRun],
    label: str,
    x: Callable[[Run], float | None],
    name: Callable[[Run], str],
    seed: int,
) -> Curves:
    if not runs:
        raise UserError("There is no run to draw; name two or more.")
    members: dict[str, dict[float, Point]] = {}
    without = []
    for run in sorted(runs, key=lambda run: run.run.created):
        place = x(run.run)
        if place is None:
            without.append(run.run.id)
            continue
        # Of equal runs the newest stands.
        members.setdefault(name(run.run), {})[place] = Point(x=place, run=run.run.id, figure=run.figure(seed=seed))
    if not members:
        raise UserError(f"None of these runs has a {label}; there is nothing to draw against it.")
    return Curves(
        x=label,
        scorer=runs[0].scorer,
        curves=tuple(
            Curve(name=key, points=tuple(found[place] for place in sorted(found))) for key, found in members.items()
        ),
        without=tuple(without),
    )


def _model(run: Run) -> str:
    models = run.identity.get("models") or {}
    return str(models.get("model") or next(iter(models.values()), ""))


def _named(run: Run, but: str) -> str:
    """A run's agent and setting, without a parameter of the agent, or without the model."""
    spec = parse(run.agent)
    rest = {key: value for key, value in spec.parameters.items() if key != but}
    model = [] if but == "model" else [_model(run)]
    parts = (*model, run.identity.get("retriever"), run.identity.get("corpus"))
    return ", ".join((str(type(spec)(spec.name, rest)), *(str(part) if part else "-" for part in parts)))


def _table(made: Curves, options: AnalysisOptions) -> AnalysisTable:
    return AnalysisTable(
        title=f"{figure_word(made.scorer).capitalize()} against {made.x}",
        columns=("agent", made.x, f"{figure_word(made.scorer)} ({made.scorer})", "run"),
        rows=tuple((curve.name, point.x, point.figure, point.run) for curve in made.curves for point in curve.points),
        note=f"Without {made.x}: {', '.join(made.without)}." if made.without else "",
    )


def _picture(made: Curves, options: AnalysisOptions) -> Picture:
    marks = tuple(
        figure_mark(curve.name, point.figure, curve.name, point.x) for curve in made.curves for point in curve.points
    )
    return Picture(
        title=f"{figure_word(made.scorer).capitalize()} against {made.x} ({made.scorer})",
        x=made.x,
        marks=marks,
        words=upwards(made.scorer),
    )


def _by_parameter(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> Curves:
    return against_parameter(scored_runs(store, runs, options.scorer), options.parameter, options.seed)


def _by_size(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> Curves:
    return against_size(scored_runs(store, runs, options.scorer), options.sizes, options.seed)


PASSAGES = Analysis(
    name="passages",
    summary="accuracy against the number of passages (MIRAGE Fig. 3, MRAG Fig. 3)",
    needs="scores of runs that differ in a parameter of the agent",
    measure=_by_parameter,
    table=_table,
    picture=_picture,
)
SIZE = Analysis(
    name="size",
    summary="accuracy against model size (MRAG Fig. 4)",
    needs="scores of runs whose models differ in size",
    measure=_by_size,
    table=_table,
    picture=_picture,
)
