"""A comparison as one table of a paper: datasets or models as columns, and what a right answer costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from ragrounds.evals.compare.comparison import Comparison, RunTotals, ScorerTable
from ragrounds.evals.compare.findings import best_first
from ragrounds.ui.agent_names import name_of_run
from ragrounds.ui.columns import Column, TextTable, table_of, words
from ragrounds.ui.pictures.frontier import UNITS, amount, titled_by
from ragrounds.ui.tables.comparison_words import span_of_days
from ragrounds.ui.tables.one_screen import doubt_sentences, figure_columns, summary_table, table_remarks
from ragrounds.ui.text import in_scale, joined_words, safe


def paper_table(comparison: Comparison, scorers: Sequence[str], names: Mapping[str, str]) -> TextTable:
    """Return a comparison as one table of a paper, with whole names.

    A run has a line, and each of several datasets a column before their mean. If agents were run with several models,
    an agent has a line and a model its columns. There is no time, and no number of tokens if there are prices. The
    caption has the models and days, explains the marks and names the doubts.
    """
    tables = comparison.headline_tables(scorers)
    rows, first = best_first(comparison, tables), next(iter(tables), None)
    summary = summary_table(comparison, tables, names, whole_names=True)
    runs_by_agent = dict[str, dict[str, RunTotals]]()
    for row in rows:
        runs_by_agent.setdefault(safe(name_of_run(row)), {})[_models(row)] = row
    # Models are columns if some agents have several, and no two runs would be in the same cell.
    if first and len(runs_by_agent) < len(rows) == sum(map(len, runs_by_agent.values())):
        table = _models_as_columns(first, runs_by_agent)
        remarks = list(doubt_sentences(comparison, tables, names))
    else:
        priced = any(column.name.startswith("$") for column in summary.columns)
        shown = [index for index, column in enumerate(summary.columns) if column.spare < (1 if priced else 2)]
        table = _side_by_side(
            _columns_at(summary, shown[:1]),
            table_of("datasets", rows, _dataset_columns(first) if first else ()),
            _columns_at(summary, shown[1:]),
            table_of("prices", rows, _right_answer_columns(first) if first else ()),
        )
        remarks = table_remarks(comparison, tables, names)
        if first and len(first.lines[0].datasets) > 1:
            remarks.insert(0, f"{first.scorer}: mean over the datasets")
    title = f"{titled_by(first.scorer)}, with 95 % intervals: " if first else ""
    sentences = [title + summary.title.replace(" · ", ", "), *remarks]
    if moments := [row.created for row in rows if row.origin == "replayed"]:
        models = joined_words(list(dict.fromkeys(filter(None, map(_models, rows)))))
        sentences.insert(1, f"{f'with {models}, ' if models else ''}{span_of_days(moments)}")
    caption = " ".join(f"{sentence[:1].upper()}{sentence[1:].removesuffix('.')}." for sentence in sentences)
    return TextTable(key="summary", title=caption, columns=table.columns, rows=table.rows)


def _models(row: RunTotals) -> str:
    return joined_words(
        [safe(model) for model in dict.fromkeys(text.partition("[")[0] for text in row.models.values())]
    )


def _columns_at(table: TextTable, indexes: Sequence[int]) -> TextTable:
    return TextTable(
        key=table.key,
        columns=tuple(table.columns[index] for index in indexes),
        rows=tuple(tuple(row[index] for index in indexes) for row in table.rows),
    )


def _side_by_side(*parts: TextTable) -> TextTable:
    return TextTable(
        key=parts[0].key,
        columns=tuple(chain.from_iterable(part.columns for part in parts)),
        rows=tuple(tuple(chain.from_iterable(cells)) for cells in zip(*(part.rows for part in parts), strict=True)),
    )


def _dataset_columns(table: ScorerTable) -> list[Column]:
    """Return a column for each dataset, if there are several."""
    figures = {line.run: line.datasets for line in table.lines}
    datasets = list(table.lines[0].datasets)

    def column(dataset: str) -> Column:
        name = safe(dataset.rpartition("/")[2])
        return Column(name, lambda row: in_scale(figures[row.run][dataset].value, table.unit))

    return list(map(column, datasets)) if len(datasets) > 1 else []


def _right_answer_columns(table: ScorerTable) -> Iterator[Column]:
    """Yield the column of a right answer's cost, if it has one."""
    frontier = table.frontier
    if frontier is None:
        return
    measure = frontier.measure
    costs = {point.run: point.per_correct.value for point in frontier.points if point.per_correct}
    if costs:
        unit, bounds = "$" if measure.startswith("cost") else UNITS[measure], frontier.lower_bounds
        yield Column(
            f"{unit}/right",
            lambda row: costs.get(row.run),
            lambda cost: amount(cost, measure),
            least_where=lambda row: row.run in bounds,
        )


def _models_as_columns(table: ScorerTable, runs_by_agent: Mapping[str, Mapping[str, RunTotals]]) -> TextTable:
    """Return a line for each agent: the figure, its interval and the cost of a right answer with each model."""

    def with_model(column: Column, model: str) -> Column:
        def cell(agent: str) -> str:
            row = runs_by_agent[agent].get(model)
            return "" if row is None else column.cell(row)

        return Column(column.name, cell)

    columns = [words("agent", lambda agent: agent)]
    for model in dict.fromkeys(chain.from_iterable(runs_by_agent.values())):
        of_model = (*figure_columns(table, model), *_right_answer_columns(table))
        columns += [with_model(column, model) for column in of_model]
    return table_of("summary", runs_by_agent, columns)
