"""Correlations of graded pairs: equal to scipy's, with intervals that know what hangs together."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ragrounds.base.errors import UserError
from ragrounds.extensions.retrieval.similarity import _midranks, _of, correlations, read_pairs, score_similarity

NUMBERS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 3)), min_size=3, max_size=30)


@given(NUMBERS)
def test_a_resample_is_scipys_correlation_of_the_pairs_in_it(rows):
    x, y, often = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    longer = np.repeat(x, often.astype(int)), np.repeat(y, often.astype(int))
    if len(set(longer[0])) < 2 or len(set(longer[1])) < 2:
        return
    assert np.repeat(_midranks(x, often[None])[0], often.astype(int)) == pytest.approx(stats.rankdata(longer[0]))
    assert _of("Pearson", x, y, often[None])[0] == pytest.approx(stats.pearsonr(*longer).statistic, abs=1e-9)
    assert _of("Spearman", x, y, often[None])[0] == pytest.approx(stats.spearmanr(*longer).statistic, abs=1e-9)


def made(n=300, noise=0.8, seed=1):
    random = np.random.default_rng(seed)
    wanted = random.integers(0, 6, n).astype(float)
    return wanted, wanted + random.normal(0, 5 * noise, n), wanted + random.normal(0, noise, n)


@pytest.mark.slow
def test_the_interval_is_scipys_bootstrap():
    wanted, bad, _ = made()
    found, _ = correlations({"m": bad.tolist()}, wanted.tolist(), [str(n) for n in range(300)])
    expected = stats.bootstrap(
        (bad, wanted), lambda one, other: stats.spearmanr(one, other).statistic, paired=True, vectorized=False,
        method="percentile", n_resamples=4000, rng=np.random.default_rng(2),
    ).confidence_interval  # fmt: skip
    assert (found["m"]["Spearman"].low, found["m"]["Spearman"].high) == pytest.approx(
        (expected.low, expected.high), abs=0.02
    )


@pytest.mark.slow
def test_pairs_of_one_sentence_are_drawn_together():
    wanted, bad, _ = made()
    alone, _ = correlations({"m": bad.tolist()}, wanted.tolist(), [str(n) for n in range(300)])
    often, _ = correlations({"m": bad.tolist() * 4}, wanted.tolist() * 4, [str(n) for n in range(300)] * 4)
    for measure in ("Pearson", "Spearman"):
        one, other = alone["m"][measure], often["m"][measure]
        assert other.value == pytest.approx(one.value)
        assert (other.low, other.high) == pytest.approx((one.low, one.high), abs=0.01)


def test_differences_are_paired():
    wanted, bad, good = made()
    names = [str(n) for n in range(300)]
    rows = {"good": good.tolist(), "bad": bad.tolist()}
    _, differences = correlations(rows, wanted.tolist(), names, resamples=2_000)
    assert [one.measure for one in differences] == ["Pearson", "Spearman"]
    assert all(one.low > 0 for one in differences)
    rows = {"a": good.tolist(), "b": (good * 3 + 1).tolist()}
    _, same = correlations(rows, wanted.tolist(), names, resamples=2_000)
    for one in same:
        assert (one.difference, one.low, one.high) == pytest.approx((0, 0, 0), abs=1e-9)


def test_several_models_in_one_table(tmp_path, command):
    path = tmp_path / "pairs.jsonl"
    texts = [("aaa", "aab", 4), ("abc", "bbb", 1), ("abd", "abd", 5), ("cde", "abf", 1), ("fff", "ffe", 4)]
    path.write_text("".join(json.dumps({"sentence1": a, "sentence2": b, "score": s}) + "\n" for a, b, s in texts))
    specs = [f'dense[model="import:letter_embeddings:{name}"]' for name in ("Letters", "Characters")]
    arguments = ("retrieve", "--benchmark", f"sts:{path}", "--retriever", specs[0], "--retriever", specs[1])
    shown = command(*arguments)
    assert shown.returncode == 0, shown.stderr
    assert "paired differences" in shown.stdout
    found = json.loads(command(*arguments, "--json").stdout)
    assert [len(entry["Pearson_interval"]) for entry in found["runs"]] == [2, 2]
    assert [one["measure"] for one in found["comparisons"]] == ["Pearson", "Spearman"]
    twice = command(*arguments[:5], "--retriever", specs[0])
    assert twice.returncode == 2
    assert "given twice" in twice.stderr


def test_what_has_no_spread_has_no_correlation():
    found, differences = correlations({"flat": [1.0] * 5, "m": [1.0, 2, 3, 4, 5]}, [0.0, 0, 1, 1, 1], list("abcde"))
    assert found["flat"] == {}
    assert differences == []
    assert found["m"]["Spearman"].low is None  # one in twelve resamples has a single grade


def test_triples_are_pairs_of_ones_and_noughts(tmp_path):
    path = tmp_path / "triples.jsonl"
    rows = [{"query": "aab", "pos": ["aba"], "neg": ["fff", "bbb"]}, {"query": "ccd", "pos": ["cdc"], "neg": ["aff"]}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [(pair.sentence2, pair.score) for pair in read_pairs(path)] == [
        ("aba", 1.0), ("fff", 0.0), ("bbb", 0.0), ("cdc", 1.0), ("aff", 0.0),
    ]  # fmt: skip
    [entry], _ = score_similarity(path, ['dense[model="import:letter_embeddings:Letters"]'])
    assert entry["Pearson"] > 0.9


def test_a_model_that_sees_no_difference(tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(f'{{"sentence1": "a{n}", "sentence2": "b", "score": {n}}}\n' for n in range(4)))
    with pytest.raises(UserError, match="every pair the same cosine"):
        score_similarity(path, ['dense[model="import:letter_embeddings:Flat"]'])


@pytest.mark.data
def test_the_authors_own_samples(data):
    path = data / "cmedteb_care" / "data" / "stage2" / "stage2-medteb-sts.jsonl"
    pairs = read_pairs(path)
    assert {pair.score for pair in pairs} == {0.0, 1.0}
    [entry], _ = score_similarity(path, ['dense[model="import:letter_embeddings:Characters"]'], resamples=500)
    assert entry["Spearman_interval"] == [None, None]  # 19 pairs are too few
    assert entry["Spearman"] > 0.2
    with pytest.raises(UserError, match="every pair the same cosine"):  # Latin letters say nothing of Chinese
        score_similarity(path, ['dense[model="import:letter_embeddings:Letters"]'])
