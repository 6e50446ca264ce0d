"""Figures as they are shown: no minus before nothing, one call and two calls."""

import json

import pytest

from ragrounds.cli.output import print_json
from ragrounds.evals.compare.stopped_runs import ClaimVerdict, ConditionVerdict, StopRecord
from ragrounds.ui.tables.claim_text import stop_text
from ragrounds.ui.text import figure_text, in_scale, percent, points


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (-0.0, ".2f", "0.00"),
        (-0.001, ".2f", "0.00"),
        (-0.001, "+.2f", "+0.00"),
        (-0.0, ".4g", "0"),
        (-0.0, "+.4g", "+0"),
        (-0.006, ".2f", "-0.01"),
        (-1e-9, ".4g", "-1e-09"),
        (0.5, "+.1f", "+0.5"),
    ],
)
def test_nothing_has_no_minus(value, form, text):
    assert figure_text(value, form) == text


def test_percent_points_and_scores_have_none_either():
    assert (percent(-0.00001), points(-0.00001), in_scale(-0.0, "words")) == ("0.00", "+0.00", "0")
    assert points(-0.5) == "-50.00"


def test_json_has_none_either(capfdbinary):
    print_json({"a": -0.0, "b": [-0.0, {"c": (-0.0, -1.5)}]})
    out = capfdbinary.readouterr().out
    assert b"-0.0" not in out
    assert json.loads(out) == {"version": 2, "a": 0.0, "b": [0.0, {"c": [0.0, -1.5]}]}


@pytest.mark.parametrize(
    ("questions", "draws"), [(38, ""), (76, " in 38 draws (n: one of each dataset, with its duplicates)")]
)
def test_a_stop_says_what_its_draws_are_if_they_are_no_questions(questions, draws):
    condition = ConditionVerdict(decision="holds", level=0.95, rounds=36, missing=2)
    state = ClaimVerdict(claim="c", decision="holds", questions=questions, conditions=(condition,))
    *_, last = stop_text(StopRecord(runs=("r",), seed=3, scorer="robust", state=state)).splitlines()
    assert last == f"  {questions} questions{draws}, in the random order of --seed 3"
