"""``medagentsbench``: the outputs of MedAgentsBench, ``MODEL-DATASET-SPLIT-METHOD.json`` in the authors' repository.

A file is a JSON array. The id is ``realidx`` (``id`` is the index in the file), the right letter ``answer_idx``, the
answer ``predicted_answer``. The authors score by equality of the two, which is the file's score here.
"""

from __future__ import annotations

import re
from pathlib import Path

from ragrounds.extensions.exchange.importers.importer import Importer, ImportFile, dict_of, text_of
from ragrounds.extensions.exchange.importers.table import Values, rows_with

_NAME = re.compile(r"(?P<model>.+?)-(?P<dataset>[^/]+?)-(?P<split>test_hard|test|train|validation|dev)-(?P<method>.+)")


def system_and_dataset(path: Path) -> tuple[str, str]:
    """Return the system that answered, and the dataset, from a file's name and folder."""
    stem = path.name.removesuffix(".gz").removesuffix(".json")
    folder = f"-{path.parent.name}-"
    if folder in stem:  # the names of models and datasets have strokes themselves
        model, _, rest = stem.partition(folder)
        return f"{model}-{rest.partition('-')[2]}", path.parent.name
    match = _NAME.fullmatch(stem)
    return (f"{match['model']}-{match['method']}", match["dataset"]) if match else (stem, "")


def _values(record: Values, file: ImportFile, seen: dict[str, str]) -> Values | str:
    if "predicted_answer" not in record:
        return "it has no predicted_answer"
    agent, dataset = system_and_dataset(file.path)
    used, answer, gold = dict_of(record.get("token_usage")), record["predicted_answer"], record.get("answer_idx")
    return {
        **{key: record.get(key) for key in ("question", "options", "cost")},
        "agent": agent,
        "dataset": dataset,
        "id": record.get("realidx"),
        "gold": gold,
        "answer": answer,
        "input_tokens": used.get("prompt_tokens"),
        "output_tokens": used.get("completion_tokens"),
        "seconds": record.get("time_elapsed"),
        "score": float(text_of(answer) == text_of(gold)) if gold else None,
        "scored_by": "predicted_answer == answer_idx",
    }


MEDAGENTSBENCH = Importer(
    name="medagentsbench",
    summary="MedAgentsBench's outputs, MODEL-DATASET-SPLIT-METHOD.json.",
    recognises=lambda file: {"realidx", "answer_idx", "options"} <= set(file.first),
    rows=rows_with(_values),
)
