"""What stands before a study's table: what was carried out, with which models, when, how near it is to the published
figures, and what is missing. Plain text, safe to show."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from ragrounds.evals.studies.table import State, StudyTable
from ragrounds.records import Run
from ragrounds.ui.text import figure_text, number_of, one_line, safe

_MODELS = 3
"""Models that are named where others are counted."""
_STATES: Mapping[State, str] = {
    "part": "only in part there: their figures are of what is",
    "to do": "not begun",
    "lacks": "lacking something they need",
    "failed": "failed",
}


def study_sentences(table: StudyTable, runs: Sequence[Run]) -> Iterator[str]:
    """What was carried out, and how near the figures are to the published ones.

    Args:
        table: the study's.
        runs: those that its cells show.
    """
    done, cells = table.carried.count("done"), len(table.carried.cells)
    what = safe(table.source or table.title)
    if not runs:
        yield f"{what}: no cell has been carried out yet."
        return
    yield f"{what}: {done:,} of {number_of(cells, 'cell')} carried out {_with(runs)} {_days(runs)}."
    if table.stand_in:
        return
    known = [cell for cell in table.cells if cell.deviation is not None]
    if not known:
        yield "No published figure stands beside any of them."
        return
    apart = sorted(known, key=lambda cell: abs(cell.deviation or 0.0))
    far, middle = apart[-1], abs(apart[len(apart) // 2].deviation or 0.0)
    held = [
        cell
        for cell in known
        if cell.low is not None and cell.high is not None and cell.low <= (cell.published or 0.0) <= cell.high
    ]
    ranged = sum(cell.low is not None for cell in known)
    inside = (
        f" {len(held):,} of {number_of(ranged, 'published figure')} lie inside our 95 % interval." if ranged else ""
    )
    digits = f".{table.digits}f"
    equal = sum(not float(format(cell.deviation or 0.0, digits)) for cell in known)
    if equal == len(known):
        yield f"All {number_of(equal, 'figure')} with a published one beside equal it.{inside}"
        return
    if equal >= len(known) / 2:
        near = f"{equal:,} of {number_of(len(known), 'figure')} equal the published one beside"
    else:
        near = (
            f"Half of the {number_of(len(known), 'figure')} with a published one beside are at most "
            f"{figure_text(middle, digits)} away from it"
        )
    distance = figure_text(far.deviation or 0.0, "+" + digits)
    yield f"{near}; {safe(far.row)} · {safe(far.column)} is farthest ({distance}).{inside}"


def study_lacks(table: StudyTable) -> list[str]:
    """A line for each kind of cell that is not done."""
    counts = {state: table.carried.count(state) for state in _STATES}
    return [f"{number_of(count, 'cell')}: {_STATES[state]}." for state, count in counts.items() if count]


def _with(runs: Sequence[Run]) -> str:
    models: dict[str, None] = {}
    for run in runs:
        asked = run.identity.get("models")
        texts = asked.values() if isinstance(asked, Mapping) else [run.identity.get("model") or ""]
        models |= dict.fromkeys(one_line(str(text).partition("[")[0], 60) for text in texts if text)
    named = list(models)
    if not named:
        return "with a model that is not recorded"
    more = f" and {number_of(len(named) - _MODELS, 'other model')}" if len(named) > _MODELS else ""
    return f"with {', '.join(named[:_MODELS])}{more}"


def _days(runs: Sequence[Run]) -> str:
    first, last = (time.strftime("%Y-%m-%d", time.gmtime(end(run.created for run in runs))) for end in (min, max))
    return f"on {first}" if first == last else f"between {first} and {last}"
