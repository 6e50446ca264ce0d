import numpy as np
import pytest

from ragrounds.base.errors import UserError
from ragrounds.extensions.arena.schedules import (
    AdaptiveSchedule,
    FullSchedule,
    MatchCounts,
    PublishedSchedule,
    all_pairs,
    choose_pairs,
    open_schedule,
    question_orders,
)


def standing(size, played=None, wins=None, ties=None, axes=1):
    pairs = size * (size - 1) // 2
    zeros = np.zeros((axes, size, size))
    return MatchCounts(
        zeros if wins is None else wins,
        zeros if ties is None else ties,
        np.zeros(pairs, int) if played is None else played,
    )


def after(size, counts, verdicts=None, axes=1):
    """The standing after `counts` matches of each pair, all of them ties; `verdicts` came of them."""
    counts = np.asarray(counts)
    ties = np.zeros((axes, size, size))
    first, second = all_pairs(size)
    ties[:, first, second] = ties[:, second, first] = counts if verdicts is None else verdicts
    return standing(size, counts, ties=ties, axes=axes)


def test_full_plays_every_pair_on_every_question_once():
    full = FullSchedule(4, 7, seed=3)
    batch = full.batch(standing(4))
    assert np.bincount(batch).tolist() == [7] * 6
    assert batch != sorted(batch)
    assert full.batch(after(4, [7] * 6)) == []


def test_published_plays_random_pairs_until_the_last_has_eighty():
    schedule = PublishedSchedule(4, 1000, seed=0)
    counts = np.bincount(schedule.batch(standing(4)), minlength=6)
    assert counts.min() == 80
    assert counts.max() > 80
    assert schedule.batch(after(4, counts)) == []
    assert "80 matches" in schedule.reason(after(4, counts))


def test_published_goes_on_where_verdicts_are_missing_on_an_axis():
    schedule = PublishedSchedule(3, 1000, seed=0)
    counts = np.bincount(schedule.batch(standing(3, axes=2)), minlength=3)
    state = after(3, counts, axes=2)
    state.ties[1, 0, 1] -= 20
    state.ties[1, 1, 0] -= 20
    more = np.bincount(schedule.batch(state), minlength=3)
    assert more[0] >= 20 - (counts[0] - 80)
    assert more[0] > 0


def test_published_ends_where_questions_run_out_and_says_so():
    schedule = PublishedSchedule(3, 50, seed=0)
    counts = np.bincount(schedule.batch(standing(3)), minlength=3)
    assert counts.tolist() == [50, 50, 50]
    assert "3 of 3 pairs ran out of questions" in schedule.reason(after(3, counts))


def test_schedules_are_drawn_by_seed():
    assert PublishedSchedule(4, 99, seed=1).batch(standing(4)) == PublishedSchedule(4, 99, seed=1).batch(standing(4))
    assert PublishedSchedule(4, 99, seed=1).batch(standing(4)) != PublishedSchedule(4, 99, seed=2).batch(standing(4))
    assert question_orders(3, 20, 5).tolist() == question_orders(3, 20, 5).tolist()
    assert question_orders(3, 20, 5)[0].tolist() != question_orders(3, 20, 5)[1].tolist()
    assert [sorted(row) for row in question_orders(3, 20, 5).tolist()] == [list(range(20))] * 3


def test_adaptive_begins_with_every_pair():
    assert set(AdaptiveSchedule(4, 100).batch(standing(4))) == set(range(6))


def test_adaptive_plays_the_pairs_that_are_close():
    # Systems 0 and 1 are close, 2 far below: (0, 1) is pair 0.
    wins = np.zeros((1, 3, 3))
    wins[0] = [[0, 21, 38], [19, 0, 38], [2, 2, 0]]
    batch = AdaptiveSchedule(3, 500).batch(standing(3, np.array([40, 40, 40]), wins))
    assert batch.count(0) >= 7


def test_adaptive_ends_when_neighbours_are_separated():
    wins = np.zeros((1, 3, 3))
    wins[0] = [[0, 40, 10], [5, 0, 40], [1, 5, 0]]
    state = standing(3, np.array([45, 11, 45]), wins)
    assert AdaptiveSchedule(3, 500).batch(state) == []
    assert "separated" in AdaptiveSchedule(3, 500).reason(state)
    assert "valid at every look" in AdaptiveSchedule(3, 500).reason(state)


def test_adaptive_goes_on_while_one_axis_is_open():
    wins = np.zeros((2, 2, 2))
    wins[0] = [[0, 60], [5, 0]]
    wins[1] = [[0, 33], [32, 0]]
    assert AdaptiveSchedule(2, 500).batch(standing(2, np.array([65]), wins, axes=2))


def test_adaptive_never_plays_a_question_twice_with_a_pair():
    state = after(3, [9, 2, 9])
    batch = AdaptiveSchedule(3, 10).batch(state)
    assert np.bincount(batch, minlength=3).max() <= 8
    assert np.bincount(batch, minlength=3)[0] <= 1
    assert AdaptiveSchedule(3, 10).batch(after(3, [10, 10, 10])) == []
    assert "no questions are left" in AdaptiveSchedule(3, 10).reason(after(3, [10, 10, 10]))


def test_choosing_for_many_arenas_is_choosing_for_each():
    draw = np.random.default_rng(0)
    points = draw.integers(1, 20, (5, 1, 4, 4)).astype(float) * (1 - np.eye(4))
    open_pairs = np.ones((5, 6), dtype=bool)
    together = choose_pairs(points, open_pairs, 6)
    for number in range(5):
        assert choose_pairs(points[number : number + 1], open_pairs[:1], 6)[0].tolist() == together[number].tolist()


def test_no_open_pair_is_minus_one():
    assert choose_pairs(np.zeros((1, 1, 3, 3)), np.zeros((1, 3), dtype=bool), 2).tolist() == [[-1, -1]]


def test_unknown_schedules_and_empty_arenas_are_told():
    with pytest.raises(UserError, match="adaptive"):
        open_schedule("adaptiv", 3, 10)
    with pytest.raises(UserError, match="two systems"):
        open_schedule("full", 1, 10)
    with pytest.raises(UserError, match="no question"):
        open_schedule("full", 2, 0)


def test_many_systems_are_chosen_among_by_the_most_doubtful_pairs():
    size = 40
    true = np.linspace(4, -4, size)
    chance = 1 / (1 + np.exp(true[None, :] - true[:, None]))
    points = 6 * chance * (1 - np.eye(size))
    pairs = size * (size - 1) // 2
    chosen = choose_pairs(points[None, None], np.ones((1, pairs), dtype=bool), 30)[0]
    first, second = all_pairs(size)
    assert (second[chosen] - first[chosen]).max() <= 8
    closed = np.ones((1, pairs), dtype=bool)
    closed[0, chosen] = False
    assert not set(choose_pairs(points[None, None], closed, 30)[0].tolist()) & set(chosen.tolist())
