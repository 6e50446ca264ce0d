"""Brings the passages of an index of ours to somebody else's engine, a batch at a time (:mod:`ragrounds.tools.push`).

How far it came is kept beside the passages: a push that was interrupted goes on there, if the engine holds at least as
many passages, and passages that it has already are replaced by themselves. Passages that the engine holds and the index
does not are left alone.
"""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from ragrounds.errors import UserError, nearest
from ragrounds.redaction import Redactor
from ragrounds.specs import Spec, parse
from ragrounds.tools.collection import Collection, write_whole
from ragrounds.tools.collection_builder import Progress
from ragrounds.tools.embedders import Metric
from ragrounds.tools.external_index import OUTAGE, Calls
from ragrounds.tools.external_parameters import ExternalParameters, dense_spec, embedder_value
from ragrounds.tools.push import PushRow
from ragrounds.tools.retriever import find_retriever, retrievers
from ragrounds.tools.retrievers.dense import passage_vectors
from ragrounds.tools.vector_index import StoredVectors

BATCH = 500
"""Passages that are sent at a time."""


class PushedIndex(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a push."""

    spec: str
    """The retriever that searches what was pushed."""
    corpus: str
    """The index with its version."""
    passages: int
    """Of the index."""
    held: int
    """Of the engine now: more than `passages` where it held others before."""
    resumed: int
    """Passages that an earlier push, which was interrupted, had brought there."""


def target_spec(text: str, embed: str = "") -> Spec:
    """The adapter's spec that a target names: a spec (``pgvector[url=…,table=…]``), or ``ADAPTER:ADDRESS``.

    Args:
        text: As the user typed it.
        embed: The embedding model, where it does not stand in the spec.

    Raises:
        UserError: no such adapter, or one that takes no passages.
    """
    name, colon, address = text.partition(":")
    takers = {one.name: one for one in retrievers().values() if one.push is not None}
    if colon and "[" not in name:
        known = {parameter.name for parameter in takers[name].parameters} if name in takers else set()
        spec = Spec(name, {"path" if "path" in known and "://" not in address else "url": address})
    else:
        spec = parse(text)
    if spec.name not in takers:
        listed = ", ".join(sorted(takers))
        raise UserError(
            f"Cannot push to {Redactor()(spec.name)!r}: expected one of {listed}, as ADAPTER:ADDRESS or a spec such as "
            f"pgvector[url=…,table=…].{nearest(spec.name, takers)}"
        )
    if embed and "embed" in spec.parameters:
        raise UserError(f"The embedding model was given twice: embed= in {spec.name}[…] and --embed. Give it once.")
    return spec.having(embed=embedder_value(embed)) if embed else spec


def push_collection(collection: Collection, spec: Spec, progress: Progress | None = None) -> PushedIndex:
    """Bring every passage to the engine that a spec names, with its vector where the spec names an embedding model.

    Vectors are made once and kept with the index, as the retriever ``dense`` keeps them.

    Raises:
        UserError: the target cannot be used; what is there has other fields or dimensions.
        GaveUp: the server gives no answer, also when asked again. What was pushed stays: the same call goes on there.
        StopRun: the disk is full.
    """
    opened = find_retriever(spec.name).push
    if opened is None:
        raise UserError(f"{spec.name} takes no passages.")
    vectors, metric = _vectors(collection, spec, progress)
    target = opened(spec, collection.manifest.name)
    sent = Calls(target)
    path = collection.folder / f"pushed-{hashlib.blake2b(target.spec.encode(), digest_size=6).hexdigest()}.json"
    total = len(collection.store)
    try:
        # A server that is not there at the beginning is not waited for.
        here = sent(lambda: target.begin(0 if vectors is None else int(vectors.shape[1]), metric))
        done = resumed = _done(path, here, total)
        for start in range(done, total, BATCH):
            end = min(start + BATCH, total)
            dense = [None] * (end - start) if vectors is None else list(np.asarray(vectors[start:end], np.float32))
            stored = [collection.store.raw(position) for position in range(start, end)]
            rows = [PushRow(*texts, vector) for texts, vector in zip(stored, dense, strict=True)]
            sent(partial(target.put, rows), OUTAGE)
            write_whole(path, msgspec.json.encode(end))
            if progress:
                progress("pushing", end)
        held = sent(target.end, OUTAGE)
    finally:
        target.close()
    path.unlink(missing_ok=True)
    return PushedIndex(spec=target.spec, corpus=collection.corpus, passages=total, held=held, resumed=resumed)


def _vectors(collection: Collection, spec: Spec, progress: Progress | None) -> tuple[StoredVectors | None, Metric]:
    """The passages' vectors with their metric; ``None``: the spec names no embedding model."""
    if not spec.parameters.get("embed"):
        return None, "cosine"
    chosen = {key: str(spec.parameters[key]) for key in ("embed", "metric") if key in spec.parameters}
    counting = partial(progress, "embedding") if progress else None
    made = passage_vectors(collection, *dense_spec(msgspec.convert(chosen, ExternalParameters)), progress=counting)
    return made.vectors, made.encoding.metric


def _done(path: Path, here: int, total: int) -> int:
    """Passages that an earlier push brought there, as far as they still are."""
    try:
        done = msgspec.json.decode(path.read_bytes(), type=int)
    except (OSError, msgspec.MsgspecError):
        return 0
    return done if 0 < done <= min(here, total) else 0
