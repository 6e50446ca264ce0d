"""Parquet: one row an attempt, scores as columns by scorer. For data frames; steps and prompts are left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ragrounds.evals.exchange.formats import (
    Export,
    ExportFormat,
    ExportPart,
    NoOptions,
    Redactor,
    optional_module,
)
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.traces import node_path
from ragrounds.records import Run, Score

_ROWS = 2_000
"""Rows of a row group, which is also what is held in memory."""


def write_parquet(store: Store, runs: Sequence[Run], path: Path) -> int:
    """Write the attempts of the runs as rows; returns how many.

    Raises:
        UserError: pyarrow is not installed.
    """
    arrow = optional_module("pyarrow", "Parquet")
    parquet = optional_module("pyarrow.parquet", "Parquet")
    scores = {run.id: _scores(store.scores(run)) for run in runs}
    scorers = sorted({scorer for found in scores.values() for known in found.values() for scorer in known})
    text, whole, real = arrow.string(), arrow.int64(), arrow.float64()
    fields = [(name, text) for name in ("run", "agent", "benchmark", "question_id", "dataset", "subject", "cluster")]
    fields += [("epoch", whole), ("status", text), ("reason", text), ("text", text), ("gold", text)]
    fields += [(name, whole) for name in ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")]
    fields += [(name, real) for name in ("cost_paid", "cost_uncached", "seconds")]
    fields += [("calls", whole), ("nodes", arrow.list_(text))]
    for scorer in scorers:
        fields += [(f"{scorer}_score", real), (f"{scorer}_answer_status", text), (f"{scorer}_prediction", text)]
    schema = arrow.schema(fields, metadata={"made by": "ragrounds"})
    written = 0
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for rows in _batches(store, runs, scores, scorers):
            writer.write_table(arrow.Table.from_pylist(rows, schema=schema))
            written += len(rows)
    return written


def _scores(scores: Sequence[Score]) -> dict[tuple[str, int], dict[str, Score]]:
    found: dict[tuple[str, int], dict[str, Score]] = {}
    for score in scores:
        found.setdefault((score.question_id, score.epoch), {})[score.scorer] = score
    return found


def _batches(
    store: Store,
    runs: Sequence[Run],
    scores: dict[str, dict[tuple[str, int], dict[str, Score]]],
    scorers: Sequence[str],
) -> Iterator[list[dict[str, object]]]:
    hide, batch = Redactor(), list[dict[str, object]]()
    for run in runs:
        questions, golds = store.questions(run)
        by_id = {question.id: question for question in questions}
        for attempt in store.attempts(run):
            question, usage = by_id[attempt.question_id], attempt.usage
            row: dict[str, object] = {
                "run": run.id,
                "agent": hide(run.agent),
                "benchmark": run.benchmark,
                "question_id": question.id,
                "dataset": question.benchmark,
                "subject": question.group,
                "cluster": question.cluster,
                "epoch": attempt.epoch,
                "status": attempt.status,
                "reason": hide(attempt.reason),
                "text": hide(attempt.text),
                "gold": golds[question.id].answer,
                "input_tokens": usage.input if usage else None,
                "output_tokens": usage.output if usage else None,
                "cached_tokens": usage.cached if usage else None,
                "reasoning_tokens": usage.reasoning if usage else None,
                "cost_paid": attempt.cost_paid,
                "cost_uncached": attempt.cost_uncached,
                "seconds": attempt.seconds if run.origin == "replayed" else None,
                "calls": attempt.calls,
                "nodes": node_path(attempt.events),
            }
            known = scores[run.id].get((question.id, attempt.epoch), {})
            for scorer in scorers:
                score = known.get(scorer)
                row[f"{scorer}_score"] = score.value if score else None
                row[f"{scorer}_answer_status"] = score.answer_status if score else None
                row[f"{scorer}_prediction"] = score.prediction if score else None
            batch.append(row)
            if len(batch) >= _ROWS:
                yield batch
                batch = []
    if batch:
        yield batch


def _parts(export: Export[NoOptions]) -> Iterator[ExportPart]:
    yield ExportPart(lambda path: f"{write_parquet(export.store, export.runs, path):,} attempts")


FORMAT = ExportFormat(
    name="parquet",
    summary="Parquet: a row an attempt, scores as columns.",
    writes="file",
    extra="export",
    options=NoOptions,
    parts=_parts,
)
