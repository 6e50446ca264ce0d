"""Several means of the same questions, resampled together."""

import warnings

import numpy as np
import pytest

from ragrounds.evals.stats.bootstrap import joint_means, variance_columns
from ragrounds.evals.stats.estimates import stratified_mean


def test_the_means_by_hand_with_what_is_missing():
    columns = [[1.0, 2.0, None, 5.0], [None, 4.0, 6.0, None], [None] * 4]
    with warnings.catch_warnings(action="error"):  # nothing is said of what is missing
        means, draws = joint_means(columns, ["a", "a", "b", "b"], [""] * 4, resamples=50)
    # The first: 1.5 in a, 5 in b; the second: 4 in a, 6 in b; of the third nothing is known anywhere.
    assert means[:2].tolist() == [3.25, 5.0]
    assert np.isnan(means[2])
    assert draws.shape == (50, 3)
    assert np.isnan(draws[:, 2]).all()


def test_a_dataset_in_which_a_column_has_no_value_is_in_no_mean_of_it():
    means, draws = joint_means([[1.0, None], [1.0, 3.0]], ["a", "b"], ["", ""], resamples=20)
    assert means.tolist() == [1.0, 2.0]
    assert draws[:, 0].tolist() == [1.0] * 20
    assert draws[:, 1].tolist() == [2.0] * 20


def test_the_replicates_of_two_questions_by_hand():
    means, draws = joint_means([[0.0, 1.0], [10.0, 30.0]], ["a", "a"], ["", ""], resamples=4_000)
    assert means.tolist() == [0.5, 20.0]
    kinds, counts = np.unique(draws, axis=0, return_counts=True)
    assert kinds.tolist() == [[0.0, 10.0], [0.5, 20.0], [1.0, 30.0]]  # both columns of a question are drawn together
    assert counts / 4_000 == pytest.approx([0.25, 0.5, 0.25], abs=0.03)


def test_questions_of_a_cluster_are_drawn_together_and_nameless_ones_alone():
    columns = [[0.0, 2.0, 4.0, 6.0]]
    _, together = joint_means(columns, ["a"] * 4, ["x", "y", "x", "y"], resamples=500)
    assert set(together[:, 0].tolist()) == {2.0, 3.0, 4.0}  # x twice, x and y, y twice
    _, alone = joint_means(columns, ["a"] * 4, [""] * 4, resamples=500)
    assert {0.5, 1.0, 5.0} < set(alone[:, 0].tolist())
    _, apart = joint_means([[0.0, 8.0]], ["a", "b"], ["x", "x"], resamples=50)
    assert set(apart[:, 0].tolist()) == {4.0}  # one name in two datasets is two clusters


def test_one_column_has_the_interval_of_its_mean():
    generator = np.random.default_rng(5)
    values = generator.random(200).tolist()
    strata = ["a"] * 50 + ["b"] * 150
    names = [f"c{number // 2}" if number < 40 else "" for number in range(200)]
    (mean,), draws = joint_means([values], strata, names, resamples=4_000)
    made = stratified_mean(values, strata, names)
    assert mean == pytest.approx(made.value)
    assert np.quantile(draws[:, 0], [0.025, 0.975]) == pytest.approx([made.low, made.high], abs=0.004)


def test_a_group_of_columns_has_the_same_replicates_next_to_any_others():
    generator = np.random.default_rng(7)
    whole, first, second, other = generator.integers(0, 2, 40) * 1.0, *generator.random((3, 40))
    names = ["a"] * 40, [""] * 40
    _, alone = joint_means([first, second], *names, resamples=50)
    _, together = joint_means([whole, first, second, other], *names, resamples=50, groups=[1, 2, 1])
    assert together[:, 1:3].tolist() == alone.tolist()
    _, of_whole = joint_means([whole], *names, resamples=50)
    assert together[:, :1].tolist() == of_whole.tolist()


def test_equal_seeds_give_equal_replicates():
    table = [list(map(float, range(30)))], ["a"] * 30, [""] * 30
    assert (joint_means(*table)[1] == joint_means(*table, resamples=2_000, seed=0)[1]).all()
    assert (joint_means(*table)[1] != joint_means(*table, seed=1)[1]).any()


@pytest.mark.parametrize(
    "arguments",
    [
        ([], ["a"], [""]),
        ([[]], [], []),
        ([[1.0, 2.0]], ["a"], [""]),
        ([[1.0]], ["a"], ["", ""]),
        ([[1.0], [1.0, 2.0]], ["a"], [""]),
    ],
)
def test_bad_values(arguments):
    said = "columns, strata and clusters must have one entry a question, and one question or more"
    with pytest.raises(ValueError, match=f"^{said}$"):
        joint_means(*arguments)


def test_the_variance_of_a_mean_by_hand():
    # In a: x holds 1 and 3, a mean of 2, and 5 stands alone with one that is missing; in b all are alike.
    values = np.array([1.0, 3.0, 5.0, np.nan, 7.0, 7.0])
    strata, names = ["a"] * 4 + ["b"] * 2, ["x", "x", "", "", "", ""]
    (column,) = variance_columns([values], strata, names)
    (variance,), _ = joint_means([column.tolist()], strata, names, resamples=0)
    # The mean of what is known in a is 3: x is off by -2 together, the lone one by 2, what is missing by 0.
    assert variance == pytest.approx((4 + 4) / 4**2 / 2**2)


def test_the_variance_of_a_mean_is_that_of_its_replicates():
    generator = np.random.default_rng(6)
    values, strata = generator.exponential(size=300), ["a"] * 100 + ["b"] * 200
    names = [f"c{number // 3}" for number in range(300)]
    column = variance_columns([values], strata, names)[0].tolist()
    (_, variance), draws = joint_means([values.tolist(), column], strata, names)
    assert variance == pytest.approx(draws[:, 0].var(), rel=0.08)
    assert draws[:, 1].mean() == pytest.approx(variance, rel=0.03)
