"""The tables of `ragrounds retrieve`: measures, paired differences, correlations with graded pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from ragrounds.evals.retrieval.bench import QueryDifference
    from ragrounds.evals.retrieval.comparison import RetrievalComparison
    from ragrounds.evals.retrieval.similarity import CorrelationDifference
    from ragrounds.ui.tables import TextTable

RetrieverEntries = Sequence[dict[str, Any]]
"""What was measured of each retriever, by name."""


def print_retrieval(
    entries: RetrieverEntries,
    comparisons: Sequence[RetrievalComparison],
    names: Sequence[str],
    console: Console | None = None,
    differences: Sequence[QueryDifference] = (),
) -> None:
    """Print which retriever is ahead, the means by the measures `names`, the differences of pairs, the queries that the
    two best differ on most, and each query's values where they are in."""
    from rich.text import Text

    from ragrounds.ui.retrieval_bench_tables import differing_queries
    from ragrounds.ui.tables import print_table, results_console

    console = console or results_console()
    numbers = {entry["retriever"]: f"{number}" for number, entry in enumerate(entries, 1)}
    console.print(Text(_ahead(entries, comparisons, names[0], numbers)))
    told: set[str] = set()
    print_table(_means(entries, names), console, told)
    print_table(_facts(entries), console, told)
    if comparisons:
        print_table(_pairs(comparisons, numbers), console)
    if differences:
        ranked = sorted((one for one in entries if "published" not in one), key=lambda one: -one[names[0]])
        first, second = (f"#{numbers[one['retriever']]}" for one in ranked[:2])
        print_table(differing_queries(differences, names[0], first, second), console)
    if "per_query" in entries[0]:
        print_table(_queries([one for one in entries if "per_query" in one], names), console)


def _ahead(entries: RetrieverEntries, pairs: Sequence[RetrievalComparison], name: str, numbers: dict[str, str]) -> str:
    """Which retriever has the best mean, and whether the tests tell it from the others."""
    from ragrounds.ui.text import one_line

    among = ", of those searched here" if any("published" in entry for entry in entries) else ""
    entries = [entry for entry in entries if "published" not in entry]
    best = max(entries, key=lambda entry: entry[name])
    label = best["retriever"]
    if len(entries) == 1:
        return f"{one_line(label)}: {name} {best[name]:.4f}."
    own = [pair for pair in pairs if label in (pair.first, pair.second)]
    near = [pair.second if pair.first == label else pair.first for pair in own if pair.holm >= _LEVEL]
    said = ""
    if own:
        alike = ", ".join(f"#{numbers[other]}" for other in near)
        said = f"; not told from {alike} by the tests" if near else "; the tests tell it from every other"
    return f"#{numbers[label]} {one_line(label)} has the best {name}{among}, {best[name]:.4f}{said}."


_LEVEL = 0.05
"""Of all pairs together, after Holm's correction."""


def _named(entries: RetrieverEntries) -> list[tuple[str, str]]:
    from ragrounds.ui.text import one_line

    return [
        (f"{number}", one_line(entry["retriever"], 200) + (" (published)" if "published" in entry else ""))
        for number, entry in enumerate(entries, 1)
    ]


def _means(entries: RetrieverEntries, names: Sequence[str]) -> TextTable:
    from ragrounds.ui.tables import Column, TextTable
    from ragrounds.ui.text import UNKNOWN

    return TextTable(
        key="means",
        title="means over every judged query",
        about="as trec_eval -c gives them",
        columns=(Column("#"), Column("retriever", right=False), *map(Column, names)),
        rows=tuple(
            (*named, *(UNKNOWN if entry[name] is None else f"{entry[name]:.4f}" for name in names))
            for named, entry in zip(_named(entries), entries, strict=True)
        ),
    )


def _facts(entries: RetrieverEntries) -> TextTable:
    from ragrounds.ui.tables import Column, TextTable
    from ragrounds.ui.text import UNKNOWN

    shown = [
        (name, key, write) for name, key, write in _facts_shown() if any(one.get(key) is not None for one in entries)
    ]
    return TextTable(
        key="queries",
        title="queries, speed and size",
        columns=(Column("#"), Column("retriever", right=False), *(Column(name) for name, _, _ in shown)),
        rows=tuple(
            (*named, *(UNKNOWN if entry.get(key) is None else write(entry[key]) for _, key, write in shown))
            for named, entry in zip(_named(entries), entries, strict=True)
        ),
    )


def _facts_shown() -> tuple[tuple[str, str, Callable[[float], str]], ...]:
    """Heading, key of an entry, and how its figure is written."""
    from ragrounds.ui.text import duration, size

    return (
        ("queries", "queries", "{:,}".format),
        ("without results", "queries_without_results", "{:,}".format),
        ("not judged", "unjudged_queries", "{:,}".format),
        ("left out", "left_out", "{:,}".format),
        ("not in the corpus", "unknown_documents", "{:,}".format),
        ("queries a second", "queries_per_second", "{:,.1f}".format),
        ("slowest 5 %", "p95_seconds", duration),
        ("index", "index_bytes", size),
    )


def _pairs(comparisons: Sequence[RetrievalComparison], numbers: dict[str, str]) -> TextTable:
    from ragrounds.ui.retrieval_bench_tables import difference_cells
    from ragrounds.ui.tables import Column, TextTable
    from ragrounds.ui.text import number_of

    first = comparisons[0]
    headings = ("difference", f"{100 * first.level:g} %", "p", "Holm p", "won", "tied", "lost")
    return TextTable(
        key="pairs",
        title=f"{first.measure}, 1st minus 2nd, {number_of(first.queries, 'query')}",
        about="interval of paired differences; p: randomisation test, two-sided; Holm p: over the pairs of this table",
        columns=(Column("1st - 2nd", right=False), *map(Column, headings)),
        rows=tuple(
            (
                f"#{numbers[pair.first]} - #{numbers[pair.second]}",
                *difference_cells(pair),
                f"{pair.wins:,}",
                f"{pair.ties:,}",
                f"{pair.losses:,}",
            )
            for pair in comparisons
        ),
    )


def _queries(entries: RetrieverEntries, names: Sequence[str]) -> TextTable:
    """Every query's values of the first measure, one column a run."""
    from ragrounds.ui.tables import Column, TextTable
    from ragrounds.ui.text import safe

    return TextTable(
        key="queries",
        title=f"{names[0]} of each query",
        columns=(Column("query", right=False), *(Column(f"#{number}") for number, _ in _named(entries))),
        rows=tuple(
            (safe(query), *(f"{entry['per_query'][names[0]][query]:.4f}" for entry in entries))
            for query in entries[0]["per_query"][names[0]]
        ),
        turns=False,
    )


def print_similarity(
    entries: RetrieverEntries,
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
