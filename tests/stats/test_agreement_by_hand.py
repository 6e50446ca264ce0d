"""Coefficients of agreement whose tables are small enough for a pencil, and their intervals beside scipy."""

import numpy as np
import pytest
from scipy.stats import bootstrap

from ragrounds.evals.stats import agreement as module
from ragrounds.evals.stats.agreement import (
    cohen_kappa,
    compare_with_human,
    fleiss_kappa,
    kappa_interval,
    krippendorff_alpha,
    majority,
)
from ragrounds.evals.stats.estimates import stratified_mean


def test_the_table_of_cohen_by_hand():
    # Two raters say yes/yes 20 times, yes/no 5, no/yes 10, no/no 15: 35 of 50 agree, 25·30 + 25·20 of 2500 by chance.
    first = ["yes"] * 25 + ["no"] * 25
    second = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    assert cohen_kappa(first, second) == pytest.approx((0.7 - 0.5) / (1 - 0.5))
    assert cohen_kappa(["a", "b"], ["b", "a"]) == -1.0
    assert cohen_kappa(["a", "a"], ["a", "a"]) is None
    assert cohen_kappa(["a"], ["b"]) == 0.0


@pytest.mark.parametrize("call", [cohen_kappa, kappa_interval])
@pytest.mark.parametrize(("first", "second"), [([], []), (["a"], []), ([], ["a"]), (["a"], ["a", "b"])])
def test_raters_of_different_items_are_refused_with_both_numbers(call, first, second):
    with pytest.raises(ValueError, match=f"got {len(first)} and {len(second)}"):
        call(first, second)


def test_a_judge_against_a_person_by_hand():
    judge = ["a", "b", "a", None, "a", None, "c"]
    human = ["a", "a", "b", "a", None, None, "c"]
    made = compare_with_human(judge, human)
    assert (made.n, made.missing) == (4, 3)
    assert made.accuracy.value == 0.5
    assert made.accuracy == stratified_mean([1.0, 0.0, 0.0, 1.0])
    assert (made.kappa_low, made.kappa_high) == (None, None)  # four items are too few
    # By chance: a twice of both sides, b once, c once: (4 + 1 + 1) / 16.
    assert made.kappa == pytest.approx((0.5 - 6 / 16) / (1 - 6 / 16))
    assert made.confusion == {
        "a": {"a": 1, "b": 1, "c": 0},
        "b": {"a": 1, "b": 0, "c": 0},
        "c": {"a": 0, "b": 0, "c": 1},
    }


def test_items_that_come_in_clusters_say_less():
    judge, human, names = ["a", "a", "b", "b"], ["a", "a", "a", "a"], ["x", "x", "y", "y"]
    made = compare_with_human(judge, human, names)
    assert made.accuracy == stratified_mean([1.0, 1.0, 0.0, 0.0], clusters=["x", "x", "y", "y"])
    apart = compare_with_human(judge, human, ["w", "x", "y", "z"])
    assert apart.accuracy == stratified_mean([1.0, 1.0, 0.0, 0.0])
    assert apart.accuracy.high < made.accuracy.high - 0.05
    # A cluster counts for the items that both have labelled: here one each.
    left = compare_with_human(["a", None, "b", None], human, names)
    assert left.accuracy == stratified_mean([1.0, 0.0])


@pytest.mark.parametrize(("items", "apart", "known"), [(40, 10, True), (40, 9, False), (39, 10, False), (60, 0, False)])
def test_kappa_has_an_interval_from_forty_items_of_which_ten_differ(items, apart, known):
    human = ["a", "b"] * (items // 2) + ["a"] * (items % 2)
    judge = ["b" if label == "a" else "a" for label in human[:apart]] + human[apart:]
    made = compare_with_human(judge, human)
    assert (made.kappa_low is not None, made.kappa_high is not None) == (known, known)
    # Two labels of one answer are one.
    twins = compare_with_human([*judge, "a"], [*human, "a"], ["x", *map(str, range(items - 1)), "x"])
    assert (twins.kappa_low is not None) is (known or (items, apart) == (40, 10))


def test_sides_without_a_common_item_are_refused():
    with pytest.raises(ValueError, match="got 1 and 2"):
        compare_with_human(["a"], ["a", "b"])
    with pytest.raises(ValueError, match="got 1 and 1"):
        compare_with_human(["a"], ["a"], ["x", "y"])
    with pytest.raises(ValueError, match=r"^no item has a label of both sides$"):
        compare_with_human(["a", None], [None, "a"])


def test_the_interval_of_kappa_is_scipys_bootstrap():
    random = np.random.default_rng(2)
    first = random.integers(0, 3, 120)
    second = np.where(random.random(120) < 0.7, first, random.integers(0, 3, 120))
    labels = [f"label {number}" for number in range(3)]
    ours = kappa_interval([labels[n] for n in first], [labels[n] for n in second])
    theirs = bootstrap(
        (first, second), lambda one, other: cohen_kappa(one.tolist(), other.tolist()),
        paired=True, vectorized=False, n_resamples=500, method="percentile", rng=random,
    )  # fmt: skip
    assert ours == pytest.approx(tuple(theirs.confidence_interval), abs=0.025)


def test_the_interval_of_kappa_over_two_clusters_by_hand():
    # In x all agree on two labels (kappa 1), in y none does (-1). x twice, both (kappa 0), y twice: 1/4, 1/2, 1/4.
    first, second, names = ["a", "b", "a", "b"], ["a", "b", "b", "a"], ["x", "x", "y", "y"]
    assert kappa_interval(first, second, names) == pytest.approx((-1.0, 1.0))
    assert kappa_interval(first, second, names, level=0.4) == pytest.approx((0.0, 0.0))
    assert kappa_interval(first, second, names, level=0.6) == pytest.approx((-1.0, 1.0))


def test_a_cluster_weighs_by_its_items():
    # x: aa, aa, bb; y: ab. Together 3 of 4 agree, and by chance (3 · 2 + 1 · 2) / 16: kappa 1/2. x twice 1, y twice 0.
    first, second, names = ["a", "a", "b", "a"], ["a", "a", "b", "b"], ["x", "x", "x", "y"]
    assert kappa_interval(first, second, names, level=0.4) == pytest.approx((0.5, 0.5))
    assert kappa_interval(first, second, names) == pytest.approx((0.0, 1.0))
    low, high = kappa_interval(first, second, names, resamples=1)
    assert low == high
    assert low in (0.0, 0.5, 1.0)


def test_an_interval_of_kappa_needs_a_kappa_in_nearly_every_resample():
    # Of n items one alone is labelled otherwise: it is in no resample with a chance of (1 - 1/n) ** n, near 1/e.
    assert kappa_interval(["a"] * 9 + ["b"], ["a"] * 10) is None
    # Three others of sixty: 4.6 % have none; two of sixty: 13 %.
    assert kappa_interval(["a"] * 57 + ["b"] * 3, ["a"] * 57 + ["b"] * 3) == (1.0, 1.0)
    assert kappa_interval(["a"] * 58 + ["b"] * 2, ["a"] * 58 + ["b"] * 2) is None


def test_equal_seeds_give_equal_intervals_of_kappa():
    random = np.random.default_rng(4)
    first, second = random.choice(list("abcd"), 50).tolist(), random.choice(list("abcd"), 50).tolist()
    made = kappa_interval(first, second)
    assert made == kappa_interval(first, second, [f"name {number}" for number in range(50)], seed=0)
    assert made == kappa_interval(first, second, resamples=10_000)
    assert made != kappa_interval(first, second, resamples=200)
    assert made != kappa_interval(first, second, seed=1)
    assert made != kappa_interval(first, second, level=0.9)


def test_what_is_held_at_a_time_changes_nothing(monkeypatch):
    first, second = list("abcabcabba"), list("abcbbcacba")
    whole = kappa_interval(first, second, resamples=100)
    monkeypatch.setattr(module, "_AT_ONCE", 40)
    assert kappa_interval(first, second, resamples=100) == whole
    monkeypatch.setattr(module, "_AT_ONCE", 1)
    assert kappa_interval(first, second, resamples=100) == whole


def test_fleiss_by_hand():
    # Three raters, two items: aab agrees in 1 of 3 pairs, bbb in 3 of 3; a has 2 of 6 labels, b has 4.
    observed, expected = (1 / 3 + 1) / 2, (2 / 6) ** 2 + (4 / 6) ** 2
    assert fleiss_kappa(["aab", "bbb"]) == pytest.approx((observed - expected) / (1 - expected))
    assert fleiss_kappa([["a", None, "b"], ["b", "b", None]]) == pytest.approx((0.5 - 10 / 16) / (6 / 16))
    assert fleiss_kappa(["aa", "aa"]) is None


@pytest.mark.parametrize("ratings", [[], ["a"], ["a", "b"], ["ab", "abc"], [["a", None]]])
def test_fleiss_needs_as_many_labels_for_each(ratings):
    with pytest.raises(
        ValueError, match=r"^Fleiss' kappa needs two or more labels an item, as many for each; see Krip"
    ):
        fleiss_kappa(ratings)


def test_krippendorff_by_hand():
    # Pairs within items: aa, ab, and bb of three: coincidences aa 2, ab 1, ba 1, bb 3; a 3 of 7, b 4 of 7.
    assert krippendorff_alpha(["aa", "ab", "bbb", "a"]) == pytest.approx(1 - 6 * 2 / (2 * 3 * 4))
    # As numbers 1, 2 and 5: of two items, 1 1 and 2 5. Seen: 2 · 9; by chance all pairs of 1, 1, 2, 5 over 3.
    assert krippendorff_alpha([["1", "1"], ["2", "5"]], "interval") == pytest.approx(
        1 - 2 * 9 / (2 * (1 + 16 + 1 + 16 + 9) / 3)
    )
    assert krippendorff_alpha(["aa", "aa"]) is None
    assert krippendorff_alpha([["a", None, "b"], ["a", "b", None]]) == pytest.approx(1 - 4 * 3 / (2 * 2 * 2))


def test_krippendorffs_ordinal_distance_by_hand():
    # Of low, low, mid, high: from low to high lie 2/2 + 1 + 1/2 = 2.5 labels, from low to mid 2/2 + 1/2, mid to high 1.
    found = krippendorff_alpha([["low", "low"], ["high", "mid"]], "ordinal", order=["low", "mid", "high"])
    chance = 2 * (2 * 1.5**2 + 2 * 2.5**2 + 1**2) / 3
    assert found == pytest.approx(1 - 2 * 1**2 / chance)
    # A label that nobody gave lies between others without a width of its own.
    wider = ["low", "x", "mid", "y", "high", "z"]
    assert krippendorff_alpha([["low", "low"], ["high", "mid"]], "ordinal", order=wider) == found


def test_what_krippendorff_cannot_take_is_named():
    with pytest.raises(ValueError, match=r"^Krippendorff's alpha needs an item with two labels or more$"):
        krippendorff_alpha(["a", "b"])
    with pytest.raises(ValueError, match=r"^the label 'c' is not in the order given$"):
        krippendorff_alpha(["ab", "ca"], "ordinal", order="ab")
    with pytest.raises(ValueError, match="could not convert"):
        krippendorff_alpha(["ab"], "interval")


def test_a_majority_is_more_than_half_of_those_who_gave_a_label():
    assert majority(["a", None, None]) == "a"
    assert majority(["a", "b"]) is None
    assert majority(["b", "a", "b", "c"]) is None
    assert majority(["b", "a", "b", "c", "b"]) == "b"
    assert majority([]) is None
