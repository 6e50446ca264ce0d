"""BM25 against a plain reading of its formula, against bm25s, and however the collection is cut."""

import asyncio
import importlib.util
import json
import math
import shutil
import sys
import threading
from collections import Counter
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ragrounds.base.errors import StopRun, UserError
from ragrounds.base.specs import parse
from ragrounds.tools.index import bm25_builder as builder
from ragrounds.tools.index import bm25_term_counts
from ragrounds.tools.index.analysers import analyser, words
from ragrounds.tools.index.collection_builder import open_collection
from ragrounds.tools.retriever import open_searcher
from ragrounds.tools.retrievers import bm25 as module
from ragrounds.tools.retrievers.bm25 import open_bm25

_ROWS = [
    ("a", "Asthma", "Inhaled corticosteroids control asthma in children."),
    ("b", "", "Statins lower cholesterol and prevent heart attacks."),
    ("c", "Asthma attacks", "Magnesium for severe asthma attacks, asthma in adults."),
    ("d", "", ""),
    ("e", "", "Statins lower cholesterol and prevent heart attacks."),
]


def in_one_byte(length):
    """What Lucene keeps of a length: above 24 the first four bits of what is above."""
    bits = max(length - 24, 0).bit_length()
    return length if bits <= 4 else 24 + ((length - 24) >> (bits - 4) << (bits - 4))


def naive(documents, query, k1, b, query_weighted=False, lucene=False):
    """Scores by the formulas as they stand in the books."""
    counts = [Counter(words(text)) for text in documents]
    lengths = [count.total() for count in counts]
    total = sum(map(bool, lengths)) if lucene else len(lengths)
    mean = sum(lengths) / (total or 1) or 1
    asked = Counter(words(query))
    known = sum(times for term, times in asked.items() if any(count[term] for count in counts))
    if lucene:
        lengths = [in_one_byte(length) for length in lengths]
    scores = []
    for count, length in zip(counts, lengths, strict=True):
        score = 0.0
        for term, times in asked.items():
            df = sum(1 for other in counts if other[term])
            if not df:
                continue
            weight = count[term] / (count[term] + k1 * (1 - b + b * length / mean)) if count[term] else 0.0
            if query_weighted:
                idf = math.log((total + 1) / (df + 0.5))
                score += idf * weight * idf * times / (times + k1 * (1 - b + b * known / mean))
            else:
                score += times * math.log(1 + (total - df + 0.5) / (df + 0.5)) * weight
        scores.append(score)
    return scores


def test_ranks_scores_and_identity(beir, tmp_path):
    searcher = open_searcher("bm25[analyser=lucene-english,k1=0.9,b=0.4]", beir(_ROWS), tmp_path)
    found = searcher.find("asthma attack", 10)
    assert [(p.id, p.rank) for p in found[:1]] == [("c", 1)]
    assert [p.rank for p in found] == [1, 2, 3, 4]
    assert all(one.score >= two.score for one, two in pairwise(found))
    assert {p.retriever for p in found} == {"bm25[analyser=lucene-english,b=0.4,k1=0.9]"}
    assert {p.corpus for p in found} == {searcher.corpus}
    assert searcher.corpus.startswith("tiny@")
    assert found == open_searcher("bm25", beir(_ROWS), tmp_path).find("asthma attack", 10)


async def test_ties_empty_queries_and_large_k(beir, tmp_path):
    searcher = open_searcher("bm25", beir(_ROWS), tmp_path)
    assert [p.id for p in await searcher.search("statins", 1)] == ["b"]
    assert [p.id for p in await searcher.search("statins", 99)] == ["b", "e"]
    for nothing in ("", "   ", "the of and", "zzzz", "?!"):
        assert await searcher.search(nothing, 5) == []
    assert await searcher.search("asthma " * 8000, 5) != []
    with pytest.raises(UserError, match="expected 1 or more"):
        await searcher.search("asthma", 0)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("bm52", "bm25"),
        ("bm25[k=1]", "k1"),
        ("bm25[k1=x]", "k1"),
        ("bm25[b=2]", "b from 0 to 1"),
        ("bm25[analyser=lucene]", "lucene-english"),
        ("bm25[analyzer=plain]", "Did you mean 'analyser'"),
    ],
)
def test_what_cannot_be_meant_is_told(spec, reason, beir, tmp_path):
    with pytest.raises(UserError, match=reason):
        open_searcher(spec, beir(_ROWS), tmp_path)


_words = st.text(alphabet="abcdef", min_size=1, max_size=1)
_texts = st.lists(_words, max_size=12).map(" ".join)


@given(
    documents=st.lists(_texts, min_size=1, max_size=25),
    query=st.lists(_words, min_size=1, max_size=10).map(" ".join),
    k=st.integers(1, 6),
    k1=st.sampled_from([0.0, 0.9, 2.0]),
    b=st.sampled_from([0.0, 0.4, 1.0]),
    query_weighted=st.booleans(),
    lucene=st.booleans(),
    shard=st.integers(1, 26),
)
@pytest.mark.slow
def test_scores_are_the_formulas_and_no_cut_changes_them(
    documents, query, k, k1, b, query_weighted, lucene, shard, tmp_path_factory
):
    home = tmp_path_factory.mktemp("home")
    folder = home / "c"
    folder.mkdir()
    (folder / "corpus.jsonl").write_text(
        "".join(json.dumps({"_id": str(n), "text": text}) + "\n" for n, text in enumerate(documents))
    )
    lengths = "lucene" if lucene else "exact"
    chosen = module.bm25_parameters(
        parse(f"bm25[analyser=plain,k1={k1},b={b},query_weighted={str(query_weighted).lower()},lengths={lengths}]")
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bm25_term_counts, "BATCH", 3)
        collection = open_collection(f"beir:{folder}", home)
        searcher = open_bm25(collection, chosen, shard=shard)
        cut = searcher.ranked(query, k)
        compiled = cut
        if importlib.util.find_spec("numba"):
            searcher._compiled = True
            compiled = searcher.ranked(query, k)
        shutil.rmtree(next(collection.folder.glob("bm25-*")))
        whole = open_bm25(collection, chosen).ranked(query, len(documents))
        by_id = open_bm25(collection, replace(chosen, ties="id", zeros=True)).ranked(query, k)
    expected = naive(documents, query, k1, b, query_weighted, lucene)
    assert len(by_id) == min(k, len(documents))
    best = sorted(expected, reverse=True)
    for rank, (at, _) in enumerate(by_id):
        assert expected[at] == pytest.approx(best[rank], rel=1e-5)
    for (one, _), (other, _) in pairwise(by_id):
        assert expected[one] > expected[other] * (1 + 1e-12) or str(one) < str(other)
    assert cut == whole[:k]  # to the last bit
    assert compiled == cut
    assert len(whole) == sum(score > 0 for score in expected)
    for position, score in whole:
        assert score == pytest.approx(expected[position], rel=1e-5)


def test_lengths_in_one_byte():
    """Lucene's own table: exact to 40, then steps of 2, 4, 8 …"""
    lengths = np.array([0, 1, 39, 40, 41, 42, 55, 56, 57, 59, 60, 1000, 2_000_000], dtype=np.float64)
    assert builder.one_byte(lengths).tolist() == [0, 1, 39, 40, 40, 42, 54, 56, 56, 56, 60, 984, 1966104]
    many = np.arange(200_000, dtype=np.float64)
    assert builder.one_byte(many).tolist() == [in_one_byte(length) for length in range(200_000)]


def test_switches_stand_in_the_spec_only_where_they_are_set(beir, tmp_path):
    assert open_searcher("bm25[lengths=exact,ties=corpus,zeros=false]", beir(_ROWS), tmp_path).spec == (
        "bm25[analyser=lucene-english,b=0.4,k1=0.9]"
    )
    published = open_searcher("bm25[ties=id,lengths=lucene]", beir(_ROWS), tmp_path)
    assert published.spec == "bm25[analyser=lucene-english,b=0.4,k1=0.9,lengths=lucene,ties=id]"
    assert [p.id for p in published.find("statins", 1)] == ["b"]
    assert published.find("nothing known", 3) == []
    filled = open_searcher("bm25[zeros=true]", beir(_ROWS), tmp_path).find("statins", 4)
    assert [(p.id, p.score > 0) for p in filled] == [("b", True), ("e", True), ("a", False), ("c", False)]


def test_an_interrupted_index_goes_on(beir, tmp_path, monkeypatch):
    collection = open_collection(beir([(f"d{n}", "", f"w{n % 7} w{n % 3} common") for n in range(50)]), tmp_path)
    chosen = module.bm25_parameters(parse("bm25[analyser=plain]"))
    monkeypatch.setattr(bm25_term_counts, "BATCH", 5)

    class Killed(BaseException):
        pass

    def kill(count):
        if count >= 35:
            raise Killed

    with pytest.raises(Killed):
        open_bm25(collection, chosen, shard=10, progress=kill)
    told = []
    resumed = open_bm25(collection, chosen, shard=10, progress=told.append)
    assert told[0] == 35
    other = open_collection(beir([(f"d{n}", "", f"w{n % 7} w{n % 3} common") for n in range(50)]), tmp_path / "other")
    assert resumed.ranked("w1 w2 common", 50) == open_bm25(other, chosen).ranked("w1 w2 common", 50)


def test_a_foreign_index_is_refused(beir, tmp_path):
    collection = open_collection(beir(_ROWS), tmp_path)
    open_bm25(collection, module.Bm25Parameters())
    path = next(collection.folder.glob("bm25-*")) / "engine.json"
    path.write_text(path.read_text().replace(collection.manifest.version, "0" * 12))
    with pytest.raises(UserError, match="does not fit"):
        open_bm25(collection, module.Bm25Parameters())


@pytest.mark.data
def test_bm25s_gives_the_same_scores(data, tmp_path):
    bm25s = pytest.importorskip("bm25s")
    searcher = open_searcher("bm25", f"beir:{data}/beir/medline_med1033", tmp_path)
    analyse = analyser("lucene-english")
    rows = list(open_collection(f"beir:{data}/beir/medline_med1033", tmp_path).store.iterate())
    peer = bm25s.BM25(method="lucene", k1=0.9, b=0.4)
    peer.index([analyse(f"{row[2]}\n{row[3]}") for row in rows], show_progress=False)
    for query in ("the crystalline lens in vertebrates, including humans", "fatty acids fatty acids placenta"):
        scores = peer.get_scores(analyse(query))
        ours = dict(searcher.ranked(query, len(rows)))
        np.testing.assert_allclose([ours.get(n, 0.0) for n in range(len(rows))], scores, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.data
def test_scifact_agrees_with_anserini(data, tmp_path):
    """Anserini's flat index: nDCG@10 0.6789, R@100 0.9253, R@1000 0.9767."""
    import ir_measures
    from ir_measures import R, nDCG

    qrels = list(ir_measures.read_trec_qrels(_as_trec(data / "beir/scifact/qrels/test.tsv")))
    wanted = {qrel.query_id for qrel in qrels}
    searcher = open_searcher("bm25[analyser=lucene-english,k1=0.9,b=0.4]", f"beir:{data}/beir/scifact", tmp_path)
    store = open_collection(f"beir:{data}/beir/scifact", tmp_path).store
    run = {}
    for line in (data / "beir/scifact/queries.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row["_id"] in wanted:
            run[row["_id"]] = {store.raw(at)[0]: score for at, score in searcher.ranked(row["text"], 1000)}
    measured = ir_measures.calc_aggregate([nDCG @ 10, R @ 100, R @ 1000], qrels, run)
    assert measured[nDCG @ 10] == pytest.approx(0.6789, abs=0.002)
    assert measured[R @ 100] == pytest.approx(0.9253, abs=0.005)
    assert measured[R @ 1000] == pytest.approx(0.9767, abs=0.005)


def _as_trec(path):
    rows = [line.split("\t") for line in path.read_text().splitlines()[1:]]
    return "".join(f"{query} 0 {document} {grade}\n" for query, document, grade in rows)


def test_several_processes_count_what_one_does(beir, tmp_path, monkeypatch):
    rows = [(f"d{n}", "", f"w{n % 7} Wörter {n % 3} common's") for n in range(60)]
    one = open_bm25(open_collection(beir(rows), tmp_path), module.Bm25Parameters())
    monkeypatch.setattr(bm25_term_counts, "PARALLEL", 10)
    monkeypatch.setattr(builder, "processors", lambda: 2)
    told = []
    several = open_bm25(
        open_collection(beir(rows), tmp_path / "other"), module.Bm25Parameters(), shard=40, progress=told.append
    )
    assert told[-1] == 60
    assert told == sorted(told)
    for query in ("w1 wörter", "2 common"):
        assert several.ranked(query, 60) == one.ranked(query, 60)
    assert [path.name for path in several._folder.glob("run-*")] == []


def test_a_process_that_cannot_count_is_told(beir, tmp_path, monkeypatch):
    monkeypatch.setattr(bm25_term_counts, "PARALLEL", 2)
    monkeypatch.setattr(builder, "processors", lambda: 2)
    monkeypatch.setattr(bm25_term_counts.sys, "executable", "/bin/false")
    collection = open_collection(beir(_ROWS), tmp_path)
    with pytest.raises(StopRun, match="counting in another process failed"):
        open_bm25(collection, module.Bm25Parameters())
    monkeypatch.undo()
    assert open_bm25(collection, module.Bm25Parameters()).ranked("statins", 1)


@pytest.mark.parametrize("there", [pytest.param(True, marks=pytest.mark.slow), False])
def test_it_is_compiled_once_that_pays_or_it_is_said_what_is_missing(tmp_path, monkeypatch, caplog, there):
    if there:
        pytest.importorskip("numba", reason="needs numba: install ragrounds[fast]")
    else:
        monkeypatch.setitem(sys.modules, "ragrounds.tools.index.postings_numba", None)
    monkeypatch.setattr(module, "_WORTH", 12)
    (tmp_path / "corpus.jsonl").write_text(
        "".join(json.dumps({"_id": one, "text": text}) + "\n" for one, _, text in _ROWS)
    )
    searcher = open_bm25(open_collection(f"beir:{tmp_path}", tmp_path), module.Bm25Parameters())
    found = [searcher.ranked("asthma attacks", 3) for _ in range(4)]
    _join_compiler()
    found.append(searcher.ranked("asthma attacks", 3))
    assert found[0]
    assert found == [found[0]] * 5
    assert searcher._compiled is there
    assert ("without numba" in caplog.text) is not there


def test_searches_go_on_while_the_search_is_compiled(tmp_path, monkeypatch, caplog):
    """The compiler runs as long as it wants: the event loop's thread searches meanwhile, and the user reads why it is
    slow."""
    may_end = threading.Event()
    compiled = SimpleNamespace(search=SimpleNamespace(stats=SimpleNamespace(cache_path=str(tmp_path / "empty"))))
    monkeypatch.setitem(sys.modules, "ragrounds.tools.index.postings_numba", compiled)
    monkeypatch.setattr(module, "_WORTH", 0)
    (tmp_path / "corpus.jsonl").write_text(
        "".join(json.dumps({"_id": id, "text": text}) + "\n" for id, _, text in _ROWS)
    )
    searcher = open_bm25(open_collection(f"beir:{tmp_path}", tmp_path), module.Bm25Parameters())
    best = searcher._postings.best
    monkeypatch.setattr(searcher._postings, "compiled", lambda terms, k: (may_end.wait(), best(terms, k))[1])
    assert [asyncio.run(searcher.search("asthma attacks", 2))[0].id for _ in range(3)] == ["c"] * 3
    assert not searcher._compiled
    may_end.set()
    _join_compiler()
    assert searcher._compiled
    assert [hit.id for hit in searcher.find("asthma attacks", 2)] == ["c", "a"]
    assert caplog.text.count("being compiled") == 1


def _join_compiler():
    for thread in threading.enumerate():
        if thread.name == "bm25-compiler":
            thread.join()
