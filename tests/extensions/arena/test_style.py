import numpy as np
import pytest

from ragrounds.extensions.arena.matches import Matches
from ragrounds.extensions.arena.style_control import control_style, style_differences, style_features
from tests.extensions.arena.making import played


def test_features_count_what_a_reader_sees():
    text = "# Head\n\n- one\n- two\n1. three\n\n**bold** and __bold__\n```\n# not a heading\n- not an item\n```\n"
    assert style_features(text) == (len(text), 1.0, 3.0, 2.0)


def test_differences_are_relative_and_of_unit_spread():
    first, second = np.array([[100.0, 0.0], [300.0, 0.0]]), np.array([[300.0, 0.0], [100.0, 0.0]])
    found = style_differences(first, second)
    assert found[:, 0].tolist() == [-1.0, 1.0]
    assert found[:, 1].tolist() == [0.0, 0.0]


def _with_length_bias(seed=0):
    """Two equal systems; `a` writes longer, and judges like length."""
    draw = np.random.default_rng(seed)
    length = draw.normal(0.8, 1.0, 4000)
    score = (draw.random(4000) < 1 / (1 + np.exp(-length))).astype(float)
    first = np.zeros(4000, dtype=np.int64)
    style = np.stack([length, np.zeros(4000), np.zeros(4000), np.zeros(4000)], axis=1)
    return Matches(("a", "b"), first, first + 1, score, np.arange(4000)), style


def test_a_preference_for_length_is_taken_out_of_the_ratings():
    matches, style = _with_length_bias()
    found = control_style(matches, style)
    assert found is not None
    assert abs(found.ratings[0] - 1000) < 3 * found.errors[0]
    name, effect, error = found.effects[0]
    assert name == "length"
    assert abs(effect - 1.0) < 3 * error
    assert len(found.effects) == 1  # what does not vary is left out


@pytest.mark.slow
def test_it_agrees_with_statsmodels():
    sm = pytest.importorskip("statsmodels.api")
    matches = played([0.6, 0.0, -0.6], 500, questions=80)
    style = np.random.default_rng(1).normal(size=(500, 4))
    found = control_style(matches, style)
    design = np.zeros((500, 3))
    design[np.arange(500), matches.first] += 1
    design[np.arange(500), matches.second] -= 1
    design = np.hstack([design[:, :2] - design[:, 2:], style])
    theirs = sm.GLM(matches.score, design, family=sm.families.Binomial()).fit(
        cov_type="cluster", cov_kwds={"groups": matches.cluster, "use_correction": False}, tol=1e-12, maxiter=200
    )
    few = np.sqrt(80 / 79)
    assert [effect for _, effect, _ in found.effects] == pytest.approx(theirs.params[2:], abs=1e-6)
    assert [error for *_, error in found.effects] == pytest.approx(theirs.bse[2:] * few, rel=1e-5)
    assert found.errors[:2] == pytest.approx(theirs.bse[:2] * few * 400 / np.log(10), rel=1e-5)


def test_style_that_goes_wholly_with_the_system_cannot_be_told_apart():
    matches = played([0.3, -0.3], 200, questions=100)
    style = np.where(matches.first == 0, 1.0, -1.0)[:, None] * np.array([[1.0, 0.0, 0.0, 0.0]])
    assert control_style(matches, style) is None


def test_no_style_control_without_a_maximum():
    zeros, few = np.zeros(5, dtype=np.int64), np.arange(5)
    assert control_style(Matches(("a", "b"), zeros, zeros + 1, np.ones(5), few), np.zeros((5, 4))) is None


def test_no_style_control_from_questions_that_are_too_few_for_standard_errors():
    """Three matches, two of them ties: the fit is exact, and rounding left a variance below 0 (`1000 ± nan`)."""
    first, few = np.zeros(3, dtype=np.int64), np.arange(3)
    matches = Matches(("a", "b"), first, first + 1, np.array([1.0, 0.5, 0.5]), few)
    style = style_differences(
        np.array([[50.0, 0, 0, 0], [50, 0, 0, 0], [50, 0, 0, 0]]),
        np.array([[1.0, 0, 0, 0], [50, 0, 0, 0], [50, 0, 0, 0]]),
    )
    with np.errstate(all="raise"):
        assert control_style(matches, style) is None
