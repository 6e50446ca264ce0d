"""Self-preference."""

import pytest

from ragrounds.evals.arena.diagnostics import self_preference
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
