"""A million passages: our BM25 beside bm25s's numba backend and tantivy, in one run, on one thread.

    python perf/retrieval_grown.py DATA m1.jsonl 1000000
    python perf/retrieval_million.py DATA m1.jsonl HOME [QUERIES]

Needs numba and tantivy beside the test extra. 500 questions of MIRAGE, k = 32. The three take turns, question by
question, so that whatever else the machine does falls on all of them alike. bm25s is given our analyser's terms;
tantivy too, as words parted by blanks, so that all three search for the same; tantivy's k1 and b are fixed at 1.2 and
0.75, so that its results are not compared.
"""

import json
import os
import random
import resource
import sys
import time
from pathlib import Path

os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import bm25s
import numpy as np
import tantivy

from ragrounds.tools.analysers import analyser
from ragrounds.tools.retriever import open_searcher

K = 32


def main(data: Path, corpus: Path, home: Path, count: int) -> None:
    benchmark = json.loads((data / "mirage/benchmark.json").read_text())
    questions = [item["question"] for part in benchmark.values() for item in part.values()]
    random.Random(0).shuffle(questions)
    questions = questions[:count]

    began = time.perf_counter()
    ours = open_searcher("bm25", f"jsonl:{corpus}", home)
    print(f"ours: open or built in {time.perf_counter() - began:.1f} s, peak {peak():.2f} GiB", flush=True)

    analyse = analyser("lucene-english")
    peers = home / "peers"
    peers.mkdir(exist_ok=True)
    schema = tantivy.SchemaBuilder().add_text_field("body", stored=False, tokenizer_name="whitespace").build()
    if not (peers / "done").exists():
        build_peers(ours._collection.store, analyse, peers, schema)
    peer = bm25s.BM25.load(peers / "bm25s", backend="numba")
    numbers = peer.vocab_dict
    third = tantivy.Index(schema, str(peers / "tantivy")).searcher()

    def search_ours(query: str) -> list[tuple[int, float]]:
        return ours.ranked(query, K)

    def search_bm25s(query: str) -> list[tuple[int, float]]:
        tokens = [numbers[term] for term in analyse(query) if term in numbers]
        found = peer.retrieve([tokens], k=K, show_progress=False, n_threads=1)
        return list(zip(found.documents[0].tolist(), found.scores[0].tolist(), strict=True))

    def search_tantivy(query: str) -> object:
        terms = analyse(query)
        clauses = [(tantivy.Occur.Should, tantivy.Query.term_query(schema, "body", term)) for term in terms]
        return third.search(tantivy.Query.boolean_query(clauses), limit=K).hits

    engines = {"ours": search_ours, "bm25s numba": search_bm25s, "tantivy": search_tantivy}
    taken: dict[str, list[float]] = {name: [] for name in engines}
    for question in questions[:20]:
        for search in engines.values():
            search(question)
    same = 0
    for question in questions:
        results = {}
        for name, search in engines.items():
            at = time.perf_counter()
            results[name] = search(question)
            taken[name].append(time.perf_counter() - at)
        same += agree(results["ours"], results["bm25s numba"])
    base = np.mean(taken["ours"])
    for name, seconds in taken.items():
        values = np.array(seconds)
        print(
            f"{name:12} {1 / values.mean():8.1f} queries/s  p95 {np.percentile(values, 95) * 1e3:7.1f} ms  "
            f"ours is {values.mean() / base:5.2f} times as fast"
        )
    print(f"same top {K} as bm25s: {same} of {len(questions)}")


def build_peers(store, analyse, peers: Path, schema) -> None:
    """Index the same passages with the two others; the terms are ours."""
    numbers: dict[str, int] = {}
    began = time.perf_counter()
    ids = [[numbers.setdefault(term, len(numbers)) for term in analyse(f"{row[2]}\n{row[3]}")] for row in store.each()]
    print(f"analysed in {time.perf_counter() - began:.1f} s", flush=True)
    peer = bm25s.BM25(method="lucene", k1=0.9, b=0.4, backend="numba")
    peer.index((ids, numbers), show_progress=False)
    peer.save(peers / "bm25s", show_progress=False)
    print(f"bm25s: analysed and built in {time.perf_counter() - began:.1f} s, peak {peak():.2f} GiB", flush=True)
    words = {number: term for term, number in numbers.items()}
    (peers / "tantivy").mkdir(exist_ok=True)
    writer = tantivy.Index(schema, str(peers / "tantivy")).writer(heap_size=500_000_000, num_threads=1)
    for tokens in ids:
        writer.add_document(tantivy.Document(body=" ".join(words[number] for number in tokens)))
    writer.commit()
    writer.wait_merging_threads()
    (peers / "done").touch()


def agree(ours: list[tuple[int, float]], theirs: list[tuple[int, float]]) -> bool:
    """The same passages in the same order, but where scores are equal to float32's sixth digit."""
    theirs = [hit for hit in theirs if hit[1] > 0]
    if len(ours) != len(theirs):
        return False
    for (one, score), (other, value) in zip(ours, theirs, strict=True):
        if abs(score - value) > 2e-5 * max(score, 1):
            return False
        near = {position for position, near_score in ours if abs(near_score - score) <= 2e-5 * max(score, 1)}
        if one != other and other not in near and score - ours[-1][1] > 2e-5 * max(score, 1):
            return False
    return True


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else 500)
