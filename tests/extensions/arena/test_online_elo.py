"""Online Elo is FastChat's, order by order; the mean over orders is shown with its spread.

`online_elo.json` holds what `compute_elo` of lm-sys/FastChat (0e6d3e4b) returned for random battles, in three orders
each.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ragrounds.base.errors import UserError
from ragrounds.extensions.arena.matches import Matches
from ragrounds.extensions.arena.online_elo import EloSettings, parse_rating, rate_online, rate_orders
from tests.extensions.arena.making import played

CASES = json.loads(Path(__file__).with_name("online_elo.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES)
def test_each_order_has_the_ratings_of_fastchat(case):
    first, second = np.array(case["first"]), np.array(case["second"])
    systems = tuple(f"s{index}" for index in range(len(case["ratings"][0])))
    matches = Matches(systems, first, second, np.array(case["score"]), np.zeros(len(first), dtype=np.int64))
    ours = rate_orders(matches, np.array(case["orders"]), case["k"])
    assert ours == pytest.approx(np.array(case["ratings"]), abs=1e-9)


def test_the_mean_hardly_depends_on_the_orders_that_were_drawn():
    matches = played([0.8, 0.3, -0.2, -0.9], 480, questions=160)
    elo = [rate_online(matches, EloSettings(40.0, 1000), seed).by_system for seed in (1, 2)]
    for system in matches.systems:
        assert 20 < elo[0][system].sd < 60
        assert elo[0][system].rating == pytest.approx(elo[1][system].rating, abs=8)
    assert sum(rating.rating for rating in elo[0].values()) == pytest.approx(4000)


def test_without_matches_all_start_alike():
    nothing = np.array([], dtype=np.int64)
    rated = rate_online(Matches(("a", "b"), nothing, nothing, nothing.astype(float), nothing), EloSettings(40.0, 5))
    assert {(rating.rating, rating.sd) for rating in rated.by_system.values()} == {(1000.0, 0.0)}


def test_a_rating_is_named_with_its_parameters():
    assert parse_rating("bradley-terry") is None
    assert parse_rating("elo[k=40]") == EloSettings(40.0, 1000)
    assert parse_rating("elo[k=4.5,orders=30]") == EloSettings(4.5, 30)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("glicko", "glicko"),
        ("elo[speed=1]", "speed"),
        ("elo[k=0]", "positive"),
        ("elo[k=fast]", "positive"),
        ("elo[orders=1]", "from 2"),
        ("bradley-terry[k=40]", "bradley-terry"),
    ],
)
def test_a_wrong_rating_says_what_is_there(text, message):
    with pytest.raises(UserError, match=message):
        parse_rating(text)
