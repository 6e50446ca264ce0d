"""``lm-eval``: the samples of EleutherAI's lm-evaluation-harness, ``samples_TASK_TIME.jsonl`` (``--log_samples``).

The answer is the likeliest choice of a task that ranks choices, or the filtered text of one that generates. The first
metric is the score. The model is the name of the folder. The files contain no tokens and no seconds, so these are
unknown.
"""

from __future__ import annotations

import re

from ragrounds.extensions.exchange.importers.importer import Importer, ImportFile, labels_for, number_of, text_of
from ragrounds.extensions.exchange.importers.table import Values, guess_fields, rows_with

_NAME = re.compile(r"samples_(.+)_\d{4}-\d\d-\d\dT[\d.:-]+")


def _values(sample: Values, file: ImportFile, seen: dict[str, str]) -> Values | str | None:
    # A task may read its answers by several filters, each with all rows: each is a run.
    filter_name = text_of(sample.get("filter"))
    if filter_name not in seen.values():
        seen[filter_name] = filter_name
        if len(seen) > 1:
            file.say(f"{file.path.name}: the filter {filter_name} is a run of its own.")
    doc, resps = sample.get("doc"), sample.get("filtered_resps")
    if not isinstance(doc, dict) or not isinstance(resps, list) or not resps:
        return "a sample has doc and filtered_resps"
    stem = file.path.name.removesuffix(".gz").removesuffix(".jsonl")
    doc_fields = {field: doc[column] for field, column in guess_fields(list(doc)).items()}
    options, target = labels_for(doc_fields.get("options")), text_of(sample.get("target"))
    metrics = sample.get("metrics")
    metric = text_of(metrics[0]) if isinstance(metrics, list) and metrics else ""
    chances = [number_of(response[0]) if isinstance(response, list) and response else None for response in resps]
    likely = [chance for chance in chances if chance is not None]
    choice = ""
    if len(likely) == len(resps) > 1:
        labels = list(options) or [chr(65 + index) for index in range(len(resps))]
        choice = labels[min(chances.index(max(likely)), len(labels) - 1)]
        target = labels[int(target)] if target.isdigit() and int(target) < len(labels) else target
    return {
        "agent": file.path.parent.name,
        "variant": filter_name if filter_name != next(iter(seen.values())) else "",
        "dataset": match[1] if (match := _NAME.fullmatch(stem)) else stem,
        "id": doc_fields.get("id", sample.get("doc_id")),
        "question": doc_fields.get("question"),
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
    log=True,
)
