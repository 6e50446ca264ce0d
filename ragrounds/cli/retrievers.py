"""`ragrounds retrievers`: what is searched with."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from ragrounds.api import retrievers as known
from ragrounds.cli import options
from ragrounds.cli.commands import ListGroup
from ragrounds.cli.output import print_json, tell
from ragrounds.ui.list_tables import card_table, retriever_table
from ragrounds.ui.tables import print_table, results_console
from ragrounds.ui.text import safe

app = typer.Typer()
retrievers = typer.Typer(name="retrievers", cls=ListGroup, help="What is searched with: retrievers and rerankers.")
app.add_typer(retrievers)


@retrievers.command("ls")
def list_command(as_json: options.AsJson = False) -> None:
    """List retrievers and rerankers: what can be used right now, and what is missing."""
    found = known.list_retrievers()
    if as_json:
        cards = [
            {**msgspec.to_builtins(one.card), "usable": not one.missing, "missing": one.missing} for one in found.cards
        ]
        described = [one.described() for one in found.retrievers]
        names = [one.name for one in found.retrievers]
        print_json({"built_in": names, "retrievers": described, "analysers": found.analysers, "cards": cards})
        return
    console = results_console()
    print_table(retriever_table(found.retrievers), console)
    tell(f"\nanalysers of bm25: {', '.join(found.analysers)}")
    print_table(card_table((one.card, one.missing) for one in found.cards), console)


@retrievers.command("show")
def show_command(
    name: Annotated[str, typer.Argument(help="A retriever or a card, as `ragrounds retrievers ls` lists it.")],
    as_json: options.AsJson = False,
) -> None:
    """Show what a retriever is, what it takes, and what is missing for it here."""
    found = known.describe_retriever(name)
    if as_json:
        print_json({"retriever": found})
        return
    for key, value in found.items():
        if isinstance(value, list):
            for one in value:
                default = "" if one.get("default") is None else f" (default {one['default']})"
                tell(f"{'parameter':12} {safe(one['name'])}: {safe(one['words'])}{safe(default)}")
        elif isinstance(value, dict):
            tell(f"{key:12} {safe(', '.join(f'{name}={each}' for name, each in value.items() if each not in ('', 0)))}")
        elif isinstance(value, tuple):
            tell(f"{key:12} {safe(', '.join(map(str, value)))}")
        elif value:
            tell(f"{key:12} {safe(str(value))}")
