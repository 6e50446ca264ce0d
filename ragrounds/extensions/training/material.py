"""What a run trains on, made ready once: texts and pairs read, near-duplicates dropped, hard negatives mined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from ragrounds.extensions.training.data import Example, diverse, fingerprint, read_pairs, read_texts
from ragrounds.extensions.training.hard_negatives import mine, open_verifier
from ragrounds.extensions.training.spec import Training
from ragrounds.tools.index.collection import write_whole
from ragrounds.tools.index.embedders import Vectors

Progress = Callable[[str, int], None]
"""Called with what is being done and how many are done."""
Frozen = Callable[[Sequence[str]], Vectors]


Kept = TypeVar("Kept")


class MaterialCounts(Struct, frozen=True, kw_only=True):
    """What was read, dropped and mined."""

    texts_read: int = 0
    texts: int = 0
    pairs_read: int = 0
    pairs: int = 0
    pool: int = 0
    """Texts that hard negatives were looked for in."""
    verifier: str = ""
    candidates: int = 0
    negative: int = 0
    positive: int = 0
    """Candidates that the verifier took for relevant."""
    unsaid: int = 0
    without: int = 0
    """Pairs without a hard negative."""


class Material(Struct, frozen=True, kw_only=True):
    """Ready to be trained on."""

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
    """Read and filter; what was made ready from equal texts, settings and encoder is read from `folder` again.

    Args:
        training: The file.
        frozen: Vectors of the document encoder as the run begins with it.
        identity: Of that encoder.
        folder: Where it is kept.
        home: For the journal of a verifier that asks a language model.
        progress: Called with what is being done and how much of it is done.

    Raises:
        UserError: a file is not there or not readable, or the verifier cannot be used.
    """
    texts = read_texts(training.texts, training.seed)
    examples = read_pairs(training.pairs, training.seed)
    key = fingerprint([texts, examples, training.diversity, training.mining, identity])
    path = folder / f"material-{key}.msgpack"
    if path.is_file():
        return msgspec.msgpack.decode(path.read_bytes(), type=Material)
    made = _make(training, texts, examples, frozen, home, progress)
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(path, msgspec.msgpack.encode(made))
    return made


def _make(
    training: Training, texts: list[str], examples: list[Example], frozen: Frozen, home: Path, progress: Progress
) -> Material:
    counts: dict[str, Any] = {"texts_read": len(texts), "pairs_read": len(examples)}
    chosen, mining = training.diversity, training.mining
    pool = list(dict.fromkeys(example.positive for example in examples)) if mining else []
    if chosen is not None:
        rest: Any = {"seeds": chosen.seeds, "neighbours": chosen.neighbours, "most": chosen.most}

        def filtered(what: str, values: list[Kept], of: list[str], threshold: float) -> list[Kept]:
            """The values whose texts in `of` are far enough from those kept before."""
            kept = diverse(frozen(of), threshold, **rest, progress=lambda done: progress(f"diversity of {what}", done))
            return [values[position] for position in kept]

        if texts:
            texts = filtered("texts", texts, texts, chosen.queries)
        if examples:
            examples = filtered("queries", examples, [one.query for one in examples], chosen.queries)
        if pool:
            pool = filtered("documents", pool, pool, chosen.documents)
    if mining is not None and examples:
        found = mine(
            examples,
            frozen([one.query for one in examples]),
            frozen([one.positive for one in examples]),
            pool,
            frozen(pool),
            mining,
            open_verifier(mining.verifier, home),
            lambda done: progress("hard negatives", done),
        )
        examples = found.examples
        counts |= {name: getattr(found, name) for name in ("verifier", "candidates", "negative", "positive", "unsaid")}
        counts["without"] = found.without
    counts |= {"texts": len(texts), "pairs": len(examples), "pool": len(pool)}
    return Material(texts=texts, examples=examples, counts=MaterialCounts(**counts))
