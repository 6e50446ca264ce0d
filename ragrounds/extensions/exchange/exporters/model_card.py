"""Evaluation results in the form of a Hugging Face model card: the metadata before its text.

The block is written by ``huggingface_hub``, with a result for each run, dataset and scorer that tables show.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from ragrounds.base.records import Run
from ragrounds.evals.compare.comparison import Comparison, compare
from ragrounds.evals.scorers import described
from ragrounds.extensions.exchange.exporters.trace_nodes import TraceCleaner
from ragrounds.extensions.exchange.formats import Export, ExportFormat, ExportPart, optional_module


class ModelCardOptions(Struct, frozen=True):
    """Model of the card."""

    model: Annotated[str, Meta(description="The model's name in the card. [default: the first run's model]")] = ""


def results(run: Run, comparison: Comparison, hub: Any) -> Iterator[Any]:
    """Yield the results of a run that tables show, as objects of the library."""
    for table, further_tables in comparison.shown_tables():
        for scorer_table in (table, *further_tables):
            for dataset, figure in scorer_table.lines[0].datasets.items():
                if figure.value is None:
                    continue
                percent = 100 if scorer_table.unit == "percent" else 1
                bounds = {"low": figure.low, "high": figure.high}
                yield hub.EvalResult(
                    task_type="question-answering",
                    dataset_type=dataset,
                    dataset_name=dataset,
                    dataset_revision=run.questions,
                    metric_type="accuracy" if described(scorer_table.scorer).accuracy else scorer_table.scorer,
                    metric_name=f"{scorer_table.scorer} ({run.agent})",
                    metric_value=round(percent * figure.value, 2),
                    metric_args={
                        "n": figure.n,
                        **{name: round(percent * bound, 2) for name, bound in bounds.items() if bound is not None},
                    },
                )


def _parts(export: Export[ModelCardOptions]) -> Iterator[ExportPart]:
    hub = optional_module("huggingface_hub", "a model card")

    def _write(path: Path) -> str:
        entries = [entry for run in export.runs for entry in results(run, compare(export.store, [run]), hub)]
        models = (str(text).partition("[")[0] for text in (export.runs[0].identity.get("models") or {}).values())
        name = export.options.model or next(models, export.runs[0].agent)
        card_metadata = hub.ModelCardData(model_name=name, eval_results=entries)
        path.write_text(TraceCleaner().text(f"---\n{card_metadata.to_yaml()}\n---\n"), encoding="utf-8")
        return f"{len(entries):,} results of {name}"

    yield ExportPart(_write)


FORMAT = ExportFormat(
    name="model-card",
    summary="Evaluation results as the metadata of a model card of Hugging Face, with intervals.",
    writes="file",
    extra="export",
    options=ModelCardOptions,
    parts=_parts,
)
