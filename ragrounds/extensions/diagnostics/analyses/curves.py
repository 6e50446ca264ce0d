"""Accuracy against a quantity that was varied between runs, in two analyses with one kind of curve.

They are the number of passages (MIRAGE Fig. 3, MRAG Fig. 3), and the model's size with and without retrieval (MRAG Fig.
4).
"""

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

_SIZE = re.compile(r"(?<![\w.])(?:(\d+)x)?(\d+(?:\.\d+)?)b(?![a-z0-9])", re.IGNORECASE)


class Point(Struct, frozen=True, kw_only=True):
    """Point of one run on a curve."""

    x: float
    run: str
    figure: Figure


class Curve(Struct, frozen=True, kw_only=True):
    """Curve of runs that differ in x alone, by x."""

    name: str
    points: tuple[Point, ...]


class Curves(Struct, frozen=True, kw_only=True):
    """Curves of accuracy against x."""

    x: str
    scorer: str
    curves: tuple[Curve, ...]
    without: tuple[str, ...]
    """Ids of runs that have no x and are on no curve (no retrieval at all, or an unknown size)."""


def against_parameter(runs: Sequence[ScoredRun], parameter: str = "top_k", seed: int = 0) -> Curves:
    """Return one curve for each agent, model, retriever and corpus; x is a parameter of the agent."""

    def _x(run: Run) -> float | None:
        value = (run.identity.get("parameters") or {}).get(parameter)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    return _curves(runs, parameter, _x, lambda run: _curve_name(run, parameter), seed)


def against_size(runs: Sequence[ScoredRun], sizes: Mapping[str, float] | None = None, seed: int = 0) -> Curves:
    """Return one curve for each agent, retriever and corpus; x is the answering model's size in billions of parameters.

    Args:
        runs: runs under one scorer.
        sizes: model text → size; for others the size is read from the name (``llama-3-70b``; ``8x7b`` is 56).
        seed: seed of the bootstrap.
    """

    def _x(run: Run) -> float | None:
        model = _model(run)
        return (sizes or {}).get(model, size_of(model))

    return _curves(runs, "billion parameters", _x, lambda run: _curve_name(run, "model"), seed)


def size_of(model: str) -> float | None:
    """Return billions of parameters by a model's name; ``None`` if the name does not say."""
    sizes = _SIZE.findall(model.partition("[")[0])
    if not sizes:
        return None
    experts, size = sizes[-1]
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
    curve_points: dict[str, dict[float, Point]] = {}
    without = []
    for run in sorted(runs, key=lambda run: run.run.created):
        position = x(run.run)
        if position is None:
            without.append(run.run.id)
            continue
        # Runs are sorted by time, so that the newest of equal runs is kept.
        curve_points.setdefault(name(run.run), {})[position] = Point(
            x=position, run=run.run.id, figure=run.figure(seed=seed)
        )
    if not curve_points:
        raise UserError(f"None of these runs has a {label}; there is nothing to draw against it.")
    return Curves(
        x=label,
        scorer=runs[0].scorer,
        curves=tuple(
            Curve(name=key, points=tuple(points_by_x[position] for position in sorted(points_by_x)))
            for key, points_by_x in curve_points.items()
        ),
        without=tuple(without),
    )


def _model(run: Run) -> str:
    models = run.identity.get("models") or {}
    return str(models.get("model") or next(iter(models.values()), ""))


def _curve_name(run: Run, left_out: str) -> str:
    """Return a run's agent and setting, without the varied parameter of the agent, or without the model."""
    spec = parse(run.agent)
    parameters = {key: value for key, value in spec.parameters.items() if key != left_out}
    model = [] if left_out == "model" else [_model(run)]
    parts = (*model, run.identity.get("retriever"), run.identity.get("corpus"))
    return ", ".join((str(type(spec)(spec.name, parameters)), *(str(part) if part else "-" for part in parts)))


def _table(curves: Curves, options: AnalysisOptions) -> AnalysisTable:
    return AnalysisTable(
        title=f"{figure_word(curves.scorer).capitalize()} against {curves.x}",
        columns=("agent", curves.x, f"{figure_word(curves.scorer)} ({curves.scorer})", "run"),
        rows=tuple((curve.name, point.x, point.figure, point.run) for curve in curves.curves for point in curve.points),
        note=f"Without {curves.x}: {', '.join(curves.without)}." if curves.without else "",
    )


def _picture(curves: Curves, options: AnalysisOptions) -> Picture:
    marks = tuple(
        figure_mark(curve.name, point.figure, curve.name, point.x) for curve in curves.curves for point in curve.points
    )
    return Picture(
        title=f"{figure_word(curves.scorer).capitalize()} against {curves.x} ({curves.scorer})",
        x=curves.x,
        marks=marks,
        words=upwards(curves.scorer),
    )


PASSAGES = Analysis(
    name="passages",
    summary="accuracy against the number of passages (MIRAGE Fig. 3, MRAG Fig. 3)",
    needs="scores of runs that differ in a parameter of the agent",
    measure=lambda store, runs, options: against_parameter(
        scored_runs(store, runs, options.scorer), options.parameter, options.seed
    ),
    table=_table,
    picture=_picture,
)
SIZE = Analysis(
    name="size",
    summary="accuracy against model size (MRAG Fig. 4)",
    needs="scores of runs whose models differ in size",
    measure=lambda store, runs, options: against_size(
        scored_runs(store, runs, options.scorer), options.sizes, options.seed
    ),
    table=_table,
    picture=_picture,
)
