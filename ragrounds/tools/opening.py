"""The one way to a searcher: a retriever's spec, a corpus, and the home where indexes are kept."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

from ragrounds.contracts import Searcher
from ragrounds.errors import unknown
from ragrounds.specs import Spec, parse
from ragrounds.tools.collection import Collection, indexes, named, write_whole
from ragrounds.tools.corpora import Source, is_source, source

Progress = Callable[[str, int], None]
"""Told what is being done and how many passages are done."""


def open_searcher(retriever: Spec | str, corpus: str, home: Path, *, progress: Progress | None = None) -> Searcher:
    """Open a retriever over a corpus; what it needs on disk is built once and kept under ``home/indexes``.

    Args:
        retriever: A spec such as ``bm25`` or ``bm25[k1=1.2,b=0.75,analyser=plain]``.
        corpus: ``sample``, a source to read such as ``beir:PATH``, or the name of an index built before.
        home: Where ragrounds keeps its files.
        progress: Told how far the building is, where something has to be built.

    Raises:
        UserError: an unknown retriever, parameter or corpus; input that cannot be read.
        StopRun: the disk is full.
    """
    spec = parse(retriever) if isinstance(retriever, str) else retriever
    maker = _MAKERS.get(spec.name)
    if maker is None:
        raise unknown("retriever", spec.name, _MAKERS, "ragrounds retrievers")
    return maker(spec, open_collection(corpus, home, progress=progress), progress)


def open_collection(corpus: str, home: Path, *, progress: Progress | None = None) -> Collection:
    """Open the passages of a corpus; those of a source are stored first where they are not yet.

    A source whose files have the paths, sizes and times of an earlier reading is taken to be unchanged.
    """
    if not is_source(corpus):
        return named(corpus, home)
    origin = source(corpus)
    stamp = hashlib.blake2b(origin.stamp().encode(), digest_size=8).hexdigest()
    known = indexes(home) / ".stamps" / stamp
    folder = indexes(home) / known.read_text() if known.is_file() else None
    if folder is None or not (folder / "manifest.json").is_file():
        folder = _store(origin, stamp, home, progress)
        known.parent.mkdir(parents=True, exist_ok=True)
        write_whole(known, folder.name.encode())
    return Collection(folder)


def _store(origin: Source, stamp: str, home: Path, progress: Progress | None) -> Path:
    """Store a source's passages in a folder that carries their version; equal passages share one."""
    from ragrounds.tools.collecting import collect

    building = indexes(home) / f".building-{stamp}"
    told = (lambda count: progress("reading", count)) if progress else None
    manifest = collect(building, origin, name=origin.name, progress=told)
    folder = indexes(home) / f"{_plain(origin.name)}@{manifest.version}"
    try:
        building.rename(folder)
    except OSError:  # the same passages are there already, from another path
        shutil.rmtree(building, ignore_errors=True)
    return folder


def _plain(name: str) -> str:
    """A source's name as part of a folder's name."""
    return "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in name).strip(".") or "corpus"


def _bm25(spec: Spec, collection: Collection, progress: Progress | None) -> Searcher:
    from ragrounds.tools.bm25 import settings
    from ragrounds.tools.bm25_building import open_bm25

    told = (lambda count: progress("indexing", count)) if progress else None
    return open_bm25(collection, settings(spec), progress=told)


_MAKERS: dict[str, Callable[[Spec, Collection, Progress | None], Searcher]] = {"bm25": _bm25}
