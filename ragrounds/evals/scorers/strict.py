"""Scorer ``strict``: the patterns published with MIRAGE without their default, so that a text that none matches is
wrong."""

from __future__ import annotations

from ragrounds.evals.scorers.choice import ChoiceScorer
from ragrounds.evals.scorers.mirage import read_published

STRICT = ChoiceScorer(
    name="strict",
    accuracy=True,
    summary="the published patterns: what cannot be read is wrong",
    method="MIRAGE's published patterns without their default, on the raw reply (an answer that cannot be read is "
    "wrong)",
    read=read_published,
    letters=True,
)
