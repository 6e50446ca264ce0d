"""Print the digests of code of now beside those that ``ragrounds/earlier_code.toml`` knows (docs/project/releasing.md).

A line with ``*`` is code whose digest is not known there: what was made by it before is not used again.
"""

from __future__ import annotations

import sys

from ragrounds.digests import code_digest, earlier_code, text_digest
from ragrounds.evals.judges import codes
from ragrounds.graphs import catalogue
from ragrounds.plugins import discover
from ragrounds.specs import Spec
from ragrounds.tools import retriever
from ragrounds.tools.retrievers import bm25


def digests() -> dict[str, dict[str, str]]:
    """Table of the file → name → digest of now."""
    shipped = discover("ragrounds.tools.retrievers", retriever.Retriever)
    names = sorted({*shipped, *(name for one in shipped.values() for name in one.further_names())})
    return {
        "graphs": {name: catalogue.digest(name) for name in catalogue.names()},
        "retrievers": {name: retriever.spec_code(Spec(name)) for name in names},
        "corpora": {"read": code_digest("ragrounds.tools.corpora")},
        "indexes": {"bm25": bm25.builders_code(), "dense": code_digest("ragrounds.tools.embedders")},
        "models": {"baseline": code_digest("ragrounds.models.extractive")},
        "judging": {"pairs": text_digest(*map(code_digest, codes.PAIRS))},
    }


if __name__ == "__main__":
    for table, found in digests().items():
        known = earlier_code(table)
        sys.stdout.write(f"[{table}]\n")
        for name, digest in found.items():
            sys.stdout.write(f"{name} = {digest} {'' if digest in known.get(name, ()) else '*'}\n")
