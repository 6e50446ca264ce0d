"""``mirage-predictions``: the replies that MIRAGE's authors published, as their folder has them,
``prediction/DATASET/SETTING/MODEL…/{test,dev}_QID.json``, each a list of replies; or as lines of
``{"dataset", "id", "setting", "model", "raw": [reply, …]}``. Of several replies the first counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ragrounds.extensions.exchange.importers.importer import BadRow, ImportedRow, Importer, ImportFile, Rows, text_of
from ragrounds.extensions.exchange.importers.records import LARGEST_RECORD, opened, read_records

_SPLITS = ("test", "dev", "train", "validation")


def _placed(file: ImportFile) -> dict[str, str] | None:
    """What the place of a file of the authors' folder says; ``None``: it is none of them."""
    parts = file.path.parts
    if "prediction" in parts:
        parts = parts[len(parts) - parts[::-1].index("prediction") :]
    elif file.root is not None:
        parts = file.path.relative_to(file.root).parts
    split, _, id = file.path.name.removesuffix(".json").partition("_")
    if len(parts) < 4 or split not in _SPLITS or not id or file.path.suffix != ".json":
        return None
    return {"dataset": parts[0], "setting": parts[1], "model": "/".join(parts[2:-1]), "id": id}


def _rows(file: ImportFile) -> Rows:
    placed = _placed(file)
    if placed is None:
        for one in read_records(file.path):
            yield one if isinstance(one, BadRow) else _row(one[1], one[0])
        return
    with opened(file.path) as text:
        try:
            raw = json.loads(text.read(LARGEST_RECORD))
        except (ValueError, RecursionError):
            raw = None
    yield _row({**placed, "raw": raw}, "the file")


def _row(said: Mapping[str, Any], place: str) -> ImportedRow | BadRow:
    raw = said.get("raw")
    if not isinstance(raw, list) or not all(isinstance(reply, str) for reply in raw):
        return BadRow(place, "a list of replies was expected")
    return ImportedRow(
        place=place,
        agent=f"{text_of(said.get('model'))} {text_of(said.get('setting'))}",
        dataset=text_of(said.get("dataset")),
        id=text_of(said.get("id")),
        answer=raw[0] if raw else "",
        reply=True,
        status="completed" if raw else "failed",
        reason="" if raw else "the list of replies is empty",
    )


MIRAGE = Importer(
    name="mirage-predictions",
    summary="Replies published with MIRAGE: the authors' folder, or lines of them.",
    recognises=lambda file: {"dataset", "setting", "raw"} <= set(file.first) or _placed(file) is not None,
    rows=_rows,
    benchmark="mirage",
)
