"""``medagentsbench``: the outputs of MedAgentsBench, ``MODEL-DATASET-SPLIT-METHOD.json`` in the authors' repository.

A file is a JSON array. The id is ``realidx`` (``id`` is the place in the file), the right letter ``answer_idx``, what
was answered ``predicted_answer``. The authors score by equality of the two, which is the file's own score here.
"""

from __future__ import annotations

import re
from pathlib import Path

from msgspec.structs import replace

from ragrounds.evals.exchange.importers.importer import BadRow, ImportedRow, Importer, ImportFile, Rows
from ragrounds.evals.exchange.importers.records import records
from ragrounds.evals.exchange.importers.table import row_of

_NAME = re.compile(r"(?P<model>.+?)-(?P<dataset>[^/]+?)-(?P<split>test_hard|test|train|validation|dev)-(?P<method>.+)")
_FIELDS = {
    "id": "realidx",
    "question": "question",
    "options": "options",
    "gold": "answer_idx",
    "answer": "predicted_answer",
    "input_tokens": "token_usage.prompt_tokens",
    "output_tokens": "token_usage.completion_tokens",
    "seconds": "time_elapsed",
    "cost": "cost",
}


def named(path: Path) -> tuple[str, str]:
    """Who answered, and which dataset, by a file's name and folder."""
    stem = path.name.removesuffix(".gz").removesuffix(".json")
    folder = f"-{path.parent.name}-"
    if folder in stem:  # the names of models and datasets have strokes themselves
        model, _, rest = stem.partition(folder)
        return f"{model}-{rest.partition('-')[2]}", path.parent.name
    found = _NAME.fullmatch(stem)
    return (f"{found['model']}-{found['method']}", found["dataset"]) if found else (stem, "")


def _rows(file: ImportFile) -> Rows:
    agent, dataset = named(file.path)
    for one in records(file.path):
        row = one if isinstance(one, BadRow) else row_of(one[1], _FIELDS, one[0])
        if isinstance(row, ImportedRow):
            score = float(row.answer == row.gold) if row.gold else None
            row = replace(row, agent=agent, dataset=dataset, score=score, scored_by="predicted_answer == answer_idx")
        yield row


MEDAGENTSBENCH = Importer(
    name="medagentsbench",
    summary="MedAgentsBench's outputs, MODEL-DATASET-SPLIT-METHOD.json.",
    recognises=lambda file: {"realidx", "answer_idx", "options"} <= set(file.first),
    rows=_rows,
)
