"""`ragrounds retrievers`: what can be searched with."""

from __future__ import annotations

from typing import Annotated

import typer

from ragrounds.cli import options
from ragrounds.cli.commands import ListGroup
from ragrounds.cli.output import print_json

app = typer.Typer()
retrievers = typer.Typer(name="retrievers", cls=ListGroup, help="What is searched with: retrievers and rerankers.")
app.add_typer(retrievers)


@retrievers.command("ls")
def list_command(as_json: options.AsJson = False) -> None:
    """List retrievers and rerankers: what can be used right now, and what is missing."""
    from ragrounds.tools.analysers import NAMES
    from ragrounds.tools.cards import cards, missing
    from ragrounds.tools.retriever import retrievers as known_retrievers

    known = known_retrievers()
    found = [(card, missing(card)) for card in cards().values()]
    if as_json:
        import msgspec

        listed = [{**msgspec.to_builtins(card), "usable": not lacks, "missing": lacks} for card, lacks in found]
        described = [one.described() for one in known.values()]
        print_json({"built_in": list(known), "retrievers": described, "analysers": NAMES, "cards": listed})
        return
    from rich.table import Table
    from rich.text import Text

    from ragrounds.ui.tables import results_console

    console = results_console()
    table = Table(title="retrievers", title_justify="left")
    for heading in ("name", "what it is", "missing"):
        table.add_column(heading, no_wrap=heading == "name", overflow="fold")
    for one in known.values():
        takes = f"builds {one.index}; " if one.index else ""
        words = f"{one.summary}\n{one.example}\n{takes}a search takes {one.cost}"
        table.add_row(one.name, Text(words), Text(one.missing() or "nothing"))
    console.print(table)
    console.print(f"analysers of bm25: {', '.join(NAMES)}")
    table = Table(title="cards of dense and rerank", title_justify="left")
    for heading in ("name", "kind", "size", "missing", "used in"):
        table.add_column(heading, no_wrap=heading == "name", overflow="fold")
    for card, lacks in found:
        table.add_row(card.name, card.kind, card.size, Text(lacks or "nothing"), Text("; ".join(card.used_in)))
    console.print(table)


@retrievers.command("show")
def show_command(
    name: Annotated[str, typer.Argument(help="A retriever or a card, as `ragrounds retrievers ls` lists it.")],
    as_json: options.AsJson = False,
) -> None:
    """Show what a retriever is, what it takes, and what is missing for it here."""
    import msgspec

    from ragrounds.errors import unknown
    from ragrounds.tools.cards import cards, missing
    from ragrounds.tools.retriever import retrievers as known_retrievers
    from ragrounds.ui.text import safe

    built_in, described = known_retrievers(), cards()
    if name in built_in:
        found = dict(built_in[name].described())
    elif name in described:
        found = {**msgspec.to_builtins(described[name]), "missing": missing(described[name])}
    else:
        raise unknown("retriever", name, [*built_in, *described], "ragrounds retrievers ls")
    if as_json:
        print_json({"retriever": found})
        return
    for key, value in found.items():
        if value:
            typer.echo(f"{key:12} {safe(str(value))}")
