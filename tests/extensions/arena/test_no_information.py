"""Judges whose verdicts say nothing about the answers, through the command line and real HTTP: no ranking, and why."""

import json
import re

import numpy as np
import pytest

import ragrounds as rr
from ragrounds.evals.store.store import Store
from ragrounds.extensions.arena.functions import show_arena
from ragrounds.extensions.arena.matches import Matches
from ragrounds.extensions.arena.ratings import FEW_WINNERS, rate
from tests.extensions.arena.staging import add_run
from tests.servers.grader_server import grader_server

WORDS = {"thin": 2, "full": 30, "middle": 9}
PLAY = ("arena", "play", *WORDS, "--schedule", "full", "--axis", "usefulness", "--resamples", "200")


@pytest.fixture(scope="module")
def grader():
    with grader_server() as running:
        yield running


@pytest.fixture
def play(command, grader, home):
    """The command with judges on this server, on three runs of 20 answers of quite different length."""
    with Store(home) as store:
        for name, words in WORDS.items():
            add_run(store, name, [f"{name} {number}:" + " more" * (words + number % 3) for number in range(20)])

    def run(*models, more=()):
        judges = [word for model in models for word in ("--judge", f"openai:{model}")]
        return command(*PLAY, *judges, *more, "--base-url", grader.url)

    return run


def bare(judge):
    """A judge's name without its server."""
    return judge.removeprefix("openai:").partition("[")[0]


@pytest.mark.parametrize(
    ("judge", "orders", "said"),
    [
        ("grader-a", "both", r"openai:grader-a\[.*\] names a winner .* in 0.0% \(95 %: 0.0% to .*\) of 60 matches, "
         "it always names A, both orders agree in 0.0% of them"),
        ("grader-first", "both", "it always names the first answer, both orders agree in 0.0%"),
        pytest.param("grader-tie", "both", "it always says tie, both orders agree in 100.0%", marks=pytest.mark.slow),
        pytest.param("grader-a", "one", "in 0.0%.*it always names A", marks=pytest.mark.slow),
        ("grader-first", "one", "in 0.0%.*it always names the first answer"),
    ],
)  # fmt: skip
def test_a_constant_judge_ranks_nobody(play, home, judge, orders, said):
    told = play(judge, more=("--orders", orders))
    assert told.returncode == 3, told.stderr
    reason = re.search(
        r"No ranking: the verdicts say nothing about the answers\. .*?take another one with --judge",
        " ".join(told.stdout.split()),
    )
    assert reason, told.stdout
    assert re.search(said, reason[0]), reason[0]
    assert "take another one with --judge" in reason[0]
    assert not re.search(r"^rank +system", told.stdout, re.MULTILINE)
    assert "1000" not in told.stdout.partition("usefulness:")[2]
    (axis,) = json.loads(play(judge, more=("--orders", orders, "--json")).stdout)["axes"]
    assert axis["ratings"] is axis["controlled"] is None
    assert axis["orders_by_judge"] == []
    assert axis["uninformed"]
    share = axis["judges"][0]["informative"]
    assert share["value"] == share["low"] == 0.0
    assert share["high"] > 0.01  # of 60 matches, not of all there could be


@pytest.mark.slow
def test_it_is_withheld_in_frames_and_report_too(play, home, tmp_path):
    play("grader-a")
    frame = show_arena(resamples=200).to_pandas("ratings")
    assert frame[["rank", "worst_rank", "rating", "low", "high"]].isna().all(axis=None)
    assert frame["withheld"].str.startswith("No ranking: the verdicts say nothing").all()
    page = tmp_path / "report.html"
    rr.report(list(WORDS), page, attempts=False)
    part = page.read_text(encoding="utf-8").partition("<h2>Arena</h2>")[2].partition("</section>")[0]
    assert "usefulness: No ranking: the verdicts say nothing" in part
    assert "ratings from" not in part


@pytest.mark.slow
def test_in_a_panel_it_has_no_agreement_and_no_order_of_its_own(play):
    told = json.loads(play("grader", "grader-a", "grader-late", more=("--json",)).stdout)
    (axis,) = told["axes"]
    assert axis["ratings"]["rows"][0]["system"] == "full"
    alphas = {(bare(pair["one"]), bare(pair["other"])): pair["alpha"] for pair in axis["agreement"]}
    assert alphas == {("grader", "grader-a"): None, ("grader", "grader-late"): 1.0, ("grader-a", "grader-late"): None}
    assert [bare(judge) for judge, _ in axis["orders_by_judge"]] == ["grader", "grader-late"]
    assert any("grader-a[" in note and "Leave it out" in note for note in told["notes"])


def test_two_constant_judges_outvote_a_good_one(play):
    told = play("grader", "grader-a", "grader-first")
    assert told.returncode == 3
    reason = " ".join(told.stdout.split()).partition("No ranking: the verdicts say nothing")[2]
    assert re.search(r"grader-a\[.* names a winner .*grader-first\[.* names a winner .*cancel each other out", reason)


def test_a_nearly_constant_judge_has_intervals_that_are_not_zero_wide(play):
    told = json.loads(play("grader-mostly", more=("--json",)).stdout)
    (axis,) = told["axes"]
    judge = axis["judges"][0]
    assert 0.9 < judge["inconsistent"] < 1
    assert 0 < judge["informative"]["value"] < 0.1
    for row in axis["ratings"]["rows"]:
        assert row["high"] - row["low"] > 5
        assert (row["rank"], row["worst"]) == (1, 3)
    assert any("questions have a match with a winner" in note for note in axis["ratings"]["notes"])


def test_the_widened_interval_is_the_binomials():
    """One winner on 40 questions of two systems: the share of matches with a winner is (1 + 2) / (40 + 4), the
    information on the difference 40 / 4, so its standard error is sqrt(3 / 44 / 10), half of it a system's."""
    zeros = np.zeros(40, dtype=np.int64)
    score = np.full(40, 0.5)
    score[0] = 1.0
    found = rate(Matches(("a", "b"), zeros, zeros + 1, score, np.arange(40)), replicates=2000)
    first = found.rows[0]
    reached = 1.959964 * 400 / np.log(10) * np.sqrt(3 / 44 / 10) / 2
    assert first.low == pytest.approx(first.rating - reached, abs=0.1)
    assert [row.rank for row in found.rows] == [1, 1]


@pytest.mark.slow
def test_intervals_hold_an_even_match_of_few_winners():
    """Of 300 arenas in which a judge names a winner in 4 % of 40 matches, by lot, the 95 % interval holds the truth
    (1000 each) in 95 % of them or more."""
    draw = np.random.default_rng(1)
    zeros, held = np.zeros(40, dtype=np.int64), 0
    for seed in range(300):
        score = np.where(draw.random(40) < 0.04, draw.integers(0, 2, 40).astype(float), 0.5)
        if (score == 0.5).all():
            held += 1  # withheld
            continue
        row = rate(Matches(("a", "b"), zeros, zeros + 1, score, np.arange(40)), replicates=100, seed=seed).rows[0]
        held += row.low <= 1000 <= row.high
    assert (np.asarray(score) != 0.5).sum() <= FEW_WINNERS
    assert held >= 285
