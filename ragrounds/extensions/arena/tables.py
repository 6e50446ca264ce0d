"""An arena's report as tables for the terminal. Every name and text is shown as text, never as markup."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from ragrounds.base.text import listed
from ragrounds.evals.analyses.pictures import Mark, Picture
from ragrounds.extensions.arena.diagnostics import JudgeOnAxis
from ragrounds.extensions.arena.ratings import RatedSystem
from ragrounds.extensions.arena.report import ArenaReport, AxisReport
from ragrounds.ui.columns import Column, TextTable, table_of, words
from ragrounds.ui.tables.comparison_words import all_others
from ragrounds.ui.tables.text_tables import print_table
from ragrounds.ui.text import UNKNOWN, dollars, ends, figure_text, number_of, one_line, percent, tokens

_SHORT_NOTES = 2
"""Number of notes in the short form; further notes are counted."""


def print_report(report: ArenaReport, console: Console, *, full: bool = False) -> None:
    """Print who is ahead, the ratings and the wins; with `full` also each axis with its judges, costs, and every
    note.
    """
    for part in arena_parts(report) if full else _summary(report):
        if isinstance(part, TextTable):
            print_table(part, console)
        else:
            console.print(Text(one_line(part, 1000)), soft_wrap="`" in part)


def arena_parts(report: ArenaReport) -> Iterator[TextTable | str]:
    """Yield the tables and remarks of a report: the leaders, each axis, the judges, the costs, the notes."""
    yield _heading(report)
    yield from arena_verdict(report)
    for axis in report.axes:
        yield from _axis_parts(report, axis)
    yield table_of(
        "costs",
        report.costs.items(),
        (
            words("judge", lambda row: one_line(row[0], 60)),
            Column("model calls", lambda row: row[1].calls),
            Column("in", lambda row: row[1].usage and row[1].usage.input, tokens),
            Column("out", lambda row: row[1].usage and row[1].usage.output, tokens),
            Column("paid", lambda row: row[1].cost_paid, dollars),
            Column("full price", lambda row: row[1].cost_uncached, dollars),
        ),
        title="what judging took",
        about="in, out: tokens; paid: really paid; full price: without cached calls",
    )
    yield from _doubt_lines(report)
    yield from (f"Note: {note}" for note in report.notes)


def _summary(report: ArenaReport) -> Iterator[TextTable | str]:
    """Yield the leaders, the ratings, the wins on the first axis, and the doubts."""
    yield _heading(report)
    yield from arena_verdict(report)
    first = report.axes[0]
    if rated := [axis for axis in report.axes if axis.ratings is not None and not axis.withheld]:
        yield _ratings_by_axis(report) if len(report.axes) > 1 else ratings_table(report, rated[0])
    yield wins_table(first)
    yield from _doubt_lines(report)
    yield from (f"Note: {note}" for note in report.notes[:_SHORT_NOTES])
    if more := report.notes[_SHORT_NOTES:]:
        yield f"{number_of(len(more), 'more note')}: --full"


def _heading(report: ArenaReport) -> str:
    arena = report.arena
    systems, questions = number_of(len(arena.systems), "system"), number_of(arena.count, "question")
    return f"{report.id}: {systems}, {questions} of {arena.benchmark}, judged by {', '.join(arena.judges)}"


def _ratings_by_axis(report: ArenaReport) -> TextTable:
    def column(axis: AxisReport) -> Column:
        rows = axis.ratings.rows if axis.ratings and not axis.withheld else ()
        rated = {row.system: f"{_elo(axis, row) or _rounded(row.rating)} ({_rank_text(row)})" for row in rows}
        return Column(axis.axis, lambda name: rated.get(name, UNKNOWN))

    first = report.axes[0].ratings
    systems = [row.system for row in first.rows] if first else report.names
    name_column = words("system", lambda name: one_line(name, 30), unfolded=True)
    elo = next((axis.elo for axis in report.axes if axis.elo), None)
    meaning = f"{elo.about}; ranks by Bradley-Terry" if elo else "Bradley-Terry on Elo's scale, mean 1000"
    about = {"title": "ratings (ranks) on each axis", "about": meaning}
    return table_of("axes", systems, (name_column, *map(column, report.axes)), **about)


def _doubt_lines(report: ArenaReport) -> Iterator[str]:
    """Yield a remark for each missing verdict and for each decision, omission or cut made without a judge."""
    for failure in report.failures:
        yield f"{failure.judge}: {number_of(failure.count, 'match')} with a missing verdict: {failure.reason}"
    for system, count in report.empty:
        if count:
            yield f"{system}: {number_of(count, 'empty answer')}; such an answer loses to any other."
    for kind, count in report.decided_without_judge.items():
        if count:
            yield f"{number_of(count, 'match')} decided without a judge ({kind} answers)."
    if report.left_out:
        yield f"{number_of(report.left_out, 'question')} left out: some system has not been asked them yet."
    if report.cut:
        yield f"{number_of(report.cut, 'judgement')} on answers cut to the judge's window."


def arena_verdict(report: ArenaReport) -> Iterator[str]:
    """Yield a line for each axis that names the system that is ahead, as far as the intervals allow."""
    for axis in report.axes:
        if axis.withheld or axis.ratings is None or not axis.ratings.rows:
            yield f"{axis.axis}: {axis.withheld or 'no ratings.'}"
            continue
        rows, word = axis.ratings.rows, "Bradley-Terry rating" if axis.elo else "rating"
        first = [row for row in rows if row.rank == 1]
        if len(first) == 1:
            rivals = all_others(len(rows) - 1)
            yield f"{axis.axis}: {first[0].system} is significantly better than {rivals} ({word} {_rating(first[0])})."
        elif len(first) == len(rows):
            highest = f"{rows[0].system} ({word} {_rating(rows[0])})"
            yield f"{axis.axis}: no system is significantly better than another; highest is {highest}."
        else:
            names = listed([row.system for row in first])
            yield f"{axis.axis}: {names} are not significantly different, and are ahead of some of the others."


def _rank_text(row: RatedSystem) -> str:
    return f"{row.rank}" if row.rank == row.worst else f"{row.rank}-{row.worst}"


def _elo(axis: AxisReport, row: RatedSystem) -> str:
    """Return a system's online Elo with its spread; empty if it was not requested."""
    rated = axis.elo and axis.elo.by_system[row.system]
    return f"{rated.rating:.0f} ± {rated.sd:.0f}" if rated else ""


def _rating(row: RatedSystem) -> str:
    return f"{row.rating:.0f}, {_rounded(row.low)} to {_rounded(row.high)}"


def _axis_parts(report: ArenaReport, axis: AxisReport) -> Iterator[TextTable | str]:
    if axis.withheld or axis.ratings is None:
        yield axis_title(axis)
    else:
        yield ratings_table(report, axis)
    yield wins_table(axis)
    yield judges_table(axis)
    for pair in axis.agreement:
        if pair.items:
            alpha = UNKNOWN if pair.alpha is None else f"{pair.alpha:.2f}"
            yield (
                f"{pair.one} and {pair.other} agree on {percent(pair.same, 1)} % of {number_of(pair.items, 'match')} "
                f"(Krippendorff's alpha {alpha}: 1 perfect, 0 as by chance)"
            )
    for name, order in axis.orders_by_judge:
        yield f"order by {name}: {' > '.join(order)}"
    if axis.controlled is not None and axis.controlled.effects:
        effects = (
            f"{name} {figure_text(effect, '+.2f')} ± {error:.2f}" for name, effect, error in axis.controlled.effects
        )
        yield f"style (log-odds for one standard deviation more): {', '.join(effects)}"


def ratings_table(report: ArenaReport, axis: AxisReport) -> TextTable:
    """Return the systems by their ratings on an axis, with their ranks and the style-controlled rating."""
    index_of = {name: number for number, name in enumerate(report.names)}
    controlled = axis.controlled

    def styled(row: RatedSystem) -> str:
        """Return the style-controlled rating and its standard error."""
        if controlled is None:
            return ""
        return f"{controlled.ratings[index_of[row.system]]:.0f} ± {controlled.errors[index_of[row.system]]:.0f}"

    return table_of(
        "ratings",
        axis.ratings.rows if axis.ratings else (),
        (
            words("rank", _rank_text),
            words("system", text=one_line),
            Column("rating", text=_rounded),
            Column(f"{report.arena.confidence:.0%}", lambda row: f"{_rounded(row.low)} to {_rounded(row.high)}"),
            Column(f"elo K {axis.elo.k:g}", lambda row: _elo(axis, row)) if axis.elo else None,
            Column("style held equal", styled) if controlled else None,
        ),
        title=axis_title(axis),
        about="rating: Bradley-Terry on Elo's scale, mean 1000; intervals and ranks by bootstrap over questions"
        + (f"; {axis.elo.about}" if axis.elo else ""),
    )


def axis_title(axis: AxisReport) -> str:
    """Return the name of an axis with its number of matches."""
    missing = f", {axis.missing:,} without a verdict" if axis.missing else ""
    return f"{axis.axis}: {number_of(axis.matches, 'match')}{missing}"


def _rounded(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0f}"


def wins_table(axis: AxisReport) -> TextTable:
    """Return how often each system won against, tied with and lost to each other."""

    def against(number: int) -> Column:
        """Return the column of one opponent."""
        return Column(f"#{number + 1}", lambda row: "-".join(map(str, row[1][number])) if any(row[1][number]) else "")

    rows = list(zip(axis.wins.systems, axis.wins.counts, strict=True))
    numbers = {name: str(number) for number, name in enumerate(axis.wins.systems, 1)}
    return table_of(
        "wins",
        rows,
        (
            Column("#", lambda row: numbers[row[0]]),
            words("system", lambda row: one_line(row[0], 60)),
            *map(against, range(len(rows))),
        ),
        title=f"{axis.axis}: won-tied-lost",
        about="the row against the column",
    )


def judges_table(axis: AxisReport) -> TextTable:
    """Return how each judge decided, and how many of its decisions depend neither on the order nor on the label."""

    def informative(judge: JudgeOnAxis) -> str:
        """Return the interval of the share of matches with a winner."""
        share = judge.informative
        return UNKNOWN if share is None else ends(share.low, share.high)

    return table_of(
        "judges",
        axis.judges,
        (
            words("judge", text=lambda name: one_line(name, 60)),
            Column("matches"),
            Column("missing"),
            Column("ties", text=_share_text, heading="ties %"),
            Column("inconsistent", text=_share_text, heading="orders differ %"),
            Column("first", text=_share_text, heading="for the first %"),
            Column("winner %", "informative.value", _share_text),
            Column("95 %", informative),
        ),
        title=f"{axis.axis}: judges",
        about="winner %: matches with a winner that depends on no place and no label",
    )


def _share_text(value: float | None) -> str:
    return percent(value, 1)


def rating_forest(report: ArenaReport, axis: AxisReport) -> Picture | None:
    """Return the ratings of an arena's systems on one axis as a picture; ``None`` if ratings are withheld."""
    if axis.ratings is None or not axis.ratings.rows:
        return None
    rows = [
        Mark(
            name=row.system,
            value=row.rating,
            low=row.low,
            high=row.high,
            note=f"rank {row.rank}" if row.rank == row.worst else f"rank {row.rank} to {row.worst}",
        )
        for row in axis.ratings.rows
    ]
    return Picture(
        title=f"Ratings on {axis.axis}, {axis.matches:,} matches of {report.id}",
        words="rating (Bradley-Terry on Elo's scale, mean 1000)",
        marks=tuple(rows),
        unit="rating",
        reference=1000.0,
        spread=f"{report.arena.confidence:.0%} intervals by bootstrap over questions".replace("%", " %"),
        note=axis.withheld,
    )
