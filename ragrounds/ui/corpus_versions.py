"""Versions of corpora in a few characters, where they tell runs apart."""

from __future__ import annotations

import re
from collections.abc import Sequence

_VERSION = re.compile(r"@([0-9a-f]{7,})$")
_LEAST = 6
"""Characters of a version at least."""


def corpora_apart(searched: Sequence[str]) -> list[str]:
    """Of each run the corpora that not all of them searched, as ``lib@75185c``: of a version so many characters that
    all differ; nothing where they searched the same.

    Args:
        searched: of each run its corpora, as in its identity: versions joined by ``+``; empty: none.
    """
    parts = [[one for one in text.split("+") if one] for text in searched]
    if len(set(searched)) < 2:
        return [""] * len(parts)
    shared = set(parts[0]).intersection(*parts)
    wanted = {one for run in parts for one in run if one not in shared}
    size = _LEAST
    while len({_cut(one, size) for one in wanted}) < len(wanted):
        size += 2
    own = [[one for one in run if one not in shared] or run for run in parts]
    return ["+".join(_cut(one, size) for one in run) or "no corpus" for run in own]


def _cut(corpus: str, size: int) -> str:
    found = _VERSION.search(corpus)
    return corpus if found is None else f"{corpus[: found.start(1)]}{found[1][:size]}"
