"""`ragrounds index`: corpora stored, versioned and made searchable."""

from __future__ import annotations

import shutil
import sys
from typing import Annotated

import msgspec
import typer
from msgspec.structs import asdict, replace

from ragrounds.api import index as indexes
from ragrounds.cli import options
from ragrounds.cli.commands import ListGroup
from ragrounds.cli.options import grouped
from ragrounds.cli.output import counting, print_json, say, tell
from ragrounds.errors import UserError
from ragrounds.ui.index_lines import change_lines, details_lines, index_table, pruned_lines
from ragrounds.ui.tables import print_table, results_console
from ragrounds.ui.text import safe

app = typer.Typer()
index = typer.Typer(name="index", cls=ListGroup, help="What is searched: build, change, list, show and remove indexes.")
app.add_typer(index)

IndexName = Annotated[str, typer.Argument(help="An index, as `ragrounds index ls` lists it.")]


@index.command("build")
@grouped
def build(given: indexes.IndexArguments, as_json: options.AsJson = False) -> None:
    """Read a corpus, cut it into passages, and make it searchable.

    An index that is there gets another generation with the retrievers that it has; documents that stayed as they were
    are not read, cut or embedded again. An interrupted build resumes where it stood when the same command is given
    again.
    """

    def _built(confirmed: bool) -> indexes.BuiltIndex:
        with counting() as progress:
            return indexes.build(**asdict(replace(given, confirmed=confirmed, progress=progress)))

    try:
        built = _built(given.confirmed)
    except indexes.OtherIndex as other:
        if not sys.stdin.isatty():
            raise
        say(str(other).split(" Give --yes")[0])
        typer.confirm("Make it anew?", abort=True, err=True)
        built = _built(confirmed=True)
    _told(built, as_json)


@index.command("add")
@grouped
def add(given: indexes.AddArguments, as_json: options.AsJson = False) -> None:
    """Add documents to an index, or replace those of the same id.

    They are cut as the others are, and every retriever of the index gets them before any search sees them.
    """
    with counting() as progress:
        built = indexes.add(**asdict(replace(given, progress=progress)))
    _told(built, as_json)


@index.command("delete")
@grouped
def delete(
    given: indexes.DeleteArguments,
    documents: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of documents, as passages name theirs.")],
    as_json: options.AsJson = False,
) -> None:
    """Delete documents from an index. The files that they were read from stay.

    The former generation stays, too, until `ragrounds index prune`.
    """
    with counting() as progress:
        built = indexes.delete(**asdict(replace(given, documents=documents, progress=progress)))
    _told(built, as_json)


def _told(built: indexes.BuiltIndex, as_json: bool) -> None:
    """Say what came of a change."""
    if as_json:
        told = {name: getattr(built, name) for name in ("passed_over", "changes", "new", "not_followed", "report")}
        print_json({"index": built.index.fields(), **told})
        return
    for line in change_lines(
        built.index,
        built.manifest,
        built.changes,
        new=built.new,
        retrievers=built.retrievers,
        not_followed=built.not_followed,
        report=built.report,
        width=shutil.get_terminal_size().columns,
    ):
        say(line)


@index.command("ls")
def ls(as_json: options.AsJson = False) -> None:
    """List all indexes."""
    found = indexes.list_indexes()
    if as_json:
        print_json([one.fields() for one in found], "indexes")
        return
    print_table(index_table(found), results_console())
    for one in found:
        if one.damage:
            say(f"{one.name} is damaged. {one.damage}")
        if one.current is False:
            say(f"{one.name} was read and cut by other code than that of now: `ragrounds index build` makes it anew.")


@index.command("show")
def show(name: IndexName, as_json: options.AsJson = False) -> None:
    """Show what an index was made from, and how, and its generations."""
    found = indexes.describe(name)
    if as_json:
        print_json({"index": found.fields()})
        return
    for line in details_lines(found, shutil.get_terminal_size().columns):
        tell(line)


@index.command("rm")
def rm(name: IndexName, yes: options.Yes = False) -> None:
    """Remove an index: its passages and its engines. What it was made from stays."""
    found = indexes.describe(name)
    if runs := sum(len(one.runs) for one in found.generations):
        say(f"{runs:,} stored {'run' if runs == 1 else 'runs'} searched it: without it they cannot be resumed.")
    if not yes:
        typer.confirm(f"Remove the index {safe(name)} ({found.bytes / 1e6:,.1f} MB)?", abort=True, err=True)
    indexes.remove(name)
    say(f"removed {safe(name)}")


@index.command("prune")
def prune(
    name: Annotated[list[str] | None, typer.Argument(help="Indexes; none: all.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Remove nothing, only tell what would go.")] = False,
    yes: options.Yes = False,
    as_json: options.AsJson = False,
) -> None:
    """Remove former generations of indexes.

    A generation stays where it is searched, where a stored run needs it, and where some process has it open.
    """
    found = indexes.prune(name or (), dry_run=True)
    gone = [one for one in found if one.removed]
    for line in pruned_lines(found):
        say(line)
    if gone and not dry_run:
        if not yes:
            if not sys.stdin.isatty():
                raise UserError("Nothing was removed: give --yes to remove without being asked.")
            typer.confirm("Remove them?", abort=True, err=True)
        found = indexes.prune(name or ())
        say(f"removed {sum(one.removed for one in found)}")
    if as_json:
        print_json(found, "generations")
    for one in () if name else indexes.list_indexes():
        if one.damage:
            say(f"{one.name} is damaged and was passed over. {one.damage}")


@index.command("push")
def push(
    name: Annotated[str, typer.Argument(help="An index, as `ragrounds index ls` lists it.")],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            help="pgvector:URL, chroma:URL, lancedb:FOLDER …, or a spec that names fields: pgvector[url=…,table=…].",
        ),
    ],
    embed: Annotated[
        str, typer.Option(help="Embedding model, as dense[model=…] names it; without one words alone are pushed.")
    ] = "",
    as_json: options.AsJson = False,
) -> None:
    """Bring an index to a search engine: pgvector, Chroma, LanceDB, Milvus, Qdrant, OpenSearch or Elasticsearch.

    Passages with the same id are replaced. Give the same command again after an interruption: it goes on there.
    """
    with counting() as progress:
        done = indexes.push(name, to, embed=embed, progress=progress)
    if as_json:
        print_json({"pushed": msgspec.to_builtins(done)})
        return
    if done.resumed:
        say(f"{done.resumed:,} passages were there already, from a push that was interrupted")
    if done.held != done.passages:
        say(f"it holds {done.held:,} passages; the index {done.passages:,}")
    say(f"pushed {done.corpus}: {done.passages:,} passages, searchable with")
    tell(done.spec)
