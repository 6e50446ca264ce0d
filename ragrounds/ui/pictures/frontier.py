"""The frontier of cost and score as tables and as a picture: each run's cost and score.

If a score says which answers are right, also the price of a right answer, and of one more.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from ragrounds.evals.analyses.pictures import Mark, Picture, Unit, upwards
from ragrounds.evals.compare.frontier import CostMeasure, Frontier, FrontierPoint, Range
from ragrounds.evals.scorers import figure_word
from ragrounds.ui.columns import Column, TextTable, at_least, table_of, words
from ragrounds.ui.text import TOO_FEW, UNKNOWN, ends, in_unit, percent

_CROWDED_FROM = 30
"""Number of runs from which on a picture has no room for the number and the intervals of each."""
NO_FRONTIER = (
    "it takes two runs with a known cost. Give prices in prices.toml, or choose what to count with --cost tokens, "
    "model_calls or seconds"
)
"""Reason why there may be no frontier."""
UNITS: dict[CostMeasure, str] = {
    "cost_uncached": "dollars at full price",
    "cost_paid": "dollars paid",
    "tokens": "tokens",
    "model_calls": "model calls",
    "seconds": "seconds",
}
"""Unit of each cost measure, in words."""


def amount(value: float | None, measure: CostMeasure) -> str:
    """Return a cost in the unit of its measure; a dash if not known."""
    return UNKNOWN if value is None else in_unit(value, _unit(measure))


def _unit(measure: CostMeasure) -> Unit:
    if measure == "tokens" or measure == "seconds":
        return measure
    return "number" if measure == "model_calls" else "dollars"


_FEW_QUESTIONS = 200
"""Number of questions below which the interval of a cost depends on whether a rare expensive question was asked: with
one in 100 costs times 100, the 95 % interval covers in 38 % of samples of 50 questions and in 58 % of 100."""


def frontier_tables(
    frontier: Frontier, scorer: str, agents: Mapping[str, str], questions: int = _FEW_QUESTIONS
) -> list[TextTable]:
    """Return every run by cost, and the prices between neighbours on the frontier.

    Args:
        frontier: frontier to show.
        scorer: scorer that the titles name.
        agents: run id → name of the run, safe to show.
        questions: number of questions behind the costs.
    """
    measure = frontier.measure
    few = f"; {questions:,} questions: a rare expensive question may be missing from the intervals of costs"
    figure = figure_word(scorer)
    right = figure == "accuracy"

    def price_of_correct(point: FrontierPoint) -> str:
        """Return the cost of a right answer, or that no answer is right."""
        per = point.per_correct.value if point.per_correct else None
        return "nothing right" if per is None else at_least(amount(per, measure), point.is_lower_bound)

    priced = any(point.per_correct is not None for point in frontier.points)
    runs = table_of(
        "frontier",
        frontier.points,
        (
            words("agent", lambda point: agents[point.run], text=str),
            Column(figure, "score.value", percent),
            Column("95 %", lambda point: ends(point.score.low, point.score.high)),
            Column("cost", lambda point: amount(point.cost.value, measure), least_where="is_lower_bound"),
            Column("95 %", lambda point: _range_text(point.cost, measure)),
            *(
                (
                    Column("per correct" if right else "per 100 %", price_of_correct),
                    Column("95 %", lambda point: _range_text(point.per_correct, measure)),
                )
                if priced
                else ()
            ),
            Column("on frontier", lambda point: "yes" if point.on_frontier else "no"),
            Column("resamples", "share", lambda share: TOO_FEW if share is None else f"{percent(share, 0)} %"),
        ),
        scorer=scorer,
        title=f"cost and {figure} under {scorer}",
        about=f"cost: {UNITS[measure]} a question; resamples: share of bootstrap resamples in which the run is on the "
        "frontier" + (few if questions < _FEW_QUESTIONS else ""),
    )
    if not frontier.tradeoffs:
        return [runs]
    prices = table_of(
        "prices",
        frontier.tradeoffs,
        (
            words("from - to", lambda tradeoff: f"{agents[tradeoff.cheaper]} to {agents[tradeoff.dearer]}", text=str),
            Column("price", lambda tradeoff: amount(tradeoff.price.value, measure)),
            Column("95 %", lambda tradeoff: _range_text(tradeoff.price, measure)),
        ),
        scorer=scorer,
        title=f"cost per additional {'right' if right else 'fully answered'} question ({scorer}), in {UNITS[measure]}",
    )
    return [runs, prices]


def titled_by(scorer: str) -> str:
    """Return the title of a picture of a scorer's figures: ``Accuracy under strict``, ``Scores by rouge_l``."""
    word = figure_word(scorer)
    return f"{word.capitalize()} under {scorer}" if word != scorer else f"Scores by {scorer}"


def frontier_picture(
    frontier: Frontier, scorer: str, agents: Mapping[str, str], *, with_bounds_note: bool = True
) -> Picture:
    """Return the frontier as a picture: the score upwards, cost to the right, both with 95 % intervals.

    Each run's name is at its point. Dollars are per 100 questions, any other cost per question. The steps lead along
    the frontier: up only if a more expensive run scores higher. If there are many runs, those that are not on the
    frontier are dots without names and intervals.

    Args:
        frontier: frontier to render.
        scorer: scorer that the title names.
        agents: run id → name of the run, safe to show.
        with_bounds_note: False if a text next to the picture says what ► means.
    """
    marks, is_crowded = list[Mark](), len(frontier.points) > _CROWDED_FROM
    unit = _unit(frontier.measure)
    times = 100.0 if unit == "dollars" else 1.0
    for point in frontier.points:
        score, cost = point.score, point.cost
        if score.value is None or cost.value is None:
            continue
        has_name = point.on_frontier or not is_crowded
        x, x_low, x_high = (None if end is None else times * end for end in (cost.value, cost.low, cost.high))
        mark = Mark(
            name=agents[point.run],
            x=x,
            value=score.value,
            full=point.on_frontier,
            is_labelled=has_name,
            is_open=point.is_lower_bound,
        )
        if has_name:
            mark = replace(mark, low=score.low, high=score.high, x_low=x_low, x_high=x_high)
        marks.append(mark)
    dots = sum(not mark.is_labelled for mark in marks)
    words = f"{UNITS[frontier.measure]} {'per 100 questions' if times > 1 else 'a question'}"
    return Picture(
        title=f"{titled_by(scorer)}, by {words}",
        marks=tuple(marks),
        words=upwards(scorer),
        x=words,
        x_unit=unit,
        series_names=tuple(agents.values()),
        steps=True,
        full="on the frontier: none scores as high for less",
        hollow="not on it",
        note="; ".join(
            [f"dots: each of the other {dots:,} runs"] * bool(dots)
            + ["► costs at least this: requests without an answer may be billed"]
            * (with_bounds_note and any(mark.is_open for mark in marks))
        ),
    )


def left_out(frontier: Frontier, names: Mapping[str, str]) -> str:
    """Return a sentence that names the runs without a position on the frontier; empty if all have one."""
    run_names = ", ".join(names[run] for run in frontier.left_out)
    return f"Not placed, because their cost is not known: {run_names}." if run_names else ""


def _range_text(figure: Range | None, measure: CostMeasure) -> str:
    if figure is None or figure.value is None:
        return UNKNOWN
    if figure.few:
        return TOO_FEW
    if figure.low is None:
        return "no bound"
    high = "no bound" if figure.high is None else amount(figure.high, measure)
    return f"{amount(figure.low, measure)} to {high}"
