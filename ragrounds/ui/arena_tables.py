"""An arena's report as tables for the terminal. Every name and text is shown as text, never as markup."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ragrounds.evals.arena.diagnostics import JudgeOnAxis
from ragrounds.evals.arena.report import ArenaReport, AxisReport
from ragrounds.ui.text import TOO_FEW, UNKNOWN, dollars, figure_text, number_of, one_line, percent, tokens

_SHOWN = 5
"""Disagreements with exact scores that are listed; --json has all."""


def print_report(report: ArenaReport, console: Console) -> None:
    """Each axis, the judges, what it cost, what to know."""
    arena = report.arena
    _say(
        console,
        f"{report.id}: {len(arena.systems)} systems, {number_of(arena.count, 'question')} of {arena.benchmark}",
        bold=True,
    )
    _say(console, "ratings: Bradley-Terry on Elo's scale, mean 1000; intervals and ranks by bootstrap over questions")
    for axis in report.axes:
        _axis(console, report, axis)
    _costs(console, report)
    for system, count in report.empty:
        if count:
            _say(console, f"{system}: {count:,} empty answers, which lose to any answer.")
    for how, count in report.decided_without_judge.items():
        if count:
            _say(console, f"{count:,} {'match' if count == 1 else 'matches'} decided without a judge ({how} answers).")
    if report.left_out:
        _say(console, f"{number_of(report.left_out, 'question')} left out: some system has not been asked them yet.")
    if report.cut:
        _say(console, f"{number_of(report.cut, 'judgement')} on answers cut to the judge's window.")
    for note in report.notes:
        console.print(Text(f"Note: {note}", style="yellow"), soft_wrap=True)


def _axis(console: Console, report: ArenaReport, axis: AxisReport) -> None:
    console.print()
    missing = f", {axis.missing:,} without a verdict" if axis.missing else ""
    _say(console, f"{axis.axis}: {number_of(axis.matches, 'match')}{missing}", bold=True)
    if axis.withheld:
        console.print(Text(axis.withheld, style="bold red"), soft_wrap=True)
    elif axis.ratings is not None:
        console.print(_ratings(report, axis))
    console.print(_wins(axis))
    _judges(console, axis)
    if axis.controlled is not None and axis.controlled.effects:
        effects = ", ".join(
            f"{name} {figure_text(effect, '+.2f')} ± {error:.2f}" for name, effect, error in axis.controlled.effects
        )
        _say(console, f"style (log-odds for one standard deviation more): {effects}")
    _corrected(console, axis)
    _exact(console, axis)


def _ratings(report: ArenaReport, axis: AxisReport) -> Table:
    table = _table(
        "rank", "system", "rating", f"{report.arena.confidence:.0%}", "Elo", "Elo over orders", "style held equal"
    )
    place = {name: number for number, name in enumerate(report.names)}
    for row in axis.ratings.rows if axis.ratings else ():
        number = place[row.system]
        low, high = (UNKNOWN if bound is None else f"{bound:.0f}" for bound in (row.low, row.high))
        shuffled = axis.shuffled
        controlled = axis.controlled
        table.add_row(
            f"{row.rank}" if row.rank == row.worst else f"{row.rank}-{row.worst}",
            Text(one_line(row.system)),
            f"{row.rating:.0f}",
            f"{low} to {high}",
            f"{axis.online[number]:.0f}" if axis.online else UNKNOWN,
            f"{shuffled.mean[number]:.0f} ± {shuffled.spread[number]:.0f}" if shuffled else UNKNOWN,
            f"{controlled.ratings[number]:.0f} ± {controlled.errors[number]:.0f}" if controlled else UNKNOWN,
        )
    return table


INFORMATIVE = ("winner %", "95 %")
"""Headings: the share of a judge's matches with a winner that does not depend on place or label, and its interval."""


def informative_cells(judge: JudgeOnAxis) -> tuple[str, str]:
    """The share of a judge's matches with a winner, and its interval."""
    found = judge.informative
    if found is None:
        return UNKNOWN, UNKNOWN
    known = found.low is not None and found.high is not None
    return percent(found.value, 1), f"{percent(found.low, 1)}-{percent(found.high, 1)}" if known else TOO_FEW


def _wins(axis: AxisReport) -> Table:
    names = [one_line(name, 24) for name in axis.wins.systems]
    table = _table("won-tied-lost", *names)
    for name, row in zip(names, axis.wins.counts, strict=True):
        table.add_row(Text(name), *("-".join(map(str, cell)) if any(cell) else "" for cell in row))
    return table


def _judges(console: Console, axis: AxisReport) -> None:
    table = _table(
        "judge", "matches", "missing", "ties %", "orders differ %", "place decided %", "for the first %", *INFORMATIVE
    )
    for judge in axis.judges:
        table.add_row(
            Text(one_line(judge.judge, 60)),
            f"{judge.matches:,}",
            f"{judge.missing:,}",
            *(percent(share, 1) for share in (judge.ties, judge.inconsistent, judge.reversed, judge.first)),
            *informative_cells(judge),
        )
    console.print(table)
    for pair in axis.agreement:
        if pair.items:
            alpha = UNKNOWN if pair.alpha is None else f"{pair.alpha:.2f}"
            _say(
                console,
                f"{pair.one} and {pair.other} agree on {percent(pair.same, 1)} % of {pair.items:,} matches "
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
    table = _table("system", "rating", "interval")
    for number in sorted(range(len(found.systems)), key=lambda one: -found.ratings[one]):
        interval = f"{found.low[number]:.0f} to {found.high[number]:.0f}"
        table.add_row(Text(one_line(found.systems[number])), f"{found.ratings[number]:.0f}", interval)
    console.print(table)


def _exact(console: Console, axis: AxisReport) -> None:
    for found in axis.exact:
        _say(
            console,
            f"against {found.scorer} on {found.matches:,} matches: {found.agree:,} agree, {found.disagree:,} "
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
    console.print()
    table = _table("judge", "calls", "in", "out", "paid", "uncached")
    for cost in report.costs:
        table.add_row(
            Text(one_line(cost.judge, 60)),
            f"{cost.calls:,}",
            tokens(cost.input),
            tokens(cost.output),
            dollars(cost.cost_paid),
            dollars(cost.cost_uncached),
        )
    console.print(table)
    for failure in report.failures:
        _say(console, f"{failure.judge}: {number_of(failure.count, 'verdict')} missing: {failure.reason}")


def _table(*names: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, name in enumerate(names):
        table.add_column(Text(name), justify="left" if number == 0 or name == "system" else "right")
    return table


def _say(console: Console, text: str, *, bold: bool = False) -> None:
    console.print(Text(one_line(text, 1000), style="bold" if bold else ""), soft_wrap=True)
