"""``mirage-predictions``: the replies that MIRAGE's authors published, in their folder's form
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


def _path_fields(file: ImportFile) -> dict[str, str] | None:
    """Return what the path of a file in the authors' folder states; ``None`` if the file is not one of these."""
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
    path_fields = _path_fields(file)
    if path_fields is None:
        for record in read_records(file.path):
            yield record if isinstance(record, BadRow) else _row(record[1], record[0])
        return
    with opened(file.path) as text:
        try:
            raw = json.loads(text.read(LARGEST_RECORD))
        except (ValueError, RecursionError):
            raw = None
    yield _row({**path_fields, "raw": raw}, "the file")


def _row(record: Mapping[str, Any], location: str) -> ImportedRow | BadRow:
    raw = record.get("raw")
    if not isinstance(raw, list) or not all(isinstance(reply, str) for reply in raw):
        return BadRow(location, "a list of replies was expected")
    return ImportedRow(
        place=location,
        agent=f"{text_of(record.get('model'))} {text_of(record.get('setting'))}",
        dataset=text_of(record.get("dataset")),
        id=text_of(record.get("id")),
        answer=raw[0] if raw else "",
        reply=True,
        status="completed" if raw else "failed",
        reason="" if raw else "the list of replies is empty",
    )


MIRAGE = Importer(
    name="mirage-predictions",
    summary="Replies published with MIRAGE: the authors' folder, or lines of them.",
    recognises=lambda file: {"dataset", "setting", "raw"} <= set(file.first) or _path_fields(file) is not None,
    rows=_rows,
    benchmark="mirage",
)
