"""A trained pair on disk, with its model card in the form that the Hugging Face hub reads."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ragrounds.extensions.training.encoders import save_pair
from ragrounds.extensions.training.libraries import sentence_transformers, torch
from ragrounds.extensions.training.loop import StageCost
from ragrounds.extensions.training.pipeline import EncoderPair, TrainingRun
from ragrounds.extensions.training.spec import Pairs, Stage, Texts
from ragrounds.version import __version__


def card(run: TrainingRun, recipe: str, state: EncoderPair, folder: Path) -> str:
    """Return the text of the model card."""

    training, counts = run.training, run.material.counts
    kind = (
        "One encoder for queries and documents" if state.symmetric else "A small query encoder and a document encoder"
    )
    base = sorted({Path(training.query.model).name, Path(training.document.model).name})
    lines = [
        "---",
        "library_name: sentence-transformers",
        "pipeline_tag: sentence-similarity",
        f"tags: [sentence-transformers, feature-extraction, asymmetric-retrieval, {training.name}]",
        "---",
        "",
        f"# {training.name}: {recipe}",
        "",
        f"{kind} in one space of {run.dimensions} dimensions, trained by ragrounds {__version__} after CARE "
        "(Jiang et al., Benchmarking and Enabling Efficient Chinese Medical Retrieval via Asymmetric Encoders).",
        f"Started from: {', '.join(base)}"
        + (f", layers {list(training.query.layers)}" if training.query.layers else "")
        + ". It is a research model: not for clinical use without validation of its own.",
        "",
        "```python",
        "from sentence_transformers import SentenceTransformer",
        "",
        f'pair = SentenceTransformer("{folder.name}")',
        'scores = pair.similarity(pair.encode_query("…"), pair.encode_document(["…"]))',
        "```",
        "",
        "Each encoder also loads alone from `query/` and `document/`.",
        f"In ragrounds: `dense[model={folder.name}/query,document_model={folder.name}/document"
        + (f',query_prefix="{training.query.prefix}"' if training.query.prefix else "")
        + "]`.",
        "",
        "## Training",
        "",
        f"Seed {training.seed}, {training.precision}, {training.device}; torch {torch.__version__}, "
        f"sentence-transformers {sentence_transformers.__version__}.",
        f"Texts: {counts.texts:,} of {counts.texts_read:,} read ({_listed(training.texts)}). "
        f"Pairs: {counts.pairs:,} of {counts.pairs_read:,} read ({_listed(training.pairs)}).",
    ]
    if counts.candidates:
        lines.append(
            f"Hard negatives by {counts.verifier}: of {counts.candidates:,} candidates {counts.negative:,} negative, "
            f"{counts.positive:,} taken for relevant, {counts.unsaid:,} not used."
        )
    lines += ["", "| stage | settings | steps | mean loss, first and last tenth | minutes |", "|---|---|---|---|---|"]
    for name, spent in run.spent(state).items():
        lines.append(_stage(name.rpartition("-")[0], training.stage, spent))
    return "\n".join(lines) + "\n"


def _stage(name: str, stages: dict[str, Stage], spent: StageCost) -> str:
    nondefault = {
        key: value
        for key, value in msgspec.to_builtins(stages[name]).items()
        if key in ("kind", "rate") or value != getattr(Stage(kind=stages[name].kind), key)
    }
    settings = ", ".join(f"{key} {value}" for key, value in nondefault.items())
    return (
        f"| {name} | {settings} | {spent.steps:,} | {spent.losses[0]:.4f}, {spent.losses[-1]:.4f} | "
        f"{spent.seconds / 60:.1f} |"
    )


def _listed(entries: tuple[Texts, ...] | tuple[Pairs, ...]) -> str:
    """Return the names of the sources, without their paths on this machine."""
    names = []
    for entry in entries:
        source = entry.source or entry.file or (entry.benchmark if isinstance(entry, Pairs) else "")
        names.append(Path(source.partition(":")[2] or source).name)
    return ", ".join(names) or "none"


def write_pair(run: TrainingRun, recipe: str, state: EncoderPair) -> Path:
    """Write a recipe's pair and its card into the run's folder, and return the folder.

    A folder that already has this pair is not written again.
    """
    folder = run.out / recipe
    mark = folder / ".key"
    if not (mark.is_file() and mark.read_text() == state.key):
        mark.unlink(missing_ok=True)
        prefixes = {"query": run.training.query.prefix, "document": run.training.document.prefix}
        if state.symmetric:
            prefixes["document"] = ""
        save_pair(run.open_query(state), run.open_document(state), folder, prefixes)
    (folder / "README.md").write_text(card(run, recipe, state, folder), encoding="utf-8")
    mark.write_text(state.key)
    return folder
