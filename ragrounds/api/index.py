"""What is searched: corpora stored, versioned and made searchable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from ragrounds.api.progress import counted
from ragrounds.api.servers import ServerChanged, met_retrievers
from ragrounds.api.workspace import Progress, chosen_settings, texts
from ragrounds.errors import UserError

if TYPE_CHECKING:
    from pathlib import Path

    from aiohttp import web
    from mcp.server.fastmcp import FastMCP

    from ragrounds.settings import Settings
    from ragrounds.tools.collection import Manifest


class IndexDetails(Struct, frozen=True, kw_only=True):
    """An index, whole or half-built."""

    name: str
    manifest: Manifest | None
    """What it was made from, and how; ``None``: it is half-built."""
    engines: tuple[EngineSize, ...]
    bytes: int
    """All that it takes on the disk."""

    @property
    def current(self) -> bool | None:
        """Whether the code of now would read and cut the documents as they were; ``None``: that is not known."""
        from ragrounds.tools.collection_builder import building_code

        made = self.manifest
        return made.code == building_code(made.chunker) if made is not None and made.code else None

    def fields(self) -> dict[str, Any]:
        """As one flat object for ``--json``; `passages` is ``None`` where it is half-built."""
        told = {"name": self.name, "passages": None}
        if self.manifest is not None:
            told |= msgspec.to_builtins(self.manifest) | {"name": self.name}
        return told | {"current": self.current, "engines": msgspec.to_builtins(self.engines), "bytes": self.bytes}


class EngineSize(Struct, frozen=True):
    """A search engine that was built over an index."""

    index: str
    bytes: int


class BuiltIndex(Struct, frozen=True, kw_only=True):
    """What came of :func:`build`."""

    index: IndexDetails
    manifest: Manifest
    retrievers: tuple[str, ...]
    """The retrievers that were built, as canonical texts."""
    passed_over: tuple[str, ...]
    """What could not be read, where that was passed over."""


def build(
    name: str,
    source: str | Path,
    *,
    chunker: str = "none",
    retrievers: str | Sequence[str] = (),
    skip_bad: bool = False,
    server_changed: ServerChanged = "stop",
    home: str | Path | None = None,
    settings: Settings | None = None,
    progress: Progress | bool | None = None,
) -> BuiltIndex:
    """Read a corpus, cut it into passages, and make it searchable. An interrupted build resumes where it stood when the
    same is asked again.

    Args:
        name: what the index is called afterwards.
        source: a file or folder, or ``family:PATH`` with one of beir, r2med, medrag, jsonl, files.
        chunker: how documents are cut: ``none``, ``recursive[…]``, ``tokens[…]`` or ``headings[…]``.
        retrievers: to build for now; none: bm25. Others are built when they are first used.
        skip_bad: pass over what cannot be read.
        server_changed: where another server of an embedder answers than the last time: ``stop``, or embed anew
            (``new``).
        home, settings: the folder of the indexes, and all settings; ``None``: the user's.
        progress: is told how many passages were read, and how far each retriever is; False: nothing is shown.

    Raises:
        UserError: a name, source, chunker or retriever that cannot be used; a line that cannot be read.
        StopRun: the disk is full.
    """
    from ragrounds.tools.chunkers import chunker as make_chunker
    from ragrounds.tools.chunkers import complete
    from ragrounds.tools.collection import folder_of
    from ragrounds.tools.collection_builder import build_collection
    from ragrounds.tools.corpora import BadLine, UnreadableLine, corpus_source, guess_family
    from ragrounds.tools.retriever import open_searcher

    place = chosen_settings(settings, home).home
    chosen = complete(chunker)
    folder = folder_of(name, place)
    bad: list[BadLine] = []
    with counted(progress) as tell:
        try:
            manifest = build_collection(
                folder,
                corpus_source(guess_family(str(source))),
                name=name,
                chunker=str(chosen),
                chunk=make_chunker(chosen),
                bad=bad if skip_bad else None,
                progress=lambda count: tell("reading", count),
            )
        except UnreadableLine as error:
            raise UserError(f"{error} Or pass over what cannot be read with --skip-bad.") from None
        specs = met_retrievers(texts(retrievers) or ["bm25"], chosen_settings(settings, home), server_changed)
        searchers = [open_searcher(spec, name, place, progress=tell) for spec in specs]
    return BuiltIndex(
        index=_described(folder),
        manifest=manifest,
        retrievers=tuple(searcher.spec for searcher in searchers),
        passed_over=tuple(str(wrong) for wrong in bad),
    )


def list_indexes(*, home: str | Path | None = None, settings: Settings | None = None) -> list[IndexDetails]:
    """All indexes by name, half-built ones too."""
    from ragrounds.tools.collection import collection_names, indexes

    place = chosen_settings(settings, home).home
    return [_described(indexes(place) / name) for name in collection_names(place)]


def describe(name: str, *, home: str | Path | None = None, settings: Settings | None = None) -> IndexDetails:
    """What an index was made from, and how.

    Raises:
        UserError: there is none of that name; names the nearest.
    """
    return _described(_existing(name, chosen_settings(settings, home).home))


def remove(name: str, *, home: str | Path | None = None, settings: Settings | None = None) -> None:
    """Remove an index: its passages and its engines. What it was made from stays.

    Raises:
        UserError: there is none of that name, or somebody is building it.
    """
    import shutil

    from ragrounds.tools.collection_builder import exclusive_build

    folder = _existing(name, chosen_settings(settings, home).home)
    with exclusive_build(folder):
        shutil.rmtree(folder)


def open_server(
    corpus: str,
    retriever: str = "bm25",
    *,
    host: str = "127.0.0.1",
    token: str = "",
    home: str | Path | None = None,
    settings: Settings | None = None,
    progress: Progress | bool | None = None,
) -> web.Application:
    """Open an index behind Search-R1's ``/retrieve`` over HTTP, for :func:`serve`.

    Args:
        corpus: an index, or a source such as ``beir:PATH`` or ``sample``.
        retriever: what is searched with.
        host: the address that it will listen on.
        token: what every request must carry as a Bearer token; needed but on loopback.
        home, settings: the folder of the indexes, and all settings; ``None``: the user's.
        progress: is told how far an index is that has to be built first; False: nothing is shown.

    Raises:
        UserError: an unknown corpus or retriever, or no token for an address that others can reach.
    """
    from ragrounds.tools.retriever import open_searcher
    from ragrounds.tools.server import application, check_address

    check_address(host, token)  # what is wrong with the address is said before anything is built
    with counted(progress) as tell:
        searcher = open_searcher(retriever, corpus, chosen_settings(settings, home).home, progress=tell)
    return application(searcher, host=host, token=token)


def serve(
    application: web.Application,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    message: Callable[[str], None] = lambda text: None,
) -> None:
    """Serve what :func:`open_server` opened until it is interrupted. Port 0 is a free one; `message` is told the
    address."""
    from aiohttp import web

    web.run_app(application, host=host, port=port, print=message)


def open_mcp_server(
    corpus: str,
    retriever: str = "bm25",
    *,
    home: str | Path | None = None,
    settings: Settings | None = None,
    progress: Progress | bool | None = None,
) -> FastMCP:
    """Open an index behind an MCP server; its ``run("stdio")`` serves standard input and output until they end.

    Raises:
        UserError: an unknown corpus or retriever, or the extra `mcp` is not installed.
    """
    from ragrounds.tools.retriever import open_searcher
    from ragrounds.tools.server import mcp_server

    with counted(progress) as tell:
        return mcp_server(open_searcher(retriever, corpus, chosen_settings(settings, home).home, progress=tell))


def _existing(name: str, home: Path) -> Path:
    from ragrounds.errors import unknown
    from ragrounds.tools.collection import collection_names, indexes

    if name not in collection_names(home):
        raise unknown("index", name, collection_names(home), "ragrounds index ls")
    return indexes(home) / name


def _described(folder: Path) -> IndexDetails:
    from ragrounds.tools.collection import read_manifest

    engines = []
    for path in sorted(folder.glob("*/engine.json")):
        held = msgspec.json.decode(path.read_bytes())
        engines.append(EngineSize(str(held.get("index", "?")), _size(path.parent)))
    manifest = read_manifest(folder) if (folder / "manifest.json").is_file() else None
    return IndexDetails(name=folder.name, manifest=manifest, engines=tuple(engines), bytes=_size(folder))


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
