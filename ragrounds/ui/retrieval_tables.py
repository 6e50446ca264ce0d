"""The tables of `ragrounds retrieve`: measures, paired differences, correlations with graded pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ragrounds.evals.retrieval.comparison import RetrievalComparison
    from ragrounds.evals.retrieval.similarity import CorrelationDifference


def print_retrieval(
    entries: Sequence[dict[str, Any]],
    comparisons: Sequence[RetrievalComparison],
    names: Sequence[str],
    console: Console | None = None,
) -> None:
    """Print the means by the measures `names`, the differences of pairs, and each query's values where they are in."""
    from rich.text import Text

    from ragrounds.ui.tables import results_console

    console = console or results_console()
    letters = {entry["retriever"]: _letter(number) for number, entry in enumerate(entries)}
    for label, letter in letters.items():
        console.print(Text(f"{letter}  {label}"))
    console.print(_means(entries, names))
    if comparisons:
        console.print(_pairs(comparisons, letters))
    if "per_query" in entries[0]:
        console.print(_queries(entries, names))


def _letter(number: int) -> str:
    return chr(ord("A") + number) if number < 26 else f"A{number}"


def _table(caption: str, first: str, headings: Sequence[str], title: str | None = None) -> Table:
    from rich.table import Table

    table = Table(title=title, caption=caption, title_justify="left", caption_justify="left")
    table.add_column(first, overflow="fold")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _means(entries: Sequence[dict[str, Any]], names: Sequence[str]) -> Table:
    letters = [_letter(number) for number in range(len(entries))]
    table = _table("means over every judged query, as trec_eval -c gives them", "", letters)
    for name in names:
        table.add_row(name, *(f"{entry[name]:.4f}" for entry in entries))
    table.add_section()
    for shown, key, factor in _ROWS:
        if any(entry.get(key) is not None for entry in entries):
            table.add_row(shown, *(_figure(entry.get(key), factor) for entry in entries))
    return table


_ROWS = (
    ("queries", "queries", None),
    ("without results", "queries_without_results", None),
    ("not judged", "unjudged_queries", None),
    ("left out", "left_out", None),
    ("not in the corpus", "unknown_documents", None),
    ("queries a second", "queries_per_second", 1.0),
    ("p95, ms", "p95_seconds", 1000.0),
    ("index, MB", "index_bytes", 1e-6),
)


def _pairs(comparisons: Sequence[RetrievalComparison], letters: dict[str, str]) -> Table:
    from ragrounds.ui.text import TOO_FEW, figure_text

    first = comparisons[0]
    headings = ("difference", f"{first.level:.0%} interval", "p", "Holm", "won", "tied", "lost")
    table = _table(
        "interval: of paired differences, none where queries are too few; p: randomisation test, two-sided; Holm: "
        "corrected over this table's pairs",
        "pair",
        headings,
        f"{first.measure}, first minus second, {first.queries} queries",
    )
    for pair in comparisons:
        table.add_row(
            f"{letters[pair.first]} - {letters[pair.second]}",
            figure_text(pair.difference, "+.4f"),
            TOO_FEW
            if pair.low is None or pair.high is None
            else f"{figure_text(pair.low, '+.4f')} {figure_text(pair.high, '+.4f')}",
            f"{pair.p:.4f}",
            f"{pair.holm:.4f}",
            str(pair.wins),
            str(pair.ties),
            str(pair.losses),
        )
    return table


def _queries(entries: Sequence[dict[str, Any]], names: Sequence[str]) -> Table:
    """Every query's values of the first measure, one column a run."""
    from rich.text import Text

    table = _table("", "query", [_letter(number) for number in range(len(entries))], f"{names[0]} of each query")
    for query in entries[0]["per_query"][names[0]]:
        table.add_row(Text(query), *(f"{entry['per_query'][names[0]][query]:.4f}" for entry in entries))
    return table


def _figure(value: float | None, factor: float | None) -> str:
    if value is None:
        return "—"
    return str(value) if factor is None else f"{value * factor:,.1f}"


def print_similarity(
    entries: Sequence[dict[str, Any]],
    differences: Sequence[CorrelationDifference],
    console: Console | None = None,
) -> None:
    """Print the correlations of each model with their intervals, and the differences between models."""
    from ragrounds.evals.retrieval.similarity import MEASURES
    from ragrounds.ui.tables import Column, TextTable, print_table, results_console
    from ragrounds.ui.text import one_line

    console = console or results_console()
    numbers = {entry["retriever"]: f"{number}" for number, entry in enumerate(entries, 1)}
    print_table(
        TextTable(
            key="similarity",
            title=f"cosines against {entries[0]['pairs']:,} graded pairs",
            columns=(
                Column("#"), Column("model", right=False),
                *(column for name in MEASURES for column in (Column(name), Column("95 %"))),
            ),
            rows=tuple(
                (
                    numbers[entry["retriever"]],
                    one_line(entry["retriever"], 200),
                    *(cell for name in MEASURES for cell in _cells(entry.get(name), *entry[f"{name}_interval"])),
                )
                for entry in entries
            ),
        ),
        console,
    )  # fmt: skip
    if differences:
        print_table(
            TextTable(
                key="differences",
                title="paired differences",
                columns=(
                    Column("pair", right=False),
                    Column("measure", right=False),
                    Column("difference"),
                    Column("95 %"),
                ),
                rows=tuple(
                    (
                        f"{numbers[one.first]} - {numbers[one.second]}",
                        one.measure,
                        *_cells(one.difference, one.low, one.high),
                    )
                    for one in differences
                ),
            ),
            console,
        )


def _cells(value: float | None, low: float | None, high: float | None) -> tuple[str, str]:
    from ragrounds.ui.text import UNKNOWN

    interval = UNKNOWN if low is None or high is None else f"{low:.4f} to {high:.4f}"
    return UNKNOWN if value is None else f"{value:.4f}", interval
