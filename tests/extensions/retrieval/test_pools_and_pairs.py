"""Reranking sets and sentence-similarity sets."""

import json

import pytest
from scipy import stats

import ragrounds as rr
from ragrounds.base.errors import UserError
from ragrounds.extensions.retrieval.query_sets import completed, pool_set, rerank_pools
from ragrounds.extensions.retrieval.similarity import read_pairs, score_similarity
from tests.extensions.retrieval.running import run_retrieve


@pytest.fixture
def pools(tmp_path, home):
    rows = [
        {"query": "asthma attack", "positive": ["severe asthma attack"], "negative": ["gout", "asthma in old age"]},
        {"query": "gout", "positive": ["uric acid"], "negative": ["gout", "severe asthma attack"]},
    ]
    path = tmp_path / "pools.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _run(*arguments):
    return json.loads(run_retrieve(*arguments).stdout)


def test_only_a_querys_own_pool_is_ranked(pools):
    (found,) = rr.retrieve(f"rerank:{pools}", "bm25", progress=False).entries
    assert found["per_query"]["MAP@10"]["q1"] == 1.0
    assert found["per_query"]["MAP@10"]["q2"] in (0.5, pytest.approx(1 / 3))  # what is not found stands last
    assert found["queries"] == 2
    both = _run(
        "--benchmark", f"rerank:{pools}", "--retriever", "bm25", "--json",
        "--retriever", 'dense[model="import:letter_embeddings:Letters",store=faiss]',
    )  # fmt: skip
    assert len(both["runs"]) == 2


def test_what_is_not_found_stands_last_and_equal():
    run = completed({"q": [("b", 2.0), ("x", 9.0)]}, {"q": frozenset("abc"), "r": frozenset("d")})
    assert run == {"q": [("b", 2.0), ("a", 1.0), ("c", 1.0)], "r": [("d", -1.0)]}


def test_a_cross_encoder_orders_the_pool(pools, tmp_path):
    asked = pool_set(pools, tmp_path)
    found = rerank_pools("x", lambda query, texts: [float(len(text)) for text in texts], asked)
    texts = [asked.texts[document] for document, _ in found.run["q1"]]
    assert texts == ["severe asthma attack", "asthma in old age", "gout"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [('{"query": "x", "positive": [], "negative": []}', "line 1 .*no positive"), ("{", "line 1"), ("", "is empty")],
)
def test_pools_that_cannot_be_read(line, reason, tmp_path):
    (tmp_path / "p.jsonl").write_text(line)
    with pytest.raises(UserError, match=reason):
        pool_set(tmp_path / "p.jsonl", tmp_path)


def test_a_guard_does_not_go_with_pools(pools):
    with pytest.raises(UserError, match="own documents"):
        _run("--benchmark", f"rerank:{pools}", "--guard-near", "0.5")


@pytest.fixture
def pairs(tmp_path):
    rows = [("aaa", "aab", 4.0), ("aaa", "bbb", 0.5), ("abc", "abc", 5.0), ("cde", "abf", 1.0)]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps({"sentence1": a, "sentence2": b, "score": s}) + "\n" for a, b, s in rows))
    return path


def test_correlation_with_graded_pairs(pairs):
    [entry], _ = score_similarity(pairs, ['dense[model="import:letter_embeddings:Letters"]'])

    def cosine(one, other):
        a, b = ([text.count(letter) + 0.01 for letter in "abcdef"] for text in (one, other))
        dot = sum(x * y for x, y in zip(a, b, strict=True))
        return dot / (sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5

    cosines = [cosine(pair.sentence1, pair.sentence2) for pair in read_pairs(pairs)]
    expected = stats.pearsonr(cosines, [4.0, 0.5, 5.0, 1.0]).statistic
    assert entry["Pearson"] == pytest.approx(expected, abs=1e-5)
    assert entry["pairs"] == 4
    spec = 'dense[model="import:letter_embeddings:Letters"]'
    assert _run("--benchmark", f"sts:{pairs}", "--retriever", spec, "--json")["Spearman"] == entry["Spearman"]


def test_pairs_that_cannot_be_used(pairs, tmp_path):
    with pytest.raises(UserError, match="no vectors"):
        score_similarity(pairs, ["bm25"])
    (tmp_path / "same.jsonl").write_text('{"sentence1": "a", "sentence2": "b", "score": 1}\n' * 5)
    with pytest.raises(UserError, match="no correlation"):
        read_pairs(tmp_path / "same.jsonl")
    (tmp_path / "bad.jsonl").write_text('{"sentence1": "a"}\n')
    with pytest.raises(UserError, match="line 1"):
        read_pairs(tmp_path / "bad.jsonl")
