"""The smaller figures: SciFact, Vaswani and MED with BM25, the Chinese analysers, the overhead of a tool call.

python perf/retrieval_small.py DATA HOME
"""

import asyncio
import json
import sys
import time
from pathlib import Path

import msgspec

from ragrounds.extensions.retrieval.comparison import compare
from ragrounds.extensions.retrieval.measures import means, measure
from ragrounds.extensions.retrieval.query_sets import query_set
from ragrounds.extensions.retrieval.search import retrieve
from ragrounds.tools.retriever import open_searcher


def scored(folder: str, spec: str, home: Path, measures: tuple[str, ...], depth: int) -> dict[str, dict[str, float]]:
    asked = query_set(folder)
    found = asyncio.run(retrieve(open_searcher(spec, asked.corpus, home), asked.queries, depth))
    values = measure(asked.judgements, found.scores, measures)
    print(f"{asked.name:16} {found.retriever:52} " + "  ".join(f"{k} {v:.4f}" for k, v in means(values).items()))
    return values


def chinese(data: Path, home: Path) -> None:
    values = {
        name: scored(f"beir:{data}/beir/zh_meddialog_im", f"bm25[analyser={name}]", home, ("nDCG@10", "R@100"), 100)
        for name in ("chinese-bigram", "plain")
    }
    for pair in compare({name: each["nDCG@10"] for name, each in values.items()}, "nDCG@10"):
        print(
            f"  {pair.first} - {pair.second}: {pair.difference:+.4f} [{pair.low:+.4f}, {pair.high:+.4f}], "
            f"p {pair.p:.4f}, Holm {pair.holm:.4f}"
        )


def overhead(data: Path, home: Path) -> None:
    """Processor time of a tool call less that of the engine's ranking, the median of each question's differences."""
    searcher = open_searcher("bm25", f"beir:{data}/beir/pubmedqa_1k", home)
    asked = [json.loads(line)["text"] for line in (data / "beir/pubmedqa_1k/queries.jsonl").open()][:300]

    async def both() -> list[float]:
        differences = []
        for query in asked * 2:
            began = time.process_time()
            searcher.ranked(query, 10)
            engine = time.process_time() - began
            began = time.process_time()
            msgspec.json.encode([(hit.id, hit.title, hit.text) for hit in await searcher.search(query, 10)])
            differences.append(time.process_time() - began - engine)
        return sorted(differences[len(asked) :])

    differences = asyncio.run(both())
    median, high = differences[len(differences) // 2], differences[int(0.95 * len(differences))]
    print(f"a tool call less the engine, k = 10: median {median * 1e3:.2f} ms, p95 {high * 1e3:.2f} ms")


if __name__ == "__main__":
    where, kept = Path(sys.argv[1]), Path(sys.argv[2])
    scored(f"beir:{where}/beir/scifact", "bm25", kept, ("nDCG@10", "R@100", "R@1000"), 1000)
    scored(f"beir:{where}/beir/scifact", "bm25[query_weighted=true]", kept, ("nDCG@10", "R@100", "R@1000"), 1000)
    scored(f"beir:{where}/beir/medline_med1033", "bm25", kept, ("nDCG@10", "MAP"), 1000)
    scored(f"beir:{where}/beir/vaswani", "bm25", kept, ("nDCG@10", "MAP"), 1000)
    chinese(where, kept)
    overhead(where, kept)
