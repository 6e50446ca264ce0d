"""The cost-accuracy frontier as sheets: where each run stands, and what one more correct answer costs."""

from __future__ import annotations

from collections.abc import Mapping

from ragrounds.evals.compare.frontier import CostMeasure, Frontier, Range
from ragrounds.ui.comparison_tables import Column, TextTable
from ragrounds.ui.text import UNKNOWN, dollars, duration, percent, tokens

UNITS: dict[CostMeasure, str] = {
    "cost_uncached": "dollars uncached",
    "cost_paid": "dollars paid",
    "tokens": "tokens",
    "calls": "calls",
    "seconds": "seconds",
}


def amount(value: float | None, measure: CostMeasure) -> str:
    """A cost in its unit."""
    if value is None:
        return UNKNOWN
    if measure in ("cost_uncached", "cost_paid"):
        return dollars(value)
    if measure == "seconds":
        return duration(value)
    return tokens(value) if value >= 1000 or measure == "tokens" else f"{value:.3g}"


def frontier_tables(
    frontier: Frontier, scorer: str, numbers: Mapping[str, str], agents: Mapping[str, str]
) -> list[TextTable]:
    """Every run by cost; then the prices between neighbours on the frontier."""
    measure = frontier.measure
    names = ("accuracy", "95 %", "cost", "95 %", "per correct", "95 %", "on frontier", "resamples")
    rows = [
        (
            numbers[spot.run],
            agents[spot.run],
            percent(spot.accuracy.value),
            f"{percent(spot.accuracy.low, 1)}-{percent(spot.accuracy.high, 1)}",
            amount(spot.cost.value, measure),
            _between(spot.cost, measure),
            amount(spot.per_correct.value, measure) if spot.per_correct.value is not None else "nothing right",
            _between(spot.per_correct, measure) if spot.per_correct.value is not None else UNKNOWN,
            "yes" if spot.on_frontier else "no",
            f"{percent(spot.share, 0)} %",
        )
        for spot in frontier.spots
    ]
    made = [
        TextTable(
            key="frontier",
            scorer=scorer,
            title=f"cost and accuracy under {scorer} (cost: {UNITS[measure]} a question; resamples: share of "
            "bootstrap resamples in which the run is on the frontier)",
            columns=(Column("#"), Column("agent", right=False), *(Column(name) for name in names)),
            rows=tuple(rows),
        )
    ]
    if frontier.exchanges:
        made.append(
            TextTable(
                key="prices",
                scorer=scorer,
                title=f"price of one more correct answer under {scorer}, in {UNITS[measure]}",
                columns=(Column("from - to", right=False), Column("price"), Column("95 %")),
                rows=tuple(
                    (
                        f"#{numbers[exchange.cheaper]} to #{numbers[exchange.dearer]}",
                        amount(exchange.price.value, measure),
                        _between(exchange.price, measure),
                    )
                    for exchange in frontier.exchanges
                ),
            )
        )
    return made


def _between(figure: Range, measure: CostMeasure) -> str:
    if figure.low is None:
        return "no bound"
    high = "no bound" if figure.high is None else amount(figure.high, measure)
    return f"{amount(figure.low, measure)} to {high}"
