import numpy as np
import pytest

from ragrounds.extensions.arena.ratings import fit, reachable
from tests.extensions.arena.making import played


def test_two_systems_have_the_closed_form():
    found = fit(np.array([[0.0, 30.0], [10.0, 0.0]]))
    assert found.strengths[0] - found.strengths[1] == pytest.approx(np.log(3.0))
    assert found.ratings.mean() == pytest.approx(1000.0)
    assert found.ratings[0] - found.ratings[1] == pytest.approx(400 * np.log10(3.0))


def test_it_agrees_with_evalica():
    evalica = pytest.importorskip("evalica")
    matches = played([0.9, 0.4, 0.0, -0.3, -1.0], 700, questions=200)
    winners = [{1.0: evalica.Winner.X, 0.0: evalica.Winner.Y, 0.5: evalica.Winner.Draw}[s] for s in matches.score]
    first, second = matches.first.tolist(), matches.second.tolist()
    theirs = evalica.bradley_terry(first, second, winners, tolerance=1e-12, limit=100_000).scores.sort_index()
    logs = np.log(theirs.to_numpy())
    assert fit(matches.totals()).strengths == pytest.approx(logs - logs.mean(), abs=1e-7)


def test_many_tables_are_fitted_as_each_alone():
    tables = np.stack([played([0.5, 0.0, -0.5], 90, questions=30, seed=seed).totals() for seed in range(5)])
    together = fit(tables).strengths
    assert together == pytest.approx(np.stack([fit(table).strengths for table in tables]))


def test_a_system_that_never_loses_gets_a_finite_rating_and_is_told():
    found = fit(np.array([[0.0, 5.0, 5.0], [0.0, 0.0, 3.0], [0.0, 2.0, 0.0]]))
    assert not found.exists
    assert np.isfinite(found.strengths).all()
    assert found.strengths[0] > found.strengths[1] > found.strengths[2]


def test_groups_that_never_met_are_not_ordered_by_the_fit():
    points = np.zeros((4, 4))
    points[0, 1] = points[1, 0] = points[2, 3] = points[3, 2] = 7.0
    found = fit(points)
    assert not found.exists
    assert found.strengths == pytest.approx(np.zeros(4), abs=1e-9)


def test_hardly_beaten_systems_converge():
    found = fit(np.array([[0.0, 9999.0, 5.0], [1.0, 0.0, 5.0], [5.0, 5.0, 0.0]]))
    chance = 1 / (1 + np.exp(-(found.strengths[:, None] - found.strengths)))
    games = np.array([[0.0, 10000, 10], [10000, 0, 10], [10, 10, 0]])
    assert (games * chance).sum(axis=1) == pytest.approx([10004.0, 6.0, 10.0], abs=1e-3)


def test_reachable_is_the_closure_of_taking_a_point():
    points = np.zeros((4, 4))
    points[0, 1] = points[1, 2] = points[2, 3] = 1.0
    assert reachable(points).tolist() == np.triu(np.ones((4, 4), dtype=bool)).tolist()
