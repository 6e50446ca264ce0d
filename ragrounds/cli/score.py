"""`ragrounds score`: score stored runs again, without a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragrounds.api.score import score
from ragrounds.cli import options
from ragrounds.cli.output import print_json, say
from ragrounds.ui.tables import results_console

app = typer.Typer()


@app.command("score")
def score_command(
    runs: options.Runs,
    scorer: Annotated[
        list[str] | None, typer.Option(help="A scorer (repeatable). [default: all that fit the questions]")
    ] = None,
    embedder: options.Embedder = None,
    trajectory: Annotated[
        Path | None,
        typer.Option(
            help="Also compare each attempt's nodes, tools and queries with this file's: JSON Lines, see docs."
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Score stored runs again, by one scorer or all of them. No model is asked.

    --embedder adds a secondary figure for long answers, greedy matching of their words with the reference's;
    --trajectory whether attempts took the way that was expected.

    Example: ragrounds score direct_cot --scorer strict
    """
    found = score(runs, scorers=scorer or (), embedder=embedder, trajectory=trajectory)
    for run, count in found.counts:
        say(f"{run.id}: {count:,} scores")
    if as_json:
        print_json(found.comparison)
    else:
        found.draw(results_console())
