"""Every Eval Ever records (schema 0.3.0): an evaluation log of each run, with a result and interval for each scorer and
dataset, and a file with one line per attempt with its headline score. Shares are proportions from 0 to 1."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ragrounds.base.records import WITHOUT_ANSWER, Run
from ragrounds.base.text import file_name
from ragrounds.evals.benchmarks.cards import text_licence
from ragrounds.evals.compare.comparison import Comparison, ScorerTable, compare
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.scorers import described
from ragrounds.evals.trace.traces import Trace
from ragrounds.extensions.exchange.exporters.atif import trajectory
from ragrounds.extensions.exchange.exporters.trace_nodes import TraceCleaner
from ragrounds.extensions.exchange.formats import Export, ExportFormat, ExportPart, NoOptions
from ragrounds.version import __version__

SCHEMA = "0.3.0"


def evaluation_log(run: Run, comparison: Comparison) -> dict[str, Any]:
    """Return the log of a run."""
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
    has_interval = None not in (figure.low, figure.high)
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
            "uncertainty": {"num_samples": figure.n, **({"confidence_interval": interval} if has_interval else {})},
        },
    }


def sample(trace: Trace, scorers: Sequence[str]) -> dict[str, Any] | None:
    """Return the line of a clean attempt, with the first of these scores; ``None`` if it has no score."""
    attempt, question, run = trace.attempt, trace.question, trace.run
    scores = {score.scorer: score for score in trace.scores if score.value is not None}
    score = next((scores[scorer] for scorer in scorers if scorer in scores), None)
    if score is None or score.value is None:
        return None
    usage, messages, (developer, name) = attempt.usage, _messages(trajectory(trace)["steps"]), _model(run)
    reference = [question.options.get(trace.gold.answer, trace.gold.answer)]
    text = question.text
    return {
        "schema_version": SCHEMA,
        "evaluation_id": _id(run),
        "model_id": f"{developer}/{name}",
        "evaluation_name": question.benchmark,
        "evaluation_result_id": f"{_id(run)}/{question.benchmark}/{score.scorer}",
        "sample_id": question.id,
        "sample_hash": hashlib.sha256((text + "".join(reference)).encode()).hexdigest(),
        "interaction_type": "agentic",
        "input": {"raw": text, "reference": reference, "choices": list(question.options.values()) or None},
        "output": None,
        "messages": messages,
        "answer_attribution": [
            {"turn_idx": len(messages) - 1, "source": f"messages[{len(messages) - 1}].content",
             "extracted_value": score.prediction, "extraction_method": score.scorer, "is_terminal": True}
        ],
        "evaluation": {"score": score.value, "is_correct": score.value == 1, "num_turns": len(messages)},
        "token_usage": usage and {
            "input_tokens": usage.input, "output_tokens": usage.output, "total_tokens": usage.total,
            "input_tokens_cache_read": usage.cached, "reasoning_tokens": usage.reasoning,
        },
        "performance": {"latency_ms": 1000 * attempt.seconds},
        "error": (attempt.reason or attempt.status) if attempt.status in WITHOUT_ANSWER else None,
        "metadata": {"agent": run.agent, "epoch": str(attempt.epoch), "choice": attempt.choice,
                     "model_calls": str(attempt.model_calls),
                     **({} if attempt.cost_uncached is None else {"cost_usd": repr(attempt.cost_uncached)})},
    }  # fmt: skip


def _messages(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a trajectory's steps as turns.

    The output of a search or tool is a separate turn, which contains its input.
    """
    turns: list[dict[str, Any]] = []
    for step in steps:
        calls = [
            {"id": call["tool_call_id"], "name": call["function_name"],
             "arguments": {key: value if isinstance(value, str) else msgspec.json.encode(value).decode()
                           for key, value in call["arguments"].items()}}
            for call in step.get("tool_calls", ())
        ]  # fmt: skip
        results = step.get("observation", {}).get("results", ())
        turn: dict[str, Any] = {
            "role": "assistant" if step["source"] == "agent" else "user",
            "content": step["message"],
        }
        if results:
            turn = {"role": "tool", "content": results[0]["content"], "tool_call_id": [results[0]["source_call_id"]]}
        turns.append({"turn_idx": len(turns), **turn, **({"tool_calls": calls} if calls else {})})
    return turns


def _id(run: Run) -> str:
    return f"{run.benchmark}/{run.id}/{int(run.created)}"


def _model(run: Run) -> tuple[str, str]:
    """Return the developer of the first model of a run, and the model's name."""
    text = next(iter((run.identity.get("models") or {}).values()), run.agent)
    provider, _, model_name = str(text).partition("[")[0].rpartition(":")
    developer, _, name = model_name.rpartition("/")
    return developer or provider or "unknown", name


def _parts(export: Export[NoOptions]) -> Iterator[ExportPart]:
    for run in export.runs:
        record_id = uuid.UUID(bytes=hashlib.sha256(run.id.encode()).digest()[:16], version=4)
        base_name = "/".join(("data", *(file_name(text, 80) for text in (run.benchmark, *_model(run))), str(record_id)))
        comparison, details = compare(export.store, [run]), dict[str, object]()

        def _lines(path: Path, run: Run = run, table: Comparison = comparison, base: str = base_name,
                   details: dict[str, object] = details) -> str:  # fmt: skip
            scorers = [scorer_table.scorer for scorer_table in table.tables]
            digest, count = hashlib.sha256(), 0
            with path.open("wb") as file:
                for trace in TraceCleaner().traces(export.store, [run]):
                    line = sample(trace, scorers)
                    if line is not None:
                        encoded = msgspec.json.encode(line) + b"\n"
                        digest.update(encoded)
                        count += file.write(encoded) > 0
            details |= {"format": "jsonl", "file_path": f"{base}_samples.jsonl", "hash_algorithm": "sha256",
                     "checksum": digest.hexdigest(), "total_rows": count}  # fmt: skip
            return f"{count:,} attempts of {run.id}"

        def _write(path: Path, run: Run = run, table: Comparison = comparison,
                   details: dict[str, object] = details) -> str:  # fmt: skip
            clean = TraceCleaner().record(run)
            log = evaluation_log(clean, table)
            log |= {"detailed_evaluation_results": details} if details.get("total_rows") else {}
            path.write_bytes(msgspec.json.format(msgspec.json.encode(log), indent=2) + b"\n")
            return f"{len(log['evaluation_results']):,} results of {run.id}"

        yield ExportPart(_lines, f"{base_name}_samples.jsonl")
        yield ExportPart(_write, f"{base_name}.json")


FORMAT = ExportFormat(
    name="every-eval-ever",
    summary="Every Eval Ever records: of each run an evaluation log of its figures with intervals.",
    writes="folder",
    options=NoOptions,
    parts=_parts,
)
