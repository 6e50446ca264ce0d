"""Command ``ragrounds tally`` and function ``rr.tally``: how the attempts of a run ended."""

from typing import Annotated

import typer

import ragrounds as rr

app = typer.Typer()


def tally(run: str) -> dict[str, int]:
    """Return the number of attempts by status."""
    return dict(rr.load(run).statuses)


@app.command("tally")
def tally_command(run: Annotated[str, typer.Argument(help="A run: its id or its agent.")]) -> None:
    """Count how the attempts of a run ended."""
    for status, count in tally(run).items():
        typer.echo(f"{status} {count}")
