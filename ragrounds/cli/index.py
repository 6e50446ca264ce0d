"""`ragrounds index`: corpora stored, versioned and made searchable."""

from __future__ import annotations

from typing import Annotated

import typer

from ragrounds.api import index as indexes
from ragrounds.cli import options
from ragrounds.cli.commands import ListGroup
from ragrounds.cli.output import counting, print_json, say, tell

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
    server_changed: options.ServerChangedOption = "stop",
    as_json: options.AsJson = False,
) -> None:
    """Read a corpus, cut it into passages, and make it searchable.

    An interrupted build resumes where it stood when the same command is given again.
    """
    from ragrounds.ui.text import one_line

    with counting() as progress:
        built = indexes.build(
            name,
            source,
            chunker=chunker,
            retrievers=retriever or (),
            skip_bad=skip_bad,
            server_changed=options.server_changed(server_changed),
            progress=progress,
        )
    for wrong in built.passed_over[:20]:
        say(one_line(f"passed over {wrong}", 300))
    if len(built.passed_over) > 20:
        say(f"passed over {len(built.passed_over) - 20:,} more")
    if as_json:
        print_json({"index": built.index.fields(), "passed_over": built.passed_over})
        return
    made = built.manifest
    say(f"{made.passages:,} passages of {made.documents:,} documents, version {made.version}")
    for spec in built.retrievers:
        say(f"searchable with {spec}")


@index.command("ls")
def ls(as_json: options.AsJson = False) -> None:
    """List all indexes."""
    found = indexes.list_indexes()
    if as_json:
        print_json([one.fields() for one in found], "indexes")
        return
    rows = []
    for one in found:
        passages = f"{one.manifest.passages:,}" if one.manifest else "half-built"
        version, chunker = (one.manifest.version, one.manifest.chunker) if one.manifest else ("", "")
        rows.append([one.name, passages, version, chunker, str(len(one.engines)), f"{one.bytes / 1e6:,.1f}"])
    _table(["index", "passages", "version", "chunker", "engines", "MB"], rows)
    for one in found:
        if one.current is False:
            say(f"{one.name} was read and cut by other code than that of now: `ragrounds index build` makes it anew.")


@index.command("show")
def show(
    name: Annotated[str, typer.Argument(help="An index, as `ragrounds index ls` lists it.")],
    as_json: options.AsJson = False,
) -> None:
    """Show what an index was made from, and how."""
    from ragrounds.ui.text import safe

    entry = indexes.describe(name).fields()
    if as_json:
        print_json({"index": entry})
        return
    for key, value in entry.items():
        if key == "engines":
            for engine in value:
                tell(f"{'engine':12} {safe(engine['index'])}  {engine['bytes'] / 1e6:,.1f} MB")
        else:
            tell(f"{key:12} {safe(str(value))}")


@index.command("rm")
def rm(
    name: Annotated[str, typer.Argument(help="An index, as `ragrounds index ls` lists it.")],
    yes: options.Yes = False,
) -> None:
    """Remove an index: its passages and its engines. What it was made from stays."""
    from ragrounds.ui.text import safe

    size = indexes.describe(name).bytes
    if not yes:
        typer.confirm(f"Remove the index {safe(name)} ({size / 1e6:,.1f} MB)?", abort=True)
    indexes.remove(name)
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
    if mcp:
        with counting() as progress:
            server = indexes.open_mcp_server(corpus, retriever, progress=progress)
        server.run("stdio")
        return
    with counting() as progress:
        application = indexes.open_server(corpus, retriever, host=host, token=token, progress=progress)
    indexes.serve(application, host=host, port=port, message=say)


def _table(headings: list[str], rows: list[list[str]]) -> None:
    from ragrounds.ui.list_tables import index_table
    from ragrounds.ui.tables import print_table, results_console

    print_table(index_table(headings, rows), results_console())
