"""A comparison as tables of text: what the terminal, Markdown, LaTeX and the report all draw.

Runs have a number in every table, and are called by their agents; where these are alike, also by what tells them apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from rich.console import Console
from rich.text import Text

from ragrounds.evals.compare.comparison import Comparison, RunTotals, ScorerTable
from ragrounds.evals.compare.conclusions import conclusions
from ragrounds.evals.compare.figures import Figure, GroupTable, PairedFigure
from ragrounds.evals.scorers import described
from ragrounds.records import OPEN, OUTCOMES, legend
from ragrounds.ui.average_words import average_lines
from ragrounds.ui.comparison_verdict import verdict_lines
from ragrounds.ui.corpus_versions import corpora_apart
from ragrounds.ui.frontier import frontier_tables, left_out
from ragrounds.ui.tables import Column, TextTable, print_table, results_console
from ragrounds.ui.text import (
    TOO_FEW,
    UNKNOWN,
    dollars,
    duration,
    figure_text,
    in_scale,
    p_value,
    percent,
    points,
    safe,
    tokens,
)

_LISTED = 15
"""Pairs from which on a terminal shows them as a table of differences."""


def numbered(comparison: Comparison) -> dict[str, str]:
    """Run id → its number in the tables, from 1."""
    return {row.run: str(number) for number, row in enumerate(comparison.rows, 1)}


def comparison_tables(
    comparison: Comparison,
    scorers: Sequence[str] = (),
    *,
    matrix: bool = False,
    labels: Mapping[str, str] | None = None,
) -> list[TextTable]:
    """Scores by each headline, outcomes and cost, paired differences, groups; with `scorers` by these alone.

    Args:
        comparison: of any number of runs.
        scorers: those to show; none: the headlines.
        matrix: all pairs of many runs are one table of differences, in which their tests are a mark.
        labels: run id → what a run is called beside others; by default its number: ``#1``.
    """
    numbers, names = numbered(comparison), agent_names(comparison)
    labels = labels or {run: f"#{number}" for run, number in numbers.items()}
    tables = comparison.shown(scorers)
    made = [score_table(table, numbers, names, beside) for table, beside in tables]
    made += [class_table(table, labels) for table, _ in tables if table.classes]
    made.append(outcome_table(comparison, scorers))
    for table, _ in tables:
        if table.pairs:
            many = matrix and len(table.pairs) > _LISTED and len(table.pairs) == _every_pair(len(table.lines))
            made.append(difference_matrix(table, numbers, names) if many else pair_table(table, labels))
    return made + [group_table(table, grouped, labels) for table, _ in tables for grouped in table.groups]


def cost_tables(comparison: Comparison, scorers: Sequence[str] = ()) -> list[TextTable]:
    """The frontier's tables under each scorer; none where a single run is compared."""
    numbers, agents = numbered(comparison), agent_names(comparison)
    return [
        costs
        for table, _ in comparison.shown(scorers)
        if table.frontier is not None and len(comparison.rows) > 1
        for costs in frontier_tables(table.frontier, table.scorer, numbers, agents)
    ]


def print_comparison(
    comparison: Comparison, scorers: Sequence[str] = (), console: Console | None = None, *, frontier: bool = False
) -> None:
    """Print who is ahead, the tables and the notes; with `frontier` also cost against score, with a picture."""
    console = console or results_console()
    for line in verdict_lines(comparison, scorers, numbered(comparison), agent_names(comparison)):
        console.print(Text(line))
    labels = {run: f"#{number}" for run, number in numbered(comparison).items()}
    for line in average_lines(comparison, scorers, labels):
        console.print(Text(line, style="yellow"))
    told: set[str] = set()
    for table in comparison_tables(comparison, scorers, matrix=True):
        print_table(table, console, told)
    if frontier and len(comparison.rows) > 1:
        _print_frontiers(comparison, scorers, console, told)
    for note in comparison.notes:
        console.print(Text(f"Note: {safe(note)}", style="yellow"), soft_wrap=True)


def comparison_notes(comparison: Comparison, scorers: Sequence[str] = ()) -> list[str]:
    """What stands below the tables where nothing stands above them: how averages mislead, then the notes."""
    labels = {run: f"#{number}" for run, number in numbered(comparison).items()}
    return [*average_lines(comparison, scorers, labels), *comparison.notes]


def _print_frontiers(comparison: Comparison, scorers: Sequence[str], console: Console, told: set[str]) -> None:
    from ragrounds.ui.chart_text import draw
    from ragrounds.ui.frontier import frontier_picture

    numbers, agents = numbered(comparison), agent_names(comparison)
    for table, _ in comparison.shown(scorers):
        if table.frontier is None:
            continue
        for costs in frontier_tables(table.frontier, table.scorer, numbers, agents):
            print_table(costs, console, told)
        console.print()
        picture = frontier_picture(table.frontier, table.scorer, numbers, agents)
        console.print(draw(picture, min(console.width, 100), legend=False))
        if left := left_out(table.frontier, {run: f"#{number}" for run, number in numbers.items()}):
            console.print(Text(left), soft_wrap=True)


def score_table(
    table: ScorerTable,
    numbers: Mapping[str, str],
    agents: Mapping[str, str],
    beside: Sequence[ScorerTable] = (),
) -> TextTable:
    """Every dataset, the average over them (the figure, with its interval) and over all questions (pooled), what the
    open attempts could still make of it; then the overall figures of the scorers beside the headline."""
    datasets = list(table.lines[0].datasets)
    averages = ["average", "pooled"] if len(datasets) > 1 else []
    open_ = ["at best"] if any(_is_open(line.overall) for line in table.lines) else []
    names = [*(safe(name.rpartition("/")[2]) for name in datasets), *averages, "95 %", "n", *open_]
    others = {other.scorer: {line.run: line.overall for line in other.lines} for other in beside}
    rows = []
    for line in table.lines:
        whole = line.overall
        cells = [with_error(line.datasets[name], table.unit, bool(averages)) for name in datasets]
        cells += [with_error(whole, table.unit, False), in_scale(whole.pooled, table.unit)] if averages else []
        cells += [interval(whole, table.unit)]
        cells.append(f"{whole.n:,}" + (f" ({whole.missing:,} missing)" if whole.missing else ""))
        cells += [in_scale(whole.best, table.unit)] if open_ else []
        cells += [in_scale(others[other.scorer][line.run].value, other.unit) for other in beside]
        rows.append((numbers[line.run], agents[line.run], *cells))
    headings = [other.scorer if other.unit == table.unit else f"{other.scorer} ({other.unit})" for other in beside]
    lower = ", lower is better" if table.direction == "lower" else ""
    plain = any("±" in cell for row in rows for cell in row[2:])
    named = "; ±: MIRAGE's sqrt(p(1-p)/n), no interval" if plain else ""
    return TextTable(
        key="scores",
        scorer=table.scorer,
        title=f"{table.scorer}, {table.unit}{lower}",
        about=f"{described(table.scorer).summary}{named}",
        columns=(Column("#"), Column("agent", right=False), *(Column(name) for name in (*names, *headings))),
        rows=tuple(rows),
    )


def class_table(table: ScorerTable, labels: Mapping[str, str]) -> TextTable:
    """Precision, recall and F1 by class, of several runs also against the first."""
    several = len({one.dataset for one in table.classes}) > 1
    against = len(table.lines) > 1
    first = labels[table.lines[0].run]
    names = ["to find", "given", "right", "precision", "recall", "F1", "95 %"]
    names += [f"F1 - {first}", "95 %"] if against else []
    rows = []
    for one in table.classes:
        whole = Figure(value=one.f1, n=0, missing=0, low=one.low, high=one.high)
        cells = [*map(_amount, (one.wanted, one.given, one.right)), percent(one.precision), percent(one.recall)]
        cells += [percent(one.f1), interval(whole)]
        if against:
            tests = PairedFigure(difference=one.difference, low=one.difference_low, high=one.difference_high, n=0)
            # The first run stands against nothing.
            cells += [points(one.difference), difference_interval(tests)] if one.difference is not None else ["", ""]
        dataset = [safe(one.dataset.rpartition("/")[2])] if several else []
        rows.append((*dataset, safe(one.name) or "all", labels[one.run], *cells))
    leading = [*(["dataset"] if several else []), "type"]
    return TextTable(
        key="classes",
        scorer=table.scorer,
        title=f"{table.scorer} by type, percent",
        about="to find, given, right: triplets",
        columns=(*(Column(name, right=False) for name in leading), Column("#"), *(Column(name) for name in names)),
        rows=tuple(rows),
    )


def _amount(value: float) -> str:
    """A mean over epochs of counts."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def outcome_table(comparison: Comparison, scorers: Sequence[str] = ()) -> TextTable:
    """How attempts ended, and what they took."""
    counted = comparison.outcomes(scorers)
    used = [name for name in OUTCOMES if any(counts[name] for counts in counted.values())]
    retried = any(row.retried for row in comparison.rows)
    judged = any(row.judging_calls for row in comparison.rows)
    unseen = any(row.unrecorded for row in comparison.rows)
    names = [
        *(name.replace("_", " ") for name in used),
        *(["retried"] if retried else []),
        "calls",
        *(["not recorded"] if unseen else []),
        "in",
        "out",
        "paid",
        "uncached",
        *(["judging"] if judged else []),
        "time",
    ]
    numbers, agents = numbered(comparison), agent_names(comparison)
    told = legend(name for name in used if name in OPEN | {"blocked", "empty"})
    return TextTable(
        key="outcomes",
        title="outcomes and cost",
        about="in, out: tokens; paid: really paid; uncached: with an empty journal; "
        + ("judging: paid for judges of these answers, in no other column; " if judged else "")
        + "time: a question"
        + (f"; {told}" if told else ""),
        columns=(Column("#"), Column("agent", right=False), *(Column(name) for name in names)),
        rows=tuple(
            (
                numbers[row.run],
                agents[row.run],
                *(f"{counted.get(row.run, Counter())[name]:,}" for name in used),
                *([f"{row.retried:,}"] if retried else []),
                *_took(row, judged, unseen),
            )
            for row in comparison.rows
        ),
    )


def pair_table(table: ScorerTable, labels: Mapping[str, str]) -> TextTable:
    """Every pair of runs. Of those that ended by their own results the interval and the p value are always valid."""
    unit = "percentage points" if table.unit == "percent" else table.unit
    corrected = len(table.pairs) > 1
    binary = any(pair.tests.p_mcnemar is not None for pair in table.pairs)
    watched = any(pair.tests.draws is not None for pair in table.pairs)
    tested = ["only 2nd right", "only 1st right", "McNemar p", *(["Holm p"] if corrected else []), "MDE"]
    names = ["difference", "95 %", *(tested if binary else []), *(["always-valid p", "draws"] if watched else [])]
    rows = []
    for pair in table.pairs:
        tests = pair.tests
        cells = [_difference(tests.difference, table.unit), difference_interval(tests, table.unit)]
        if binary:
            cells += [_count(tests.second_only), _count(tests.first_only), p_value(tests.p_mcnemar)]
            cells += [p_value(pair.p_holm)] if corrected else []
            cells.append(TOO_FEW if _undetectable(tests) else percent(tests.mde, 1))
        cells += [p_value(tests.p_always), _count(tests.draws)] if watched else []
        rows.append((f"{labels[pair.second]} - {labels[pair.first]}", *cells))
    return TextTable(
        key="pairs",
        scorer=table.scorer,
        title=f"paired differences under {table.scorer}, {unit}",
        about="; ".join(
            [
                *(["with an always-valid p, 95 % is a confidence sequence"] if watched else []),
                *([_UNDETECTABLE] if any(_undetectable(pair.tests) for pair in table.pairs) else []),
            ]
        ),
        columns=(Column("2nd - 1st", right=False), *(Column(name) for name in names)),
        rows=tuple(rows),
    )


_UNDETECTABLE = f"MDE {TOO_FEW}: too few questions differ to show any difference reliably"


def _undetectable(tests: PairedFigure) -> bool:
    """Whether a test was made that could show no difference, however the questions that differ went."""
    return tests.mde is None and tests.p_mcnemar is not None


def difference_matrix(table: ScorerTable, numbers: Mapping[str, str], names: Mapping[str, str]) -> TextTable:
    """The differences of all pairs, the line's run minus the column's, with a mark where the corrected tests carry
    them."""
    carried = {frozenset((one.better, one.worse)) for one in conclusions(table)}
    found = {(pair.first, pair.second): pair.tests.difference for pair in table.pairs}
    runs = [line.run for line in table.lines]

    def _cell(run: str, other: str) -> str:
        if run == other:
            return "·"
        value = found.get((other, run))
        opposite = found.get((run, other))
        value = -opposite if value is None and opposite is not None else value
        return _difference(value, table.unit, 1) + ("*" if frozenset((run, other)) in carried else "")

    unit = "percentage points" if table.unit == "percent" else table.unit
    return TextTable(
        key="pairs",
        scorer=table.scorer,
        title=f"paired differences under {table.scorer}, {unit}",
        about=f"line minus column; *: the tests tell the two apart, corrected over {len(table.pairs):,} pairs; "
        "intervals and p of each pair: --csv, --markdown, --baseline RUN",
        columns=(
            Column("#"),
            Column("agent", right=False),
            *(Column(f"#{numbers[run]}") for run in runs),
        ),
        rows=tuple((numbers[run], names[run], *(_cell(run, other) for other in runs)) for run in runs),
        turns=False,
    )


def _every_pair(runs: int) -> int:
    return runs * (runs - 1) // 2


def group_table(table: ScorerTable, grouped: GroupTable, labels: Mapping[str, str]) -> TextTable:
    """The figures of each group of questions; with two runs also their difference."""
    two = len(table.lines) == 2
    names = ["n", *(labels[line.run] for line in table.lines)]
    names += [f"{labels[table.lines[1].run]} - {labels[table.lines[0].run]}", "95 %", "Holm p"] if two else []
    rows = []
    for group in grouped.groups:
        cells = [with_error(group.figures[line.run], table.unit) for line in table.lines]
        if two:
            tests = group.pairs[0].tests
            cells += [_difference(tests.difference, table.unit), difference_interval(tests, table.unit)]
            cells.append(p_value(group.pairs[0].p_holm))
        rows.append((safe(group.name), f"{group.questions:,}", *cells))
    return TextTable(
        key="group",
        scorer=table.scorer,
        title=f"{table.scorer} by {safe(grouped.by)}, {table.unit}",
        columns=(Column(safe(grouped.by), right=False), *(Column(name) for name in names)),
        rows=tuple(rows),
    )


def with_error(figure: Figure, unit: str = "percent", alone: bool = True) -> str:
    """A figure with the ± of MIRAGE's tables. Where that is 0, because all answers of a dataset are alike, the interval
    stands in its place, or nothing where the figure is not `alone`: a column beside it holds its interval."""
    if figure.error is None or figure.value is None:
        return in_scale(figure.value, unit)
    if figure.error == 0:
        return f"{in_scale(figure.value, unit)} ({interval(figure, unit)})" if alone else in_scale(figure.value, unit)
    return f"{in_scale(figure.value, unit)} ±{in_scale(figure.error, unit)}"


def interval(figure: Figure, unit: str = "percent") -> str:
    """The ends of a figure's interval: in percent, or as they are in another unit."""
    if figure.low is None or figure.high is None:
        return UNKNOWN if figure.value is None else TOO_FEW
    if unit == "percent":
        return f"{percent(figure.low, 1)}-{percent(figure.high, 1)}"
    return f"{figure_text(figure.low, '.4g')} to {figure_text(figure.high, '.4g')}"


def difference_interval(tests: PairedFigure, unit: str = "percent") -> str:
    """The ends of a difference's interval: in percentage points, or as they are in another unit."""
    if tests.low is None:
        return UNKNOWN if tests.difference is None or tests.draws is not None else TOO_FEW
    return f"{_difference(tests.low, unit, 1)} to {_difference(tests.high, unit, 1)}"


def _difference(value: float | None, unit: str, digits: int = 2) -> str:
    return points(value, digits) if unit == "percent" or value is None else figure_text(value, "+.4g")


def _took(row: RunTotals, judged: bool, unseen: bool) -> tuple[str, ...]:
    return (
        f"{row.calls:,}",
        *([f"{row.unrecorded:,}"] if unseen else []),
        tokens(row.usage.input if row.usage else None),
        tokens(row.usage.output if row.usage else None),
        dollars(row.cost_paid),
        dollars(row.cost_uncached),
        *([dollars(row.cost_judging) if row.judging_calls else UNKNOWN] if judged else []),
        duration(row.seconds),
    )


def _is_open(figure: Figure) -> bool:
    # The two are added up in different orders: a remainder of rounding is no difference.
    return figure.best is not None and figure.value is not None and figure.best > figure.value + 1e-9


def _count(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def agent_names(comparison: Comparison, longest: int | None = None) -> dict[str, str]:
    """Run id → its name, else its agent's text. Runs that are called alike are told apart by their agents, else by
    models, corpora and retrievers, as ``direct (openai:NAME)``, ``vanilla_rag (lib@75185c)``; where that is not enough,
    by their ids. Safe to show.

    Args:
        comparison: of these runs.
        longest: characters of a name, about; longer ones lose the end of the agent's text, not what tells them apart.
    """
    alike: dict[str, list[RunTotals]] = {}
    for row in comparison.rows:
        alike.setdefault(row.name or row.agent, []).append(row)
    return {
        row.run: safe(called, longest and max(20, longest - len(apart))) + (safe(f" ({apart})") if apart else "")
        for called, rows in alike.items()
        for row, apart in zip(rows, _apart(rows), strict=True)
    }


def _apart(rows: Sequence[RunTotals]) -> list[str]:
    if len(rows) == 1:
        return [""]
    agents = [row.agent for row in rows]
    if len(set(agents)) == len(rows):
        return agents
    searched = corpora_apart([row.corpus for row in rows])
    short, whole = (
        _joined(_models(rows, read), searched, _differing([read(row.retriever) for row in rows]))
        for read in (_short, str)
    )
    for found in (short, whole):
        if len(set(found)) == len(rows):
            return found
    return [", ".join(part for part in (said, row.run) if part) for said, row in zip(short, rows, strict=True)]


def _short(spec: str) -> str:
    return spec.partition("[")[0]


def _joined(*parts: Sequence[str]) -> list[str]:
    """Of each run its parts that say something."""
    return [", ".join(filter(None, each)) for each in zip(*parts, strict=True)]


def _differing(values: Sequence[str]) -> list[str]:
    """The values where they are not all alike, else nothing."""
    return list(values) if len(set(values)) > 1 else [""] * len(values)


def _models(rows: Sequence[RunTotals], read: Callable[[str], str]) -> list[str]:
    """Of each run the models that not all of them have."""
    roles = list(dict.fromkeys(role for row in rows for role in row.models))
    differing = [role for role in roles if len({read(row.models.get(role, "-")) for row in rows}) > 1]
    return [
        ", ".join(("" if role == "model" else f"{role}: ") + read(row.models.get(role, "-")) for role in differing)
        for row in rows
    ]
