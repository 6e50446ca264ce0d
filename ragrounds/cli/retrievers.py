"""`ragrounds retrievers`: what can be searched with."""

from __future__ import annotations

from typing import Annotated

import typer

from ragrounds.api import retrievers as known
from ragrounds.cli import options
from ragrounds.cli.commands import ListGroup
from ragrounds.cli.output import print_json, tell

app = typer.Typer()
retrievers = typer.Typer(name="retrievers", cls=ListGroup, help="What is searched with: retrievers and rerankers.")
app.add_typer(retrievers)


@retrievers.command("ls")
def list_command(as_json: options.AsJson = False) -> None:
    """List retrievers and rerankers: what can be used right now, and what is missing."""
    found = known.list_retrievers()
    if as_json:
        import msgspec

        cards = [
            {**msgspec.to_builtins(one.card), "usable": not one.missing, "missing": one.missing} for one in found.cards
        ]
        described = [one.described() for one in found.retrievers]
        names = [one.name for one in found.retrievers]
        print_json({"built_in": names, "retrievers": described, "analysers": found.analysers, "cards": cards})
        return
    from rich.table import Table
    from rich.text import Text

    from ragrounds.ui.tables import results_console

    console = results_console()
    table = Table(title="retrievers", title_justify="left")
    for heading in ("name", "what it is", "missing"):
        table.add_column(heading, no_wrap=heading == "name", overflow="fold")
    for one in found.retrievers:
        takes = f"builds {one.index}; " if one.index else ""
        words = f"{one.summary}\n{one.example}\n{takes}a search takes {one.cost or 'a time that it does not say'}"
        words += f"\nfrom the package {one.package}" if one.package else ""
        table.add_row(one.name, Text(words), Text(one.missing() or "nothing"))
    console.print(table)
    console.print(f"analysers of bm25: {', '.join(found.analysers)}")
    table = Table(title="cards of dense and rerank", title_justify="left")
    for heading in ("name", "kind", "size", "missing", "used in"):
        table.add_column(heading, no_wrap=heading == "name", overflow="fold")
    for card, lacks in ((one.card, one.missing) for one in found.cards):
        table.add_row(card.name, card.kind, card.size, Text(lacks or "nothing"), Text("; ".join(card.used_in)))
    console.print(table)


@retrievers.command("show")
def show_command(
    name: Annotated[str, typer.Argument(help="A retriever or a card, as `ragrounds retrievers ls` lists it.")],
    as_json: options.AsJson = False,
) -> None:
    """Show what a retriever is, what it takes, and what is missing for it here."""
    from ragrounds.ui.text import safe

    found = known.describe_retriever(name)
    if as_json:
        print_json({"retriever": found})
        return
    for key, value in found.items():
        if value:
            tell(f"{key:12} {safe(str(value))}")
