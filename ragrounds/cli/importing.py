"""`ragrounds import`: outputs of other systems become runs."""

from __future__ import annotations

from pathlib import Path

import typer

from ragrounds.cli.moving import import_store

import_app = typer.Typer(help="Outputs of other systems, and runs of other stores.", no_args_is_help=True)
import_app.command("store")(import_store)


@import_app.callback()
def _group() -> None:
    """Outputs of other systems become runs, scored, compared and traced like our own; runs of other stores come with
    all that they rest on."""


@import_app.command("mirage-predictions")
def import_mirage_predictions(
    paths: list[Path] = typer.Argument(help="The authors' folder of per-question files, or JSON lines (.gz too)."),
    benchmark: str = typer.Option("mirage", help="The benchmark they answer: mirage, or mirage:PATH/benchmark.json."),
    as_json: bool = typer.Option(False, "--json", help="The table as JSON."),
) -> None:
    """Import the MIRAGE authors' predictions, score them, print the table.

    Example: ragrounds import mirage-predictions MIRAGE/prediction --benchmark mirage:MIRAGE/benchmark.json
    """
    from ragrounds.cli.common import open_store, print_json, say, settings
    from ragrounds.evals.benchmarks import load
    from ragrounds.evals.compare.comparison import compare
    from ragrounds.evals.exchange.keeping import keep
    from ragrounds.evals.exchange.mirage_predictions import as_runs, read_predictions
    from ragrounds.ui.tables import print_comparison

    chosen = settings()
    loaded = load(benchmark, chosen.home)
    with open_store(chosen) as store:
        predictions = (prediction for path in paths for prediction in read_predictions(path))
        made = as_runs(predictions, loaded, [run.id for run in store.runs()])
        runs = [keep(store, imported, loaded) for imported in made]
        for imported, run in zip(made, runs, strict=True):
            missing = f", {imported.missing:,} questions without a prediction" if imported.missing else ""
            say(f"{run.id}: {len(imported.attempts) - imported.missing:,} predictions{missing}")
        comparison = compare(store, runs)
    if as_json:
        print_json(comparison)
    else:
        print_comparison(comparison)
