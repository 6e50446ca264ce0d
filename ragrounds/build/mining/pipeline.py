"""The pipeline as data."""

from __future__ import annotations

from ragrounds.build.mining.graph import STAGES
from ragrounds.build.pipeline import Pipeline

PIPELINE = Pipeline(
    name="relevance-mining",
    graph="ragrounds.build.mining.graph:build",
    summary="Questions with answers → the documents of a corpus that they rest on, by a committee and two-axis grades.",
    source="R2MED, Section 3.3 and Appendix A",
    stages=STAGES,
    parameters={"panel": 0, "most_right": 1, "top_k": 100, "candidates": 100, "positive": 8, "negative": 4},
    searches=True,
)
