"""Indexes: corpora stored, versioned and made searchable."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Struct

from ragrounds.api import arguments
from ragrounds.api.arguments import Arg, takes
from ragrounds.api.execution import Workspace
from ragrounds.api.progress import counted
from ragrounds.api.servers import met_retrievers
from ragrounds.api.workspace import chosen_settings, open_store, texts
from ragrounds.base.errors import UserError
from ragrounds.base.files import make_home
from ragrounds.base.settings import Settings
from ragrounds.base.specs import parse
from ragrounds.tools.corpora import BadLine, UnreadableLine, corpus_source, guess_family
from ragrounds.tools.index.chunkers import complete
from ragrounds.tools.index.collection import (
    collection_damage,
    collection_names,
    find_named,
    folder_of,
    indexes,
    open_named,
    read_manifest,
    versions,
)
from ragrounds.tools.index.collection_builder import build_version, exclusive_build, read_report
from ragrounds.tools.index.index_details import EngineSize, IndexDetails, IndexVersion
from ragrounds.tools.index.vector_events import BUILT
from ragrounds.tools.index.vector_files import import_vectors
from ragrounds.tools.retriever import open_searcher


class BuiltIndex(Struct, frozen=True, kw_only=True):
    """Result of :func:`build`."""

    index: IndexDetails
    retrievers: tuple[str, ...]
    """Retrievers that are built, as canonical texts."""
    passed_over: tuple[str, ...]
    """Files and rows that could not be read and were skipped."""
    new: bool
    """True if the searched version has changed."""


class IndexArguments(Workspace, frozen=True):
    """Source of an index, and how it is built."""

    name: Annotated[str, Arg("What the index is called.", option="name")]
    source: Annotated[
        str | Path,
        Arg("A file or folder, or family:PATH with one of beir, r2med, medrag, jsonl, files.", option="--from"),
    ]
    skip_bad: Annotated[bool, Arg("Skip unreadable files and rows, and list them.")] = False
    server_changed: arguments.ServerChanged = "stop"
    progress: arguments.Progressed = None
    chunker: Annotated[
        str | None,
        Arg(
            "How documents are cut: none, recursive[size=1000,overlap=200], tokens[size=512,stride=128] or "
            "headings[short=200,most=1000]; not given: as those of the index are, of a new one none."
        ),
    ] = None
    retrievers: Annotated[
        str | Sequence[str],
        Arg(
            "To build for now; others are built when first used. [default: bm25]",
            option="--retriever",
            many=True,
        ),
    ] = ()
    vectors: Annotated[
        Sequence[str | Path],
        Arg("Vectors made before, for the one retriever named: a .npy file, or a folder of them.", many=True),
    ] = ()
    ids: Annotated[
        Sequence[str | Path],
        Arg("Ids of their rows: .json, .jsonl, .npy or text; none: row 7 of NAME.npy is NAME_7.", many=True),
    ] = ()


@takes(IndexArguments)
def build(arguments: IndexArguments) -> BuiltIndex:
    """Read a corpus, cut it into passages, and make it searchable.

    An existing index gets a new version, which is searched from then on; open searchers keep their version. The vectors
    of unchanged texts are not computed again. The same call resumes an interrupted build.

    Raises:
        UserError: a name, source, chunker or retriever cannot be used, or a line cannot be read.
        StopRun: the disk is full.
    """
    settings = arguments.used_settings
    make_home(settings.home)
    root, source = folder_of(arguments.name, settings.home), corpus_source(guess_family(str(arguments.source)))
    existing, retrievers = versions(root), texts(arguments.retrievers)
    cut = (
        read_manifest(existing[-1]).chunker
        if existing and arguments.chunker is None
        else str(complete(arguments.chunker or "none"))
    )
    if arguments.ids and not arguments.vectors:
        raise UserError("--ids are for the rows of --vectors: give both, or neither.")
    bad: list[BadLine] | None = [] if arguments.skip_bad else None
    opened: dict[str, None] = {}
    with counted(arguments.progress) as tell:
        try:
            folder, new = build_version(root, source, cut, bad=bad, progress=lambda count: tell("reading", count))
        except UnreadableLine as error:
            raise UserError(f"{error} Or skip unreadable files with --skip-bad.") from None
        corpus = f"{root.name}@{folder.name}"
        if arguments.vectors:
            if len(retrievers) != 1:
                raise UserError(
                    "--vectors needs the model that made them: one --retriever, such as 'medcpt[store=faiss]', which "
                    f"embeds the queries; {len(retrievers)} were given."
                )
            imported_vectors = import_vectors(
                open_named(corpus, settings.home),
                parse(retrievers[0]),
                tuple(arguments.vectors),
                tuple(arguments.ids),
                progress=lambda done: tell("taking", done),
            )
            BUILT.report(imported_vectors.words())
        for spec in met_retrievers(retrievers or ["bm25"], settings, arguments.server_changed):
            opened[open_searcher(spec, corpus, settings.home, progress=tell).spec] = None
    passed_over = tuple(str(wrong) for wrong in bad or ())
    return BuiltIndex(index=_describe_index(root), retrievers=tuple(opened), passed_over=passed_over, new=new)


def list_indexes(*, home: str | Path | None = None, settings: Settings | None = None) -> list[IndexDetails]:
    """Return all indexes by name, including half-built and damaged ones."""
    home_folder = chosen_settings(settings, home).home
    return [_describe_index(indexes(home_folder) / name) for name in collection_names(home_folder)]


def describe(name: str, *, home: str | Path | None = None, settings: Settings | None = None) -> IndexDetails:
    """Return an index's source and settings, with the stored runs that searched each of its versions.

    Raises:
        UserError: the name is unknown; the message names the nearest.
    """
    used_settings = chosen_settings(settings, home)
    return msgspec.structs.replace(
        _describe_index(find_named(name, used_settings.home), _runs_by_version(used_settings)), name=name
    )


def remove(name: str, *, home: str | Path | None = None, settings: Settings | None = None) -> None:
    """Remove an index, or with ``NAME@VERSION`` one version of it: passages and engines, even if they are damaged.

    The source of the index stays.

    Raises:
        UserError: the name is unknown, or another process is building the index.
    """
    folder = find_named(name, chosen_settings(settings, home).home)
    with exclusive_build(folder):
        shutil.rmtree(folder)


def _runs_by_version(settings: Settings) -> dict[str, list[str]]:
    """Return the ids of the stored runs that searched each ``NAME@VERSION``."""
    runs_by_corpus: dict[str, list[str]] = {}
    if settings.store is None and not (settings.home / "store.sqlite").is_file():
        return runs_by_corpus  # no run was made yet, and opening the store would create it
    with open_store(settings) as store:
        for run in store.runs():
            for corpus in filter(None, str(run.identity.get("corpus") or "").split("+")):
                runs_by_corpus.setdefault(corpus, []).append(run.id)
    return runs_by_corpus


def _describe_index(root: Path, needed: Mapping[str, Sequence[str]] | None = None) -> IndexDetails:
    if wrong := collection_damage(root):
        return IndexDetails(name=root.name, manifest=None, engines=(), bytes=_size(root), damage=wrong)
    index_versions, engines, manifest = [], [], None
    folders = versions(root)
    for folder in folders:
        manifest = read_manifest(folder)
        facts = {key: getattr(manifest, key) for key in ("version", "documents", "passages", "built")}
        runs = tuple((needed or {}).get(f"{manifest.name}@{manifest.version}", ()))
        index_versions.append(IndexVersion(**facts, bytes=_size(folder), runs=runs))
    for path in sorted(folders[-1].glob("*/engine.json") if folders else ()):
        engine: dict[str, object] = {}
        with suppress(msgspec.MsgspecError, RecursionError):
            engine = msgspec.json.decode(path.read_bytes(), type=dict[str, object])
        engines.append(EngineSize(str(engine.get("index", f"{path.parent.name} (damaged)")), _size(path.parent)))
    return IndexDetails(
        name=root.name,
        manifest=manifest,
        engines=tuple(engines),
        bytes=_size(root),
        versions=tuple(index_versions),
        report=read_report(folders[-1]) if folders else None,
    )


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
