"""The pipeline as data."""

from __future__ import annotations

from ragrounds.build.labels.consensus import RELEVANT
from ragrounds.build.labels.graph import STAGES
from ragrounds.build.pipeline import Pipeline

PIPELINE = Pipeline(
    name="consensus-labels",
    graph="ragrounds.build.labels.graph:build",
    summary="Queries → relevant passages that several models agree on; reranking and similarity sets of the same.",
    source="CMedTEB, Section 3.1",
    stages=STAGES,
    parameters={"labellers": 3, "top_k": 500, "candidates": 500, "at_once": 10, "relevant": RELEVANT},
    searches=True,
)
