"""`ragrounds retrieve --benchmark sts:FILE`: how well an embedder's cosines follow graded pairs."""

from __future__ import annotations

from pathlib import Path


def show_similarity(path: Path, specs: list[str], *, resamples: int, seed: int, as_json: bool) -> None:
    """Print the correlations of each model with their intervals, and the differences between models.

    Raises:
        UserError: no model is named, or :func:`ragrounds.evals.retrieval.similarity.score_similarity` raises one.
    """
    import typer

    from ragrounds.cli.common import print_json
    from ragrounds.errors import UserError
    from ragrounds.evals.retrieval.correlating import MEASURES
    from ragrounds.evals.retrieval.similarity import score_similarity
    from ragrounds.ui.comparison_tables import Column, TextTable
    from ragrounds.ui.tables import print_table, results_console
    from ragrounds.ui.text import one_line

    if not specs:
        raise UserError("Sentence similarity needs a model: --retriever 'dense[model=…]', or a card.")
    entries, differences = score_similarity(path, specs, resamples=resamples, seed=seed)
    if as_json:
        print_json(entries[0] if len(entries) == 1 else {"runs": entries, "comparisons": differences})
        return
    console = results_console()
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
    typer.echo("Pairs with the same first sentence are drawn together; both sides are embedded as queries.", err=True)


def _cells(value: float | None, low: float | None, high: float | None) -> tuple[str, str]:
    from ragrounds.ui.text import UNKNOWN

    interval = UNKNOWN if low is None or high is None else f"{low:.4f} to {high:.4f}"
    return UNKNOWN if value is None else f"{value:.4f}", interval
