"""One index beside the same counted in several runs: identical rankings and scores, to the last bit.

head -n 100000 m1.jsonl > m01.jsonl
python perf/retrieval_shards.py DATA m01.jsonl HOME
"""

import json
import random
import shutil
import sys
from pathlib import Path

from ragrounds.tools.index.collection_builder import open_collection
from ragrounds.tools.retrievers.bm25 import Bm25Parameters, open_bm25


def main(data: Path, corpus: Path, home: Path) -> None:
    benchmark = json.loads((data / "mirage/benchmark.json").read_text())
    questions = [item["question"] for part in benchmark.values() for item in part.values()]
    random.Random(0).shuffle(questions)
    collection = open_collection(f"jsonl:{corpus}", home)
    results = {}
    for shard in (len(collection.store), 17_000):
        for old in collection.folder.glob("bm25-*"):
            shutil.rmtree(old)
        searcher = open_bm25(collection, Bm25Parameters(), shard=shard)
        count = -(-len(collection.store) // shard)
        results[count] = [searcher.ranked(question, 100) for question in questions[:500]]
        print(f"{len(collection.store):,} passages counted in {count} runs: {len(results[count])} questions, top 100")
    one, several = results.values()
    same = sum(left == right for left, right in zip(one, several, strict=True))
    print(f"identical rankings and scores: {same} of {len(one)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
