"""What is searched: corpora stored, versioned and made searchable."""

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
from ragrounds.api.progress import counted
from ragrounds.api.servers import met_retrievers
from ragrounds.api.workspace import Progress, chosen_settings, open_store, texts
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
    """What came of :func:`build`."""

    index: IndexDetails
    retrievers: tuple[str, ...]
    """The retrievers that are built, as canonical texts."""
    passed_over: tuple[str, ...]
    """What could not be read, where that was passed over."""
    new: bool
    """Whether another version is searched than before."""


class VectorFiles(Struct, frozen=True):
    """Vectors that somebody made before, and the ids of their rows."""

    vectors: tuple[str | Path, ...] = ()
    ids: tuple[str | Path, ...] = ()

    def __post_init__(self) -> None:
        if self.ids and not self.vectors:
            raise UserError("--ids are for the rows of --vectors: give both, or neither.")

    def imported(self, asked: Sequence[str], corpus: str, home: Path, tell: Progress) -> None:
        """Take the vectors for the one retriever that is asked for.

        Raises:
            UserError: none or several were asked for; the files do not fit the corpus.
        """
        if len(asked) != 1:
            raise UserError(
                "--vectors needs the model that made them: one --retriever, such as 'medcpt[store=faiss]', which "
                f"embeds the queries; {len(asked)} were given."
            )
        taken = import_vectors(
            open_named(corpus, home),
            parse(asked[0]),
            self.vectors,
            self.ids,
            progress=lambda done: tell("taking", done),
        )
        BUILT.report(taken.words())


class IndexArguments(Struct, frozen=True):
    """What an index is made of, and how."""

    name: Annotated[str, Arg("What the index is called.", option="name")]
    source: Annotated[
        str | Path,
        Arg("A file or folder, or family:PATH with one of beir, r2med, medrag, jsonl, files.", option="--from"),
    ]
    skip_bad: Annotated[bool, Arg("Skip unreadable files and rows, and list them.")] = False
    server_changed: arguments.ServerChanged = "stop"
    home: arguments.Home = None
    settings: arguments.OwnSettings = None
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
def build(given: IndexArguments) -> BuiltIndex:
    """Read a corpus, cut it into passages, and make it searchable.

    An index that is there gets another version, which is searched from then on; what is open keeps its own. The
    vectors of texts that stayed as they were are not made again. The same call resumes an interrupted build.

    Raises:
        UserError: a name, source, chunker or retriever that cannot be used; a line that cannot be read.
        StopRun: the disk is full.
    """
    chosen = chosen_settings(given.settings, given.home)
    make_home(chosen.home)
    root, source = folder_of(given.name, chosen.home), corpus_source(guess_family(str(given.source)))
    held, asked = versions(root), texts(given.retrievers)
    cut = read_manifest(held[-1]).chunker if held and given.chunker is None else str(complete(given.chunker or "none"))
    files = VectorFiles(tuple(given.vectors), tuple(given.ids))
    bad: list[BadLine] | None = [] if given.skip_bad else None
    opened: dict[str, None] = {}
    with counted(given.progress) as tell:
        try:
            folder, new = build_version(root, source, cut, bad=bad, progress=lambda count: tell("reading", count))
        except UnreadableLine as error:
            raise UserError(f"{error} Or skip unreadable files with --skip-bad.") from None
        corpus = f"{root.name}@{folder.name}"
        if files.vectors:
            files.imported(asked, corpus, chosen.home, tell)
        for spec in met_retrievers(asked or ["bm25"], chosen, given.server_changed):
            opened[open_searcher(spec, corpus, chosen.home, progress=tell).spec] = None
    passed_over = tuple(str(wrong) for wrong in bad or ())
    return BuiltIndex(index=_described(root), retrievers=tuple(opened), passed_over=passed_over, new=new)


def list_indexes(*, home: str | Path | None = None, settings: Settings | None = None) -> list[IndexDetails]:
    """All indexes by name, half-built and damaged ones too."""
    place = chosen_settings(settings, home).home
    return [_described(indexes(place) / name) for name in collection_names(place)]


def describe(name: str, *, home: str | Path | None = None, settings: Settings | None = None) -> IndexDetails:
    """What an index was made from, and how, with the stored runs that searched each of its versions.

    Raises:
        UserError: there is none of that name; names the nearest.
    """
    chosen = chosen_settings(settings, home)
    return msgspec.structs.replace(_described(find_named(name, chosen.home), _searched_by(chosen)), name=name)


def remove(name: str, *, home: str | Path | None = None, settings: Settings | None = None) -> None:
    """Remove an index, or with ``NAME@VERSION`` one version of it: passages and engines, whether they can be read or
    not. What it was made from stays.

    Raises:
        UserError: there is none of that name; somebody is building it.
    """
    folder = find_named(name, chosen_settings(settings, home).home)
    with exclusive_build(folder):
        shutil.rmtree(folder)


def _searched_by(settings: Settings) -> dict[str, list[str]]:
    """``NAME@VERSION`` → the ids of the stored runs that searched it."""
    found: dict[str, list[str]] = {}
    if settings.store is None and not (settings.home / "store.sqlite").is_file():
        return found  # no run was made yet: looking makes no store
    with open_store(settings) as store:
        for run in store.runs():
            for corpus in filter(None, str(run.identity.get("corpus") or "").split("+")):
                found.setdefault(corpus, []).append(run.id)
    return found


def _described(root: Path, needed: Mapping[str, Sequence[str]] | None = None) -> IndexDetails:
    if wrong := collection_damage(root):
        return IndexDetails(name=root.name, manifest=None, engines=(), bytes=_size(root), damage=wrong)
    kept, engines, manifest = [], [], None
    held = versions(root)
    for folder in held:
        manifest = read_manifest(folder)
        facts = {key: getattr(manifest, key) for key in ("version", "documents", "passages", "built")}
        runs = tuple((needed or {}).get(f"{manifest.name}@{manifest.version}", ()))
        kept.append(IndexVersion(**facts, bytes=_size(folder), runs=runs))
    for path in sorted(held[-1].glob("*/engine.json") if held else ()):
        found: dict[str, object] = {}
        with suppress(msgspec.MsgspecError, RecursionError):
            found = msgspec.json.decode(path.read_bytes(), type=dict[str, object])
        engines.append(EngineSize(str(found.get("index", f"{path.parent.name} (damaged)")), _size(path.parent)))
    return IndexDetails(
        name=root.name,
        manifest=manifest,
        engines=tuple(engines),
        bytes=_size(root),
        versions=tuple(kept),
        report=read_report(held[-1]) if held else None,
    )


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
