"""One loader file a family: the authors' own format in, questions and golds out."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ragrounds.evals.benchmarks.families import (
    beir,
    chemprot,
    cmedteb,
    cmeie,
    csvfile,
    ddi,
    jsonl,
    kqa,
    link,
    mirage,
    mrag,
    ogcarebench,
    pubmedqa,
    r2med,
    sample,
)
from ragrounds.evals.benchmarks.family import Family

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "sample": sample.FAMILY,
        "mirage": mirage.FAMILY,
        "mrag": mrag.FAMILY,
        "ogcarebench": ogcarebench.FAMILY,
        "r2med": r2med.FAMILY,
        "cmedteb": cmedteb.FAMILY,
        "pubmedqa": pubmedqa.FAMILY,
        "kqa": kqa.FAMILY,
        "ddi": ddi.FAMILY,
        "chemprot": chemprot.FAMILY,
        "cmeie": cmeie.FAMILY,
        "link": link.FAMILY,
        "beir": beir.FAMILY,
        "jsonl": jsonl.FAMILY,
        "csv": csvfile.FAMILY,
    }
)
