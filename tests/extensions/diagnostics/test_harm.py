"""What wrong and missing answers cost: the user's table, the losses, the price at which two runs lose the same."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from ragrounds.base.errors import UserError
from ragrounds.base.records import Question
from ragrounds.evals.analyses.analysis import AnalysisOptions, analyse
from ragrounds.extensions.diagnostics.analyses.harm import difference, read_costs
from tests.compare.making import add_run

COUNT = 200
OPTIONS = {"A": "yes", "B": "no"}
QUESTIONS = [
    Question(id=f"x/{i}", benchmark=f"b/{i % 2}", text=f"{i}?", options=OPTIONS, group="skin" if i < 50 else "heart")
    for i in range(COUNT)
]


def add(store, name, outcome):
    """A run whose question i is ``right``, ``wrong`` or ``none``, or has a ``missing`` score."""
    made = [outcome(i) for i in range(COUNT)]
    values = [None if one == "missing" else float(one == "right") for one in made]
    abstained = {place: "abstained" for place, one in enumerate(made) if one == "none"}
    return add_run(store, name, QUESTIONS, values, answer_statuses=abstained, id=f"{name}-1")


def costs(tmp_path, text):
    path = tmp_path / "costs.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_highest_cost_that_fits_counts(tmp_path):
    text = 'wrong = 5\n[subject.skin]\nwrong = 2\nnone = 0.5\n[dataset."b/1"]\nwrong = 3\n[option.B]\nwrong = 4\n'
    cost = read_costs(costs(tmp_path, text), QUESTIONS)
    skin, heart = QUESTIONS[0], QUESTIONS[100]
    assert (cost(heart, "wrong", "A"), cost(heart, "none", ""), cost(heart, "wrong", "B")) == (5, 1, 4)
    assert (cost(skin, "wrong", "A"), cost(QUESTIONS[1], "wrong", "A"), cost(skin, "none", "")) == (2, 3, 0.5)
    assert read_costs("", QUESTIONS)(skin, "wrong", "A") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("wrong = -1", r"costs.toml: wrong = -1 is no cost; expected wrong or none = a number from 0"),
        ("wrong = nan", "wrong = nan is no cost"),
        ("wrong = true", "wrong = True is no cost"),
        ('wrong = "5"', "wrong = '5' is no cost"),
        ("wrnog = 5", "wrnog = 5 is no cost"),
        ("[subject.skin]\nwrnog = 5", r"\[subject.skin\] wrnog = 5 is no cost"),
        ("[subject]\nskin = 5", r"\[subject.skin\] skin = 5 is no cost"),
        ("[subject.skni]\nwrong = 5", r"no question of these runs fits \[subject.skni\]"),
        ("[option.Q]\nwrong = 5", r"no question of these runs fits \[option.Q\]"),
        ("[speciality.skin]\nwrong = 5", "costs.toml: Questions cannot be grouped by 'speciality'"),
        ("wrong = = 5", "cannot be read as TOML"),
        (f"wrong = {'[' * 5000}", "nested too deeply"),
    ],
)
def test_a_table_that_cannot_be_read_says_why_in_one_line(tmp_path, text, said):
    with pytest.raises(UserError, match=said) as raised:
        read_costs(costs(tmp_path, text), QUESTIONS)
    assert "\n" not in str(raised.value)
    with pytest.raises(UserError, match="nowhere"):
        read_costs("nowhere.toml", QUESTIONS)


def test_a_property_that_no_question_has_is_named_with_its_file(tmp_path):
    bare = [replace(one, group="") for one in QUESTIONS]
    with pytest.raises(UserError, match=r"costs\.toml: None of these questions has a subject; take another property"):
        read_costs(costs(tmp_path, "[subject.skin]\nwrong = 5"), bare)


def test_losses_and_the_price_from_which_a_careful_agent_loses_less(store, tmp_path):
    """Of 200 questions the bold agent has 60 wrong; the careful one 20, and 60 without an answer: 60 + 0 against
    20 + 60 at the price 1, the same at 1.5."""
    bold = add(store, "bold", lambda i: "wrong" if i < 60 else "right")
    careful = add(store, "careful", lambda i: "wrong" if i < 20 else "none" if i < 80 else "right")
    found = analyse("harm", store, [bold, careful], AnalysisOptions())
    first, second = found.record
    assert (first.wrong.value, first.none.value, first.loss.value) == (0.3, 0.0, 0.3)
    assert (second.wrong.value, second.none.value, second.loss.value) == (0.1, 0.3, pytest.approx(0.4))
    more = second.more
    assert first.more is None
    assert more.price == pytest.approx(1.5)
    assert more.low < 1.5 < more.high
    for end in (more.low, more.high):  # the interval of the price ends where that of the difference does
        value, half = more.difference_at(end)
        assert abs(value) == pytest.approx(half)
    assert more.difference_at(1.5)[0] == pytest.approx(0.0)
    assert more.words == f"from 1.5 ({more.low:.3g} to {more.high:.3g})"
    back = analyse("harm", store, [careful, bold], AnalysisOptions()).record[1].more
    assert (back.price, back.low, back.high) == pytest.approx((more.price, more.low, more.high))
    assert back.words.startswith("up to 1.5 (")
    dear = AnalysisOptions(severity=costs(tmp_path, "wrong = 5"))
    made = analyse("harm", store, [bold, careful], dear)
    assert made.record[1].more.price == pytest.approx(0.3)
    assert [one.loss.value for one in made.record] == [1.5, pytest.approx(0.8)]
    assert "Costs: " in made.table.note


def test_prices_without_a_crossing_or_a_bound(store):
    right, better = (
        add(store, "right", lambda i: "right"),
        add(store, "better", lambda i: "wrong" if i < 40 else "right"),
    )
    worse = add(store, "worse", lambda i: "wrong" if i < 60 else "none" if i < 100 else "right")
    few = add(store, "few", lambda i: "wrong" if i < 3 else "right")
    near = add(store, "near", lambda i: "wrong" if 10 <= i < 49 else "none" if 100 <= i < 115 else "right")
    made = {
        one.run: one.more for one in analyse("harm", store, [better, right, worse, few, near], AnalysisOptions()).record
    }
    assert made["right-1"].words == "at every price"
    assert made["worse-1"].words == "at no price"
    assert (made["near-1"].price, made["near-1"].high) == (pytest.approx(15), None)  # 1 wrong fewer, 15 without answer
    assert made["near-1"].words == f"from 15 ({made['near-1'].low:.3g} and more)"
    alone = analyse("harm", store, [right, few], AnalysisOptions()).record[1].more
    assert alone.words == "at no price (too few questions)"


def test_missing_scores_are_left_out_and_runs_without_common_questions_refused(store):
    bold = add(store, "bold", lambda i: "missing" if i < 100 else "wrong" if i < 160 else "right")
    made = analyse("harm", store, [bold], AnalysisOptions())
    assert [mark.value for mark in made.picture.marks] == [0.6, 0.0]
    assert (made.record[0].wrong.n, made.record[0].wrong.missing, made.record[0].wrong.value) == (100, 100, 0.6)
    with pytest.raises(UserError, match="none in common"):
        difference(QUESTIONS, {}, {"x/0": (0.0, 0.0, 0.0, 0.0)})


def test_the_interval_is_that_of_the_difference_at_each_price():
    """Fieller's interval against the curve: 0 is in the interval of the difference at exactly the prices inside."""
    draw, intervals = np.random.default_rng(1), 0
    for _ in range(20):
        table = draw.multinomial(1, draw.dirichlet((9, 9, 9)), size=(2, COUNT)).astype(float)
        first, second = (
            {one.id: (*row, *row) for one, row in zip(QUESTIONS, each[:, :2], strict=True)} for each in table
        )
        made = difference(QUESTIONS, first, second)
        inside = [
            price
            for price in np.linspace(0, 50, 501)
            if abs(made.difference_at(price)[0]) <= made.difference_at(price)[1]
        ]
        if made.low is None:
            assert not inside
        elif inside:
            intervals += 1
            assert made.low <= inside[0] + 1e-9
            assert made.high is None or inside[-1] <= made.high + 1e-9
    assert intervals > 5
