import numpy as np
import pytest

from ragrounds.errors import UserError
from ragrounds.evals.arena.matches import collect_matches
from ragrounds.evals.arena.ratings import online_elo, shuffled_elo
from tests.arena.making import played

FIXED = [("q1", "a", "b", 1.0), ("q2", "b", "a", 1.0), ("q3", "a", "c", 0.5), ("q4", "c", "b", 0.0)]


def test_a_fixed_list_equals_the_ratings_computed_by_hand():
    # Start 1000, K 40, base 10, scale 400.
    # 1. a beats b, both at 1000: expected .5, so a 1020, b 980.
    # 2. b (980) beats a (1020): expected 1 / (1 + 10 ** (40 / 400)) = .4426884, so b + 22.292465 = 1002.292465,
    #    a = 997.707535.
    # 3. a (997.707535) ties with c (1000): expected 1 / (1 + 10 ** (2.292465 / 400)) = .4967009, so a + .131963 =
    #    997.839498, c = 999.868037.
    # 4. c (999.868037) loses to b (1002.292465): c expected 1 / (1 + 10 ** (2.424428 / 400)) = .4965110, so
    #    c - 19.860442 = 980.007595, b = 1022.152907.
    ratings = online_elo(collect_matches(["a", "b", "c"], FIXED))
    assert ratings == pytest.approx([997.839498, 1022.152907, 980.007595], abs=5e-6)


def test_the_order_of_the_matches_changes_online_ratings():
    forwards = online_elo(collect_matches(["a", "b", "c"], FIXED))
    backwards = online_elo(collect_matches(["a", "b", "c"], FIXED[::-1]))
    assert np.abs(forwards - backwards).max() > 0.1


def test_order_alone_spreads_ratings_by_about_fifty_points():
    # 4 systems, 80 matches a pair, K = 40 (scorers of MRAG-Bench's arena).
    found = shuffled_elo(played([0.6, 0.2, -0.2, -0.6], 480, questions=160, ties=0.0), shuffles=400)
    assert all(40 < spread < 60 for spread in found.spread)


def test_shuffles_are_drawn_by_seed():
    matches = played([0.3, 0.0, -0.3], 100, questions=50)
    assert shuffled_elo(matches, shuffles=10, seed=1) == shuffled_elo(matches, shuffles=10, seed=1)
    assert shuffled_elo(matches, shuffles=10, seed=1) != shuffled_elo(matches, shuffles=10, seed=2)


def test_shuffled_mean_is_the_mean_of_online_ratings():
    matches = played([0.3, 0.0, -0.3], 60, questions=30)
    draw = np.random.default_rng(5)
    by_hand = np.mean([online_elo(matches.taken(draw.permutation(60))) for _ in range(7)], axis=0)
    assert shuffled_elo(matches, shuffles=7, seed=5).mean == pytest.approx(by_hand)


def test_no_matches_leave_everyone_at_the_start():
    assert online_elo(collect_matches(["a", "b"], [])).tolist() == [1000.0, 1000.0]


def test_it_agrees_with_evalica():
    evalica = pytest.importorskip("evalica")
    matches = played([0.5, 0.0, -0.2, -0.3], 300, questions=100)
    winners = [{1.0: evalica.Winner.X, 0.0: evalica.Winner.Y, 0.5: evalica.Winner.Draw}[s] for s in matches.score]
    theirs = evalica.elo(matches.first.tolist(), matches.second.tolist(), winners, k=40.0).scores.sort_index()
    assert online_elo(matches) == pytest.approx(theirs.to_numpy(), abs=1e-9)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (("q", "a", "z", 1.0), "'z'"),
        (("q", "a", "a", 1.0), "two of a, b"),
        (("q", "a", "b", 0.7), "0, 0.5 or 1"),
    ],
)
def test_broken_matches_are_told(row, told):
    with pytest.raises(UserError, match=told):
        collect_matches(["a", "b"], [row])


def test_a_system_named_twice_is_told():
    with pytest.raises(UserError, match="twice"):
        collect_matches(["a", "a"], [])
