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
from ragrounds.errors import StopRun, UserError, unknown
from ragrounds.settings import Settings
from ragrounds.specs import parse
from ragrounds.tools.build_report import BuildReport
from ragrounds.tools.chunkers import complete
from ragrounds.tools.collection import (
    Manifest,
    collection_names,
    current_generation,
    current_number,
    damage,
    folder_of,
    generation_folder,
    indexes,
    is_used,
    open_named,
    read_manifest,
)
from ragrounds.tools.collection_builder import Changes, exclusive_build, read_report
from ragrounds.tools.corpora import BadLine, UnreadableLine, corpus_source, guess_family
from ragrounds.tools.generations import Change, apply, generations, remove_generation
from ragrounds.tools.index_changes import added_from, another, built_from, deleted, origin_of, own_chunker
from ragrounds.tools.index_details import EngineSize, IndexDetails, IndexGeneration, PrunedGeneration
from ragrounds.tools.push_transfer import PushedIndex, push_collection, target_spec
from ragrounds.tools.retriever import open_searcher
from ragrounds.tools.vector_events import BUILT
from ragrounds.tools.vector_files import import_vectors


class BuiltIndex(Struct, frozen=True, kw_only=True):
    """What came of :func:`build`, :func:`add` and :func:`delete`."""

    index: IndexDetails
    manifest: Manifest
    retrievers: tuple[str, ...]
    """The retrievers that are built, as canonical texts."""
    passed_over: tuple[str, ...]
    """What could not be read, where that was passed over."""
    changes: Changes
    """How many documents were added, replaced, removed and left as they were, against the generation before."""
    new: bool
    """Whether another generation is searched than before."""
    not_followed: tuple[str, ...] = ()
    """Retrievers that the generation before had and that could not be built for this one, each with the reason."""
    report: BuildReport | None = None
    """What became of every file and row that this change read; ``None``: it read none."""


class OtherIndex(UserError):
    """A build would make something else of an index than it was made of."""


class VectorFiles(Struct, frozen=True):
    """Vectors that somebody made before, and the ids of their rows."""

    vectors: tuple[str | Path, ...] = ()
    ids: tuple[str | Path, ...] = ()

    def __post_init__(self) -> None:
        if self.ids and not self.vectors:
            raise UserError("--ids names the rows of --vectors: give both, or neither.")

    def imported(self, asked: Sequence[str], corpus: str, home: Path, tell: Progress) -> None:
        """Take the vectors for the one retriever that is asked for.

        Raises:
            UserError: none or several were asked for; the files do not fit the corpus.
        """
        if len(asked) != 1:
            raise UserError(
                "--vectors needs the model that made them: one --retriever, such as 'medcpt[store=faiss]', which "
                f"embeds the queries; {len(asked)} were named."
            )
        taken = import_vectors(
            open_named(corpus, home),
            parse(asked[0]),
            self.vectors,
            self.ids,
            progress=lambda done: tell("taking", done),
        )
        BUILT.report(taken.words())


class _Read(Struct, frozen=True):
    """What may be given without its name."""

    name: Annotated[str, Arg("What the index is called.", option="name")]
    source: Annotated[
        str | Path,
        Arg("A file or folder, or family:PATH with one of beir, r2med, medrag, jsonl, files.", option="--from"),
    ]


class AddArguments(_Read, frozen=True, kw_only=True):
    """What is added to which index."""

    skip_bad: Annotated[bool, Arg("Pass over what cannot be read, and list it.")] = False
    server_changed: arguments.ServerChanged = "stop"
    home: arguments.Home = None
    settings: arguments.OwnSettings = None
    progress: arguments.Progressed = None


class IndexArguments(AddArguments, frozen=True, kw_only=True):
    """What an index is made of, and how."""

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
            "To build for now; others are built when first used. [default: those of the index, or bm25]",
            option="--retriever",
            many=True,
        ),
    ] = ()
    confirmed: Annotated[
        bool,
        Arg("Make it anew from another source or with another chunker; do not ask.", option="--yes", short="-y"),
    ] = False
    vectors: Annotated[
        Sequence[str | Path],
        Arg("Vectors made before, for the one retriever named: a .npy file, or a folder of them.", many=True),
    ] = ()
    ids: Annotated[
        Sequence[str | Path],
        Arg("Ids of their rows: .json, .jsonl, .npy or text; none: row 7 of NAME.npy is NAME_7.", many=True),
    ] = ()


class _Deleted(Struct, frozen=True):
    """What may be given without its name."""

    name: Annotated[str, Arg("An index, as `ragrounds index ls` lists it.", option="name")]
    documents: Annotated[str | Sequence[str], Arg("Ids of documents, as passages name theirs.", option="-")]


class DeleteArguments(_Deleted, frozen=True, kw_only=True):
    """Which documents of which index go."""

    server_changed: arguments.ServerChanged = "stop"
    home: arguments.Home = None
    settings: arguments.OwnSettings = None
    progress: arguments.Progressed = None


@takes(IndexArguments)
def build(given: IndexArguments) -> BuiltIndex:
    """Read a corpus, cut it into passages, and make it searchable.

    An index that is there gets another generation, with the retrievers that it has: documents that stayed as they were
    are not read, cut or embedded again. It appears when all of it is built, and what is open goes on over the former
    one. An interrupted build resumes where it stood when the same is asked again.

    Raises:
        OtherIndex: the index has another source or chunker, and nobody confirmed that.
        UserError: a name, source, chunker or retriever that cannot be used; a line that cannot be read.
        StopRun: the disk is full.
    """
    chosen = chosen_settings(given.settings, given.home)
    root, text = folder_of(given.name, chosen.home), guess_family(str(given.source))
    cut = own_chunker(root) if given.chunker is None else str(complete(given.chunker))
    read, origin = corpus_source(text), origin_of(text)
    if not given.confirmed and (otherwise := another(root, origin, read, cut)):
        raise OtherIndex(
            f"The index {given.name!r} holds something else: {otherwise}. Give --yes to make it anew, or another name; "
            "the generation of now is kept until it is pruned."
        )
    bad: list[BadLine] | None = [] if given.skip_bad else None
    with counted(given.progress) as tell:
        change = built_from(read, origin, given.name, cut, bad=bad, progress=lambda count: tell("reading", count))
        files = VectorFiles(tuple(given.vectors), tuple(given.ids))
        return _changed(root, change, given, tell, bad, texts(given.retrievers), files)


@takes(AddArguments)
def add(given: AddArguments) -> BuiltIndex:
    """Add the documents of a source to an index, cut as its own are. Those whose ids it has replace the former ones,
    where they stand; the others come last.

        index.add("cases", "reports/2026")

    Raises:
        UserError: no such index; a source that cannot be used; a line that cannot be read.
        StopRun: the disk is full.
    """
    root = _living(given.name, chosen_settings(given.settings, given.home).home)
    cut, text = read_manifest(current_generation(root)).chunker, guess_family(str(given.source))
    bad: list[BadLine] | None = [] if given.skip_bad else None
    with counted(given.progress) as tell:
        change = added_from(
            corpus_source(text), origin_of(text), chunker=cut, bad=bad, progress=lambda count: tell("reading", count)
        )
        return _changed(root, change, given, tell, bad)


@takes(DeleteArguments)
def delete(given: DeleteArguments) -> BuiltIndex:
    """Delete documents from an index, by their ids. The files that they were read from stay, and a later build from
    them reads them again.

        index.delete("cases", ["report-1.md"])

    Raises:
        UserError: no such index; an id that it does not have; nothing would be left.
        StopRun: the disk is full.
    """
    root, ids = _living(given.name, chosen_settings(given.settings, given.home).home), texts(given.documents)
    if not ids:
        raise UserError("No document was named: give the ids of those to delete.")
    with counted(given.progress) as tell:
        return _changed(root, deleted(ids, progress=lambda count: tell("copying", count)), given, tell)


def _changed(
    root: Path,
    change: Change,
    given: AddArguments | DeleteArguments,
    tell: Progress,
    bad: list[BadLine] | None = None,
    asked: Sequence[str] = (),
    files: VectorFiles | None = None,
) -> BuiltIndex:
    """Make the next generation of an index, with the retrievers that are asked for and those that it has."""
    settings = chosen_settings(given.settings, given.home)
    opened: dict[str, None] = {}

    def _open(specs: Sequence[str], corpus: str) -> None:
        for spec in met_retrievers(specs, settings, given.server_changed):
            opened[open_searcher(spec, corpus, settings.home, progress=tell).spec] = None

    def _follow(corpus: str, held: list[str]) -> list[str]:
        if files is not None and files.vectors:
            files.imported(asked, corpus, settings.home, tell)
        _open(asked or ([] if held else ["bm25"]), corpus)
        failed = []
        for spec in held:
            try:
                _open([spec], corpus)
            except StopRun:
                raise
            except UserError as problem:
                failed.append(f"{spec}: {problem}")
        return failed

    try:
        made = apply(root, change, _follow)
    except UnreadableLine as error:
        raise UserError(f"{error} Or pass over what cannot be read with --skip-bad.") from None
    return BuiltIndex(
        index=_described(root),
        manifest=made.manifest,
        retrievers=tuple(opened),
        passed_over=tuple(str(wrong) for wrong in bad or ()),
        changes=made.changes,
        new=made.new,
        not_followed=made.failed,
        report=made.report,
    )


def push(
    name: str,
    to: str,
    *,
    embed: str = "",
    home: str | Path | None = None,
    settings: Settings | None = None,
    progress: Progress | bool | None = None,
) -> PushedIndex:
    """Bring the passages of an index to a search engine that keeps them itself. Those with the same id are replaced; a
    push that was interrupted goes on where it stood when the same is asked again.

    Args:
        name: an index.
        to: ``ADAPTER:ADDRESS``, such as ``pgvector:postgresql://USER@HOST/DB`` or ``lancedb:FOLDER``, or a spec of the
            adapter, with the fields that are filled: ``pgvector[url=…,table=…]``.
        embed: the embedding model, as the retriever ``dense`` names it; empty: that of the spec, or words alone.
        home, settings: the folder of the indexes, and all settings; ``None``: the user's.
        progress: is told how many passages were embedded and pushed; False: nothing is shown.

    Raises:
        UserError: an unknown index or engine; an engine that holds other fields or dimensions, or cannot be reached.
        StopRun: the disk is full.
    """
    spec = target_spec(to, embed)
    collection = open_named(name, chosen_settings(settings, home).home)
    with counted(progress) as tell:
        return push_collection(collection, spec, tell)


def list_indexes(*, home: str | Path | None = None, settings: Settings | None = None) -> list[IndexDetails]:
    """All indexes by name, half-built and damaged ones too."""
    place = chosen_settings(settings, home).home
    return [_described(indexes(place) / name) for name in collection_names(place)]


def describe(name: str, *, home: str | Path | None = None, settings: Settings | None = None) -> IndexDetails:
    """What an index was made from, and how, with the stored runs that searched each of its generations.

    Raises:
        UserError: there is none of that name; names the nearest.
    """
    chosen = chosen_settings(settings, home)
    return _described(_existing(name, chosen.home), _searched_by(chosen))


def remove(name: str, *, home: str | Path | None = None, settings: Settings | None = None) -> None:
    """Remove an index: its passages and its engines, whether they can be read or not. What it was made from stays.

    Raises:
        UserError: there is none of that name; somebody is building it.
    """
    folder = _existing(name, chosen_settings(settings, home).home)
    with exclusive_build(folder):
        shutil.rmtree(folder)


def prune(
    names: str | Sequence[str] = (),
    *,
    dry_run: bool = False,
    home: str | Path | None = None,
    settings: Settings | None = None,
) -> list[PrunedGeneration]:
    """Remove the generations of indexes that are not searched, that no stored run needs, and that no process has open.

    Args:
        names: of indexes; none: all but those that are damaged, whose former generations may be needed.
        dry_run: only say what would be removed.
        home, settings: the folder of the indexes, and all settings; ``None``: the user's.

    Returns:
        All generations but the searched ones, by index and age.

    Raises:
        UserError: an unknown name, or that of a damaged index; another process is building one of the indexes.
    """
    chosen = chosen_settings(settings, home)
    needed = _searched_by(chosen)
    looked, asked = [], texts(names)
    for name in asked or collection_names(chosen.home):
        root = _existing(name, chosen.home)
        found = _described(root, needed)
        if found.damage and asked:
            raise UserError(found.damage)
        for one in found.generations:
            if not one.searched:
                if not one.kept and not dry_run:
                    remove_generation(root, one.number)
                looked.append(PrunedGeneration(name, one, not one.kept))
    return looked


def _existing(name: str, home: Path) -> Path:

    if name not in collection_names(home):
        raise unknown("index", name, collection_names(home), "ragrounds index ls")
    return indexes(home) / name


def _living(name: str, home: Path) -> Path:
    """The folder of an index that was built by name."""
    if "@" in name:
        raise UserError(
            f"{name!r} is what was stored of a source that was searched, or one version of an index: documents are "
            "changed in an index that `ragrounds index build NAME` made, by its name."
        )
    return _existing(name, home)


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

    if wrong := damage(root):
        return IndexDetails(name=root.name, manifest=None, engines=(), bytes=_size(root), damage=wrong)
    folder, number, engines = current_generation(root), current_number(root), []
    for path in sorted(folder.glob("*/engine.json")):
        held: dict[str, object] = {}
        with suppress(msgspec.MsgspecError, RecursionError):
            held = msgspec.json.decode(path.read_bytes(), type=dict[str, object])
        engines.append(EngineSize(str(held.get("index", f"{path.parent.name} (damaged)")), _size(path.parent)))
    kept = []
    for one in generations(root):
        place = generation_folder(root, one.number)
        kept.append(
            IndexGeneration(
                **{key: getattr(one, key) for key in ("number", "version", "documents", "passages", "built", "change")},
                **msgspec.to_builtins(one.changes),
                bytes=_size(place, without="generations" if place == root else ""),
                searched=one.number == number,
                open=is_used(place),
                runs=tuple((needed or {}).get(f"{root.name}@{one.version}", ())),
            )
        )
    manifest = read_manifest(folder) if (folder / "manifest.json").is_file() else None
    return IndexDetails(
        name=root.name,
        manifest=manifest,
        engines=tuple(engines),
        bytes=_size(root),
        generation=number,
        generations=tuple(kept),
        report=read_report(folder),
    )


def _size(folder: Path, without: str = "") -> int:
    files = (file for file in folder.rglob("*") if not without or file.relative_to(folder).parts[0] != without)
    return sum(file.stat().st_size for file in files if file.is_file())
