from ragrounds.evals.store.arenas import Arena, Axis, Contestant
from ragrounds.extensions.arena.diagnostics import judge_agreements, judges_of_own_model


def test_judges_that_say_the_same_agree():
    said = {"one": {1: "first", 2: "tie", 3: "second"}, "two": {2: "tie", 3: "second", 4: "first"}}
    (found,) = judge_agreements(said)
    assert (found.items, found.same, found.alpha) == (2, 1.0, 1.0)


def test_judges_without_common_items_are_not_compared():
    (found,) = judge_agreements({"one": {1: "first"}, "two": {2: "first"}})
    assert (found.items, found.same, found.alpha) == (0, None, None)


def test_all_the_same_has_no_alpha():
    (found,) = judge_agreements({"one": {1: "tie", 2: "tie"}, "two": {1: "tie", 2: "tie"}})
    assert (found.same, found.alpha) == (1.0, None)


def test_every_pair_of_judges_is_compared():
    found = judge_agreements({name: {1: "tie", 2: "first"} for name in ("one", "two", "three")})
    assert [(pair.one, pair.other) for pair in found] == [("one", "two"), ("one", "three"), ("two", "three")]


def test_a_judge_whose_model_plays_is_named_with_its_systems():
    systems = (
        Contestant(name="mine", run="r1", model="openai:gpt-x[temperature=0]"),
        Contestant(name="yours", run="r2", model="anthropic:c"),
        Contestant(name="reference"),
    )
    judges = ("openai:gpt-x", "openai:other")
    axes = (Axis("usefulness", "u"),)
    arena = Arena(systems=systems, benchmark="own", questions="x", count=3, axes=axes, judges=judges, prompts={})
    assert judges_of_own_model(arena) == (("openai:gpt-x", ("mine",)),)
