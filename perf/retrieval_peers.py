"""BM25 beside bm25s (numba), tantivy and PISA: queries a second, one thread, the same terms, one run.

    python -m perf.retrieval_peers DATA HOME abstracts 1000000 [QUESTIONS [K,K… [ENGINE]]]

Each number of results K has rows of its own. With ``bm25s`` as ENGINE there is that peer alone, and the others' indexes
are not built. There are three rounds; the median of each engine's rates is printed, and that of the rounds' ratios.
Needs numba, bm25s, tantivy, pyterrier_pisa and scipy beside the package (an environment of its own: PISA's binding
brings PyTerrier). Run it from the repository. The shapes are those of ``perf/retrieval_corpora.py``.

The peers are given our analyser's terms, so that all search for the same. They take turns, a few questions each, so
that whatever else the machine does falls on all of them alike; the time is the processor's. PISA is given its questions
in batches, which is its fastest form; ours and tantivy one by one; bm25s both ways. PISA gets repeated terms of a
question as one weighted term, which is its faster form. tantivy's k1 and b are fixed (1.2 and 0.75) and its lengths are
rounded, so that its results are not compared; it does not count all hits, which would keep it from leaving passages
out. bm25s gets its matrix from our postings, which is what its own builder makes of them; the scores are compared.
"""

import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median

os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import bm25s
import numpy as np
import pandas
import pyterrier_pisa
import tantivy
from scipy import sparse

from perf.retrieval_corpora import made_collection, questions
from ragrounds.tools.retrievers.bm25 import Bm25Parameters, Bm25Searcher, open_bm25

ROUNDS = 3
TURN = 20
"""Questions that an engine answers before the next one's turn."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def word(number: int) -> str:
    """A term's number as letters: every engine's tokeniser leaves it whole."""
    text = ""
    while number:
        number, digit = divmod(number, 26)
        text = _LETTERS[digit] + text
    return f"t{text}"


def bm25s_of(searcher: Bm25Searcher) -> bm25s.BM25:
    """bm25s over our postings: its weights hold the inverse document frequency."""
    postings = searcher._postings
    held = postings.holders.astype(np.int64)
    indptr = np.concatenate([[0], np.cumsum(held)])
    data = np.empty(int(indptr[-1]), dtype=np.float32)
    indices = np.empty(int(indptr[-1]), dtype=np.int32)
    for term in range(len(held)):
        span = slice(int(indptr[term]), int(indptr[term + 1]))
        indices[span], weights = postings.column(term)
        data[span] = weights * np.float32(searcher._weight(int(held[term]), 1, 1))
    peer = bm25s.BM25(method="lucene", k1=0.9, b=0.4, backend="numba")
    peer.scores = {"data": data, "indices": indices, "indptr": indptr, "num_docs": postings.passages}
    peer.vocab_dict = {str(term): term for term in range(len(held))}
    peer.unique_token_ids_set = set(range(len(held)))
    peer.nonoccurrence_array = None
    peer.activate_numba_scorer()
    return peer


def texts_of(searcher: Bm25Searcher):
    """Every passage as its terms' words, each as often as it stands there."""
    postings = searcher._postings
    held = postings.holders.astype(np.int64)
    indptr = np.concatenate([[0], np.cumsum(held)])
    counts = np.empty(int(indptr[-1]), dtype=np.int32)
    indices = np.empty(int(indptr[-1]), dtype=np.int32)
    lists, common = postings.lists, len(postings.lists.common_starts) - 1
    for term in range(len(held)):
        span = slice(int(indptr[term]), int(indptr[term + 1]))
        indices[span] = postings.column(term)[0]
        starts, all_counts, at = (
            (lists.common_starts, lists.common_counts, term)
            if term < common
            else (lists.rare_starts, lists.rare_counts, term - common)
        )
        counts[span] = all_counts[int(starts[at]) : int(starts[at + 1])]
    table = sparse.csc_matrix((counts, indices, indptr), shape=(postings.passages, len(held))).tocsr()
    words = np.array([word(term) for term in range(len(held))], dtype=object)
    for passage in range(postings.passages):
        span = slice(table.indptr[passage], table.indptr[passage + 1])
        yield " ".join(np.repeat(words[table.indices[span]], table.data[span]))


def build_others(searcher: Bm25Searcher, folder: Path, schema: tantivy.Schema) -> None:
    """tantivy's and PISA's index of the same terms."""
    (folder / "tantivy").mkdir(parents=True, exist_ok=True)
    writer = tantivy.Index(schema, str(folder / "tantivy")).writer(heap_size=500_000_000, num_threads=1)
    pisa = pyterrier_pisa.PisaIndex(str(folder / "pisa"), text_field="text", stemmer="none", stops="none")

    def documents():
        for number, text in enumerate(texts_of(searcher)):
            writer.add_document(tantivy.Document(body=text))
            yield {"docno": str(number), "text": text}

    pisa.index(documents())
    writer.commit()
    writer.wait_merging_threads()
    (folder / "done").touch()


Terms = Callable[[str], Counter[int]]
Engine = Callable[[list[str]], object]


def others(searcher: Bm25Searcher, folder: Path, numbers: Terms, k: int) -> dict[str, Engine]:
    """tantivy and PISA; their indexes are built where they are not there."""
    schema = tantivy.SchemaBuilder().add_text_field("body", stored=False, tokenizer_name="whitespace").build()
    if not (folder / "done").exists():
        build_others(searcher, folder, schema)
    reader = tantivy.Index(schema, str(folder / "tantivy")).searcher()
    pisa = pyterrier_pisa.PisaIndex(str(folder / "pisa"), stemmer="none", stops="none")

    def by_tantivy(queries: list[str]) -> object:
        for query in queries:
            terms = [
                tantivy.Query.boost_query(tantivy.Query.term_query(schema, "body", word(term)), times)
                for term, times in numbers(query).items()
            ]
            query_of_terms = tantivy.Query.boolean_query([(tantivy.Occur.Should, term) for term in terms])
            reader.search(query_of_terms, limit=k, count=False)
        return None

    def by_pisa(name: str) -> Engine:
        retrieve = pisa.bm25(k1=0.9, b=0.4, num_results=k, query_algorithm=name, query_weighted=True, toks_scale=1.0)

        def search(queries: list[str]) -> object:
            rows = [
                {"qid": str(at), "query_toks": {word(term): times for term, times in numbers(query).items()}}
                for at, query in enumerate(queries)
            ]
            return retrieve.transform(pandas.DataFrame(rows))

        return search

    return {
        "tantivy": by_tantivy,
        **{f"PISA {name}": by_pisa(name) for name in ("maxscore", "block_max_maxscore")},
    }


def main(data: Path, home: Path, shape: str, count: int, asked: int, depths: list[int], only: str) -> None:
    """Print one line for each number of results, length of question and engine."""
    searcher = open_bm25(made_collection(data, home, shape, count), Bm25Parameters())
    searcher._compiled = True  # otherwise the first searches would compile it in a thread
    peer = bm25s_of(searcher)

    known: dict[str, int | None] = {}  # terms that the questions have: as fast as the peers' own vocabularies

    def numbers(query: str) -> Counter[int]:
        counts = Counter(searcher._analyse(query))
        new = [text for text in counts if text not in known]
        known.update(zip(new, searcher._vocabulary.find(new), strict=True))
        return Counter({term: times for text, times in counts.items() if (term := known[text]) is not None})

    for k in depths:

        def by_bm25s(queries: list[str], k: int = k) -> list[list[tuple[int, float]]]:
            terms = [sorted(numbers(query).elements()) for query in queries]
            hits = peer.retrieve(terms, k=k, show_progress=False)
            rows = zip(hits.documents.tolist(), hits.scores.tolist(), strict=True)
            return [list(zip(*row, strict=True)) for row in rows]

        engines: dict[str, Engine] = {
            "ours": lambda queries, k=k: [searcher.ranked(query, k) for query in queries],
            "bm25s numba": lambda queries, search=by_bm25s: [search([query])[0] for query in queries],
            "bm25s numba, batch": by_bm25s,
        }
        if only != "bm25s":
            engines |= others(searcher, home / "peers" / f"{shape}-{count}", numbers, k)
        for long in (False, True):
            chosen = [question for question in questions(data, asked, long=long) if numbers(question)]
            terms = np.mean([len(numbers(query)) for query in chosen])
            kind = "long" if long else "short"
            title = f"{shape} {count:,}, {kind} questions ({len(chosen)}, {terms:.1f} terms), k = {k}"
            compare(title, engines, chosen)


def compare(title: str, engines: dict[str, Engine], chosen: list[str]) -> None:
    """Print one line for each engine, after three rounds in which the engines take turns."""
    for search in engines.values():
        search(chosen)
    rounds, same = [], 0
    for _ in range(ROUNDS):
        taken, same = dict.fromkeys(engines, 0.0), 0
        for start in range(0, len(chosen), TURN):
            turn = chosen[start : start + TURN]
            results = {}
            for name, search in engines.items():
                began = time.process_time()
                results[name] = search(turn)
                taken[name] += time.process_time() - began
            same += sum(map(agree, results["ours"], results["bm25s numba"]))
        rounds.append(taken)
    sys.stdout.write(f"{title}; as bm25s: {same} of {len(chosen)}\n")
    for name in engines:
        rate = median(len(chosen) / taken[name] for taken in rounds)
        ratio = median(taken[name] / taken["ours"] for taken in rounds)
        sys.stdout.write(f"  {name:24} {rate:9.1f} queries a processor second; ours is {ratio:.2f} x\n")
    sys.stdout.flush()


def agree(ours: list[tuple[int, float]], theirs: list[tuple[int, float]]) -> bool:
    """The same scores to float32's sixth digit, and the same passages but where scores are equal to it."""
    theirs = [hit for hit in theirs if hit[1] > 0]
    if len(ours) != len(theirs) or not np.allclose([hit[1] for hit in ours], [hit[1] for hit in theirs], rtol=2e-5):
        return False
    last = ours[-1][1] * (1 + 2e-5) if ours else 0.0
    return {hit[0] for hit in ours if hit[1] > last} == {hit[0] for hit in theirs if hit[1] > last} or not ours


if __name__ == "__main__":
    given = sys.argv[4:8]
    count, asked, depths, only = [*given, *("1000000", "400", "10,32,100,1000", "")[len(given) :]]
    main(
        Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(count), int(asked), [*map(int, depths.split(","))], only
    )
