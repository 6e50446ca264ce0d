"""`ragrounds retrievers`: what can be searched with."""

from __future__ import annotations

from typing import Annotated

import typer


def retrievers_command(json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List retrievers and rerankers: what can be used right now, and what is missing."""
    from ragrounds.tools.analysers import NAMES
    from ragrounds.tools.cards import cards, missing
    from ragrounds.tools.retriever import retrievers

    known = retrievers()
    found = [(card, missing(card)) for card in cards().values()]
    if json:
        import msgspec

        from ragrounds.cli.common import print_json

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
