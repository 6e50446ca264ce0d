"""`ragrounds retrievers`: what is searched with. `ragrounds scorers`: how answers are scored.
`ragrounds analyses`: those there are."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from ragrounds.api import choices as known
from ragrounds.cli import options
from ragrounds.cli.commands import ListGroup
from ragrounds.cli.output import print_fields, print_json, tell
from ragrounds.ui.list_tables import card_table, retriever_table
from ragrounds.ui.tables import Column, TextTable, print_table, results_console
from ragrounds.ui.text import safe

app = typer.Typer()
retrievers = typer.Typer(name="retrievers", cls=ListGroup, help="What is searched with: retrievers and rerankers.")
scorers = typer.Typer(name="scorers", cls=ListGroup, help="How answers are scored: list and show scorers.")
analyses = typer.Typer(name="analyses", cls=ListGroup, help="The analyses that `ragrounds analyse` knows.")
for noun in (retrievers, scorers, analyses):
    app.add_typer(noun)


@retrievers.command("ls")
def list_retrievers(as_json: options.AsJson = False) -> None:
    """List retrievers and rerankers: what can be used right now, and what is missing."""
    found = known.list_retrievers()
    if as_json:
        cards = [
            {**msgspec.to_builtins(card), "usable": not missing, "missing": missing} for card, missing in found.cards
        ]
        described = [one.described() for one in found.retrievers]
        names = [one.name for one in found.retrievers]
        print_json({"built_in": names, "retrievers": described, "analysers": found.analysers, "cards": cards})
        return
    console = results_console()
    print_table(retriever_table(found.retrievers), console)
    tell(f"\nanalysers of bm25: {', '.join(found.analysers)}")
    print_table(card_table(found.cards), console)


@retrievers.command("show")
def show_retriever(
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
        else:
            print_fields({key: value})


@scorers.command("ls")
def list_scorers(as_json: options.AsJson = False) -> None:
    """List the scorers: what each measures, what it needs, and from which package it is."""
    found = known.list_scorers()
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
def show_scorer(
    name: Annotated[str, typer.Argument(help="A scorer, as `ragrounds scorers ls` lists it, or package.module:NAME.")],
    as_json: options.AsJson = False,
) -> None:
    """Show what a scorer measures and how."""
    found = known.describe_scorer(name)
    if as_json:
        print_json({"scorer": found})
    else:
        print_fields(found)


@analyses.command("ls")
def list_analyses(as_json: options.AsJson = False) -> None:
    """List the analyses: what each shows, what it needs, and from which package it is."""
    found = known.list_analyses()
    if as_json:
        described = {one.name: {"summary": one.summary, "needs": one.needs, "package": one.package} for one in found}
        print_json(described, "analyses")
        return
    for one in found:
        package = f"; from the package {one.package}" if one.package else ""
        tell(f"{one.name:10} {safe(f'{one.summary}; needs {one.needs}{package}')}")


@analyses.command("show")
def show_analysis(
    name: Annotated[str, typer.Argument(help="An analysis, as `ragrounds analyses ls` lists it.")],
    as_json: options.AsJson = False,
) -> None:
    """Say what an analysis shows, and what it needs."""
    found = known.describe_analysis(name)
    if as_json:
        print_json(found)
    else:
        print_fields(found)
