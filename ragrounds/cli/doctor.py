"""`ragrounds doctor`: say what works here, what was added from outside, and what a model's server can do."""

from __future__ import annotations

from pathlib import Path

import typer

from ragrounds.api.doctor import doctor
from ragrounds.cli import options
from ragrounds.cli.output import print_json, tell
from ragrounds.ui.text import safe

app = typer.Typer()


@app.command("doctor")
def doctor_command(
    model: str | None = typer.Option(None, help="Also ask this model's server what it can do: openai:NAME."),
    base_url: str | None = typer.Option(None, help="An OpenAI-compatible server."),
    alias: options.Alias = None,
    concurrency: int | None = typer.Option(
        None, help="Also ask 20 questions with 1, a quarter of this number, and this number of attempts in flight."
    ),
    store: bool = typer.Option(
        False,
        "--store",
        help="Check the whole store: checksums, references, and stored scores against today's.",
    ),
    save: Path | None = typer.Option(
        None,
        help="Save all that can be read of a damaged store into a new one in this folder, and check that.",
    ),
    as_json: options.AsJson = False,
) -> None:
    """Say where things are kept, which extras are here, what installed packages add and what of it is broken; of a
    model, how it continues a text and takes tools; of the store, whether it is whole.

    With --model the server is asked a few questions of some twenty tokens each; with --concurrency also questions of
    the sample, to see whether answers depend on how many calls the server processes at once. With --store every row of
    the store is read and nothing is changed; damage is named, and the exit code is 1. With --save the store is only
    read, too.

    Examples:

      ragrounds doctor --model openai:NAME --base-url http://127.0.0.1:8000/v1

      ragrounds doctor --store

      ragrounds doctor --store --save FOLDER
    """
    diagnosis = doctor(model, base_url, alias, concurrency=concurrency, store=store, save=save)
    if as_json:
        print_json(diagnosis)
    else:
        for line in diagnosis.lines():
            tell(safe(line))
    if diagnosis.contents is not None and diagnosis.contents.damaged:
        raise typer.Exit(1)
