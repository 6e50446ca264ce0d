"""The pipeline as data."""

from __future__ import annotations

from ragrounds.build.pipeline import Pipeline

PIPELINE = Pipeline(
    name="case-questions",
    graph="ragrounds.build.cases.graph:build",
    summary="Case reports → questions up to the decision point, verbatim answers, distractors, a sheet for experts.",
    source="OGCaReBench, Section 3.1",
    stages=("significance", "timeline", "question", "verbatim", "follows", "rewrite", "unchanged"),
)
