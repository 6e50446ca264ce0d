import numpy as np

from ragrounds.extensions.arena.matches import collect_matches
from ragrounds.extensions.arena.ratings import check_ranking, rate
from tests.extensions.arena.making import played


def missing(size, *pairs):
    table = np.zeros((size, size))
    for i, j, count in pairs:
        table[i, j] = table[j, i] = count
    return table


def test_nothing_missing_leaves_the_gate_open():
    matches = played([0.5, 0.0, -0.5], 300, questions=100)
    assert check_ranking(matches, np.zeros((3, 3)), rate(matches, replicates=100)).stands


def test_a_few_missing_verdicts_cannot_overturn_a_clear_lead():
    matches = played([1.5, -1.5], 200, questions=200)
    found = check_ranking(matches, missing(2, (0, 1, 5)), rate(matches, replicates=200))
    assert found.stands
    assert found.missing == 5


def test_many_missing_verdicts_close_the_gate_and_name_the_pair():
    matches = played([1.0, -1.0], 200, questions=200)
    found = check_ranking(matches, missing(2, (0, 1, 150)), rate(matches, replicates=200))
    assert found.overturned == (("a", "b"),)


def test_the_verdict_is_by_pair():
    # a is far ahead of b and c, which are close to each other; only matches of b against c are missing.
    matches = played([3.0, 0.0, -0.1], 600, questions=200, ties=0.1)
    ratings = rate(matches, replicates=200)
    found = check_ranking(matches, missing(3, (1, 2, 150)), ratings)
    assert [set(pair) for pair in found.overturned] == [{"b", "c"}]


def test_a_tie_that_stays_a_tie_is_not_overturned():
    matches = played([0.0, 0.0], 200, questions=200)
    ratings = rate(matches, replicates=200)
    assert [list(row) for row in ratings.separated] == [[False, False]] * 2
    assert check_ranking(matches, missing(2, (0, 1, 3)), ratings).stands
    assert not check_ranking(matches, missing(2, (0, 1, 120)), ratings).stands


def test_the_worst_filling_is_at_least_as_bad_as_any_drawn_one():
    from ragrounds.extensions.arena.ratings import POINTS, _worst_gap, fit

    draw = np.random.default_rng(0)
    points = played([0.6, 0.2, -0.2, -0.6], 120, questions=60).totals()
    gone = missing(4, (0, 1, 6), (0, 2, 9), (1, 3, 4), (2, 3, 12))
    worst = _worst_gap(points, gone, 0, 1)
    for _ in range(200):
        share = np.triu(draw.integers(0, 2, (4, 4)).astype(float), 1)
        share = share + np.tril(1 - share.T, -1)
        strengths = fit(points + gone * share, prior=True).strengths
        assert POINTS * (strengths[0] - strengths[1]) >= worst - 1e-6


def test_one_question_and_a_missing_verdict_prove_nothing():
    matches = collect_matches(["a", "b"], [("q", "a", "b", 1.0)])
    assert not check_ranking(matches, missing(2, (0, 1, 1)), rate(matches, replicates=20)).stands
