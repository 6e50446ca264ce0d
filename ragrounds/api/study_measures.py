"""Cells of a study that are one figure of a whole set, no mean over its queries' values.

How an embedder's cosines follow graded pairs of sentences (CMedTEB, Tables 2 and 11), and what a model's grades make of
a set's labels (its Table 20)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragrounds.api.build import BuildExecution, build
from ragrounds.api.pipelines import FalseNegatives
from ragrounds.api.progress import RunListener
from ragrounds.api.similarity import similarity
from ragrounds.errors import UserError
from ragrounds.evals.benchmarks.catalogue import located, parse_reference
from ragrounds.evals.studies.figures import CellFigure
from ragrounds.evals.studies.study import Settings as CellSettings
from ragrounds.files import read_text
from ragrounds.settings import Settings
from ragrounds.specs import parse
from ragrounds.tools.retriever import spec_code

CORRELATIONS = ("Pearson", "Spearman")
LABELS = ("labelled", "relevant", "false_positives", "false_negatives")
"""Documents a query, among the first `depth` that are found: those with a label, those that a model's grades find
relevant, and where the two differ."""
_DEPTH = 50
_UNIT = "documents a query"


def similarity_identity(settings: CellSettings, home: Path) -> str:
    """A digest of the pairs, the encoder and the code that a correlation depends on.

    Raises:
        UserError: there is no such file.
    """
    spec = parse(str(settings["retriever"]))
    parts = (str(spec), spec_code(spec), read_text(_pairs(settings, home)))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def similarity_figures(settings: CellSettings, home: Path) -> dict[str, CellFigure]:
    """The correlations of one encoder's cosines with graded pairs.

    Raises:
        UserError: no such file, or an encoder that cannot be had.
    """
    (entry,) = similarity(_pairs(settings, home), str(settings["retriever"])).entries
    made = {}
    for name in CORRELATIONS:
        low, high = entry[f"{name}_interval"]
        made[name] = CellFigure(value=entry[name], low=low, high=high, n=entry["pairs"], measure=name)
    return made


def _pairs(settings: CellSettings, home: Path) -> Path:
    return located(parse_reference(str(settings["benchmark"])), home)


def label_figures(
    settings: CellSettings, given: Mapping[str, Any], listener: RunListener, chosen: Settings
) -> dict[str, CellFigure]:
    """What `ragrounds build false-negatives` finds of a set: a model grades the first `depth` documents of each query.

    Args:
        settings: of the cell: set, retriever, model, depth.
        given: how it is carried out, as :class:`ragrounds.api.build.BuildExecution` takes it.
        listener: hears what happens.
        chosen: all settings.

    Raises:
        UserError: no such set, retriever or model; or no query has grades.
    """
    benchmark = str(settings["benchmark"])
    name = hashlib.sha256(repr(sorted(settings.items(), key=str)).encode()).hexdigest()[:16]
    language: Any = str(parse_reference(benchmark).parameters.get("language", "en"))  # which build() checks
    asked = FalseNegatives(
        benchmark=benchmark,
        retriever=str(settings["retriever"]),
        split=str(settings.get("split", "test")),
        top_k=int(str(settings.get("depth", _DEPTH))),
        language=language,
        sheet_size=0,
    )
    execution = BuildExecution(
        out=chosen.home / "studies" / "labels" / name,
        model=_text(settings, "model"),
        base_url=_text(settings, "base_url"),
        alias=_text(settings, "alias"),
        limit=int(str(settings["limit"])) if "limit" in settings else None,
        seed=int(str(settings.get("seed", 0))),
        **given,
    )
    built = build(asked, execution, listener, settings=chosen)
    found = built.card.made.figures.get("missing")
    if not isinstance(found, dict):
        raise UserError("; ".join(built.card.made.notes) or built.ended or "No query has grades.")
    return {
        measure: CellFigure(
            value=found[measure]["value"],
            low=found[measure]["low"],
            high=found[measure]["high"],
            n=found["queries"],
            missing=found["left_out"],
            unit=_UNIT,
            measure=measure,
        )
        for measure in LABELS
    }


def _text(settings: CellSettings, key: str) -> str | None:
    return str(settings[key]) if key in settings else None
