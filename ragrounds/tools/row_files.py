"""Rows of different lengths on disk, made a batch at a time: words of sparse vectors, tokens of late interaction.

``ends.u64`` says where each passage's row ends; beside it is a file for each column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ragrounds.errors import UserError
from ragrounds.tools.collection import Collection, map_array, sync
from ragrounds.tools.collection_builder import Count

Row = Mapping[str, npt.NDArray[np.generic]]
"""Column → what it holds of one passage; every column is as long as the others along its first axis."""


def make_rows(
    collection: Collection,
    folder: Path,
    columns: Mapping[str, int],
    encode: Callable[[Sequence[tuple[str, str]]], Sequence[Row]],
    batch: int,
    progress: Count | None,
) -> None:
    """Write a row for every passage; a build that was interrupted goes on where it stood.

    Args:
        collection: whose passages.
        folder: where the files are.
        columns: file name → bytes of one entry of a row.
        encode: gives the rows of some (title, text).
        batch: passages at once.
        progress: told how many are done.

    Raises:
        UserError: the model gives another number of rows than texts.
    """
    total = len(collection.store)
    (folder / "ends.u64").touch()
    with ExitStack() as opened:
        ends = opened.enter_context((folder / "ends.u64").open("r+b"))
        known = np.frombuffer(ends.read(), dtype=np.uint64, count=(folder / "ends.u64").stat().st_size // 8)
        # Rows count as far as every column holds them.
        there = len(known)
        for name, size in columns.items():
            (folder / name).touch()
            held = (folder / name).stat().st_size // size
            there = min(there, int(np.searchsorted(known, held, side="right")))
        last = int(known[there - 1]) if there else 0
        files = {name: opened.enter_context((folder / name).open("r+b")) for name in columns}
        for name, file in files.items():
            file.truncate(last * columns[name])
            file.seek(last * columns[name])
        ends.truncate(there * 8)
        ends.seek(there * 8)
        for start in range(there, total, batch):
            raws = [collection.store.raw(position) for position in range(start, min(total, start + batch))]
            rows = encode([(title, text) for _, _, title, text in raws])
            if len(rows) != len(raws):
                raise UserError(f"The embedding model gave {len(rows)} rows for {len(raws)} texts.")
            for row in rows:
                for name, file in files.items():
                    file.write(np.ascontiguousarray(row[name]).tobytes())
                last += len(next(iter(row.values())))
                ends.write(last.to_bytes(8, "little"))
            for file in (*files.values(), ends):
                sync(file)
            if progress:
                progress(start + len(rows))


def row_ends(folder: Path, passages: int) -> npt.NDArray[np.uint64]:
    """Where each passage's row begins and ends: shape (passages + 1,), the first is 0."""
    return np.concatenate([np.zeros(1, dtype=np.uint64), map_array(folder / "ends.u64", np.uint64)[:passages]])
