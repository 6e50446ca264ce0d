"""Self-preference, exact scores, correction by votes."""

import numpy as np
import pytest

from ragrounds.evals.arena.corrections import correct_by_votes
from ragrounds.evals.arena.diagnostics import against_exact, self_preference
from ragrounds.evals.arena.matches import Matches
from ragrounds.evals.arena.ratings import fit
from ragrounds.evals.arena.verdicts import Match
from ragrounds.evals.store.arenas import Arena, Axis, Contestant


def arena(*judges):
    return Arena(
        systems=(
            Contestant(name="mine", run="r1", model="openai:gpt-x[temperature=0]"),
            Contestant(name="yours", run="r2", model="anthropic:c"),
        ),
        benchmark="own",
        questions="x",
        count=3,
        axes=(Axis("usefulness", "u"),),
        judges=judges,
        prompts={},
    )


def match(number, *said):
    return Match(number=number, question_id=f"q{number}", first=0, second=1, judges=tuple((word,) for word in said))


def test_a_judge_that_favours_its_own_model_is_seen_beside_another():
    played = [
        match(0, "first", "second"),
        match(1, "first", "tie"),
        match(2, "first", "first"),
        match(3, None, "first"),
    ]
    found = self_preference(arena("openai:gpt-x", "openai:other"), played, 0)
    assert len(found) == 1
    assert found[0].judge == "openai:gpt-x"
    assert found[0].systems == ("mine",)
    assert (found[0].matches, found[0].own, found[0].others) == (3, 1.0, 0.5)
    assert found[0].difference.value == pytest.approx(0.5)


def test_one_judge_alone_cannot_show_it():
    (found,) = self_preference(arena("anthropic:c"), [match(0, "second"), match(1, "tie")], 0)
    assert found.own == 0.75
    assert found.others is None
    assert found.difference is None


def test_a_judge_of_another_model_is_not_listed():
    assert self_preference(arena("openai:other"), [match(0, "first")], 0) == ()


def test_exact_scores_are_set_against_the_arena_question_by_question():
    played = [
        match(0, "first"),
        match(1, "first"),
        match(2, "tie"),
        match(3, "second"),
        match(4, "tie"),
        match(5, None),
    ]
    mine = {"q0": 1.0, "q1": 0.2, "q2": 0.5, "q3": 0.4, "q4": 1.0, "q5": 1.0}
    yours = {"q0": 0.5, "q1": 0.9, "q2": 0.5, "q3": 0.4, "q4": 0.1, "q5": 0.0}
    (found,) = against_exact(arena("j"), played, 0, [{"facts": mine, "own": {"q0": 1.0}}, {"facts": yours}])
    assert found.scorer == "facts"
    assert (found.matches, found.agree, found.disagree) == (5, 2, 1)


def test_a_scorer_that_counts_what_is_wrong_is_turned_round():
    scores = [{"contradiction": {"q0": 0.0, "q1": 0.5}}, {"contradiction": {"q0": 0.25, "q1": 0.0}}]
    (found,) = against_exact(arena("j"), [match(0, "first"), match(1, "first")], 0, scores)
    assert (found.agree, found.disagree) == (1, 1)


def _voted(seed, bias, votes=150, judged=1500):
    """People like a (strength 0.4 over b, 0 c); the judge likes c by `bias` more, and mostly follows people."""
    draw = np.random.default_rng(seed)
    truth, judge = np.array([0.4, 0.0, -0.4]), np.array([0.4, 0.0, -0.4 + bias])
    count = votes + judged
    first = draw.integers(0, 3, count)
    second = (first + draw.integers(1, 3, count)) % 3
    luck = draw.random(count)
    human = (luck < 1 / (1 + np.exp(truth[second] - truth[first]))).astype(float)
    other = np.where(draw.random(count) < 0.9, luck, draw.random(count))
    said = (other < 1 / (1 + np.exp(judge[second] - judge[first]))).astype(float)
    names = ("a", "b", "c")
    sample = Matches(names, first[:votes], second[:votes], human[:votes], np.arange(votes))
    rest = Matches(names, first[votes:], second[votes:], said[votes:], np.arange(judged))
    return sample, said[:votes], rest


def test_votes_take_out_a_judges_bias_and_the_judge_narrows_the_votes():
    truth = fit(np.array([[0, 1 / (1 + np.exp(-0.4)), 1 / (1 + np.exp(-0.8))],
                          [1 - 1 / (1 + np.exp(-0.4)), 0, 1 / (1 + np.exp(-0.4))],
                          [1 - 1 / (1 + np.exp(-0.8)), 1 - 1 / (1 + np.exp(-0.4)), 0]])).ratings  # fmt: skip
    covered, gains, fooled = [], [], 0
    for seed in range(60):
        votes, same, rest = _voted(seed, bias=0.8)
        found = correct_by_votes(votes, same, rest)
        covered += [low <= value <= high for low, value, high in zip(found.low, truth, found.high, strict=True)]
        gains.append(found.gain)
        fooled += fit(rest.totals()).ratings[2] > fit(rest.totals()).ratings[1]
    assert np.mean(covered) > 0.9
    assert np.mean(gains) > 1.5
    assert fooled > 50  # the judge alone has the order wrong


def test_a_useless_judge_changes_little():
    votes, _, rest = _voted(0, bias=0.0)
    noise = np.random.default_rng(1).integers(0, 2, len(votes)).astype(float)
    found = correct_by_votes(votes, noise, rest)
    assert found.weight < 0.25
    assert found.ratings == pytest.approx(tuple(fit(votes.totals()).ratings), abs=25)


def test_too_few_votes_correct_nothing():
    votes, same, rest = _voted(0, bias=0.0, votes=20)
    assert correct_by_votes(votes, same, rest) is None
