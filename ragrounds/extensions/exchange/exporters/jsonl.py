"""JSON Lines: one object per attempt, with its question, gold, scores, steps, requests and replies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ragrounds.base.records import Run
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import Trace, every_trace
from ragrounds.extensions.exchange.formats import ExportFormat, NoOptions, Redactor, lines_file


def json_lines(store: Store, runs: Sequence[Run]) -> Iterator[bytes]:
    """Yield the attempts of the runs as JSON objects, one per line, with keys redacted."""
    hide = Redactor()
    for run in runs:
        for trace in every_trace(store, run):
            line = msgspec.json.encode(_flat(trace))
            yield hide(line.decode("utf-8")).encode("utf-8") + b"\n"


def _flat(trace: Trace) -> dict[str, object]:
    """Return a trace with the id of its run. Its events are given as steps only."""
    attempt = {
        name: value
        for name, value in msgspec.structs.asdict(trace.attempt).items()
        if name not in ("events", "run", "question_id", "epoch")
    }
    return {
        "run": trace.run.id,
        "agent": trace.run.agent,
        "fingerprint": trace.run.fingerprint,
        "epoch": trace.attempt.epoch,
        "question": trace.question,
        "gold": trace.gold,
        "attempt": attempt,
        "scores": trace.scores,
        "steps": trace.steps,
    }


FORMAT = ExportFormat(
    name="jsonl",
    summary="JSON Lines: an object an attempt with question, gold, scores, steps, requests and replies.",
    writes="file",
    options=NoOptions,
    parts=lambda export: iter([lines_file(lambda: json_lines(export.store, export.runs))]),
)
