"""Adjusted intervals beside statsmodels and from a pencil: one dataset, several, pairs, clusters, the edges."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import t as student
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from ragrounds.evals.stats import (
    binomial_error,
    combined_mean,
    group_difference,
    macro_error,
    paired_difference,
    stratified_mean,
)
from ragrounds.evals.stats.intervals import Tallies, adjusted_interval

TWO = 2 * NormalDist().cdf(2) - 1
"""The level at which z is 2, so that z² / 2 pseudo-observations are the 2 of Agresti and Caffo, Bonett and Price."""


def answers(right, n):
    return [1.0] * right + [0.0] * (n - right)


def ends(made):
    return made.low, made.high


def clipped(centre, half, least, most):
    return max(least, centre - half), min(most, centre + half)


@given(st.integers(1, 3_000), st.floats(0, 1), st.sampled_from([0.8, 0.9, 0.95, 0.99]))
def test_one_dataset_has_agresti_and_coulls_interval(n, share, level):
    right = round(n * share)
    made = stratified_mean(answers(right, n), level=level)
    expected = proportion_confint(right, n, alpha=1 - level, method="agresti_coull")
    assert ends(made) == pytest.approx(expected, abs=1e-9)
    assert (made.value, made.n, made.level, made.method) == (right / n, n, level, "adjusted Wald")


@given(st.integers(1, 60), st.integers(1, 60), st.data())
def test_two_groups_have_agresti_and_caffos_interval(n, other_n, data):
    right, other = data.draw(st.integers(0, n)), data.draw(st.integers(0, other_n))
    made = group_difference(answers(other, other_n), answers(right, n), level=TWO)
    expected = confint_proportions_2indep(
        right, n, other, other_n, alpha=1 - TWO, method="agresti-caffo", compare="diff"
    )
    low, high = clipped(sum(expected) / 2, (expected[1] - expected[0]) / 2, -1, 1)
    value = right / n - other / other_n
    assert made.value == pytest.approx(value)
    assert ends(made) == pytest.approx((min(low, value), max(high, value)), abs=1e-9)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 100))
def test_pairs_have_bonett_and_prices_interval(gained, lost, same):
    n = gained + lost + same
    if not n:
        return
    first = [0.0] * gained + [1.0] * lost + [1.0] * same
    second = [1.0] * gained + [0.0] * lost + [1.0] * same
    made = paired_difference(first, second, level=TWO)
    up, down = (gained + 1) / (n + 2), (lost + 1) / (n + 2)
    half = 2 * math.sqrt((up + down - (up - down) ** 2) / (n + 2))
    assert made.value == pytest.approx((gained - lost) / n)
    assert ends(made) == pytest.approx(clipped(up - down, half, -1, 1))
    other = paired_difference(second, first, level=TWO)
    assert (other.low, other.high) == pytest.approx((-made.high, -made.low))


def test_strata_share_the_pseudo_observations():
    # 2 of 3, 0 of 1, 5 of 5; each gets z²/3, half of it right.
    values = answers(2, 3) + answers(0, 1) + answers(5, 5)
    made = stratified_mean(values, ["a"] * 3 + ["b"] + ["c"] * 5)
    z = NormalDist().inv_cdf(0.975)
    extra = z * z / 3
    centre = variance = 0.0
    for right, n in ((2, 3), (0, 1), (5, 5)):
        p = (right + extra / 2) / (n + extra)
        centre += p / 3
        variance += p * (1 - p) / (n + extra) / 9
    assert made.value == pytest.approx((2 / 3 + 0 + 1) / 3)
    assert ends(made) == pytest.approx((centre - z * math.sqrt(variance), centre + z * math.sqrt(variance)))


def test_strata_share_the_pseudo_pairs():
    made = paired_difference([1, 0, 0, 1], [0, 1, 1, 1], ["a", "a", "b", "b"])
    z = NormalDist().inv_cdf(0.975)
    extra = z * z / 4
    centre = variance = 0.0
    for up, down in ((1, 1), (1, 0)):
        difference = (up - down) / (2 + extra)
        spread = (up + down + extra) / (2 + extra) - difference**2
        centre += difference / 2
        variance += spread / (2 + extra) / 4
    assert ends(made) == pytest.approx((centre - z * math.sqrt(variance), centre + z * math.sqrt(variance)))


def test_datasets_of_one_question_have_no_interval_of_width_zero():
    # It was 33.33 ±0.00 33.3–33.3 n 3.
    made = stratified_mean([1.0, 0.0, 0.0], ["a", "b", "c"])
    assert made.value == pytest.approx(1 / 3)
    assert made.low < 0.1
    assert made.high > 0.7


@pytest.mark.parametrize("n", [1, 3, 10, 100])
@pytest.mark.parametrize("right", [0.0, 1.0])
def test_answers_that_are_all_alike_leave_room(n, right):
    made = stratified_mean([right] * n)
    beyond = 1 - made.low if right else made.high
    z2 = NormalDist().inv_cdf(0.975) ** 2
    assert beyond > z2 / (n + z2)  # Wilson's interval, which Agresti and Coull's holds
    assert (made.high if right else made.low) == right
    same = paired_difference([right] * n, [right] * n)
    assert same.low == -same.high
    assert same.high > 1 / (n + 2)


def test_a_difference_of_equal_answers_leaves_room_on_both_sides():
    # A claim said -0.39 to 0.59 where its table said 50–50: both come from one function now.
    made = paired_difference([1, 0, 1, 0], [1, 0, 1, 0])
    assert (made.value, made.low) == (0.0, pytest.approx(-made.high))
    assert made.high > 0.3


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["", "x", "y"]), st.booleans(), st.booleans()),
             min_size=1, max_size=30),
    st.sampled_from([0.5, 0.8, 0.95, 0.999]),
)  # fmt: skip
def test_ends_hold_the_figure_and_stay_where_scores_can_be(rows, level):
    strata, clusters = [row[0] for row in rows], [row[1] for row in rows]
    first, second = [float(row[2]) for row in rows], [float(row[3]) for row in rows]
    made = stratified_mean(first, strata, clusters, level=level)
    assert 0 <= made.low <= made.value <= made.high <= 1
    apart = paired_difference(first, second, strata, clusters, level=level)
    assert -1 <= apart.low <= apart.value <= apart.high <= 1
    assert made.high > made.low
    assert apart.high > apart.low


def test_epochs_that_agree_are_worth_one_question_each():
    for values in ([1.0, 0.0], [1.0], [0.0] * 5):
        once, often = stratified_mean(values), stratified_mean(values, attempts=3)
        assert (often.value, *ends(often)) == pytest.approx((once.value, *ends(once)))
    # Epochs that differ within questions as between them are worth more.
    mixed = stratified_mean([2 / 3, 1 / 3] * 50, attempts=3)
    once = stratified_mean([1.0, 0.0] * 50)
    assert mixed.high - mixed.low < 0.75 * (once.high - once.low)


def by_hand(rows, level=0.95):
    """The interval of 0/1 values in (stratum, cluster, value) rows, number by number."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    strata = {}
    for stratum, cluster, value in rows:
        strata.setdefault(stratum, {}).setdefault(cluster, []).append(value)
    shared = whole = apart = apart_squared = 0.0
    told = []
    for clusters in strata.values():
        values = [value for inside in clusters.values() for value in inside]
        p, sizes = sum(values) / len(values), [len(inside) for inside in clusters.values()]
        if max(sizes) > 1 and len(clusters) > 1:
            within = sum((value - sum(inside) / len(inside)) ** 2 for inside in clusters.values() for value in inside)
            most = (len(values) - len(clusters)) * p * (1 - p)
            shared += most - within + most / len(values)
            whole += most
            told.append(len(clusters))
            apart += len(values) - len(clusters)
            apart_squared += sum((size - 1) ** 2 for size in sizes)
    telling = apart**2 / apart_squared if told else 0.0
    rho = 1.0
    if whole:
        rho = (shared + 0.5 * whole * 3 / telling) / (whole + whole * 3 / telling)
    rho = min(1.0, max(0.0, rho))
    freedom = telling * (sum(told) - len(told)) / sum(told) if told else 1.0
    wider = (student.ppf((1 + level) / 2, max(freedom, 1)) / z) ** 2
    centre = variance = value = 0.0
    for clusters in strata.values():
        values = [value for inside in clusters.values() for value in inside]
        p, size = sum(values) / len(values), len(values)
        pairs = sum(len(inside) * (len(inside) - 1) for inside in clusters.values())
        inflation = 1 + rho * pairs / size
        n = max(size / inflation / (1 + (1 - 1 / inflation) * (wider - 1)), size / (1 + pairs / size))
        if pairs and p in (0, 1):
            n = size / (1 + pairs / size)
        added = z * z / len(strata)
        better = (n * p + added / 2) / (n + added)
        centre += better / len(strata)
        variance += better * (1 - better) / (n + added) / len(strata) ** 2
        value += p / len(strata)
    low, high = clipped(centre, z * math.sqrt(variance), 0, 1)
    return min(low, value), max(high, value)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("wxyz"), st.booleans()), min_size=1, max_size=40),
    st.sampled_from([0.8, 0.95, 0.99]),
)
@example([("a", "x", 1), ("a", "x", 1), ("a", "y", 0), ("a", "y", 0), ("a", "z", 1), ("a", "z", 0)], 0.95)
@example([("a", "x", 0), ("a", "x", 0), ("a", "y", 0), *[("b", str(n), n % 2) for n in range(9)]], 0.95)
@example([*[("a", str(n // 2), n % 3 == 0) for n in range(40)], ("b", "x", 1), ("b", "x", 0)], 0.95)
def test_clusters_number_by_number(rows, level):
    rows = [(stratum, cluster, float(value)) for stratum, cluster, value in rows]
    strata, clusters, values = zip(*rows, strict=True)
    made = stratified_mean(values, strata, clusters, level=level)
    assert ends(made) == pytest.approx(by_hand(rows, level), abs=1e-9)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 4)), min_size=1, max_size=20))
def test_epochs_number_by_number(rows):
    strata, right = zip(*rows, strict=True)
    single = [
        (stratum, str(place), float(epoch < count))
        for place, (stratum, count) in enumerate(rows)
        for epoch in range(4)
    ]  # fmt: skip
    made = stratified_mean([count / 4 for count in right], strata, attempts=4)
    assert ends(made) == pytest.approx(by_hand(single), abs=1e-9)


def samples_of(sizes, share, correlation, draws, generator):
    """Right answers of each cluster, (draws, clusters), beta-binomial."""
    inside = generator.random((draws, len(sizes))) < share
    if correlation < 1:
        inside = generator.beta(share * (1 / correlation - 1), (1 - share) * (1 / correlation - 1), inside.shape)
    return generator.binomial(sizes, inside.astype(float)).astype(float)


@pytest.mark.parametrize(("share", "correlation"), [(0.1, 1.0), (0.95, 1.0), (0.8, 0.5), (0.3, 0.2)])
@pytest.mark.parametrize("sizes", [[60 // place or 1 for place in range(1, 61)], [60] + [1] * 60, [50] + [5] * 20])
def test_clusters_of_uneven_sizes_are_held(sizes, share, correlation):
    # Questions by abstract: a few have many. The worst of 225 cells held .73 by counting clusters.
    sizes = np.array(sizes, dtype=float)
    right = samples_of(sizes.astype(int), share, correlation, 1_000, np.random.default_rng(6))
    n, whole = sizes.sum(), np.ones(1_000)[:, None]
    total = right.sum(axis=1, keepdims=True)
    within = (right - right**2 / sizes).sum(axis=1, keepdims=True)
    tallies = Tallies(n * whole, total, total, within, (sizes**2).sum() * whole - n, len(sizes) * whole)
    low, high = adjusted_interval(tallies, 0.0, 1.0, np.ones(1), 1.0)
    assert ((low <= share) & (share <= high)).mean() > 0.88


def test_a_large_cluster_among_single_questions_is_one_that_tells_of_clusters():
    # Nothing says whether its sixty questions are worth sixty or one: they are taken as one.
    values, names = [1.0, 0.0] * 60, ["x"] * 60 + [""] * 60
    made = stratified_mean(values, clusters=names)
    least = 120**2 / (60**2 + 60)
    z2 = NormalDist().inv_cdf(0.975) ** 2
    assert made.high - made.low == pytest.approx(math.sqrt(z2 / (least + z2)))


def test_a_cluster_is_of_one_dataset():
    assert stratified_mean([1, 0], ["a", "b"], ["x", "x"]) == stratified_mean([1, 0], ["a", "b"])


def test_pairs_in_clusters_count_clusters_that_agree_once_each():
    first, second = [0.0, 0.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 0.0, 0.0]
    made = paired_difference(first, second, clusters=["x", "x", "y", "y", "z", "z"])
    alone = paired_difference([0, 1, 1], [1, 1, 0])
    assert ends(made) == pytest.approx(ends(alone))
    epochs = paired_difference([0, 1, 1], [1, 1, 0], attempts=5)
    assert ends(epochs) == pytest.approx(ends(alone))


def test_one_duplicate_among_many_changes_next_to_nothing():
    values = [1.0, 0.0] * 500
    alone = stratified_mean(values)
    twins = stratified_mean(values, clusters=["c", "c", *[""] * 998])
    assert ends(twins) == pytest.approx(ends(alone), abs=2e-4)


def test_a_single_cluster_knows_next_to_nothing():
    made = stratified_mean([1, 0, 1, 1], ["a"] * 4, ["x"] * 4)
    assert made.high - made.low > 0.85  # one observation's, at 3/4


def test_a_condition_of_several_terms_has_the_room_its_factors_give():
    made = combined_mean([[1, 1], [0, 0]], [2.0, -1.0], ["a", "a"], constant=-0.3)
    assert (made.value, made.high) == (pytest.approx(1.7), pytest.approx(1.7))
    z = NormalDist().inv_cdf(0.975)
    n = 2 + z * z / 2
    mean, squares = (2 * 2 + z * z / 4 * (2 - 1)) / n, (2 * 4 + z * z / 4 * (4 + 1)) / n
    assert made.low == pytest.approx(mean - z * math.sqrt((squares - mean**2) / n) - 0.3)
    between = combined_mean([[1, 1, 0, 0] * 5, [0] * 20], [2.0, -1.0], ["a"] * 20)
    assert between.low + 0.1 < between.value == 1 < between.high - 0.1
    single = combined_mean([[1, 0, 1]], [-2.0], ["a"] * 3, constant=0.9)
    plain = stratified_mean([1, 0, 1])
    assert ends(single) == pytest.approx((0.9 - 2 * plain.high, 0.9 - 2 * plain.low))
    third = combined_mean([[1, 0, 1], [0, 0, 1]], [0.5, -0.5], ["a"] * 3, constant=0.1)
    pair = paired_difference([0, 0, 1], [1, 0, 1])
    assert ends(third) == pytest.approx((0.1 + pair.low / 2, 0.1 + pair.high / 2))


def test_many_samples_at_once_are_the_samples_one_by_one():
    generator = np.random.default_rng(1)
    right = generator.binomial(7, 0.6, (20, 3)).astype(float)
    zero = np.zeros_like(right)
    n = np.full_like(right, 7.0)
    low, high = adjusted_interval(Tallies(n, right, right, zero, zero, n), 0.0, 1.0, np.full(3, 1 / 3), 1.0)
    for row, ends_of_row in zip(right, zip(low, high, strict=True), strict=True):
        values = [value for count in row for value in answers(int(count), 7)]
        made = stratified_mean(values, ["a"] * 7 + ["b"] * 7 + ["c"] * 7)
        assert ends(made) == pytest.approx(ends_of_row)


def test_the_error_of_the_published_table():
    # MIRAGE, GPT-3.5 with MedRAG on MMLU-Med: 75.48 ± 1.30.
    assert round(100 * binomial_error(0.7548, 1_089), 2) == 1.30
    assert binomial_error(1.0, 3) == 0.0
    assert macro_error([3.0, 4.0]) == 2.5
    with pytest.raises(ValueError, match="expected one error or more"):
        macro_error([])


@pytest.mark.parametrize(
    ("values", "strata", "clusters", "said"),
    [
        ([], [], None, "values, strata and clusters must have one entry a value, and one value or more"),
        ([1.0], [], None, "values, strata and clusters must have"),
        ([1.0], ["a"], [], "values, strata and clusters must have"),
        ([1.0], ["a"], ["b", "c"], "values, strata and clusters must have"),
        ([1.0, float("inf")], ["a", "a"], None, "a value is not finite; leave missing scores out and count them"),
        ([float("nan")], ["a"], None, "a value is not finite"),
    ],
)
def test_bad_values_are_named(values, strata, clusters, said):
    with pytest.raises(ValueError, match=f"^{said}"):
        stratified_mean(values, strata, clusters)


def test_groups_and_sides_must_be_there():
    with pytest.raises(ValueError, match="same questions on both sides, got 2 and 1"):
        paired_difference([1.0, 1.0], [1.0])
    with pytest.raises(ValueError, match="a value or more in each"):
        group_difference([], [1.0])


def test_answers_that_repeat_others_add_nothing_to_a_difference_of_groups():
    first, second = [1.0, 0.0, 1.0, 1.0, 0.0] * 4, [0.0, 0.0, 1.0, 0.0, 0.0] * 4
    clusters = [str(question) for question in range(20)] * 2
    alone, repeated = group_difference(first, second), group_difference(first * 2, second * 2, clusters, clusters)
    assert (repeated.low, repeated.high) == pytest.approx((alone.low, alone.high))
