"""Confidence sequences by betting: by hand, by property, by simulation."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from ragrounds.evals.stats import minimum_detectable_effect
from ragrounds.evals.stats.sequential import ConfidenceSequence, log_capital

BETS = np.concatenate([2 * beta.ppf(0.5 + (np.arange(24) + 0.5) / 48, 5, 5) - 1, [0.6, 0.7, 0.8, 0.9, 0.95, 0.99]])
DIFFERENCE = st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0])
differences = st.lists(DIFFERENCE, min_size=1, max_size=60)


def heard(values, **options):
    sequence = ConfidenceSequence(**options)
    for value in values:
        sequence.add(value)
    return sequence.interval


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=3), st.floats(0.02, 0.98))
def test_the_capital_is_fair(weights, mean):
    # Over all ways that three values may come from a distribution with this mean, the expected capital is 1.
    values = np.linspace(0, 1, len(weights) + 2)
    chances = np.array([1.0, *weights, 1.0])
    chances /= chances.sum()
    now = float(chances @ values)
    mixed = min(mean / now, (1 - mean) / (1 - now)) if 0 < now < 1 else 0.0
    chances = chances * mixed
    if mixed < mean / now:  # what is left over goes to the end that makes the mean right
        chances[-1] += 1 - mixed
    else:
        chances[0] += 1 - mixed
    assert float(chances @ values) == pytest.approx(mean)
    expected = 0.0
    for drawn in itertools.product(range(len(values)), repeat=3):
        counts = np.bincount(drawn, minlength=len(values)).astype(float)
        expected += float(np.prod(chances[list(drawn)])) * math.exp(float(log_capital(values, counts, mean)))
    assert expected == pytest.approx(1.0)


@settings(max_examples=25)  # each finds the ends of up to 60 intervals
@given(differences)
def test_intervals_only_get_narrower_and_hold_what_they_must(values):
    sequence = ConfidenceSequence(null=0.0)
    before = (-1.0, 1.0, 1.0)
    for value in values:
        sequence.add(value)
        now = sequence.interval
        assert before[0] <= now.low <= now.high <= before[1]
        assert now.p <= before[2]
        before = (now.low, now.high, now.p)
        if now.low < now.high:  # 0 is left out exactly where it is refuted at that level
            assert (now.p <= 0.05) == (now.low > 1e-9 or now.high < -1e-9)


@settings(max_examples=25)
@given(st.lists(DIFFERENCE, min_size=1, max_size=20), st.floats(-3, 3), st.floats(0.1, 10))
def test_neither_scale_nor_side_matters(values, shift, scale):
    found = heard(values, null=0.0)
    turned = heard([-value for value in values], null=0.0)
    assert (turned.low, turned.high) == (pytest.approx(-found.high), pytest.approx(-found.low))
    assert turned.p == pytest.approx(found.p)
    moved = heard([shift + scale * value for value in values], least=shift - scale, maximum=shift + scale, null=shift)
    assert (moved.low - shift) / scale == pytest.approx(found.low, abs=1e-7)
    assert (moved.high - shift) / scale == pytest.approx(found.high, abs=1e-7)
    assert moved.p == pytest.approx(found.p)


@given(differences, st.randoms(use_true_random=False))
def test_the_last_capital_does_not_depend_on_the_order(values, random):
    shares = [(value + 1) / 2 for value in values]
    mixed = random.sample(shares, len(shares))

    def capital(given_):
        kinds, counts = np.unique(given_, return_counts=True)
        return float(log_capital(kinds, counts.astype(float), 0.3))

    assert capital(shares) == pytest.approx(capital(mixed))


@given(differences)
@pytest.mark.slow
def test_a_higher_level_is_a_wider_interval(values):
    wide, narrow = heard(values, level=0.99), heard(values, level=0.8)
    assert wide.low <= narrow.low + 1e-9
    assert wide.high >= narrow.high - 1e-9


def test_bad_values_and_bounds():
    with pytest.raises(ValueError, match="outside"):
        heard([1.5])
    with pytest.raises(ValueError, match="outside"):
        heard([math.nan])
    with pytest.raises(ValueError, match="least < most"):
        ConfidenceSequence(1.0, 1.0)
    assert ConfidenceSequence().interval is None
    # Means that no values within the bounds can have are refuted by anything.
    assert heard([0.0], null=2.0).p == 0.0


def simulated(simulations, questions, differing, difference, seed):
    """(simulations, questions): whether 0 is left out at 95 % by then, for right-or-wrong answers of two agents."""
    generator = np.random.default_rng(seed)
    chances = [(differing - difference) / 2, 1 - differing, (differing + difference) / 2]
    drawn = generator.choice(3, p=chances, size=(simulations, questions))
    counts = np.stack([np.cumsum(drawn == kind, axis=1) for kind in range(3)], axis=-1).astype(float)
    capital = log_capital(np.array([0.0, 0.5, 1.0]), counts, 0.5)
    return np.maximum.accumulate(capital, axis=1) >= math.log(20)


@pytest.mark.slow
def test_looking_after_every_question_rarely_separates_equals():
    # Where a test for a fixed number is looked at after every question, about a third is "separated" by 1,000.
    assert simulated(400, 1_000, 0.25, 0.0, seed=7)[:, -1].mean() <= 0.05


def test_ten_points_are_separated_within_twice_the_fixed_sample():
    n = next(n for n in range(50, 1_000) if minimum_detectable_effect(n, 0.25) <= 0.1)
    assert simulated(400, 2 * n, 0.25, 0.1, seed=7)[:, -1].mean() >= 0.8


@pytest.mark.slow
def test_intervals_hold_the_mean_at_all_times_together():
    generator = np.random.default_rng(11)
    missed = 0
    for _ in range(40):  # at 40 an interval that holds at one time alone, and misses in 45 of 100, passes once in 1,000
        values = generator.choice([-1.0, 0.0, 1.0], p=[0.1, 0.7, 0.2], size=100)
        found = heard(values, level=0.8)
        missed += not found.low <= 0.1 <= found.high  # one miss at any time stays a miss
    assert missed <= 0.2 * 40
