"""Every Eval Ever records (schema 0.3.0): of each run an evaluation log, with a result for each scorer and dataset and
its interval. Shares are proportions from 0 to 1."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ragrounds.evals.benchmarks.cards import text_licence
from ragrounds.evals.compare.comparison import Comparison, ScorerTable, compare
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.exchange.formats import Export, ExportFormat, ExportPart, NoOptions
from ragrounds.evals.exchange.trace_nodes import TraceCleaner
from ragrounds.evals.scorers import described
from ragrounds.records import Run
from ragrounds.text import file_name
from ragrounds.version import __version__

SCHEMA = "0.3.0"


def evaluation_log(run: Run, comparison: Comparison) -> dict[str, Any]:
    """The log of a run."""
    models = [str(text) for text in (run.identity.get("models") or {}).values()]
    developer, name = _model(run)
    return {
        "schema_version": SCHEMA,
        "evaluation_id": _id(run),
        "evaluation_timestamp": str(int(run.created)),
        "retrieved_timestamp": str(int(run.created)),
        "source_metadata": {
            "source_name": "ragrounds",
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": "ragrounds", "version": run.version or __version__},
        "model_info": {
            "name": models[0] if models else run.agent,
            "id": f"{developer}/{name}",
            "developer": developer,
            "additional_details": {
                "agent": run.agent,
                "fingerprint": run.fingerprint,
                "models": ", ".join(models),
                "deployment_type": "unknown",
                "model_availability": "unknown",
            },
        },
        "evaluation_results": [
            _result(run, table, dataset, figure)
            for table in comparison.tables
            for dataset, figure in table.lines[0].datasets.items()
            if figure.value is not None
        ],
    }


def _result(run: Run, table: ScorerTable, dataset: str, figure: Figure) -> dict[str, Any]:
    scorer, source = described(table.scorer), text_licence(dataset).source
    share = table.unit == "percent"
    interval = {"lower": figure.low, "upper": figure.high, "confidence_level": 0.95}
    known = None not in (figure.low, figure.high)
    return {
        "evaluation_result_id": f"{_id(run)}/{dataset}/{table.scorer}",
        "evaluation_name": dataset,
        "source_data": {"dataset_name": run.benchmark, "source_type": "url", "url": [source]}
        if source.startswith("https://")
        else {"dataset_name": run.benchmark, "source_type": "other", "additional_details": {"hash": run.questions}},
        "metric_config": {
            "metric_id": f"ragrounds.{table.scorer}",
            "metric_name": "accuracy" if scorer.accuracy else table.scorer,
            "metric_kind": "accuracy" if scorer.accuracy else table.scorer,
            "metric_unit": "proportion" if share else table.unit,
            "lower_is_better": table.direction == "lower",
            "score_type": "continuous",
            "min_score": 0.0 if share else "-Infinity",
            "max_score": 1.0 if share else "Infinity",
        },
        "score_details": {
            "score": figure.value,
            "uncertainty": {"num_samples": figure.n, **({"confidence_interval": interval} if known else {})},
        },
    }


def _id(run: Run) -> str:
    return f"{run.benchmark}/{run.id}/{int(run.created)}"


def _model(run: Run) -> tuple[str, str]:
    """Who made the first model of a run, and its name."""
    text = next(iter((run.identity.get("models") or {}).values()), run.agent)
    provider, _, named = str(text).partition("[")[0].rpartition(":")
    developer, _, name = named.rpartition("/")
    return developer or provider or "unknown", name


def _parts(export: Export[NoOptions]) -> Iterator[ExportPart]:
    for run in export.runs:

        def _write(path: Path, run: Run = run) -> str:
            clean = msgspec.convert(TraceCleaner().value(msgspec.to_builtins(run)), Run)
            log = evaluation_log(clean, compare(export.store, [run]))
            path.write_bytes(msgspec.json.format(msgspec.json.encode(log), indent=2) + b"\n")
            return f"{len(log['evaluation_results']):,} results of {run.id}"

        known = uuid.UUID(bytes=hashlib.sha256(run.id.encode()).digest()[:16], version=4)
        place = (file_name(one, 80) for one in (run.benchmark, *_model(run)))
        yield ExportPart(_write, "/".join(("data", *place, f"{known}.json")))


FORMAT = ExportFormat(
    name="every-eval-ever",
    summary="Every Eval Ever records: of each run an evaluation log of its figures with intervals.",
    writes="folder",
    options=NoOptions,
    parts=_parts,
)
