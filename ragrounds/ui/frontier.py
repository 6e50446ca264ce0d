"""The frontier of cost and score as tables and as a picture: each run's cost and score; where the score says which
answers are right, what a right one costs, and one more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ragrounds.evals.analyses.pictures import DOT, Mark, Points, Series, upwards
from ragrounds.evals.compare.frontier import CostMeasure, Frontier, Range
from ragrounds.evals.scorers import figure_word
from ragrounds.ui.tables import Column, TextTable
from ragrounds.ui.text import TOO_FEW, UNKNOWN, dollars, duration, percent, tokens

_CROWDED = 30
"""Runs from which on a picture cannot hold the number and the intervals of each."""
UNITS: dict[CostMeasure, str] = {
    "cost_uncached": "dollars uncached",
    "cost_paid": "dollars paid",
    "tokens": "tokens",
    "calls": "calls",
    "seconds": "seconds",
}
"""What a measure counts, in words."""
_PICTURE_UNITS: dict[CostMeasure, Literal["number", "dollars", "seconds", "tokens"]] = {
    "cost_uncached": "dollars",
    "cost_paid": "dollars",
    "tokens": "tokens",
    "calls": "number",
    "seconds": "seconds",
}


def amount(value: float | None, measure: CostMeasure) -> str:
    """A cost in the unit of its measure; not known: a dash."""
    if value is None:
        return UNKNOWN
    if measure in ("cost_uncached", "cost_paid"):
        return dollars(value)
    if measure == "seconds":
        return duration(value)
    return tokens(value) if value >= 1000 or measure == "tokens" else f"{value:.3g}"


def frontier_tables(
    frontier: Frontier,
    scorer: str,
    numbers: Mapping[str, str],
    agents: Mapping[str, str],
    labels: Mapping[str, str] | None = None,
) -> list[TextTable]:
    """Every run by cost; then the prices between neighbours on the frontier.

    Args:
        frontier: what to show.
        scorer: named in the titles.
        numbers: run id → number in the tables.
        agents: run id → what the run is called, safe to show.
        labels: run id → what it is called beside another; by default its number: ``#1``.
    """
    labels = labels or {run: f"#{number}" for run, number in numbers.items()}
    measure = frontier.measure
    figure = figure_word(scorer)
    priced = any(point.per_correct is not None for point in frontier.points)
    names = [figure, "95 %", "cost", "95 %", *(["per correct", "95 %"] if priced else []), "on frontier", "resamples"]
    rows = [
        (
            numbers[point.run],
            agents[point.run],
            percent(point.score.value),
            TOO_FEW if point.score.few else f"{percent(point.score.low, 1)}-{percent(point.score.high, 1)}",
            amount(point.cost.value, measure),
            _between(point.cost, measure),
            *_per_correct(point.per_correct, measure),
            "yes" if point.on_frontier else "no",
            TOO_FEW if point.share is None else f"{percent(point.share, 0)} %",
        )
        for point in frontier.points
    ]
    runs = TextTable(
        key="frontier",
        scorer=scorer,
        title=f"cost and {figure} under {scorer}",
        about=f"cost: {UNITS[measure]} a question; resamples: share of bootstrap resamples in which the run is on the "
        "frontier",
        columns=(Column("#"), Column("agent", right=False), *(Column(name) for name in names)),
        rows=tuple(rows),
    )
    if not frontier.tradeoffs:
        return [runs]
    prices = TextTable(
        key="prices",
        scorer=scorer,
        title=f"price of one more correct answer under {scorer}, in {UNITS[measure]}",
        columns=(Column("from - to", right=False), Column("price"), Column("95 %")),
        rows=tuple(
            (
                f"{labels[tradeoff.cheaper]} to {labels[tradeoff.dearer]}",
                amount(tradeoff.price.value, measure),
                _between(tradeoff.price, measure),
            )
            for tradeoff in frontier.tradeoffs
        ),
    )
    return [runs, prices]


def titled_by(scorer: str) -> str:
    """What a picture of a scorer's figures is called: ``Accuracy under strict``, ``Scores by rouge_l``."""
    word = figure_word(scorer)
    return f"{word.capitalize()} under {scorer}" if word != scorer else f"Scores by {scorer}"


def frontier_picture(frontier: Frontier, scorer: str, numbers: Mapping[str, str], agents: Mapping[str, str]) -> Points:
    """The score upwards, cost to the right, both with 95 % intervals; each run is its number. The steps lead along the
    frontier: up only where a dearer run scores higher. Of many runs, those that are not on it are dots without
    intervals. Arguments as of :func:`frontier_tables`."""
    lines, others = list[Series](), list[Mark]()
    crowded = len(frontier.points) > _CROWDED
    for point in frontier.points:
        if point.cost.value is None or point.score.value is None:
            continue
        if crowded and not point.on_frontier:
            name = f"#{numbers[point.run]} {agents[point.run]}"
            others.append(Mark(x=point.cost.value, value=point.score.value, label=DOT, name=name))
            continue
        mark = Mark(
            x=point.cost.value,
            x_low=point.cost.low,
            x_high=point.cost.high,
            value=point.score.value,
            low=point.score.low,
            high=point.score.high,
            label=numbers[point.run],
            emphasis=point.on_frontier,
        )
        lines.append(Series(name=agents[point.run], marks=(mark,)))
    if others:
        lines.append(Series(name=f"each of the other {len(others):,} runs", marks=tuple(others), joined=False))
    unit = f"{UNITS[frontier.measure]} a question"
    return Points(
        title=f"{titled_by(scorer)}, and {unit}",
        x=unit,
        up=upwards(scorer),
        lines=tuple(lines),
        unit=_PICTURE_UNITS[frontier.measure],
        steps=True,
    )


def left_out(frontier: Frontier, labels: Mapping[str, str]) -> str:
    """A sentence that names the runs without a place on the frontier; empty where there is none."""
    named = ", ".join(labels[run] for run in frontier.left_out)
    return f"Not placed, because their cost is not known: {named}." if named else ""


def _per_correct(cost: Range | None, measure: CostMeasure) -> tuple[str, ...]:
    """What a right answer costs; nothing where the score does not say which are right."""
    if cost is None:
        return ()
    return ("nothing right", UNKNOWN) if cost.value is None else (amount(cost.value, measure), _between(cost, measure))


def _between(figure: Range, measure: CostMeasure) -> str:
    if figure.few:
        return TOO_FEW
    if figure.low is None:
        return "no bound"
    high = "no bound" if figure.high is None else amount(figure.high, measure)
    return f"{amount(figure.low, measure)} to {high}"
