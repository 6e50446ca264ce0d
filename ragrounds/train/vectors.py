"""Vectors of texts by an encoder that does not change, kept on disk: each made once, and gone on with after a kill."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ragrounds.tools.collection import id_hash, sync
from ragrounds.tools.embedders import Vectors
from ragrounds.train.data import fingerprint

_CHUNK = 1024


class KeptVectors:
    """A folder's vectors by one encoder: rows that only grow, and beside them the texts' hashes.

    Args:
        folder: Where they are kept; made if it does not exist.
        identity: What the vectors depend on besides the texts.
        dimensions: Of each.
    """

    def __init__(self, folder: Path, identity: str, dimensions: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._rows = folder / f"{fingerprint(identity)}.f32"
        self._texts = self._rows.with_suffix(".u64")
        self._dimensions = dimensions

    def of(
        self,
        texts: Sequence[str],
        encode: Callable[[Sequence[str]], Any],
        told: Callable[[int], None] | None = None,
    ) -> Vectors:
        """Vectors of `texts`, float32, one row a text. `encode` makes those that are not there; `told` hears how many
        of them are done."""
        known = self._known()
        wanted = np.fromiter((id_hash(text) for text in texts), dtype=np.uint64, count=len(texts))
        fresh = {int(each): text for each, text in zip(wanted, texts, strict=True) if int(each) not in known}
        self._add(known, list(fresh.items()), encode, told)
        rows: Vectors = np.fromfile(self._rows, dtype=np.float32).reshape(-1, self._dimensions)
        return rows[[known[int(each)] for each in wanted]]

    def _known(self) -> dict[int, int]:
        """Hash → row. What a kill left of a chunk is cut off."""
        for path in (self._rows, self._texts):
            path.touch()
        width = self._dimensions * 4
        count = min(self._rows.stat().st_size // width, self._texts.stat().st_size // 8)
        for path, size in ((self._rows, width), (self._texts, 8)):
            with path.open("r+b") as file:
                file.truncate(count * size)
        hashes: npt.NDArray[np.uint64] = np.fromfile(self._texts, dtype=np.uint64)
        return {int(each): row for row, each in enumerate(hashes)}

    def _add(
        self,
        known: dict[int, int],
        fresh: list[tuple[int, str]],
        encode: Callable[[Sequence[str]], Any],
        told: Callable[[int], None] | None,
    ) -> None:
        with self._rows.open("ab") as rows, self._texts.open("ab") as hashes:
            for start in range(0, len(fresh), _CHUNK):
                chunk = fresh[start : start + _CHUNK]
                made = np.ascontiguousarray(encode([text for _, text in chunk]), dtype=np.float32)
                rows.write(made.tobytes())
                sync(rows)
                hashes.write(np.array([each for each, _ in chunk], dtype=np.uint64).tobytes())
                sync(hashes)
                for each, _ in chunk:
                    known[each] = len(known)
                if told:
                    told(start + len(chunk))
