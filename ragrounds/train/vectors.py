"""Vectors of many texts by an encoder that does not change, kept on disk: made once, and gone on with after a kill."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ragrounds.tools.embedding import Vectors
from ragrounds.tools.storing import sync
from ragrounds.train.data import fingerprint

_CHUNK = 1024


def kept_vectors(
    encoder: Any,
    identity: str,
    texts: Sequence[str],
    folder: Path,
    *,
    batch: int = 32,
    told: Callable[[int], None] | None = None,
) -> Vectors:
    """Unit vectors of `texts`, float32, one row a text; read from `folder` where they were made before.

    Args:
        encoder: A SentenceTransformer that ends in a normalisation.
        identity: What the vectors depend on besides the texts.
        texts: In the order of the rows.
        folder: Where they are kept; made if it does not exist.
        batch: Texts encoded at once.
        told: Hears how many are done.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{fingerprint([identity, list(texts)])}.f32"
    row = int(encoder.get_embedding_dimension()) * 4
    path.touch()
    with path.open("r+b") as file:
        done = path.stat().st_size // row
        file.truncate(done * row)  # a row that a kill cut off
        file.seek(done * row)
        while done < len(texts):
            chunk = list(texts[done : done + _CHUNK])
            made = encoder.encode(chunk, batch_size=batch, show_progress_bar=False, convert_to_numpy=True)
            file.write(np.ascontiguousarray(made, dtype=np.float32).tobytes())
            sync(file)
            done += len(chunk)
            if told:
                told(done)
    vectors: Vectors = np.fromfile(path, dtype=np.float32).reshape(len(texts), row // 4)
    return vectors
