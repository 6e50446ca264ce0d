"""The exact test of a mean over datasets, and an interval that never says another thing."""

from __future__ import annotations

import itertools
import random

import pytest
from scipy.stats import binomtest

from ragrounds.evals.stats import paired_difference
from ragrounds.evals.stats.sign_flips import difference_and_test, sign_flip_test


def all_flips(first, second, strata, clusters):
    sizes, sums = {name: strata.count(name) for name in strata}, {}
    for index, (one, other, stratum, cluster) in enumerate(zip(first, second, strata, clusters, strict=True)):
        key = stratum, cluster or index
        sums[key] = sums.get(key, 0.0) + (other - one) / sizes[stratum] / len(sizes)
    moves = [move for move in sums.values() if abs(move) > 1e-12]
    flips = itertools.product((1, -1), repeat=len(moves))
    found = [abs(sum(sign * move for sign, move in zip(signs, moves, strict=True))) for signs in flips]
    return sum(one >= abs(sum(moves)) - 1e-9 for one in found) / len(found)


def drawn(seed, most, epochs=1):
    draw = random.Random(seed)
    n, count, differ = draw.randint(1, most), draw.randint(1, 4), draw.choice((0.2, 0.5, 1.0))
    first = [draw.random() < 0.4 for _ in range(n)]
    second = [not one if draw.random() < differ else one for one in first]
    if epochs > 1:
        first = [draw.randint(0, epochs) / epochs for _ in range(n)]
        second = [draw.randint(0, epochs) / epochs if draw.random() < differ else one for one in first]
    strata = [str(draw.randrange(count)) for _ in range(n)]
    return first, second, strata, [draw.choice(("", "", "twin", "other")) for _ in range(n)]


@pytest.mark.parametrize("epochs", [1, 3])
def test_p_is_the_share_of_all_changes_of_signs(epochs):
    samples = [drawn(seed, 14, epochs) for seed in range(40)]
    assert [sign_flip_test(*sample, epochs).p for sample in samples] == pytest.approx(
        [all_flips(*sample) for sample in samples], abs=1e-9
    )


def test_a_question_without_a_cluster_name_is_not_left_out():
    with pytest.raises(ValueError, match="shorter"):
        sign_flip_test([1.0, 0.0], [0.0, 1.0], ["a", "a"], [""])


def test_of_one_dataset_it_is_mcnemar_s():
    first, second = [True] * 3 + [False] * 20 + [True] * 700, [False] * 3 + [True] * 20 + [True] * 700
    found = sign_flip_test(first, second, [""] * 723, [""] * 723)
    assert found.p == pytest.approx(binomtest(3, 23).pvalue)
    assert (found.differing, found.worth) == (pytest.approx(23 / 723), 723)


def test_uneven_datasets_are_worth_fewer_questions():
    # Ten and a thousand questions, a half of each answered differently: the ten have half the weight.
    first, strata = [False] * 1010, ["small"] * 10 + ["large"] * 1000
    second = [index % 2 == 0 for index in range(1010)]
    found = sign_flip_test(first, second, strata, [""] * 1010)
    assert found.differing == pytest.approx(0.5)
    assert found.worth == round(0.5 / (5 * 0.05**2 + 500 * 0.0005**2)) == 40


def test_a_difference_at_exactly_the_error_level_is_none():
    first, second = [0.0] * 4 + [1.0] * 4, [1.0] * 2 + [0.0] * 2 + [1.0] * 4  # p = 1/2: both that differ, one way
    groups = [""] * 8, [""] * 8
    interval, test = difference_and_test(
        (first, second), *groups, lambda level: paired_difference(first, second, *groups, level=level), level=0.5
    )
    assert test.p == 0.5
    assert interval.low < 0 < interval.high


@pytest.mark.parametrize(("level", "epochs"), [(0.9, 1), (0.95, 1), (0.99, 1), (0.95, 3)])
def test_an_interval_leaves_0_out_where_the_test_finds_a_difference_and_nowhere_else(level, epochs):
    for seed in range(150):
        first, second, strata, clusters = drawn(seed, 60, epochs)

        def at(level, answers=(first, second), groups=(strata, clusters)):
            return paired_difference(*([*map(float, each)] for each in answers), *groups, attempts=epochs, level=level)

        made, agreed = difference_and_test((first, second), strata, clusters, at, level, attempts=epochs)
        assert (made.low > 0 or made.high < 0) == (agreed.p < 1 - level), f"seed {seed}"
        assert made.low <= at(level).low, f"seed {seed}"
        assert made.high >= at(level).high, f"seed {seed}"
        assert agreed.p >= sign_flip_test(first, second, strata, clusters, epochs).p, f"seed {seed}"
