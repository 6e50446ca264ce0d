"""Training data, prepared once: texts and pairs are read, near-duplicates dropped, hard negatives mined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from ragrounds.extensions.training.data import Example, diverse, fingerprint, read_pairs, read_texts
from ragrounds.extensions.training.hard_negatives import NegativeCounts, mine, open_verifier
from ragrounds.extensions.training.spec import Training
from ragrounds.tools.index.collection import write_whole
from ragrounds.tools.index.embedders import Vectors

Progress = Callable[[str, int], None]
"""Function called with the current task and how many of its elements are done."""
Frozen = Callable[[Sequence[str]], Vectors]


Kept = TypeVar("Kept")


class MaterialCounts(NegativeCounts, frozen=True, kw_only=True):
    """Numbers of texts and pairs that were read, kept and mined."""

    texts_read: int = 0
    texts: int = 0
    pairs_read: int = 0
    pairs: int = 0
    pool: int = 0
    """Number of texts that hard negatives are searched in."""


class Material(Struct, frozen=True, kw_only=True):
    """Texts and examples, ready for training."""

    texts: list[str]
    examples: list[Example]
    counts: MaterialCounts

    @property
    def key(self) -> str:
        """Fingerprint of the texts and examples: a part of every stage's key."""
        return fingerprint([self.texts, self.examples])


def prepare(
    training: Training, frozen: Frozen, identity: str, folder: Path, home: Path, progress: Progress
) -> Material:
    """Read and filter the training data; data prepared from equal texts, settings and encoder is read from `folder`.

    Args:
        training: The training file.
        frozen: Returns the vectors of the document encoder in its initial state.
        identity: Identity of that encoder.
        folder: Folder of the prepared data.
        home: Home folder, for the journal of a verifier that asks a language model.
        progress: Called with the current task and how much of it is done.

    Raises:
        UserError: a file does not exist or is not readable, or the verifier cannot be used.
    """
    texts = read_texts(training.texts, training.seed)
    examples = read_pairs(training.pairs, training.seed)
    key = fingerprint([texts, examples, training.diversity, training.mining, identity])
    path = folder / f"material-{key}.msgpack"
    if path.is_file():
        return msgspec.msgpack.decode(path.read_bytes(), type=Material)
    material = _make(training, texts, examples, frozen, home, progress)
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(path, msgspec.msgpack.encode(material))
    return material


def _make(
    training: Training, texts: list[str], examples: list[Example], frozen: Frozen, home: Path, progress: Progress
) -> Material:
    counts: dict[str, Any] = {"texts_read": len(texts), "pairs_read": len(examples)}
    diversity, mining = training.diversity, training.mining
    pool = list(dict.fromkeys(example.positive for example in examples)) if mining else []
    if diversity is not None:
        limits: Any = {"seeds": diversity.seeds, "neighbours": diversity.neighbours, "max_neighbours": diversity.most}

        def keep_diverse(kind: str, values: list[Kept], texts_of_values: list[str], threshold: float) -> list[Kept]:
            """Return the values whose texts are far enough from those kept before."""
            positions = diverse(
                frozen(texts_of_values),
                threshold,
                **limits,
                progress=lambda done: progress(f"diversity of {kind}", done),
            )
            return [values[position] for position in positions]

        if texts:
            texts = keep_diverse("texts", texts, texts, diversity.queries)
        if examples:
            examples = keep_diverse("queries", examples, [example.query for example in examples], diversity.queries)
        if pool:
            pool = keep_diverse("documents", pool, pool, diversity.documents)
    if mining is not None and examples:
        examples, negative_counts = mine(
            examples,
            frozen([example.query for example in examples]),
            frozen([example.positive for example in examples]),
            pool,
            frozen(pool),
            mining,
            open_verifier(mining.verifier, home),
            lambda done: progress("hard negatives", done),
        )
        counts |= msgspec.structs.asdict(negative_counts)
    counts |= {"texts": len(texts), "pairs": len(examples), "pool": len(pool)}
    return Material(texts=texts, examples=examples, counts=MaterialCounts(**counts))
