"""``lm-eval``: the samples of EleutherAI's lm-evaluation-harness, ``samples_TASK_TIME.jsonl`` (``--log_samples``).

Of a task that ranks choices the likeliest is the answer; of one that generates, the filtered text. The first metric is
the score. The model is the name of the folder. A file has no tokens and no seconds, so these are unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ragrounds.evals.exchange.importers.importer import (
    BadRow,
    ImportedRow,
    Importer,
    ImportFile,
    Rows,
    bounded,
    labels_for,
    number_of,
    text_of,
)
from ragrounds.evals.exchange.importers.records import records
from ragrounds.evals.exchange.importers.table import guessed

_NAME = re.compile(r"samples_(.+)_\d{4}-\d\d-\d\dT[\d.:-]+")


def _rows(file: ImportFile) -> Rows:
    stem = file.path.name.removesuffix(".gz").removesuffix(".jsonl")
    task = found[1] if (found := _NAME.fullmatch(stem)) else stem
    filters: dict[str, int] = {}
    for one in records(file.path):
        if isinstance(one, BadRow):
            yield one
            continue
        kept = filters.setdefault(text_of(one[1].get("filter")), len(filters))
        if kept == 0:  # a task may read its answers by several filters, each with all rows
            yield _row(one[1], file.path.parent.name, task, one[0])


def _row(sample: Mapping[str, Any], model: str, task: str, place: str) -> ImportedRow | BadRow:
    doc, resps = sample.get("doc"), sample.get("filtered_resps")
    if not isinstance(doc, dict) or not isinstance(resps, list) or not resps:
        return BadRow(place, "a sample has doc and filtered_resps")
    fields = {field: column for field, column in guessed(list(doc)).items() if field in ("id", "question", "options")}
    options = labels_for(doc.get(fields.get("options", "")))
    metrics = sample.get("metrics")
    metric = text_of(metrics[0]) if isinstance(metrics, list) and metrics else ""
    score, odd = bounded(sample.get(metric), 1, "score")
    chances = [number_of(one[0]) if isinstance(one, list) and one else None for one in resps]
    known = [chance for chance in chances if chance is not None]
    choice, target = "", text_of(sample.get("target"))
    if len(known) == len(resps) > 1:
        labels = list(options) or [chr(65 + place) for place in range(len(resps))]
        choice = labels[min(chances.index(max(known)), len(labels) - 1)]
        target = labels[int(target)] if target.isdigit() and int(target) < len(labels) else target
    return ImportedRow(
        place=place,
        agent=model,
        dataset=task,
        id=text_of(doc.get(fields.get("id", ""), sample.get("doc_id"))),
        question=text_of(doc.get(fields.get("question", ""))),
        options=options if choice else {},
        gold=target,
        answer=options.get(choice, choice) if choice else text_of(resps[0]),
        choice=choice,
        score=score,
        scored_by=metric,
        notes=(odd,) if odd else (),
    )


LM_EVAL = Importer(
    name="lm-eval",
    summary="Samples of lm-evaluation-harness, samples_TASK_TIME.jsonl.",
    recognises=lambda file: {"doc_id", "doc", "filtered_resps"} <= set(file.first),
    rows=_rows,
)
