"""The pipeline as data."""

from __future__ import annotations

from ragrounds.build.pipeline import Pipeline

PIPELINE = Pipeline(
    name="false-negatives",
    graph="ragrounds.build.missing.graph:build",
    summary="The best found documents of every query of a benchmark, graded again, against the benchmark's labels.",
    source="CMedTEB, Appendix E, Table 20",
    stages=("candidates", "draw", "grade"),
    parameters={"depth": 50, "sample": 0, "bands": "10,25", "at_once": 10, "seed": 0},
    searches=True,
)
"""`depth` documents a query, of which `sample` are graded (0: all), drawn within `bands` of ranks, `at_once` a call."""
