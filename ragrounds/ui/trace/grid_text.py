"""The grid in text: names, signs and styles of its cells."""

from __future__ import annotations

from ragrounds.evals.compare.grid import AgentGrid, AgentGridCell
from ragrounds.evals.scorers import described
from ragrounds.ui.text import UNKNOWN
from ragrounds.ui.trace.attempt_list import outcome_sign

_HEATS = 5
"""Steps of colour from a score of 0 to one of 1."""


def score_text(value: float | None) -> str:
    """A score in three cells: ``.67``, ``0`` or ``1``."""
    if value is None or value != value:  # not a number: not known
        return UNKNOWN
    text = f"{value:.2f}"
    return "1" if text == "1.00" else "0" if text == "0.00" else text.removeprefix("0")


def cell_text(cell: AgentGridCell) -> str:
    """A cell without colour: the sign of the list of attempts, a share of epochs, or a score."""
    sign = outcome_sign(cell.outcome)
    if cell.outcome == "not_run":
        return "·"
    if not cell.scored or cell.value is None:
        return sign or "-"
    if cell.epochs > 1:
        return (score_text(cell.value) if cell.fractional else f"{cell.right}/{cell.epochs}") + sign
    if cell.value >= 1:
        return "✓"
    return sign or ("✗" if cell.value <= 0 else score_text(cell.value))


def cell_style(cell: AgentGridCell) -> str:
    """The style of a cell: ``heat-0`` … ``heat-4`` by its score, ``heat-trouble``, or ``dim`` where there is none."""
    if cell.outcome == "not_run":
        return "dim"
    if outcome_sign(cell.outcome) and not cell.right:
        return "heat-trouble"
    return heat(cell.value)


def heat(value: float | None) -> str:
    """The style of a score between 0 and 1; ``None``: there is none."""
    if value is None:
        return "dim"
    if value <= 0 or value >= 1:
        return f"heat-{0 if value <= 0 else _HEATS - 1}"
    return f"heat-{1 + min(_HEATS - 3, int(value * (_HEATS - 2)))}"


def figure_name(grid: AgentGrid) -> str:
    """What the figure below an agent's name is called, as in its table; a ratio over the corpus is none of cells."""
    if grid.scorer and described(grid.scorer).ratio:
        return "mean of questions"
    return "average" if len(set(grid.datasets.tolist())) > 1 else "score"


def unit_of(scorer: str) -> str:
    """The unit of a grid's scorer: ``percent`` or another."""
    return described(scorer).unit if scorer else "percent"
