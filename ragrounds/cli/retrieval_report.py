"""How the results of `ragrounds retrieve` are shown: tables, or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragrounds.evals.retrieval.comparing import Comparison


def show(
    entries: Sequence[dict[str, Any]], comparisons: Sequence[Comparison], names: Sequence[str], *, as_json: bool
) -> None:
    """Print the results. With `as_json`, one retriever's figures stand at the top level, several stand under ``runs``,
    with their ``comparisons``."""
    if as_json:
        import msgspec
        import typer

        whole = entries[0] if len(entries) == 1 else {"runs": entries, "comparisons": comparisons}
        typer.echo(msgspec.json.format(msgspec.json.encode(whole), indent=2).decode())
        return
    from rich.text import Text

    from ragrounds.ui.tables import results_console

    console = results_console()
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


def _table(caption: str, first: str, headings: Sequence[str], title: str | None = None) -> Any:
    from rich.table import Table

    table = Table(title=title, caption=caption, title_justify="left", caption_justify="left")
    table.add_column(first, overflow="fold")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _means(entries: Sequence[dict[str, Any]], names: Sequence[str]) -> Any:
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


def _pairs(comparisons: Sequence[Comparison], letters: dict[str, str]) -> Any:
    first = comparisons[0]
    headings = ("difference", f"{first.level:.0%} interval", "p", "Holm", "won", "tied", "lost")
    table = _table(
        "interval: paired bootstrap; p: randomisation test, two-sided; Holm: corrected over this table's pairs",
        "pair",
        headings,
        f"{first.measure}, first minus second, {first.queries} queries",
    )
    for pair in comparisons:
        table.add_row(
            f"{letters[pair.first]} - {letters[pair.second]}",
            f"{pair.difference:+.4f}",
            f"{pair.low:+.4f} {pair.high:+.4f}",
            f"{pair.p:.4f}",
            f"{pair.holm:.4f}",
            str(pair.wins),
            str(pair.ties),
            str(pair.losses),
        )
    return table


def _queries(entries: Sequence[dict[str, Any]], names: Sequence[str]) -> Any:
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
