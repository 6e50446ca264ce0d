"""The tables of `ragrounds retrieve` over several sets: retrievers by sets, paired differences, queries that differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console

    from ragrounds.evals.retrieval.bench import BenchDifference, QueryDifference
    from ragrounds.evals.retrieval.comparison import RetrievalComparison
    from ragrounds.ui.tables import TextTable

_LEVEL = 0.05
"""Of all pairs together, after Holm's correction."""
_QUERY = 60
"""Characters of a query's text."""


class SetMeans(Protocol):
    """A retriever over all sets, as it is drawn."""

    @property
    def retriever(self) -> str:
        """Its text."""

    @property
    def values(self) -> Mapping[str, float | None]:
        """Set → mean."""

    @property
    def mean(self) -> float | None:
        """Over sets."""

    @property
    def queries_per_second(self) -> float | None:
        """Of all sets together."""

    @property
    def published(self) -> bool:
        """By others."""


class BenchFigures(Protocol):
    """What a bench gives, as it is drawn."""

    @property
    def measure(self) -> str:
        """The measure of the table."""

    @property
    def sets(self) -> tuple[str, ...]:
        """The sets."""

    @property
    def rows(self) -> Sequence[SetMeans]:
        """The retrievers."""

    @property
    def comparisons(self) -> Sequence[BenchDifference]:
        """Pairs over all sets."""

    @property
    def differences(self) -> Sequence[QueryDifference]:
        """Queries that differ the most."""


def print_bench(bench: BenchFigures, console: Console) -> None:
    """Print which retriever is ahead over all sets, the means, the differences, and the queries that differ most."""
    from rich.text import Text

    from ragrounds.ui.tables import print_table

    numbers = {row.retriever: f"{number}" for number, row in enumerate(bench.rows, 1)}
    console.print(Text(_ahead(bench, numbers)))
    print_table(_means(bench), console)
    if bench.comparisons:
        print_table(_pairs(bench, numbers), console)
    if bench.differences:
        print_table(differing_queries(bench.differences, bench.measure, *_best_two(bench, numbers)), console)


def _own(bench: BenchFigures) -> list[SetMeans]:
    return sorted(
        (row for row in bench.rows if not row.published and row.mean is not None), key=lambda row: -(row.mean or 0)
    )


def _best_two(bench: BenchFigures, numbers: Mapping[str, str]) -> tuple[str, str]:
    first, second = _own(bench)[:2]
    return f"#{numbers[first.retriever]}", f"#{numbers[second.retriever]}"


def _ahead(bench: BenchFigures, numbers: Mapping[str, str]) -> str:
    from ragrounds.ui.text import number_of, one_line

    own = _own(bench)
    over = number_of(len(bench.sets), "set")
    if not own:
        return f"{bench.measure} over {over}: no retriever has them all."
    best = own[0]
    named = f"#{numbers[best.retriever]} {one_line(best.retriever)}"
    among = ", of those searched here" if any(row.published for row in bench.rows) else ""
    said = f"{named} has the best mean {bench.measure} over {over}{among}, {best.mean:.4f}"
    pairs = [pair for pair in bench.comparisons if best.retriever in (pair.first, pair.second)]
    near = [pair.second if pair.first == best.retriever else pair.first for pair in pairs if pair.holm >= _LEVEL]
    if near:
        return f"{said}; not told from {', '.join(f'#{numbers[name]}' for name in near)} by the tests."
    return f"{said}; the tests tell it from every other." if pairs else f"{said}."


def _means(bench: BenchFigures) -> TextTable:
    from ragrounds.ui.tables import Column, TextTable
    from ragrounds.ui.text import UNKNOWN, one_line

    published = any(row.published for row in bench.rows)

    def _figure(value: float | None) -> str:
        return UNKNOWN if value is None else f"{value:.4f}"

    return TextTable(
        key="bench",
        title=f"{bench.measure} by set",
        about="as trec_eval -c gives it; mean: of the sets" + ("; published: by others, no tests" if published else ""),
        columns=(
            Column("#"),
            Column("retriever", right=False),
            *(Column(one_line(name, 40)) for name in bench.sets),
            Column("mean"),
            Column("queries a second"),
        ),
        rows=tuple(
            (
                f"{number}",
                one_line(row.retriever, 200) + (" (published)" if row.published else ""),
                *(_figure(row.values.get(name)) for name in bench.sets),
                _figure(row.mean),
                UNKNOWN if row.queries_per_second is None else f"{row.queries_per_second:,.1f}",
            )
            for number, row in enumerate(bench.rows, 1)
        ),
    )


def _pairs(bench: BenchFigures, numbers: Mapping[str, str]) -> TextTable:
    from ragrounds.ui.tables import Column, TextTable

    first = bench.comparisons[0]
    headings = ("difference", f"{100 * first.level:g} %", "p", "Holm p", "sets won", "lost", "queries")
    return TextTable(
        key="pairs",
        title=f"{bench.measure}, 1st minus 2nd, mean over sets",
        about="queries drawn within sets; p: randomisation test, two-sided; Holm p: over the pairs of this table",
        columns=(Column("1st - 2nd", right=False), *map(Column, headings)),
        rows=tuple(
            (
                f"#{numbers[pair.first]} - #{numbers[pair.second]}",
                *difference_cells(pair),
                f"{pair.won:,}",
                f"{pair.lost:,}",
                f"{pair.queries:,}",
            )
            for pair in bench.comparisons
        ),
    )


def difference_cells(pair: BenchDifference | RetrievalComparison) -> tuple[str, str, str, str]:
    """The difference of a pair, its interval, p, and p after Holm's correction."""
    from ragrounds.ui.text import TOO_FEW, figure_text

    interval = TOO_FEW
    if pair.low is not None and pair.high is not None:
        interval = f"{figure_text(pair.low, '+.4f')} to {figure_text(pair.high, '+.4f')}"
    return figure_text(pair.difference, "+.4f"), interval, f"{pair.p:.4f}", f"{pair.holm:.4f}"


def differing_queries(differences: Sequence[QueryDifference], measure: str, first: str, second: str) -> TextTable:
    """The queries on which two retrievers differ the most; `first` and `second` are their headings."""
    from ragrounds.ui.tables import Column, TextTable
    from ragrounds.ui.text import one_line

    several = any(one.set for one in differences)
    return TextTable(
        key="differing",
        title=f"queries that {first} and {second} differ on most",
        about=measure,
        columns=(
            *([Column("set", right=False)] if several else []),
            Column("query", right=False),
            Column(first),
            Column(second),
            Column("text", right=False),
        ),
        rows=tuple(
            (
                *([one_line(one.set, 40)] if several else []),
                one_line(one.query, 40),
                f"{one.first:.4f}",
                f"{one.second:.4f}",
                one_line(one.text, _QUERY),
            )
            for one in differences
        ),
        turns=False,
    )
