"""``lm-eval``: the samples of EleutherAI's lm-evaluation-harness, ``samples_TASK_TIME.jsonl`` (``--log_samples``).

Of a task that ranks choices the likeliest is the answer; of one that generates, the filtered text. The first metric is
the score. The model is the name of the folder. A file has no tokens and no seconds, so these are unknown.
"""

from __future__ import annotations

import re

from ragrounds.extensions.exchange.importers.importer import Importer, ImportFile, labels_for, number_of, text_of
from ragrounds.extensions.exchange.importers.table import Values, guessed, rows_with

_NAME = re.compile(r"samples_(.+)_\d{4}-\d\d-\d\dT[\d.:-]+")


def _values(sample: Values, file: ImportFile, seen: dict[str, str]) -> Values | str | None:
    way = text_of(sample.get("filter"))
    if seen.setdefault("filter", way) != way:  # a task may read its answers by several filters, each with all rows
        return None
    doc, resps = sample.get("doc"), sample.get("filtered_resps")
    if not isinstance(doc, dict) or not isinstance(resps, list) or not resps:
        return "a sample has doc and filtered_resps"
    stem = file.path.name.removesuffix(".gz").removesuffix(".jsonl")
    known = {field: doc[column] for field, column in guessed(list(doc)).items()}
    options, target = labels_for(known.get("options")), text_of(sample.get("target"))
    metrics = sample.get("metrics")
    metric = text_of(metrics[0]) if isinstance(metrics, list) and metrics else ""
    chances = [number_of(one[0]) if isinstance(one, list) and one else None for one in resps]
    likely = [chance for chance in chances if chance is not None]
    choice = ""
    if len(likely) == len(resps) > 1:
        labels = list(options) or [chr(65 + place) for place in range(len(resps))]
        choice = labels[min(chances.index(max(likely)), len(labels) - 1)]
        target = labels[int(target)] if target.isdigit() and int(target) < len(labels) else target
    return {
        "agent": file.path.parent.name,
        "dataset": found[1] if (found := _NAME.fullmatch(stem)) else stem,
        "id": known.get("id", sample.get("doc_id")),
        "question": known.get("question"),
        "options": options if choice else {},
        "gold": target,
        "answer": options.get(choice, choice) if choice else resps[0],
        "choice": choice,
        "score": sample.get(metric),
        "scored_by": metric,
    }


LM_EVAL = Importer(
    name="lm-eval",
    summary="Samples of lm-evaluation-harness, samples_TASK_TIME.jsonl.",
    recognises=lambda file: {"doc_id", "doc", "filtered_resps"} <= set(file.first),
    rows=rows_with(_values),
)
