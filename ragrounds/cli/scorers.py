"""`ragrounds scorers`: how answers are scored."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec.structs import asdict

from ragrounds.api.scorers import describe_scorer, list_scorers
from ragrounds.cli import options
from ragrounds.cli.commands import ListGroup
from ragrounds.cli.output import print_json, tell
from ragrounds.ui.tables import Column, TextTable, print_table, results_console
from ragrounds.ui.text import safe

app = typer.Typer()
scorers = typer.Typer(name="scorers", cls=ListGroup, help="How answers are scored: list and show scorers.")
app.add_typer(scorers)


@scorers.command("ls")
def list_command(as_json: options.AsJson = False) -> None:
    """List the scorers: what each measures, what it needs, and from which package it is."""
    found = list_scorers()
    if as_json:
        print_json(found, "scorers")
        return
    columns = ("name", "what it says", "unit", "better", "questions", "needs", "package")
    rows = tuple(
        (one.name, one.summary, one.unit, one.direction, ", ".join(one.kinds), one.needs or "nothing", one.package)
        for one in found
    )
    headings = tuple(Column(name, right=False, whole=name == "name") for name in columns)
    print_table(TextTable(key="scorers", title="", columns=headings, rows=rows), results_console())


@scorers.command("show")
def show_command(
    name: Annotated[str, typer.Argument(help="A scorer, as `ragrounds scorers ls` lists it, or package.module:NAME.")],
    as_json: options.AsJson = False,
) -> None:
    """Show what a scorer measures and how."""
    found = describe_scorer(name)
    if as_json:
        print_json({"scorer": found})
        return
    for key, value in asdict(found).items():
        text = ", ".join(value) if isinstance(value, tuple) else value
        if text:
            tell(f"{key:10} {safe(text)}")
