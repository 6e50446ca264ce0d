"""Corpora with queries and judgements in BEIR's form."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path


def write_beir(
    folder: Path, documents: Mapping[str, str], queries: Mapping[str, str], relevant: Iterable[tuple[str, str]]
) -> Path:
    """Write texts by id, and pairs of a query and a document that is relevant to it; return the folder."""
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    for name, texts in (("corpus", documents), ("queries", queries)):
        rows = (json.dumps({"_id": id, "text": text}) + "\n" for id, text in texts.items())
        (folder / f"{name}.jsonl").write_text("".join(rows), encoding="utf-8")
    judgements = "".join(f"{query}\t{document}\t1\n" for query, document in relevant)
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judgements}", encoding="utf-8")
    return folder
