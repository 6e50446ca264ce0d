"""An arena's report as tables for the terminal. Every name and text is shown as text, never as markup."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from ragrounds.evals.arena.diagnostics import JudgeOnAxis
from ragrounds.evals.arena.ratings import RatedSystem
from ragrounds.evals.arena.report import ArenaReport, AxisReport
from ragrounds.ui.tables import Column, TextTable, print_table
from ragrounds.ui.text import TOO_FEW, UNKNOWN, dollars, figure_text, number_of, one_line, percent, tokens

_SHOWN = 5
"""Disagreements with exact scores that are listed; --json has all."""


def print_report(report: ArenaReport, console: Console) -> None:
    """Who is ahead, then each axis, the judges, what it cost, what to know."""
    arena = report.arena
    _say(
        console,
        f"{report.id}: {number_of(len(arena.systems), 'system')}, {number_of(arena.count, 'question')} of "
        f"{arena.benchmark}",
        bold=True,
    )
    for line in arena_verdict(report):
        _say(console, line)
    for axis in report.axes:
        _axis(console, report, axis)
    _costs(console, report)
    for system, count in report.empty:
        if count:
            _say(console, f"{system}: {number_of(count, 'empty answer')}; such an answer loses to any other.")
    for how, count in report.decided_without_judge.items():
        if count:
            _say(console, f"{number_of(count, 'match')} decided without a judge ({how} answers).")
    if report.left_out:
        _say(console, f"{number_of(report.left_out, 'question')} left out: some system has not been asked them yet.")
    if report.cut:
        _say(console, f"{number_of(report.cut, 'judgement')} on answers cut to the judge's window.")
    for note in report.notes:
        console.print(Text(f"Note: {note}", style="yellow"), soft_wrap=True)


def arena_verdict(report: ArenaReport) -> Iterator[str]:
    """A line for each axis: which system is ahead, as far as the intervals tell it from the others."""
    for axis in report.axes:
        if axis.withheld or axis.ratings is None or not axis.ratings.rows:
            yield f"{axis.axis}: no ratings. {axis.withheld}".rstrip()
            continue
        rows = axis.ratings.rows
        first = [row for row in rows if row.rank == 1]
        if len(first) == 1:
            others = (
                "both others" if len(rows) == 3 else "the other" if len(rows) == 2 else f"all {len(rows) - 1} others"
            )
            yield f"{axis.axis}: {first[0].system} is ahead of {others} (rating {_rated(first[0])})."
        elif len(first) == len(rows):
            highest = f"{rows[0].system} (rating {_rated(rows[0])})"
            yield f"{axis.axis}: no system is told from another; highest is {highest}."
        else:
            names = ", ".join(row.system for row in first[:3])
            more = f" and {len(first) - 3} more" if len(first) > 3 else ""
            yield f"{axis.axis}: {names}{more} are not told from each other, and are ahead of some of the others."


def _rated(row: RatedSystem) -> str:
    low, high = (UNKNOWN if bound is None else f"{bound:.0f}" for bound in (row.low, row.high))
    return f"{row.rating:.0f}, {low} to {high}"


def _axis(console: Console, report: ArenaReport, axis: AxisReport) -> None:
    missing = f", {axis.missing:,} without a verdict" if axis.missing else ""
    title = f"{axis.axis}: {number_of(axis.matches, 'match')}{missing}"
    if axis.withheld or axis.ratings is None:
        console.print()
        _say(console, title, bold=True)
        console.print(Text(axis.withheld, style="bold red"), soft_wrap=True)
    else:
        print_table(_ratings(report, axis, title), console)
    print_table(_wins(axis), console)
    _judges(console, axis)
    if axis.controlled is not None and axis.controlled.effects:
        effects = ", ".join(
            f"{name} {figure_text(effect, '+.2f')} ± {error:.2f}" for name, effect, error in axis.controlled.effects
        )
        _say(console, f"style (log-odds for one standard deviation more): {effects}")
    _corrected(console, axis)
    _exact(console, axis)


def _ratings(report: ArenaReport, axis: AxisReport, title: str) -> TextTable:
    place = {name: number for number, name in enumerate(report.names)}
    shuffled, controlled = axis.shuffled, axis.controlled
    rows = []
    for row in axis.ratings.rows if axis.ratings else ():
        number = place[row.system]
        low, high = (UNKNOWN if bound is None else f"{bound:.0f}" for bound in (row.low, row.high))
        rows.append(
            (
                f"{row.rank}" if row.rank == row.worst else f"{row.rank}-{row.worst}",
                one_line(row.system),
                f"{row.rating:.0f}",
                f"{low} to {high}",
                f"{axis.online[number]:.0f}" if axis.online else UNKNOWN,
                f"{shuffled.mean[number]:.0f} ± {shuffled.spread[number]:.0f}" if shuffled else UNKNOWN,
                f"{controlled.ratings[number]:.0f} ± {controlled.errors[number]:.0f}" if controlled else UNKNOWN,
            )
        )
    names = ("rating", f"{report.arena.confidence:.0%}", "Elo", "Elo over orders", "style held equal")
    return TextTable(
        key="ratings",
        title=title,
        about="rating: Bradley-Terry on Elo's scale, mean 1000; intervals and ranks by bootstrap over questions",
        columns=(Column("rank", right=False), Column("system", right=False), *map(Column, names)),
        rows=tuple(rows),
    )


INFORMATIVE = ("winner %", "95 %")
"""Headings: the share of a judge's matches with a winner that does not depend on place or label, and its interval."""


def informative_cells(judge: JudgeOnAxis) -> tuple[str, str]:
    """The share of a judge's matches with a winner, and its interval."""
    found = judge.informative
    if found is None:
        return UNKNOWN, UNKNOWN
    known = found.low is not None and found.high is not None
    return percent(found.value, 1), f"{percent(found.low, 1)}-{percent(found.high, 1)}" if known else TOO_FEW


def _wins(axis: AxisReport) -> TextTable:
    names = [one_line(name, 60) for name in axis.wins.systems]
    return TextTable(
        key="wins",
        title=f"{axis.axis}: won-tied-lost",
        about="the row against the column",
        columns=(
            Column("#"),
            Column("system", right=False),
            *(Column(f"#{number}") for number in range(1, len(names) + 1)),
        ),
        rows=tuple(
            (f"{number}", name, *("-".join(map(str, cell)) if any(cell) else "" for cell in row))
            for number, (name, row) in enumerate(zip(names, axis.wins.counts, strict=True), 1)
        ),
        turns=False,
    )


def _judges(console: Console, axis: AxisReport) -> None:
    names = ("matches", "missing", "ties %", "orders differ %", "place decided %", "for the first %", *INFORMATIVE)
    table = TextTable(
        key="judges",
        title=f"{axis.axis}: judges",
        about="winner %: matches with a winner that depends on no place and no label",
        columns=(Column("judge", right=False), *map(Column, names)),
        rows=tuple(
            (
                one_line(judge.judge, 60),
                f"{judge.matches:,}",
                f"{judge.missing:,}",
                *(percent(share, 1) for share in (judge.ties, judge.inconsistent, judge.reversed, judge.first)),
                *informative_cells(judge),
            )
            for judge in axis.judges
        ),
    )
    print_table(table, console)
    for pair in axis.agreement:
        if pair.items:
            alpha = UNKNOWN if pair.alpha is None else f"{pair.alpha:.2f}"
            _say(
                console,
                f"{pair.one} and {pair.other} agree on {percent(pair.same, 1)} % of {number_of(pair.items, 'match')} "
                f"(Krippendorff's alpha {alpha})",
            )
    for name, order in axis.orders_by_judge:
        _say(console, f"order by {name}: {' > '.join(order)}")
    for own in axis.self_preference:
        if own.difference is None:
            text = "no other judge to compare with: whether it favours its own cannot be said"
        else:
            error = UNKNOWN if own.error is None else f"{own.error:.3f}"
            lead = f"{figure_text(own.difference, '+.3f')} ± {error} points a match"
            text = f"{lead} against the other judges on {number_of(own.matches, 'match')}"
        _say(console, f"{own.judge} judges its own model ({', '.join(own.systems)}): {text}")


def _corrected(console: Console, axis: AxisReport) -> None:
    found = axis.corrected
    if found is None:
        return
    _say(
        console,
        f"as people would rate (prediction-powered, {found.votes:,} votes and {found.judged:,} judged matches, judge's "
        f"weight {found.weight:.2f}, worth {found.gain:.1f} times the votes):",
    )
    order = sorted(range(len(found.systems)), key=lambda one: -found.ratings[one])
    table = TextTable(
        key="corrected",
        title="",
        columns=(Column("system", right=False), Column("rating"), Column("interval")),
        rows=tuple(
            (
                one_line(found.systems[one]),
                f"{found.ratings[one]:.0f}",
                f"{found.low[one]:.0f} to {found.high[one]:.0f}",
            )
            for one in order
        ),
    )
    print_table(table, console)


def _exact(console: Console, axis: AxisReport) -> None:
    for found in axis.exact:
        _say(
            console,
            f"against {found.scorer} on {number_of(found.matches, 'match')}: {found.agree:,} agree, {found.disagree:,} "
            f"disagree, {found.arena_ties:,} ties of the arena where scores differ, {found.score_ties:,} equal scores "
            f"with a winner, {found.both_tie:,} ties of both",
        )
        for one in found.disagreements[:_SHOWN]:
            _say(
                console,
                f"- {one.question_id}: {one.winner} ({one.winner_score:.2f}) won against "
                f"{one.loser} ({one.loser_score:.2f})",
            )
        if len(found.disagreements) > _SHOWN:
            _say(console, f"- … {len(found.disagreements) - _SHOWN:,} more (--json has all)")


def _costs(console: Console, report: ArenaReport) -> None:
    table = TextTable(
        key="costs",
        title="what judging took",
        about="in, out: tokens; paid: really paid; uncached: with an empty journal",
        columns=(Column("judge", right=False), *map(Column, ("calls", "in", "out", "paid", "uncached"))),
        rows=tuple(
            (
                one_line(cost.judge, 60),
                f"{cost.calls:,}",
                tokens(cost.input),
                tokens(cost.output),
                dollars(cost.cost_paid),
                dollars(cost.cost_uncached),
            )
            for cost in report.costs
        ),
    )
    print_table(table, console)
    for failure in report.failures:
        _say(console, f"{failure.judge}: {number_of(failure.count, 'verdict')} missing: {failure.reason}")


def _say(console: Console, text: str, *, bold: bool = False) -> None:
    console.print(Text(one_line(text, 1000), style="bold" if bold else ""), soft_wrap=True)
