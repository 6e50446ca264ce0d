"""What is drawn of an analysis: points with intervals on curves, or bars. The terminal and SVG draw the same."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ragrounds.evals.analyses import (
    Analysed,
    Curves,
    Epochs,
    Grid,
    Positions,
    Qualities,
    Refined,
    Sources,
    Success,
    Uses,
)
from ragrounds.evals.analyses.retrieved import NOT_FOUND
from ragrounds.evals.compare.figures import Figure


class Mark(Struct, frozen=True, kw_only=True):
    """A point. Shares, not percent; `low` and `high` are its 95 % interval."""

    x: float
    value: float
    low: float | None = None
    high: float | None = None


class Line(Struct, frozen=True, kw_only=True):
    """Points of one name."""

    name: str
    marks: tuple[Mark, ...]


class Points(Struct, frozen=True, kw_only=True):
    """Shares upwards, a number across."""

    title: str
    x: str
    lines: tuple[Line, ...]


class Bar(Struct, frozen=True, kw_only=True):
    """A share; `low` and `high` are what `Bars.spread` says."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    note: str = ""


class Bars(Struct, frozen=True, kw_only=True):
    """Shares as bars, in groups. No `spread`: bars have no interval."""

    title: str
    groups: tuple[tuple[str, tuple[Bar, ...]], ...]
    spread: str = "95 % intervals"


Picture = Points | Bars


def picture(analysed: Analysed) -> Picture:
    """What to draw of an analysis."""
    title, record = analysed.table.title, analysed.record
    if isinstance(record, Curves):
        lines = tuple(
            Line(name=curve.name, marks=_marks([(point.x, point.figure) for point in curve.points]))
            for curve in record.curves
        )
        return Points(title=f"{title} ({record.scorer})", x=record.x, lines=lines)
    if isinstance(record, Qualities):
        lines = tuple(Line(name=run.run, marks=_marks([(run.ndcg, run.figure)])) for run in record.runs)
        return Points(title=f"{title} ({record.scorer})", x=f"nDCG@{record.k}", lines=lines)
    if isinstance(record, Grid):
        cells = tuple(_bar(f"{cell.corpus}, {cell.retriever}", cell.overall) for cell in record.cells)
        return Bars(title=title, groups=(("", cells),))
    parts = record if isinstance(record, tuple) else (record,)
    groups: list[tuple[str, tuple[Bar, ...]]] = []
    spread = "95 % intervals"
    for part in parts:
        if isinstance(part, Positions):
            title = f"{analysed.table.title} ({part.scorer})"
            groups.append((part.run, tuple(_bar(_ranks(one.ranks), one.figure) for one in part.bins)))
        elif isinstance(part, Success):
            groups.append((part.run, _success(part)))
            spread = ""
        elif isinstance(part, Sources):
            for dataset, shares in part.shares.items():
                name = f"{part.run}, {dataset}"
                groups.append((name, tuple(Bar(name=source, value=share) for source, share in shares.items())))
            spread = ""
        elif isinstance(part, Uses):
            groups.append((part.run, _uses(part)))
        elif isinstance(part, Refined):
            groups.append((part.run, (_of("wrong to right", part.gained), _of("right to wrong", part.lost))))
        elif isinstance(part, Epochs):
            groups.append(("", (_epochs(part),)))
            title, spread = f"{analysed.table.title} ({part.scorer})", "mean ± sd"
    return Bars(title=title, groups=tuple(groups), spread=spread)


def _marks(found: Sequence[tuple[float, Figure]]) -> tuple[Mark, ...]:
    return tuple(
        Mark(x=x, value=figure.value, low=figure.low, high=figure.high)
        for x, figure in found
        if figure.value is not None
    )


def _bar(name: str, figure: Figure) -> Bar:
    return Bar(name=name, value=figure.value, low=figure.low, high=figure.high, note=f"n = {figure.n:,}")


def _ranks(ranks: str) -> str:
    return ranks if ranks == NOT_FOUND else f"rank {ranks}"


def _success(part: Success) -> tuple[Bar, ...]:
    found, missed = part.found_right + part.found_wrong, part.missed_right + part.missed_wrong
    return (
        Bar(name="right if found", value=part.accuracy_found, note=f"n = {found:,}"),
        Bar(name="right if missed", value=part.accuracy_missed, note=f"n = {missed:,}"),
    )


def _uses(part: Uses) -> tuple[Bar, ...]:
    use = part.uses[-1]
    shown = {"found gold": use.found, "new gold": use.new_gold, "kept gold": use.kept, "used gold": use.used}
    return tuple(_of(name, figure) for name, figure in shown.items())


def _of(name: str, figure: Figure | None) -> Bar:
    return Bar(name=name, value=None) if figure is None else _bar(name, figure)


def _epochs(part: Epochs) -> Bar:
    low, high = (None, None) if part.sd is None else (max(0.0, part.mean - part.sd), min(1.0, part.mean + part.sd))
    return Bar(name=part.name, value=part.mean, low=low, high=high, note=f"n = {len(part.values):,}")
