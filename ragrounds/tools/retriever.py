"""Documents through searchers that are made of others.

The one way to a searcher: a retriever's spec, a corpus, and the home where indexes are kept.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from ragrounds.contracts import Library, Searcher
from ragrounds.errors import UserError, unknown
from ragrounds.records import Passage
from ragrounds.specs import Spec, parse
from ragrounds.tools.cards import card_encoding, cards
from ragrounds.tools.collection import Collection, indexes, is_current, open_named, write_whole
from ragrounds.tools.corpora import CorpusSource, corpus_source, is_source


def passages_of(document: str, searchers: Iterable[Searcher]) -> list[Passage]:
    """A document's passages from the first searcher that has them; empty where none has."""
    for searcher in searchers:
        found = searcher.document(document) if isinstance(searcher, Library) else []
        if found:
            return found
    return []


Progress = Callable[[str, int], None]
"""Told what is being done and how many passages are done."""


def open_searcher(retriever: Spec | str, corpus: str, home: Path, *, progress: Progress | None = None) -> Searcher:
    """Open a retriever over a corpus; what it needs on disk is built once and kept under ``home/indexes``.

    Args:
        retriever: A spec such as ``bm25``, ``bm25[k1=1.2,b=0.75,analyser=plain]`` or ``rrf[a=bm25,b=medcpt]``.
        corpus: ``sample``, a source to read such as ``beir:PATH``, or the name of an index built before; several are
            joined with ``+``.
        home: Where ragrounds keeps its files.
        progress: Told how far the building is, where something has to be built.

    Raises:
        UserError: an unknown retriever, parameter or corpus; input that cannot be read.
        StopRun: the disk is full.
    """
    spec = parse(retriever) if isinstance(retriever, str) else retriever
    within = partial(open_searcher, corpus=corpus, home=home, progress=progress)
    if spec.name in _WRAPPERS:
        return _WRAPPERS[spec.name](spec, within)
    if spec.name in _EXTERNAL:
        return _EXTERNAL[spec.name](spec, corpus)
    engine = _ENGINES.get(spec.name) or (_card if spec.name in cards() else None)
    if engine is None:
        raise unknown("retriever", spec.name, [*_ENGINES, *_WRAPPERS, *_EXTERNAL, *cards()], "ragrounds retrievers")
    opened = [engine(spec, open_collection(one, home, progress=progress), progress) for one in corpora_of(corpus)]
    if len(opened) == 1:
        return opened[0]
    from ragrounds.tools.retrievers.fusion import MergedSearcher

    return MergedSearcher(opened)


def corpora_of(corpus: str) -> list[str]:
    """The corpora that ``one+two`` names. A path that has a ``+`` in it and exists is one corpus."""
    if "+" not in corpus or (is_source(corpus) and Path(corpus.partition(":")[2]).expanduser().exists()):
        return [corpus]
    return [part for part in corpus.split("+") if part]


def open_collection(corpus: str, home: Path, *, progress: Progress | None = None) -> Collection:
    """Open the passages of a corpus; those of a source are stored first where they are not yet.

    A source whose files have the paths, sizes and times of an earlier reading is taken to be unchanged.
    """
    if not is_source(corpus):
        return open_named(corpus, home)
    origin = corpus_source(corpus)
    stamp = hashlib.blake2b(origin.stamp().encode(), digest_size=8).hexdigest()
    known = indexes(home) / ".stamps" / stamp
    folder = indexes(home) / known.read_text() if known.is_file() else None
    if folder is None or not is_current(folder):
        folder = _store(origin, stamp, home, progress)
        known.parent.mkdir(parents=True, exist_ok=True)
        write_whole(known, folder.name.encode())
    return Collection(folder)


def _store(origin: CorpusSource, stamp: str, home: Path, progress: Progress | None) -> Path:
    """Store a source's passages in a folder that carries their version; equal passages share one."""
    from ragrounds.tools.collection_builder import build_collection

    building = indexes(home) / f".building-{stamp}"
    told = partial(progress, "reading") if progress else None
    manifest = build_collection(building, origin, name=origin.name, progress=told)
    folder = indexes(home) / f"{_plain(origin.name)}@{manifest.version}"
    if folder.is_dir() and not is_current(folder):  # written by an older version of this package
        shutil.rmtree(folder)
    try:
        building.rename(folder)
    except OSError:  # the same passages are there already, from another path
        shutil.rmtree(building, ignore_errors=True)
    return folder


def _plain(name: str) -> str:
    """A source's name as part of a folder's name."""
    return "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in name).strip(".") or "corpus"


def _bm25(spec: Spec, collection: Collection, progress: Progress | None) -> Searcher:
    from ragrounds.tools.retrievers.bm25 import bm25_parameters, open_bm25

    return open_bm25(collection, bm25_parameters(spec), progress=partial(progress, "indexing") if progress else None)


def _dense(spec: Spec, collection: Collection, progress: Progress | None) -> Searcher:
    from ragrounds.tools.retrievers.dense import open_dense

    return open_dense(collection, spec, progress=partial(progress, "embedding") if progress else None)


def _card(spec: Spec, collection: Collection, progress: Progress | None) -> Searcher:
    from ragrounds.tools.retrievers.dense import open_dense

    told = partial(progress, "embedding") if progress else None
    return open_dense(collection, spec, card_encoding(spec), progress=told)


def _langchain(spec: Spec, corpus: str) -> Searcher:
    from ragrounds.tools.retrievers.external import LangChainSearcher

    return LangChainSearcher(spec, corpus)


def _llamaindex(spec: Spec, corpus: str) -> Searcher:
    from ragrounds.tools.retrievers.external import LlamaIndexSearcher

    return LlamaIndexSearcher(spec, corpus)


def _web(spec: Spec, corpus: str) -> Searcher:
    from ragrounds.tools.retrievers.web import WebSearcher

    return WebSearcher(spec)


Within = Callable[[Spec], Searcher]
"""Opens another retriever over the same corpus."""


def _fused(spec: Spec, within: Within) -> Searcher:
    from ragrounds.tools.retrievers.fusion import MEDRAG, FusedSearcher, members_of

    chosen = MEDRAG[spec.name].having(**spec.parameters) if spec.name in MEDRAG else spec
    return FusedSearcher(chosen, {name: within(member) for name, member in members_of(chosen).items()})


def _maxp(spec: Spec, within: Within) -> Searcher:
    from ragrounds.tools.retrievers.maxp import MaxPSearcher, inner_of

    return MaxPSearcher(spec, within(inner_of(spec)))


def _reranked(spec: Spec, within: Within) -> Searcher:
    from ragrounds.tools.retrievers.rerank import RerankedSearcher, scorer_of, top_of

    top_of(spec)  # what is wrong with the spec is said before anything is built or loaded
    inner = spec.parameters.get("of", "bm25")
    if isinstance(inner, bool | int | float):
        raise UserError(f"rerank needs a retriever: rerank[of=bm25,…], not of={inner!r}.")
    return RerankedSearcher(spec, within(inner if isinstance(inner, Spec) else Spec(inner)), scorer_of(spec))


_ENGINES: dict[str, Callable[[Spec, Collection, Progress | None], Searcher]] = {
    "bm25": _bm25,
    "dense": _dense,
}
"""Retrievers that search one collection."""
_WRAPPERS: dict[str, Callable[[Spec, Within], Searcher]] = {
    "rrf": _fused,
    "weighted": _fused,
    "rrf2": _fused,
    "rrf4": _fused,
    "maxp": _maxp,
    "rerank": _reranked,
}
"""Retrievers made of others."""
_EXTERNAL: dict[str, Callable[[Spec, str], Searcher]] = {
    "langchain": _langchain,
    "llamaindex": _llamaindex,
    "web": _web,
}
"""Those that bring their corpus."""
