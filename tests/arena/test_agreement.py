import numpy as np
import pytest

from ragrounds.evals.arena.agreement import agreements, krippendorff


def test_judges_that_say_the_same_agree():
    said = {"one": {1: "first", 2: "tie", 3: "second"}, "two": {2: "tie", 3: "second", 4: "first"}}
    (found,) = agreements(said)
    assert (found.items, found.same, found.alpha) == (2, 1.0, 1.0)


def test_judges_without_common_items_are_not_compared():
    (found,) = agreements({"one": {1: "first"}, "two": {2: "first"}})
    assert (found.items, found.same, found.alpha) == (0, None, None)


def test_agreement_by_chance_is_zero():
    draw = np.random.default_rng(0)
    items = [[str(value) for value in draw.integers(0, 3, 2)] for _ in range(4000)]
    assert krippendorff(items) == pytest.approx(0.0, abs=0.04)


def test_it_agrees_with_evalica():
    evalica = pytest.importorskip("evalica")
    import pandas as pd

    draw = np.random.default_rng(1)
    truth = draw.integers(0, 3, 200)
    judges = np.where(draw.random((3, 200)) < 0.6, truth, draw.integers(0, 3, (3, 200))).astype(object)
    judges[draw.random((3, 200)) < 0.2] = None
    items = [[str(value) for value in column if value is not None] for column in judges.T]
    assert krippendorff(items) == pytest.approx(evalica.alpha(pd.DataFrame(judges), distance="nominal").alpha)


def test_all_the_same_is_not_defined():
    assert krippendorff([["tie", "tie"], ["tie", "tie"]]) is None
