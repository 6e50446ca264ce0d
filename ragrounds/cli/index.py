"""`ragrounds index`: corpora stored, versioned and made searchable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragrounds.api.workspace import user_settings
from ragrounds.cli import options
from ragrounds.cli.commands import ListGroup
from ragrounds.cli.output import counting, print_json, say

if TYPE_CHECKING:
    from pathlib import Path

app = typer.Typer()
index = typer.Typer(name="index", cls=ListGroup, help="What is searched: build, list, show and remove indexes.")
app.add_typer(index)


@index.command("build")
def build(
    name: Annotated[str, typer.Argument(help="What the index is called afterwards.")],
    source: Annotated[
        str,
        typer.Option("--from", help="A file or folder, or family:PATH with one of beir, r2med, medrag, jsonl, files."),
    ],
    chunker: Annotated[
        str,
        typer.Option(
            help="How documents are cut: none, recursive[size=1000,overlap=200], tokens[size=512,stride=128] or "
            "headings[short=200,most=1000]."
        ),
    ] = "none",
    retriever: Annotated[
        list[str] | None, typer.Option(help="Retrievers to build for now; others are built when first used.")
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Pass over what cannot be read, and list it.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Read a corpus, cut it into passages, and make it searchable.

    An interrupted build resumes where it stood when the same command is given again.
    """
    from ragrounds.errors import UserError
    from ragrounds.tools.chunkers import chunker as make_chunker
    from ragrounds.tools.chunkers import complete
    from ragrounds.tools.collection import folder_of
    from ragrounds.tools.collection_builder import build_collection
    from ragrounds.tools.corpora import BadLine, UnreadableLine, guess_family
    from ragrounds.tools.corpora import corpus_source as find
    from ragrounds.tools.retriever import open_searcher
    from ragrounds.ui.text import one_line

    home = user_settings().home
    chosen = complete(chunker)
    folder = folder_of(name, home)
    bad: list[BadLine] = []
    with counting() as progress:
        try:
            manifest = build_collection(
                folder,
                find(guess_family(source)),
                name=name,
                chunker=str(chosen),
                chunk=make_chunker(chosen),
                bad=bad if skip_bad else None,
                progress=lambda count: progress("reading", count),
            )
        except UnreadableLine as error:
            raise UserError(f"{error} Or pass over what cannot be read with --skip-bad.") from None
        searchers = [open_searcher(spec, name, home, progress=progress) for spec in retriever or ["bm25"]]
    for wrong in bad[:20]:
        say(one_line(f"passed over {wrong}", 300))
    if len(bad) > 20:
        say(f"passed over {len(bad) - 20:,} more")
    result = _described(folder)
    if as_json:
        print_json({"index": result, "passed_over": [str(wrong) for wrong in bad]})
        return
    say(f"{manifest.passages:,} passages of {manifest.documents:,} documents, version {manifest.version}")
    for searcher in searchers:
        say(f"searchable with {searcher.spec}")


@index.command("ls")
def ls(as_json: options.AsJson = False) -> None:
    """List all indexes."""
    from ragrounds.tools.collection import collection_names, indexes

    home = user_settings().home
    found = [_described(indexes(home) / name) for name in collection_names(home)]
    if as_json:
        print_json(found, "indexes")
        return
    _table(
        ["index", "passages", "version", "chunker", "engines", "MB"],
        [
            [
                entry["name"],
                "half-built" if entry["passages"] is None else f"{entry['passages']:,}",
                entry.get("version") or "",
                entry.get("chunker") or "",
                str(len(entry["engines"])),
                f"{entry['bytes'] / 1e6:,.1f}",
            ]
            for entry in found
        ],
    )


@index.command("show")
def show(
    name: Annotated[str, typer.Argument(help="An index, as `ragrounds index ls` lists it.")],
    as_json: options.AsJson = False,
) -> None:
    """Show what an index was made from, and how."""
    from ragrounds.ui.text import safe

    entry = _described(_existing(name, user_settings().home))
    if as_json:
        print_json({"index": entry})
        return
    for key, value in entry.items():
        if key == "engines":
            for engine in value:
                typer.echo(f"{'engine':12} {safe(engine['index'])}  {engine['bytes'] / 1e6:,.1f} MB")
        else:
            typer.echo(f"{key:12} {safe(str(value))}")


@index.command("rm")
def rm(
    name: Annotated[str, typer.Argument(help="An index, as `ragrounds index ls` lists it.")],
    yes: options.Yes = False,
) -> None:
    """Remove an index: its passages and its engines. What it was made from stays."""
    import shutil

    from ragrounds.tools.collection_builder import exclusive_build
    from ragrounds.ui.text import safe

    folder = _existing(name, user_settings().home)
    if not yes:
        typer.confirm(f"Remove the index {safe(name)} ({_described(folder)['bytes'] / 1e6:,.1f} MB)?", abort=True)
    with exclusive_build(folder):
        shutil.rmtree(folder)
    say(f"removed {safe(name)}")


@index.command("serve")
def serve(
    corpus: Annotated[str, typer.Argument(help="An index, or a source such as beir:PATH or sample.")],
    retriever: Annotated[str, typer.Option(help="What is searched with.")] = "bm25",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: a free one.")] = 8000,
    token: Annotated[
        str, typer.Option(help="What every request must carry as a Bearer token; needed but on loopback.")
    ] = "",
    mcp: Annotated[bool, typer.Option("--mcp", help="Serve MCP over standard input and output instead.")] = False,
) -> None:
    """Serve an index: Search-R1's /retrieve over HTTP, or an MCP server."""
    from ragrounds.tools.retriever import open_searcher
    from ragrounds.tools.server import application, mcp_server

    if not mcp:  # what is wrong with the address is said before anything is built
        from ragrounds.tools.server import check_address

        check_address(host, token)
    with counting() as progress:
        searcher = open_searcher(retriever, corpus, user_settings().home, progress=progress)
    if mcp:
        mcp_server(searcher).run("stdio")
        return
    from aiohttp import web

    web.run_app(application(searcher, host=host, token=token), host=host, port=port, print=say)


def _existing(name: str, home: Path) -> Path:
    from ragrounds.errors import unknown
    from ragrounds.tools.collection import collection_names, indexes

    if name not in collection_names(home):
        raise unknown("index", name, collection_names(home), "ragrounds index ls")
    return indexes(home) / name


def _described(folder: Path) -> dict[str, Any]:
    """What is known of an index, whole or half-built."""
    import msgspec

    from ragrounds.tools.collection import read_manifest

    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    entry: dict[str, Any] = {"name": folder.name, "passages": None}
    if (folder / "manifest.json").is_file():
        entry |= msgspec.to_builtins(read_manifest(folder)) | {"name": folder.name}
    engines = []
    for path in sorted(folder.glob("*/engine.json")):
        held = msgspec.json.decode(path.read_bytes())
        whole = sum(file.stat().st_size for file in path.parent.rglob("*") if file.is_file())
        engines.append({"index": str(held.get("index", "?")), "bytes": whole})
    return entry | {"engines": engines, "bytes": size}


def _table(headings: list[str], rows: list[list[str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    from ragrounds.ui.tables import results_console
    from ragrounds.ui.text import one_line

    table = Table()
    for number, heading in enumerate(headings):
        table.add_column(heading, overflow="fold", justify="right" if number in (1, 4, 5) else "left")
    for row in rows:
        table.add_row(*(Text(one_line(cell, 200)) for cell in row))
    results_console().print(table)
