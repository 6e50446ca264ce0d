"""`ragrounds index`: corpora stored, versioned and made searchable."""

from __future__ import annotations

import shutil
from typing import Annotated

import typer
from msgspec.structs import asdict, replace

from ragrounds.api import index as indexes
from ragrounds.cli import options
from ragrounds.cli.commands import ListGroup
from ragrounds.cli.options import grouped
from ragrounds.cli.output import counting, print_json, say, tell
from ragrounds.ui.tables.index_lines import built_lines, details_lines, index_table
from ragrounds.ui.tables.text_tables import print_table, results_console
from ragrounds.ui.text import safe

app = typer.Typer()
index = typer.Typer(name="index", cls=ListGroup, help="What is searched: build, list, show and remove indexes.")
app.add_typer(index)

IndexName = Annotated[str, typer.Argument(help="An index, as `ragrounds index ls` lists it.")]


@index.command("build")
@grouped
def build(arguments: indexes.IndexArguments, as_json: options.AsJson = False) -> None:
    """Read a corpus, cut it into passages, and make it searchable.

    An index that is there gets another version, which is searched from then on; the vectors of texts that stayed as
    they were are not made again. The same command resumes an interrupted build.
    """
    with counting() as progress:
        built = indexes.build(**asdict(replace(arguments, progress=progress)))
    if as_json:
        print_json({"index": built.index.fields(), "passed_over": built.passed_over, "new": built.new})
        return
    width = shutil.get_terminal_size().columns
    for line in built_lines(built.index, new=built.new, retrievers=built.retrievers, width=width):
        say(line)


@index.command("ls")
def ls(as_json: options.AsJson = False) -> None:
    """List all indexes."""
    details = indexes.list_indexes()
    if as_json:
        print_json([index_details.fields() for index_details in details], "indexes")
        return
    print_table(index_table(details), results_console())
    for index_details in details:
        if index_details.damage:
            say(f"{index_details.name} is damaged. {index_details.damage}")


@index.command("show")
def show(name: IndexName, as_json: options.AsJson = False) -> None:
    """Show what an index was made from, and how, and its versions."""
    details = indexes.describe(name)
    if as_json:
        print_json({"index": details.fields()})
        return
    for line in details_lines(details, shutil.get_terminal_size().columns):
        tell(line)


@index.command("rm")
def rm(name: IndexName, yes: options.Yes = False) -> None:
    """Remove an index, or NAME@VERSION: its passages and its engines. What it was made from stays."""
    details = indexes.describe(name)
    if runs := sum(len(version.runs) for version in details.versions):
        say(f"{runs:,} stored {'run' if runs == 1 else 'runs'} searched it: without it they cannot be resumed.")
    if not yes:
        typer.confirm(f"Remove the index {safe(name)} ({details.bytes / 1e6:,.1f} MB)?", abort=True, err=True)
    indexes.remove(name)
    say(f"removed {safe(name)}")
