"""`ragrounds score`: score stored runs again, without a model."""

from __future__ import annotations

import typer
from msgspec.structs import asdict

from ragrounds.api.score import ScoreArguments, score
from ragrounds.cli import options
from ragrounds.cli.options import grouped
from ragrounds.cli.output import at_work, print_json, say
from ragrounds.ui.tables.text_tables import results_console

app = typer.Typer()


@app.command("score")
@grouped
def score_command(runs: options.Runs, arguments: ScoreArguments, as_json: options.AsJson = False) -> None:
    """Score stored runs again, by one scorer or all of them. No model is asked.

    Example: ragrounds score direct_cot --scorer strict
    """
    with at_work("scoring"):
        scored = score(**asdict(arguments))
    for run, count in scored.counts:
        say(f"{run.id}: {count:,} scores")
    if as_json:
        print_json(scored.comparison)
    else:
        scored.draw(results_console())
