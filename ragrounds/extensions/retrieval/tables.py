"""The tables of `ragrounds retrieve`: measures, and paired differences.

They are for one set of queries, for several sets, and for graded pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from ragrounds.base.text import listed
from ragrounds.extensions.retrieval.comparison import RetrievalComparison
from ragrounds.extensions.retrieval.similarity import MEASURES, CorrelationDifference
from ragrounds.ui.columns import Column, TextTable, table_of, words
from ragrounds.ui.tables.text_tables import print_table, results_console
from ragrounds.ui.text import TOO_FEW, UNKNOWN, duration, figure_text, number_of, one_line, size

RetrieverEntries = Sequence[dict[str, Any]]
"""Measurements of each retriever by name."""
_LEVEL = 0.05
"""Significance level over all pairs together, after Holm's correction."""


def print_retrieval(
    entries: RetrieverEntries,
    comparisons: Sequence[RetrievalComparison],
    names: Sequence[str],
    console: Console | None = None,
) -> None:
    """Print which retriever is ahead, the means by the measures `names`, and the differences of pairs."""
    first = names[0]
    means = (Column(name, text=_figure_text) for name in names)
    about = {"title": "means over every judged query", "about": "as trec_eval -c gives them"}
    facts = (column for column in _FACTS if any(column.value_in(entry) is not None for entry in entries))
    tables = [table_of("means", entries, (_RETRIEVER_COLUMN, *means), **about)]
    tables.append(table_of("queries", entries, (_RETRIEVER_COLUMN, *facts), title="queries, speed and size"))
    if comparisons:
        title = f"{first}, 1st minus 2nd, {number_of(comparisons[0].queries, 'query')}"
        tables.append(pair_table(comparisons, title))
    ranked = sorted(
        ((entry["retriever"], entry[first]) for entry in entries), key=lambda retriever_mean: -retriever_mean[1]
    )
    _print_tables(ranked, first, comparisons, tables, console or results_console())


def print_sets(
    rows: Sequence[Any],
    comparisons: Sequence[RetrievalComparison],
    measure: str,
    sets: Sequence[str],
    console: Console,
) -> None:
    """Print which retriever is ahead over all sets, the means, and the differences.

    Args:
        rows: a :class:`ragrounds.extensions.retrieval.functions.RetrieverMean` each.
        comparisons, measure, sets: fields of the same result.
        console: where to print.
    """

    def of_set(name: str) -> Column:
        """Return the column of a set's means."""
        return Column(one_line(name, 40), lambda row: row.values.get(name), _figure_text)

    speed = Column("queries_per_second", text=_speed_text, heading="queries a second")
    columns = (_RETRIEVER_COLUMN, *map(of_set, sets), Column("mean", text=_figure_text), speed)
    about = {"title": f"{measure} by set", "about": "as trec_eval -c gives it; mean: of the sets"}
    tables = [table_of("sets", rows, columns, **about)]
    if comparisons:
        tables.append(pair_table(comparisons, f"{measure}, 1st minus 2nd, mean over sets", several=True))
    ranked = sorted(
        ((row.retriever, row.mean) for row in rows if row.mean is not None),
        key=lambda retriever_mean: -retriever_mean[1],
    )
    ranked_measure = f"mean {measure} over {number_of(len(sets), 'set')}"
    _print_tables(ranked, ranked_measure, comparisons, tables, console)


def _print_tables(
    ranked: Sequence[tuple[str, float]],
    ranked_measure: str,
    comparisons: Sequence[RetrievalComparison],
    tables: Sequence[TextTable],
    console: Console,
) -> None:
    console.print(
        Text(
            _leader_sentence(ranked, ranked_measure, comparisons)
            if ranked
            else f"{ranked_measure}: no retriever has them all."
        )
    )
    for table in tables:
        print_table(table, console)


def print_similarity(
    entries: RetrieverEntries, differences: Sequence[CorrelationDifference], console: Console | None = None
) -> None:
    """Print the correlations of each model with their intervals, and the differences between models."""
    console, columns = console or results_console(), [words("model", "retriever", text=_short_name)]
    for name in MEASURES:
        columns.append(Column(name, text=_figure_text))
        columns.append(Column("95 %", lambda entry, name=name: _interval_text(*entry[f"{name}_interval"])))  # type: ignore[misc]
    title = f"cosines against {entries[0]['pairs']:,} graded pairs"
    print_table(table_of("similarity", entries, columns, title=title), console)
    columns = [
        words("pair", lambda difference: f"{_short_name(difference.first)} - {_short_name(difference.second)}"),
        words("measure"),
        Column("difference", text=_figure_text),
        Column("95 %", lambda difference: _interval_text(difference.low, difference.high)),
    ]
    if differences:
        print_table(table_of("differences", differences, columns, title="paired differences"), console)


def _short_name(retriever: str) -> str:
    return one_line(retriever, 200)


_RETRIEVER_COLUMN = words("retriever", text=_short_name)


def _figure_text(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.4f}"


def _speed_text(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.1f}"


def _interval_text(low: float | None, high: float | None) -> str:
    return UNKNOWN if low is None or high is None else f"{low:.4f} to {high:.4f}"


_FACTS = (
    Column("queries"),
    Column("queries_without_results", heading="without results"),
    Column("unjudged_queries", heading="not judged"),
    Column("left_out", heading="left out"),
    Column("unknown_documents", heading="not in the corpus"),
    Column("queries_per_second", text=_speed_text, heading="queries a second"),
    Column("p95_seconds", text=duration, heading="slowest 5 %"),
    Column("index_bytes", text=size, heading="index"),
)


def _leader_sentence(ranked: Sequence[tuple[str, float]], measure: str, pairs: Sequence[RetrievalComparison]) -> str:
    """Return which retriever has the best figure, and from which others it differs significantly."""
    best, value = ranked[0]
    if len(ranked) == 1:
        return f"{_short_name(best)}: {measure} {value:.4f}."
    best_pairs = [pair for pair in pairs if best in (pair.first, pair.second)]
    near = [
        _short_name(pair.second if pair.first == best else pair.first) for pair in best_pairs if pair.holm >= _LEVEL
    ]
    remark = "; significantly better than every other" if best_pairs else ""
    remark = f"; not significantly different from {listed(near)}" if near else remark
    return f"{_short_name(best)} has the best {measure}, {value:.4f}{remark}."


def pair_table(pairs: Sequence[RetrievalComparison], title: str, *, several: bool = False) -> TextTable:
    """Return paired differences with interval, p, and p after Holm's correction; with `several`, over several sets."""

    def ends(pair: RetrievalComparison) -> str:
        """Return the interval of a difference."""
        if pair.low is None or pair.high is None:
            return TOO_FEW
        return f"{figure_text(pair.low, '+.4f')} to {figure_text(pair.high, '+.4f')}"

    counts = (Column("wins", heading="won"), Column("ties", heading="tied"), Column("losses", heading="lost"))
    if several:
        counts = (Column("wins", heading="sets won"), Column("losses", heading="lost"), Column("queries"))
    columns = (
        words("1st - 2nd", lambda pair: f"{_short_name(pair.first)} - {_short_name(pair.second)}"),
        Column("difference", text=lambda value: figure_text(value, "+.4f")),
        Column(f"{100 * pairs[0].level:g} %", ends),
        Column("p", text=_figure_text),
        Column("holm", text=_figure_text, heading="Holm p"),
        *counts,
    )
    interval_method = "queries resampled within sets" if several else "interval of paired differences"
    about = f"{interval_method}; p: randomisation test, two-sided; Holm p: over the pairs of this table"
    return table_of("pairs", pairs, columns, title=title, about=about)
