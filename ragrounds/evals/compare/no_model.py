"""Which runs asked no language model: the built-in extractive baseline, or a stand-in for a server."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from ragrounds.records import Run

NoModel = Literal["", "extractive", "stand-in"]
"""What answered in place of a language model; empty: none of these is known to have."""
_STAND_IN = "stand-in"
_EXTRACTIVE = "baseline:"
_ALIAS = re.compile(r"[\[,]alias=stand-in[,\]]")


def no_model(run: Run) -> NoModel:
    """What answered in a run in place of a language model: by the names of its models and their servers' words."""
    models = run.identity.get("models")
    texts = [str(text) for text in models.values()] if isinstance(models, Mapping) else []
    if any(text.startswith(_EXTRACTIVE) for text in texts):
        return "extractive"
    named = any(text.partition("[")[0].rpartition(":")[2] == _STAND_IN or _ALIAS.search(text) for text in texts)
    told = any(facts.get("id") == _STAND_IN for facts in run.servers.values())
    return "stand-in" if named or told else ""


def kinds_of(found: Sequence[tuple[str, NoModel]]) -> dict[NoModel, tuple[str, ...]]:
    """What answered in place of a language model → the runs; empty where nothing did."""
    kinds: tuple[NoModel, ...] = ("extractive", "stand-in")
    every = {kind: tuple(run for run, one in found if one == kind) for kind in kinds}
    return {kind: runs for kind, runs in every.items() if runs}
