"""A comparison on one screen: what can be concluded, with accuracy and cost; a line a run; the frontier; what is
doubtful. Every test and table is behind ``--full``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from ragrounds.base.records import OUTCOMES
from ragrounds.evals.compare.comparison import Comparison, RunFigures, RunTotals, ScorerTable, kinds_of
from ragrounds.evals.compare.figures import PairedFigure
from ragrounds.evals.compare.findings import conclusions, finding, untested
from ragrounds.evals.compare.published import PrintedFigure
from ragrounds.evals.scorers import described
from ragrounds.ui.columns import Column, TextTable, table_of, words
from ragrounds.ui.pictures.chart_text import draw
from ragrounds.ui.pictures.frontier import amount, frontier_picture, titled_by
from ragrounds.ui.tables.comparison_words import listed, verdict_lines
from ragrounds.ui.tables.text_tables import print_table
from ragrounds.ui.text import (
    difference_text,
    dollars,
    duration,
    ends,
    figure_text,
    in_scale,
    number_of,
    one_line,
    percent,
    safe,
    tokens,
)

_PICTURE = 80, 7
"""Columns and lines of the frontier."""
_NAME = 30
"""Columns of a run's name in the table."""
_NOTES = 2
"""Notes that are printed; of more it is said how many."""
_HUNDRED = 100
"""Questions that a price is of."""


class RunCost(Struct, frozen=True):
    """What a run costs; ``None``: not known."""

    dollars: float | None
    """Of 100 questions at full price."""
    tokens: float | None
    """Of one question."""


class _Line(Struct, frozen=True):
    """A run on one screen."""

    totals: RunTotals
    figures: RunFigures | None
    """Under the first headline."""
    cost: RunCost
    against: PairedFigure | None
    """Its difference to the run that the others are set against."""
    mark: str
    """▲ or ▼ where that is significant."""


def print_one_screen(
    comparison: Comparison, scorers: Sequence[str], names: Mapping[str, str], console: Console
) -> None:
    """Print it: at most 24 lines of 80 columns for up to five runs, and one more for each further run.

    Args:
        comparison: of any number of runs.
        scorers: those that were asked for; none: the headlines.
        names: run id → what the run is called, safe to show.
        console: where.
    """
    width, shown = min(console.width, 100), [table for table, _ in comparison.shown(scorers)]
    said = conclusion_lines(comparison, scorers, names)
    for line in (one for one in said if "`" in one):
        console.print(Text(line), soft_wrap=True)  # a command is pasted whole
    console.print(Text("\n".join(wrap(" ".join(one for one in said if "`" not in one), width))))
    print_table(summary_table(comparison, shown, names), console)
    for line in table_remarks(comparison, shown, names):
        console.print(Text("\n".join(wrap(line, width)), style="dim"))
    frontier = shown[0].frontier if shown and len(comparison.rows) > 2 else None
    if frontier is not None and len(frontier.points) > 1:
        picture = frontier_picture(frontier, shown[0].scorer, names)
        console.print(draw(picture, min(console.width, _PICTURE[0]), _PICTURE[1]))
    for note in comparison.notes[:_NOTES]:
        console.print(Text(f"Note: {safe(note)}", style="yellow"), soft_wrap=True)
    if comparison.notes[_NOTES:]:
        console.print(Text(f"{number_of(len(comparison.notes[_NOTES:]), 'more note')}: --full", style="yellow"))


def conclusion_lines(comparison: Comparison, scorers: Sequence[str], names: Mapping[str, str]) -> list[str]:
    """What can be concluded, with accuracy and cost, a sentence or a few each."""
    shown = [table for table, _ in comparison.shown(scorers)]
    nothing = [] if shown else ["No answer has a score yet."]
    first, *others = [*nothing, *verdict_lines(comparison, scorers, names, prices(comparison, shown)), ""]
    return [one for one in (first, *_trade(shown[:1], names), *others, *_no_model(comparison, names)) if one]


def table_remarks(comparison: Comparison, shown: Sequence[ScorerTable], names: Mapping[str, str]) -> list[str]:
    """The lines below :func:`summary_table`: what its marks mean, and what is doubtful."""
    return [*_of_marks(shown[:1], names), *_doubts(comparison, shown, names)]


def prices(comparison: Comparison, shown: Sequence[ScorerTable]) -> dict[str, str]:
    """Run id → what 100 questions cost, in words: dollars at full price, tokens where these are not known or are 0."""
    costs = run_costs(comparison, shown)
    if any(cost.dollars for cost in costs.values()):
        return {
            run: f"{dollars(cost.dollars)} per {_HUNDRED} questions" if cost.dollars is not None else "an unknown price"
            for run, cost in costs.items()
        }
    return {run: f"{tokens(cost.tokens)} tokens a question" for run, cost in costs.items() if cost.tokens is not None}


def summary_table(
    comparison: Comparison,
    shown: Sequence[ScorerTable],
    names: Mapping[str, str],
    printed: Mapping[str, PrintedFigure] = MappingProxyType({}),
) -> TextTable:
    """A line a run, the best first: the figures of the headlines, the difference to the best or to the baseline, cost,
    tokens, seconds. What is the same of every run is in no column. `printed` holds run id → what a paper printed for
    the same, which has a line below the run's."""
    lines = list(_lines(comparison, shown))
    one = len(lines) == 1
    short = {run: one_line(name, _NAME) for run, name in names.items()}
    if len(set(short.values())) < len(short):  # they differ further behind
        short = dict(names)
    first = shown[0] if shown else None
    others = {table.scorer: {line.run: line.overall for line in table.lines} for table in shown[1:]}
    whom = _reference(first) if first and first.pairs else ""

    def value(line: _Line) -> str:
        return in_scale(line.figures.overall.value, first.unit) if line.figures and first else ""

    def other(table: ScorerTable) -> Column:
        """The column of another headline."""
        return Column(_heading(table), lambda line: in_scale(others[table.scorer][line.totals.run].value, table.unit))

    def differs(of: object) -> bool:
        return one or len({str(of(line)) for line in lines}) > 1  # type: ignore[operator]

    def interval(line: _Line) -> str:
        found = line.figures.overall if line.figures else None
        return "" if found is None or found.value is None or not first else ends(found.low, found.high, first.unit, 0)

    def difference(line: _Line) -> str:
        found = line.against.difference if line.against else None
        return "" if found is None or not first else line.mark + difference_text(found, first.unit, 1)

    def difference_ends(line: _Line) -> str:
        found = line.against
        known = found if found is not None and found.difference is not None else None
        return ends(known.low, known.high, first.unit, 0, signed=True) if known and first else ""

    def price(line: _Line) -> str:
        return dollars(line.cost.dollars)

    def used(line: _Line) -> str:
        return tokens(line.cost.tokens)

    def time(line: _Line) -> str:
        return duration(line.totals.seconds)

    def asked(line: _Line) -> str:
        return f"{line.figures.overall.n:,}" if line.figures else ""

    columns = (
        words("agent", lambda line: short[line.totals.run], whole=True),
        Column(_heading(first), value) if first else None,
        Column("95 %", interval) if first else None,
        *map(other, shown[1:]),
        Column("diff.", difference) if whom else None,
        Column("95 % ", difference_ends) if whom else None,
        Column("n", asked) if first and not one and differs(asked) else None,
        Column(f"$/{_HUNDRED}", price) if differs(price) else None,
        Column("tokens", used, spare=1) if differs(used) else None,
        Column("time", time, spare=2) if differs(time) else None,
    )
    title = f"{safe(comparison.benchmark)} · {number_of(comparison.questions, 'question')}"
    counts = {table.scorer: max(one.overall.n for one in table.lines) for table in shown}
    if set(counts.values()) - {comparison.questions}:
        title += f" ({', '.join(f'{count:,} {scorer}' for scorer, count in counts.items())})"
    title += f" × {comparison.epochs}" if comparison.epochs > 1 else ""
    percents = any(table.unit == "percent" for table in shown)
    made = table_of("summary", lines, columns, title=f"{title} · percent" if percents else title)
    rows = list[tuple[str, ...]]()
    for line, row in zip(lines, made.rows, strict=True):
        rows.append(row)
        if found := printed.get(line.totals.run):
            said = safe(f"  published ({found.source}: {found.row})"), figure_text(found.value, ".2f")
            rows.append((*said, *("",) * (len(row) - len(said))))
    return replace(made, rows=tuple(rows))


def paper_table(comparison: Comparison, scorers: Sequence[str], names: Mapping[str, str]) -> TextTable:
    """The summary for one column of a paper: without time, and tokens where there is a price; its caption says what
    its marks mean, and what is doubtful."""
    shown = [table for table, _ in comparison.shown(scorers)]
    made = summary_table(comparison, shown, names)
    priced = any(column.name.startswith("$") for column in made.columns)
    kept = [place for place, column in enumerate(made.columns) if column.spare < (1 if priced else 2)]
    first = f"{titled_by(shown[0].scorer)}, with 95 % intervals: " if shown else ""
    said = [f"{first}{made.title.replace(' · ', ', ')}", *table_remarks(comparison, shown, names)]
    caption = " ".join(f"{one[:1].upper()}{one[1:].removesuffix('.')}." for one in said)
    columns = tuple(made.columns[place] for place in kept)
    rows = tuple(tuple(row[place] for place in kept) for row in made.rows)
    return TextTable(key="summary", title=caption, columns=columns, rows=rows)


def _heading(table: ScorerTable) -> str:
    """The scorer: every figure says its own. ↓: lower is better."""
    said = table.scorer if table.unit == "percent" else f"{table.scorer} ({table.unit})"
    return f"{said} ↓" if table.direction == "lower" else said


def _lines(comparison: Comparison, shown: Sequence[ScorerTable]) -> Iterator[_Line]:
    """The runs, the best first."""
    first = shown[0] if shown else None
    figures = {line.run: line for line in first.lines} if first else {}
    costs = run_costs(comparison, shown)
    whom = _reference(first) if first and first.pairs else ""
    found = conclusions(first) if first else ()
    down = first is not None and first.direction == "lower"

    def rank(row: RunTotals) -> tuple[bool, float]:
        line = figures.get(row.run)
        value = line.overall.value if line else None
        return value is None, 0.0 if value is None else value if down else -value

    for row in sorted(comparison.rows, key=rank):
        against = _against(first, whom, row.run) if first and row.run != whom else None
        better = next((one.better for one in found if {one.better, one.worse} == {row.run, whom}), "")
        mark = "" if not better else "▲" if (better == row.run) != down else "▼"
        yield _Line(row, figures.get(row.run), costs[row.run], against, mark)


def _reference(table: ScorerTable) -> str:
    """The run that the others are set against: the baseline where every pair has it, else the best; empty: no run has a
    figure."""
    common = set.intersection(*({pair.first, pair.second} for pair in table.pairs))
    if len(common) == 1:
        return common.pop()
    found = finding(table)
    return found.best.run if found else ""


def _against(table: ScorerTable, whom: str, run: str) -> PairedFigure | None:
    for pair in table.pairs:
        if {pair.first, pair.second} == {run, whom}:
            tests = pair.tests
            return tests if pair.second == run else _turned(tests)
    return None


def _turned(tests: PairedFigure) -> PairedFigure:
    """A difference from the other side."""

    def minus(value: float | None) -> float | None:
        return None if value is None else -value

    return PairedFigure(
        difference=minus(tests.difference), low=minus(tests.high), high=minus(tests.low), n=tests.n, draws=tests.draws
    )


def run_costs(comparison: Comparison, shown: Sequence[ScorerTable]) -> dict[str, RunCost]:
    """Run id → what it costs; dollars are averaged over datasets as the first headline is, where they are placed by
    it."""
    frontier, found = shown[0].frontier if shown else None, dict[str, RunCost]()
    placed = frontier.points if frontier is not None and frontier.measure == "cost_uncached" else ()
    averages = {point.run: point.cost.value for point in placed}
    for row in comparison.rows:
        each = averages.get(row.run)
        if each is None and row.made and row.cost_uncached is not None:
            each = row.cost_uncached / row.made
        used = (row.usage.input + row.usage.output) / row.made if row.usage and row.made else None
        found[row.run] = RunCost(None if each is None else _HUNDRED * each, used)
    return found


def _trade(shown: Sequence[ScorerTable], names: Mapping[str, str]) -> Iterator[str]:
    """What the best costs beside a cheaper run: one that is not significantly different, else the next on the
    frontier."""
    for table in shown:
        frontier, found = table.frontier, finding(table)
        if frontier is None or found is None:
            continue
        costs = {point.run: point.cost.value or 0.0 for point in frontier.points}
        scores = {line.run: line.overall.value or 0.0 for line in table.lines}
        best = costs.get(found.best.run, 0.0)
        if cheaper := [run for run in found.untold if costs.get(run, best) < best]:
            run = max(cheaper, key=lambda one: scores[one] * (1 if found.direction == "higher" else -1))
            kind = {"tokens": "tokens", "seconds": "time", "model_calls": "calls"}.get(frontier.measure, "price")
            share = f"{percent(costs[run] / best, 0)} % of its {kind}"
            score = in_scale(scores[run], found.unit)
            yield f"{names[run]} ({score}) takes {share} and is not significantly different."
            return
        for one in frontier.tradeoffs if described(table.scorer).accuracy else ():
            if one.dearer == found.best.run and one.price.value is not None:
                price = amount(one.price.value, frontier.measure) + (" tokens" if frontier.measure == "tokens" else "")
                yield f"One more right answer costs {price} with it, against {names[one.cheaper]}."


def _no_model(comparison: Comparison, names: Mapping[str, str]) -> Iterator[str]:
    """That no language model answered."""
    found = kinds_of([(row.run, row.no_model) for row in comparison.rows])
    for kind, runs in found.items():
        whose = "" if len(runs) == len(comparison.rows) else f" for {listed([names[run] for run in runs])}"
        what = "the built-in baseline" if kind == "extractive" else "the stand-in server"
        yield f"No language model answered{whose}, but {what}."


def _of_marks(shown: Sequence[ScorerTable], names: Mapping[str, str]) -> Iterator[str]:
    """What the differences are to, and what decides that one is significant."""
    for table in shown:
        if not table.pairs or not (whom := _reference(table)):
            continue
        found = conclusions(table)
        by = {"exact": "", "always-valid": ", always-valid test", "interval": ", by its interval"}
        test = f"5 %{by[found[0].test]}" if found else "5 %"
        test += f", Holm over {len(table.pairs):,} pairs" if len(table.pairs) > 1 else ""
        head = "▲▼ significant" if found else "none is significant"
        decides = "no test fits these scores" if untested(table) else f"{head} ({test})"
        alone = {frozenset((pair.first, pair.second)) for pair in table.pairs if pair.tests.leaves_out_0}
        own = "" if alone <= {frozenset((one.better, one.worse)) for one in found} else ", each with its own interval"
        yield f"diff.: to {names[whom]}{own}; {decides}"


def _doubts(comparison: Comparison, shown: Sequence[ScorerTable], names: Mapping[str, str]) -> Iterator[str]:
    """What was not answered, what was not recorded, and costs that are at least."""
    counted, said = comparison.outcomes(), []
    figures = {line.run: line.overall for line in shown[0].lines} if shown else {}
    for row in comparison.rows:
        outcomes: Mapping[str, int] = counted.get(row.run, {})
        left = [name for name in OUTCOMES if name != "answered" and outcomes.get(name)]
        parts = [f"{outcomes[name]:,} {name.replace('_', ' ')}" for name in left]
        found = figures.get(row.run)
        if parts and found and found.is_open:
            parts.append(f"at best {in_scale(found.best, shown[0].unit)}")
        if found and found.missing:
            parts.append(f"{found.missing:,} without a score")
        if row.unrecorded:
            parts.append(f"{number_of(row.unrecorded, 'call')} not recorded")
        if row.unanswered:
            parts.append(f"{number_of(row.unanswered, 'request')} without an answer, so costs are at least")
        if parts:
            said.append(f"{names[row.run]} {', '.join(parts)}")
    if said:
        yield f"Not answered: {'; '.join(said)}."
