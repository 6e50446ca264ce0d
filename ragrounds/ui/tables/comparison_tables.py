"""A comparison as tables of text, for the terminal, Markdown, LaTeX and the report.

Runs are named by their agents; runs of the same agent are also named by what distinguishes them.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.text import Text

from ragrounds.base.records import OPEN, OUTCOMES
from ragrounds.evals.compare.comparison import Comparison, RunFigures, ScorerTable
from ragrounds.evals.compare.figures import Figure, GroupTable, PairedFigure
from ragrounds.evals.compare.findings import in_order
from ragrounds.evals.scorers import described
from ragrounds.ui.agent_names import agent_names
from ragrounds.ui.columns import Column, TextTable, table_of, words
from ragrounds.ui.pictures.chart_text import draw
from ragrounds.ui.pictures.frontier import frontier_picture, frontier_tables, left_out
from ragrounds.ui.tables.comparison_columns import TOTALS
from ragrounds.ui.tables.comparison_words import verdict_lines
from ragrounds.ui.tables.one_screen import price_columns, print_one_screen
from ragrounds.ui.tables.text_tables import print_table, results_console
from ragrounds.ui.text import TOO_FEW, UNKNOWN, difference_text, ends, in_scale, p_value, percent, safe


def comparison_tables(comparison: Comparison, scorers: Sequence[str] = ()) -> list[TextTable]:
    """Return the tables of a comparison.

    These are the scores by each headline, outcomes and cost, paired differences, groups, and the frontier if there are
    several runs; the best run is first. With `scorers`, only the tables of these are returned.
    """
    comparison = in_order(comparison, scorers)
    names, tables = agent_names(comparison), comparison.headline_tables(scorers)
    tables_of_text = [score_table(table, names, next_to) for table, next_to in comparison.shown_tables(scorers)]
    tables_of_text.append(outcome_table(comparison, scorers))
    tables_of_text += [pair_table(table, names) for table in tables if table.pairs]
    tables_of_text += [group_table(table, grouped, names) for table in tables for grouped in table.groups]
    placed = [(table, table.frontier) for table in tables if table.frontier is not None and len(comparison.rows) > 1]
    for table, frontier in placed:
        questions = max(line.overall.n for line in table.lines)
        tables_of_text += frontier_tables(frontier, table.scorer, names, questions)
    return tables_of_text


def printed_figures(comparison: Comparison) -> dict[str, str]:
    """Return every cell of the tables that contains a digit, by its table, row and column."""
    return {
        f"{table.title}, {row[0]}, {column.name}": cell
        for table in comparison_tables(comparison)
        for row in table.rows
        for column, cell in zip(table.columns, row, strict=True)
        if re.search(r"\d", cell) and column is not table.columns[0]
    }


def print_comparison(
    comparison: Comparison, scorers: Sequence[str] = (), console: Console | None = None, *, full: bool = False
) -> None:
    """Print a comparison on one screen; with `full`, every table, test, picture of the frontier and note."""
    console, names = console or results_console(), agent_names(comparison)
    if not full:
        print_one_screen(comparison, scorers, names, console)
        for table_with_groups in comparison.headline_tables(scorers):
            for grouped in table_with_groups.groups:  # only if they were requested
                print_table(group_table(table_with_groups, grouped, names), console)
        return
    for line in verdict_lines(comparison, scorers, names):
        console.print(Text(line), soft_wrap="`" in line)  # unwrapped, so that a command can be pasted whole
    for table in comparison_tables(comparison, scorers):
        print_table(table, console)
    for placed in comparison.headline_tables(scorers) if len(comparison.rows) > 1 else ():
        if placed.frontier is not None:
            console.print()
            console.print(draw(frontier_picture(placed.frontier, placed.scorer, names), min(console.width, 100)))
            if sentence := left_out(placed.frontier, names):
                console.print(Text(sentence), soft_wrap=True)
    for note in comparison.notes:
        console.print(Text(f"Note: {safe(note)}"), soft_wrap=True)


def score_table(table: ScorerTable, names: Mapping[str, str], secondary: Sequence[ScorerTable] = ()) -> TextTable:
    """Return the scores of one headline.

    The columns are every dataset, the average over datasets (the figure, with its interval), the average over all
    questions (pooled), the best figure that open attempts could still lead to, and the overall figures of the scorers
    next to the headline, `secondary`.
    """
    unit, datasets, averaged = table.unit, list(table.lines[0].datasets), len(table.lines[0].datasets) > 1
    values = {
        scorer_table.scorer: {line.run: line.overall.value for line in scorer_table.lines} for scorer_table in secondary
    }

    def dataset(name: str) -> Column:
        """Return the column of a dataset's figures."""
        write = figure_words if averaged else lambda figure, unit: in_scale(figure.value, unit)
        return Column(safe(name.rpartition("/")[2]), lambda line: write(line.datasets[name], unit))

    def other(scorer_table: ScorerTable) -> Column:
        """Return the column of a scorer next to the headline."""
        heading = scorer_table.scorer if scorer_table.unit == unit else f"{scorer_table.scorer} ({scorer_table.unit})"
        return Column(heading, lambda line: in_scale(values[scorer_table.scorer][line.run], scorer_table.unit))

    def scored(line: RunFigures) -> str:
        """Return how many questions have a score, and how many do not."""
        return f"{line.overall.n:,}" + (f" ({line.overall.missing:,} missing)" if line.overall.missing else "")

    return table_of(
        "scores",
        table.lines,
        (
            words("agent", lambda line: names[line.run]),
            *map(dataset, datasets),
            Column("average", lambda line: in_scale(line.overall.value, unit)) if averaged else None,
            Column("pooled", lambda line: in_scale(line.overall.pooled, unit)) if averaged else None,
            Column("95 %", lambda line: interval(line.overall, unit)),
            Column("n", scored),
            Column("at best", lambda line: in_scale(line.overall.best, unit))
            if any(line.overall.is_open for line in table.lines)
            else None,
            *map(other, secondary),
        ),
        scorer=table.scorer,
        title=f"{table.scorer}, {unit}{', lower is better' if table.direction == 'lower' else ''}",
        about=described(table.scorer).summary,
    )


def outcome_table(comparison: Comparison, scorers: Sequence[str] = ()) -> TextTable:
    """Return how attempts ended, with their calls, tokens, costs and time."""
    counted = comparison.outcomes(scorers)
    used = [name for name in OUTCOMES if any(counts[name] for counts in counted.values())]
    is_judged = any(row.judging_calls for row in comparison.rows)
    names, explained = agent_names(comparison), [name for name in used if name in OPEN | {"blocked", "empty"}]
    legend = "; ".join(f"{name.replace('_', ' ')}: {OUTCOMES[name]}" for name in explained)

    def outcome(name: str) -> Column:
        """Return the column of an outcome's attempts."""
        return Column(name.replace("_", " "), lambda row: counted.get(row.run, Counter())[name])

    return table_of(
        "outcomes",
        comparison.rows,
        (words("agent", lambda row: names[row.run]), *map(outcome, used), *TOTALS),
        title="outcomes and cost",
        about="in, out: tokens; paid: really paid; full price: without cached calls; "
        + ("judging: paid for judges of these answers, in no other column; " if is_judged else "")
        + "time: a question"
        + (f"; {legend}" if legend else ""),
    )


def pair_table(table: ScorerTable, names: Mapping[str, str]) -> TextTable:
    """Return the paired differences of all runs.

    For runs that ended by their own results, the interval and the p value are always valid.
    """
    unit = "percentage points" if table.unit == "percent" else table.unit
    binary = any(pair.tests.p_mcnemar is not None for pair in table.pairs)
    watched = any(pair.tests.draws is not None for pair in table.pairs)
    tested = (
        Column("only 2nd right", "tests.second_only"),
        Column("only 1st right", "tests.first_only"),
        Column("exact p", "tests.p_mcnemar", p_value),
        Column("Holm p", "p_holm", p_value) if len(table.pairs) > 1 else None,
        Column("MDE", lambda pair: TOO_FEW if _is_undetectable(pair.tests) else percent(pair.tests.mde, 1)),
    )
    sequential = Column("always-valid p", "tests.p_always", p_value), Column("draws", "tests.draws")
    about = ["with an always-valid p, 95 % is a confidence sequence"] if watched else []
    if any(_is_undetectable(pair.tests) for pair in table.pairs):
        about.append(f"MDE {TOO_FEW}: too few questions differ to show any difference reliably")
    return table_of(
        "pairs",
        table.pairs,
        (
            words("2nd - 1st", lambda pair: f"{names[pair.second]} - {names[pair.first]}"),
            Column("difference", lambda pair: difference_text(pair.tests.difference, table.unit)),
            Column("95 %", lambda pair: difference_interval(pair.tests, table.unit)),
            *(tested if binary else ()),
            *(sequential if watched else ()),
        ),
        scorer=table.scorer,
        title=f"paired differences under {table.scorer}, {unit}",
        about="; ".join(about),
    )


def _is_undetectable(tests: PairedFigure) -> bool:
    """Return True if a test was made that could not show any difference, however the differing questions had gone."""
    return tests.mde is None and tests.p_mcnemar is not None and tests.first_only is not None


def group_table(
    table: ScorerTable, grouped: GroupTable, names: Mapping[str, str], *, with_costs: bool = True
) -> TextTable:
    """Return the figures of each group of questions and what its questions cost; with two runs also their
    difference."""
    runs = [line.run for line in table.lines]

    def figures(run: str) -> Column:
        """Return the column of a run's figures."""
        return Column(names[run], lambda group: figure_words(group.figures[run], table.unit))

    columns = [words(safe(grouped.by), lambda group: safe(group.name)), Column("n", "questions"), *map(figures, runs)]
    if len(runs) == 2:
        columns += [
            Column(
                f"{names[runs[1]]} - {names[runs[0]]}",
                lambda group: difference_text(group.pairs[0].tests.difference, table.unit),
            ),
            Column("95 %", lambda group: difference_interval(group.pairs[0].tests, table.unit)),
            Column("Holm p", lambda group: p_value(group.pairs[0].p_holm)),
        ]

    def costs_of(run: str) -> Sequence[Column]:
        """Return the columns of what a run's questions cost."""
        return price_columns(lambda group: group.costs[run], names[run])

    costs = [
        column
        for column in itertools.chain.from_iterable(map(costs_of, runs))
        if with_costs and (len(grouped.groups) == 1 or len({column.cell(group) for group in grouped.groups}) > 1)
    ]
    title = f"{table.scorer} by {safe(grouped.by)}, {table.unit}"
    about = "costs of each group's own questions" if costs else ""
    return table_of("group", grouped.groups, [*columns, *costs], scorer=table.scorer, title=title, about=about)


def figure_words(figure: Figure, unit: str = "percent") -> str:
    """Return a figure with its interval."""
    return in_scale(figure.value, unit) + ("" if figure.value is None else f" ({interval(figure, unit)})")


def interval(figure: Figure, unit: str = "percent") -> str:
    """Return the ends of a figure's interval; a dash if the figure is not known."""
    return UNKNOWN if figure.value is None else ends(figure.low, figure.high, unit)


def difference_interval(tests: PairedFigure, unit: str = "percent") -> str:
    """Return the ends of a difference's interval; a dash if the difference is not known."""
    if tests.low is None and (tests.difference is None or tests.draws is not None):
        return UNKNOWN
    return ends(tests.low, tests.high, unit, signed=True)
