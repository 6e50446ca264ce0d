"""Indexes over stored vectors: ``store=faiss[index=…]``.

The vectors of a collection lie in one file, float32 or float16, and are never loaded whole: it is memory-mapped.

* ``flat`` compares a question with every vector (exact over the stored numbers);
* ``sq8`` keeps one byte a number and compares with every code (Jégou et al.'s scalar quantiser of FAISS);
* ``hnsw`` walks a graph (Malkov and Yashunin 2018) over such codes;
* ``ivfpq`` keeps product-quantised codes in inverted lists (Jégou et al. 2011), of which some are looked into;
* ``auto`` takes ``flat`` below 100,000 vectors, ``sq8`` below 1,000,000, and ``ivfpq`` above;
* any other is a string of FAISS' index factory: ``index="IVF4096,PQ96x4fs"``, with its own parameters of the search:
  ``search="nprobe=256"``.

The hits of all but ``flat`` are sorted again by the stored vectors: ``rerank`` candidates for each passage required.
At every build the recall against ``flat`` is measured on a sample and kept in ``engine.json``."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated, Protocol

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta

from ragrounds.base.errors import UserError, nearest
from ragrounds.base.specs import Spec, Value, check_known
from ragrounds.tools.index.collection_builder import Count
from ragrounds.tools.index.embedders import Metric, Vectors
from ragrounds.tools.index.engine_files import IndexManifest
from ragrounds.tools.index.vector_events import BUILT

Positions = npt.NDArray[np.int64]
StoredVectors = npt.NDArray[np.float32] | npt.NDArray[np.float16] | npt.NDArray[np.float32 | np.float16]
"""Vectors of a collection by position, as they are in a file: shape (passages, dimensions)."""
Found = list[tuple[int, float]]
"""Positions and scores, best first."""

ADDED_AT_ONCE = 50_000
_BLOCK = 8_192
"""Number of vectors that are compared at once: some megabytes, which the processor's cache holds (65,536 were 7 times
slower).
"""
SAMPLED, SAMPLED_K = 200, 32
"""Number of questions and depth of the recall that every build measures."""


NAMED = {"sq8": "SQ8", "hnsw": "HNSW32_SQ8", "ivfpq": "IVF{lists},PQ{parts}"}
"""Name of a form → its string for FAISS' index factory."""


class FaissIndex(Protocol):
    """The part of FAISS' indexes that is used here."""

    ntotal: int

    def search(self, x: Vectors, k: int, /) -> tuple[Vectors, Positions]:
        """Return the scores and positions of the `k` best, shape (queries, k). Position -1 means no hit."""


class FaissForm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of ``faiss[…]``."""

    index: str = "flat"
    """``flat``, ``auto``, a name of :data:`NAMED`, or a string of FAISS' index factory."""
    search: str = ""
    """Parameters of FAISS' search, ``nprobe=64``.

    The default is an eighth of the inverted lists, 16 or more, and 128 candidates of a graph.
    """
    rerank: Annotated[int, Meta(ge=0)] = 12
    """Number of candidates for each required passage, which are sorted again by the stored vectors.

    With 0 their order stays.
    """

    def __post_init__(self) -> None:
        if not self.index[:1].isupper() and self.index not in ("flat", "auto", *NAMED):
            names = ("flat", "auto", *NAMED)
            raise ValueError(
                f"index={self.index!r}: expected {', '.join(names)}, or a string of FAISS' index factory such as "
                f"IVF4096,PQ96x4fs.{nearest(self.index, names)}"
            )

    def fitted(self, count: int, dimensions: int) -> FaissForm:
        """Return the form as FAISS' factory takes it, for `count` vectors."""
        kind = self.index
        if kind == "auto":
            kind = "flat" if count < 100_000 else "sq8" if count < 1_000_000 else "ivfpq"
        power = 2 ** round(np.log2(max(4 * count**0.5, 1)))
        lists = max(1, min(power, count // 39))  # FAISS wants 39 vectors for each centroid
        # Above some thousand lists the nearest of them are found by a graph of their own.
        coarse = "_HNSW32" if lists >= 4096 else ""
        # FAISS is fastest with parts of 8 numbers.
        parts = max(n for n in range(1, max(1, dimensions // 8) + 1) if dimensions % n == 0)
        factory = NAMED.get(kind, kind).format(lists=f"{lists}{coarse}", parts=parts)
        return msgspec.structs.replace(self, index=factory)


def faiss_form(store: Value) -> FaissForm:
    """Return the form that a ``store=…`` names.

    Raises:
        UserError: an unknown parameter or a wrong value.
    """
    spec = store if isinstance(store, Spec) else Spec(str(store))
    check_known(spec, FaissForm.__struct_fields__, "faiss")
    try:
        return msgspec.convert(dict(spec.parameters), FaissForm)
    except (msgspec.ValidationError, ValueError) as problem:
        raise UserError(f"Cannot use store={spec}: {problem}.") from None


def form_text(form: FaissForm) -> Value:
    """Return a form as the value of ``store``: the parameters that differ from the default."""
    plain = FaissForm()
    changed = {key: value for key, value in msgspec.structs.asdict(form).items() if value != getattr(plain, key)}
    return Spec("faiss", changed) if changed else "faiss"


class MeasuredRecall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Share of exact search's hits that an index finds too, measured when it was built."""

    questions: int
    """Number of passages of the collection whose vectors were the queries, each searched without itself."""
    k: int
    recall: float
    """Mean share of the `k` nearest that are found, from 0 to 1."""
    without_rerank: float
    """Recall in the index's own order."""
    searched: str
    """Parameters of the search."""


class VectorIndexManifest(IndexManifest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Description of a complete index over vectors."""

    form: FaissForm
    bytes_a_vector: float
    """Bytes of the index, without the stored vectors."""
    recall: MeasuredRecall
    seconds: float
    """Duration of the build."""

    def words(self) -> str:
        """Return the line that a build reports."""
        measured = self.recall
        return (
            f"{self.form.index}: {self.bytes_a_vector:,.0f} bytes a vector in addition to the stored ones, "
            f"recall@{measured.k} {measured.recall:.3f} against exact search "
            f"({measured.without_rerank:.3f} before re-ranking; {measured.questions} passages as questions)"
        )


class FlatStore:
    """Exhaustive search over stored vectors. It is exact over the stored numbers, which stay on disk."""

    def __init__(self, vectors: StoredVectors, metric: Metric) -> None:
        self._faiss = _faiss()
        self._vectors = vectors
        self._metric = metric
        self._kind = self._faiss.METRIC_L2 if metric == "l2" else self._faiss.METRIC_INNER_PRODUCT
        self._sign = -1.0 if metric == "l2" else 1.0

    def nearest(self, vector: Vectors, k: int) -> Found:
        """Return the positions and scores of the `k` best, best first. Ties go to the earlier position."""
        return self.nearest_many(vector.reshape(1, -1), k)[0]

    def nearest_many(self, vectors: Vectors, k: int) -> list[Found]:
        """Return the result of :meth:`nearest` for each row, a question."""
        queries = np.ascontiguousarray(vectors, dtype=np.float32)
        k = min(k, len(self._vectors))
        if self._vectors.dtype == np.float32:
            scores, positions = self._faiss.knn(queries, self._vectors, k, self._kind)
        else:
            scores, positions = self._by_blocks(queries, k)
        return [_sorted_hits(row, self._sign * row_scores) for row, row_scores in zip(positions, scores, strict=True)]

    def _by_blocks(self, queries: Vectors, k: int) -> tuple[Vectors, Positions]:
        """Search float16 vectors block by block. FAISS decodes them as it compares, much faster than numpy would."""
        best_scores = np.zeros((len(queries), 0), dtype=np.float32)
        best_positions: Positions = np.zeros((len(queries), 0), dtype=np.int64)
        index = self._faiss.IndexScalarQuantizer(
            self._vectors.shape[1], self._faiss.ScalarQuantizer.QT_fp16, self._kind
        )
        for start in range(0, len(self._vectors), _BLOCK):
            block = np.ascontiguousarray(self._vectors[start : start + _BLOCK])
            index.reset()
            index.add_sa_codes(block.view(np.uint8).reshape(len(block), -1))
            scores, positions = index.search(queries, min(k, len(block)))
            best_scores = np.hstack([best_scores, scores])
            best_positions = np.hstack([best_positions, positions + start])
            order = np.argsort(-self._sign * best_scores, axis=1, kind="stable")[:, :k]
            best_scores = np.take_along_axis(best_scores, order, 1)
            best_positions = np.take_along_axis(best_positions, order, 1)
        return best_scores, best_positions


class QuantisedStore(FlatStore):
    """An index of FAISS over stored vectors, which its candidates are sorted by."""

    def __init__(self, index: FaissIndex, vectors: StoredVectors, metric: Metric, form: FaissForm) -> None:
        super().__init__(vectors, metric)
        self._index, self._form = index, form

    def nearest_many(self, vectors: Vectors, k: int) -> list[Found]:
        """Return the :meth:`nearest` of the candidates for each row, a question."""
        queries = np.ascontiguousarray(vectors, dtype=np.float32)
        deep = min(max(k, k * self._form.rerank), self._index.ntotal)
        scores, positions = self._index.search(queries, deep)
        results: list[Found] = []
        for vector, row, row_scores in zip(queries, positions, scores, strict=True):
            is_hit = row >= 0
            row, row_scores = row[is_hit], self._sign * row_scores[is_hit]
            if self._form.rerank:
                row = np.sort(row)  # in the order of the file
                row_scores = self._scores(vector, row)
            results.append(_sorted_hits(row, row_scores)[:k])
        return results

    def _scores(self, vector: Vectors, positions: Positions) -> Vectors:
        rows = self._vectors[positions].astype(np.float32)
        if self._metric == "l2":
            difference = rows - vector
            distances: Vectors = (difference**2).sum(axis=1)
            return -distances
        scores: Vectors = rows @ vector
        return scores


def _sorted_hits(positions: Positions, scores: Vectors) -> Found:
    """Return hits as pairs, best first, ties to the earlier position."""
    pairs = zip(positions.tolist(), scores.tolist(), strict=True)
    return sorted(((position, score) for position, score in pairs if position >= 0), key=lambda hit: (-hit[1], hit[0]))


def build_index(path: Path, vectors: StoredVectors, metric: Metric, form: FaissForm, progress: Count | None) -> None:
    """Build the index of a fitted form over stored vectors, and write it whole.

    Memory: the codes and, for training, a sample of the vectors.
    """
    faiss = _faiss()
    count, dimensions = vectors.shape
    kind = faiss.METRIC_L2 if metric == "l2" else faiss.METRIC_INNER_PRODUCT
    try:
        index = faiss.index_factory(dimensions, form.index, kind)
    except RuntimeError as problem:
        message = " ".join(str(problem).split())[-200:]
        raise UserError(f"FAISS makes no index={form.index!r} over {dimensions} dimensions: {message}") from None
    inverted, graph = faiss.try_extract_index_ivf(index), getattr(index, "hnsw", None)
    if graph is not None:
        graph.efConstruction = 200
    for part in (inverted, getattr(inverted, "pq", None)):
        if part is not None:
            part.cp.niter, part.cp.min_points_per_centroid = 10, 1  # no warnings from inside
    size = max(100_000, 48 * inverted.nlist if inverted is not None else 0)
    # The sample is spread over the file, and the same in every call.
    indices = np.arange(count) if count <= size else np.sort(np.random.default_rng(0).choice(count, size, False))
    index.train(np.ascontiguousarray(vectors[indices], dtype=np.float32))
    for start in range(0, count, ADDED_AT_ONCE):
        end = min(count, start + ADDED_AT_ONCE)
        index.add(np.ascontiguousarray(vectors[start:end], dtype=np.float32))
        if progress:
            progress(end)
    temporary = path.with_name(path.name + ".part")
    faiss.write_index(index, str(temporary))
    with temporary.open("r+b") as file:
        os.fsync(file.fileno())
    temporary.replace(path)


def read_index(path: Path, vectors: StoredVectors, metric: Metric, form: FaissForm) -> QuantisedStore:
    """Open an index that :func:`build_index` wrote. Its codes stay in the file, which the system reads as needed.

    Raises:
        UserError: the index cannot be read, or holds another number of vectors.
    """
    faiss = _faiss()
    try:
        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    except RuntimeError as problem:
        raise UserError(f"Cannot read the index {str(path)!r}: {str(problem)[:200]}. Remove its folder.") from None
    if index.ntotal != len(vectors):
        raise UserError(
            f"The index {str(path)!r} holds {index.ntotal:,} vectors, expected {len(vectors):,}: remove its folder."
        )
    inverted, graph = faiss.try_extract_index_ivf(index), getattr(index, "hnsw", None)
    if inverted is not None:
        inverted.nprobe = min(inverted.nlist, max(16, inverted.nlist // 8))
    if graph is not None:
        graph.efSearch = 128
    try:
        faiss.ParameterSpace().set_index_parameters(index, form.search)
    except RuntimeError as problem:
        message = " ".join(str(problem).split())[-200:]
        raise UserError(f"FAISS takes no search={form.search!r} for index={form.index!r}: {message}") from None
    return QuantisedStore(index, vectors, metric, form)


def measured_recall(
    store: QuantisedStore, vectors: StoredVectors, metric: Metric, form: FaissForm, questions: int = SAMPLED
) -> MeasuredRecall:
    """Search for the neighbours of some of the vectors themselves, each without itself, and compare with exact search.

    Real questions lie farther away than passages do: their recall can differ (perf/vectors.md has both).
    """
    count = len(vectors)
    k = min(SAMPLED_K, count - 1)
    indices = np.sort(np.random.default_rng(1).choice(count, min(questions, count), replace=False))
    if k < 1:
        return MeasuredRecall(questions=len(indices), k=0, recall=1.0, without_rerank=1.0, searched="")
    queries = np.ascontiguousarray(vectors[indices], dtype=np.float32)
    exact = FlatStore(vectors, metric).nearest_many(queries, k + 1)
    plain = QuantisedStore(store._index, vectors, metric, msgspec.structs.replace(form, rerank=0))
    shares = [
        _hit_share(exact, candidate.nearest_many(queries, k + 1), indices.tolist(), k) for candidate in (store, plain)
    ]
    search_parameters = f"{form.search},rerank={form.rerank}".strip(",")
    return MeasuredRecall(
        questions=len(indices), k=k, recall=shares[0], without_rerank=shares[1], searched=search_parameters
    )


def _hit_share(exact: Sequence[Found], approximate: Sequence[Found], questions: Sequence[int], k: int) -> float:
    """Return the mean share of exact hits among the index's hits, the question itself left out."""
    shares = []
    for exact_hits, hits, question in zip(exact, approximate, questions, strict=True):
        expected = [position for position, _ in exact_hits if position != question][:k]
        actual = [position for position, _ in hits if position != question][:k]
        shares.append(len(set(expected) & set(actual)) / k)
    return float(np.mean(shares))


def build_and_measure(
    folder: Path,
    described: str,
    version: str,
    vectors: StoredVectors,
    metric: Metric,
    form: FaissForm,
    progress: Count | None,
) -> VectorIndexManifest:
    """Build an index in a folder and measure it. The caller writes the returned manifest into ``engine.json``."""
    began = time.perf_counter()
    path = folder / "index.faiss"
    build_index(path, vectors, metric, form, progress)
    seconds = time.perf_counter() - began
    recall = measured_recall(read_index(path, vectors, metric, form), vectors, metric, form)
    manifest = VectorIndexManifest(
        format=1,
        index=described,
        version=version,
        passages=len(vectors),
        form=form,
        bytes_a_vector=path.stat().st_size / max(1, len(vectors)),
        recall=recall,
        seconds=seconds,
    )
    BUILT.report(manifest.words())
    return manifest


def _faiss() -> ModuleType:
    try:
        import faiss
    except ImportError:
        raise UserError("store=faiss needs faiss-cpu: install ragrounds[dense].") from None
    module: ModuleType = faiss
    return module
