"""BM25 over ten million passages: what building takes, queries a second by k, equality with adding everything.

    python -m perf.retrieval_ten_million DATA HOME titles 10000000 [CHECKED [ASKED]]

Needs numba. Run it from the repository, once for each shape and size (``perf/retrieval_corpora.py``). The passages are
made first, which is not measured. Times are the processor's, the counting processes included, and the wall's; memory is
the peak of the greatest process and the sum of the peaks of those that work side by side at most. CHECKED questions
(500) are answered by numpy too, which adds all their postings: rankings and scores are compared to the last bit.
ASKED (250) of each length are timed.
"""

import resource
import sys
import time
from pathlib import Path

import numpy as np

from perf.retrieval_corpora import made_collection, questions
from ragrounds.tools.retrievers.bm25 import Bm25Parameters, Bm25Searcher, open_bm25


def spent() -> tuple[float, float]:
    """Processor seconds of this process and of those it has started and that have ended."""
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime, others.ru_utime + others.ru_stime


def peaks() -> tuple[float, float]:
    """GiB at most: this process, and the greatest that it has started."""
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_maxrss / 2**20, others.ru_maxrss / 2**20


def say(text: str) -> None:
    """Write a line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(data: Path, home: Path, shape: str, count: int, checked: int, questions_asked: int) -> None:
    """Print what the module says, line by line."""
    collection = made_collection(data, home, shape, count)
    before, began = spent(), time.perf_counter()
    searcher = open_bm25(collection, Bm25Parameters())
    wall = time.perf_counter() - began
    own, others = (after - earlier for after, earlier in zip(spent(), before, strict=True))
    largest = peaks()
    say(f"{shape} {count:,}: text {collection.manifest.size / 1e6:,.0f} MB, {searcher._statistics.terms:,} terms")
    say(
        f"  built or opened in {wall:,.1f} s; processor: counting {others:,.0f} s, merging {own:,.1f} s; "
        f"peak: {largest[0]:.2f} GiB, and {largest[1]:.2f} for each counting process"
    )
    say(f"  index {searcher.size / 1e6:,.0f} MB, {searcher._postings.holders.sum():,} postings")
    began = time.perf_counter()
    searcher = open_bm25(collection, Bm25Parameters())
    say(f"  opened again in {time.perf_counter() - began:.3f} s")
    for long in (False, True):
        asked = questions(data, questions_asked, long=long)
        for question in asked:  # what the questions need is read from the disk
            searcher.ranked(question, 10)
        terms = np.mean([len(searcher._weighted(question)) for question in asked])
        length = "long" if long else "short"
        words = f"  {length} questions ({len(asked)}, {terms:.1f} terms), queries a processor second:"
        for k in (10, 32, 100):
            began = time.process_time()
            for question in asked:
                searcher.ranked(question, k)
            words += f"  k = {k}: {len(asked) / (time.process_time() - began):,.1f}"
        say(words)
    check(searcher, [*questions(data, checked // 2, long=False), *questions(data, checked - checked // 2, long=True)])


def check(searcher: Bm25Searcher, asked: list[str]) -> None:
    """Compare with adding all postings."""
    same = 0
    for question in asked:
        terms = searcher._weighted(question)
        if not terms:  # the corpus knows none of its words
            same += searcher.ranked(question, 100) == []
            continue
        fast, plain = searcher._postings.compiled(terms, 100), searcher._postings.best(terms, 100)
        same += all(np.array_equal(one, other) for one, other in zip(fast, plain, strict=True))
    say(f"  rankings and scores to the last bit, k = 100: {same} of {len(asked)}")


if __name__ == "__main__":
    size, checked, asked = [*map(int, sys.argv[4:]), *(10_000_000, 500, 250)[len(sys.argv) - 4 :]]
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], size, checked, asked)
