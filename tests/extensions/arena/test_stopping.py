import numpy as np
import pytest
from scipy import integrate, special, stats

from ragrounds.extensions.arena.schedules import log_stake, separated_pairs, settled_axes


@pytest.mark.parametrize(("wins", "losses"), [(0, 0), (7, 2), (2, 7), (40, 30)])
def test_the_stake_is_the_average_over_the_bets(wins, losses):
    def bet(p):
        return (2 * p) ** wins * (2 * (1 - p)) ** losses * 2 * stats.beta.pdf(p, 5, 5)

    average, _ = integrate.quad(bet, 0.5, 1.0)
    assert log_stake(np.float64(wins), np.float64(losses)) == pytest.approx(np.log(average), abs=1e-8)


def test_under_equal_systems_the_expected_stake_stays_one():
    for games in (1, 5, 40):
        wins = np.arange(games + 1.0)
        chance = special.comb(games, wins) * 0.5**games
        assert (chance * np.exp(log_stake(wins, games - wins))).sum() == pytest.approx(1.0)


@pytest.mark.slow
def test_looking_after_every_match_keeps_the_error_rate():
    # 2,000 sequences of 400 matches between equal systems, looked at 400 times each: a fixed test at 5 % is wrong in
    # about half of them.
    draw = np.random.default_rng(0)
    won = draw.integers(0, 2, (2000, 400)).cumsum(axis=1).astype(float)
    lost = np.arange(1.0, 401.0) - won
    ever = (log_stake(won, lost) >= np.log(1 / 0.05)).any(axis=1).mean()
    assert ever <= 0.05
    naive = (stats.norm.sf((won - lost) / np.sqrt(won + lost))[:, 9:] < 0.05).any(axis=1).mean()
    assert naive > 0.2


def test_separation_needs_more_evidence_among_more_systems():
    wins = np.zeros((2, 2))
    wins[0, 1], wins[1, 0] = 20.0, 3.0
    many = np.zeros((12, 12))
    many[:2, :2] = wins
    assert separated_pairs(wins, 0.95)[0, 1]
    assert not separated_pairs(wins, 0.95)[1, 0]
    assert not separated_pairs(many, 0.95)[0, 1]


def test_settled_asks_all_neighbours_in_the_direction_of_the_ranking():
    wins = np.zeros((3, 3))
    wins[0, 1], wins[1, 2] = 40.0, 40.0
    assert settled_axes(wins, np.array([2.0, 1.0, 0.0]), 0.95)
    assert not settled_axes(wins, np.array([2.0, 0.0, 1.0]), 0.95)
    wins[1, 2] = 2.0
    assert not settled_axes(wins, np.array([2.0, 1.0, 0.0]), 0.95)
