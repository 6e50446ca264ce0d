"""Indexes over stored vectors: forms, exactness of what is exhaustive, recall of what is not, and what is kept."""

import json

import numpy as np
import pytest

pytest.importorskip("faiss")

from ragrounds.base.errors import UserError
from ragrounds.base.specs import parse
from ragrounds.tools.index.vector_events import BUILT
from ragrounds.tools.index.vector_index import (
    FaissForm,
    FlatStore,
    build_index,
    faiss_form,
    form_text,
    measured_recall,
    read_index,
)
from ragrounds.tools.retriever import open_searcher

_HASHING = 'model="import:embedding_doubles:Hashing"'


@pytest.fixture(autouse=True)
def one_thread():
    """Let FAISS use one thread: its threads, which wait for each other in a loop, take ten times the processor time."""
    import faiss

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    yield
    faiss.omp_set_num_threads(before)


def clustered(count=3_000, dimensions=32, seed=0):
    """Vectors around 30 centres, of length 1."""
    random = np.random.default_rng(seed)
    centres = random.standard_normal((30, dimensions))
    made = centres[random.integers(30, size=count)] + 0.4 * random.standard_normal((count, dimensions))
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


def brute(vectors, query, k, metric):
    """The `k` best by plain numpy, ties to the earlier position."""
    wide = vectors.astype(np.float64)
    scores = -((wide - query) ** 2).sum(axis=1) if metric == "l2" else wide @ query.astype(np.float64)
    return sorted(range(len(vectors)), key=lambda place: (-scores[place], place))[:k], scores


@pytest.mark.parametrize("metric", ["cosine", "l2"])
@pytest.mark.parametrize("kept", [np.float32, np.float16])
def test_flat_search_is_exact_over_what_is_stored(metric, kept, monkeypatch):
    monkeypatch.setattr("ragrounds.tools.index.vector_index._BLOCK", 700)  # several blocks
    vectors = clustered().astype(kept)
    store = FlatStore(vectors, metric)
    queries = clustered(5, seed=1)
    for query, found in zip(queries, store.nearest_many(queries, 20), strict=True):
        right, scores = brute(vectors, query, 20, metric)
        assert [place for place, _ in found] == right
        assert [score for _, score in found] == pytest.approx([scores[place] for place in right], abs=2e-3)
        alone = store.nearest(query, 20)
        assert [place for place, _ in alone] == right
        assert [score for _, score in alone] == pytest.approx([score for _, score in found], abs=1e-5)
    assert len(store.nearest(queries[0], 9_999)) == len(vectors)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "index=sq8",
        "index=hnsw",
        'index="IVF32,PQ16x4",search="nprobe=12"',  # 8 bits differ in FAISS alone, which trains them ten times as long
        'index="IVF32,PQ16x4fs",search="nprobe=12",rerank=16',
    ],
)
@pytest.mark.parametrize("metric", ["ip", pytest.param("l2", marks=pytest.mark.weekly)])
def test_what_is_found_has_the_scores_of_the_stored_vectors(text, metric, tmp_path):
    vectors = clustered().astype(np.float16)
    form = faiss_form(parse(f"faiss[{text}]")).fitted(*vectors.shape)
    build_index(tmp_path / "index.faiss", vectors, metric, form, None)
    store = read_index(tmp_path / "index.faiss", vectors, metric, form)
    query = clustered(1, seed=2)[0]
    found = store.nearest(query, 10)
    right, scores = brute(vectors, query, 10, metric)
    assert len({place for place, _ in found} & set(right)) >= 9
    assert [score for _, score in found] == pytest.approx([scores[place] for place, _ in found], abs=1e-4)
    assert found == sorted(found, key=lambda hit: (-hit[1], hit[0]))
    measured = measured_recall(store, vectors, metric, form, 50)
    assert (measured.questions, measured.k) == (50, 32)
    assert measured.without_rerank <= measured.recall + 0.01
    assert measured.recall > 0.9


def test_a_poor_index_is_measured_as_one(tmp_path):
    """The measurement can fail: one list of many, and no re-ranking."""
    vectors = clustered(2_000)
    form = FaissForm(index="IVF40,PQ2x4", search="nprobe=1", rerank=0).fitted(*vectors.shape)
    build_index(tmp_path / "index.faiss", vectors, "ip", form, None)
    measured = measured_recall(read_index(tmp_path / "index.faiss", vectors, "ip", form), vectors, "ip", form)
    assert measured.recall < 0.7
    assert measured.recall == measured.without_rerank


def test_forms_are_fitted_to_the_vectors():
    for form, count, dimensions, made in (
        ("auto", 1_000, 384, "flat"),
        ("auto", 500_000, 384, "SQ8"),
        ("auto", 54_000_000, 768, "IVF32768_HNSW32,PQ96"),
        ("ivfpq", 100_000, 384, "IVF1024,PQ48"),
        ("ivfpq", 10, 7, "IVF1,PQ1"),
        ("OPQ16,IVF64,PQ16", 10, 7, "OPQ16,IVF64,PQ16"),
    ):
        assert FaissForm(index=form).fitted(count, dimensions).index == made
    assert form_text(faiss_form(parse("faiss[index=flat]"))) == "faiss"
    assert str(form_text(faiss_form(parse("faiss[index=hnsw,rerank=12]")))) == "faiss[index=hnsw]"


@pytest.mark.parametrize(
    ("store", "reason"),
    [
        ("faiss[index=hsnw]", "hsnw"),
        ("faiss[reran=3]", r"'reran'.*'rerank'"),
        ("faiss[index=IVFF6]", "FAISS makes no index='IVFF6'"),
        ('faiss[index=SQ8,search="nprobs=3"]', "FAISS takes no search='nprobs=3'"),
        ("faiss[rerank=-1]", "rerank"),
        ("chromadb[index=flat]", "faiss"),
    ],
)
def test_a_form_that_cannot_be_meant_is_told(store, reason, beir, tmp_path):
    with pytest.raises(UserError, match=reason):
        open_searcher(f"dense[{_HASHING},store={store}]", beir([("a", "", "gout")]), tmp_path)


def test_an_index_is_built_once_measured_and_told(beir, tmp_path):
    words = "gout statin asthma renal lupus sepsis croup angina".split()
    corpus = beir([(f"d{n}", "", f"{words[n % 8]} {words[n // 8 % 8]} case {n}") for n in range(300)])
    spec = f'dense[{_HASHING},kept=float16,store=faiss[index="IVF4,PQ4x4",search="nprobe=4"]]'
    with BUILT.collecting() as told:
        first = open_searcher(spec, corpus, tmp_path)
    with BUILT.collecting() as again:
        second = open_searcher(spec.replace("nprobe=4", "nprobe=3"), corpus, tmp_path)
    assert (len(told), again) == (1, [])
    assert "recall@32" in told[0]
    (written,) = tmp_path.rglob("faiss-*/engine.json")
    kept = json.loads(written.read_text())
    assert kept["recall"]["questions"] == 200
    assert f"{kept['recall']['recall']:.3f}" in told[0]
    (stored,) = tmp_path.rglob("vectors.f16")
    assert stored.stat().st_size == 300 * 16 * 2
    exact = open_searcher(f"dense[{_HASHING},kept=float16,store=faiss]", corpus, tmp_path)
    for query in ("gout renal case", "sepsis croup"):
        same = [[p.score for p in one.find(query, 5)] for one in (first, exact)]  # many passages are equally near
        assert same[0] == pytest.approx(same[1], abs=1e-4)
    assert second.spec.endswith('store=faiss[index="IVF4,PQ4x4",search="nprobe=3"]]')
    assert "batch" not in open_searcher(spec.replace("kept", "batch=7,kept"), corpus, tmp_path).spec


async def test_many_queries_are_those_of_one_after_another(beir, tmp_path):
    corpus = beir([(f"d{n}", "", f"word{n} gout") for n in range(40)])
    for store in ("faiss", "faiss[index=sq8]"):
        searcher = open_searcher(f"dense[{_HASHING},store={store}]", corpus, tmp_path)
        queries = ["word3 gout", " ", "word7"]
        together = await searcher.search_many(queries, 4)
        assert [len(row) for row in together] == [4, 0, 4]
        for query, row in zip(queries, together, strict=True):
            alone = await searcher.search(query, 4)
            assert [p.id for p in row] == [p.id for p in alone]
            assert [p.score for p in row] == pytest.approx([p.score for p in alone], abs=1e-5)
