"""Hops: what each search found, what was new, and whether a later prompt held it."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from ragrounds.base.contracts import SearchRequest
from ragrounds.base.records import Attempt, Passage
from ragrounds.evals.trace.attempt_facts import facts_row
from ragrounds.evals.trace.hops import SYSTEMS_OWN, hops_of
from ragrounds.evals.trace.traces import TracedCall
from tests.store.test_causes import BAD, GOLD, GOOD, TEXT, model, passage, search


def test_what_was_found_before_is_not_new_and_an_equal_query_is_a_repetition() -> None:
    first, second = hops_of([search("Wrist drop", BAD), search("wrist  drop", BAD, GOOD)], GOLD)
    assert [one.new for one in second.found] == [False, True]
    assert (first.repeats, second.repeats) == (None, 1)
    assert (first.gold_ranks, second.gold_ranks) == ((), (2,))


def test_a_prompt_before_the_search_does_not_count() -> None:
    (hop,) = hops_of([model(GOOD.text), search("x", GOOD)], GOLD)
    assert hop.found[0].fate == "not seen"


def test_a_passage_is_known_again_with_other_white_space_and_inside_json() -> None:
    text = 'One line.\nAnother "line" of the same passage, which is long enough to be told from others. ' * 2
    given = passage("gold", text)
    for prompt in (" ".join(text.split()), json.dumps({"results": [text]}), json.dumps([text + "Größe"])):
        (hop,) = hops_of([search("x", given), model(prompt)], GOLD)
        assert hop.found[0].fate == "seen", prompt
    (hop,) = hops_of([search("x", given), model(json.dumps([text])[:110])], GOLD)
    assert hop.found[0].fate == "cut"


def test_which_prompts_held_the_whole_and_which_its_beginning() -> None:
    (hop,) = hops_of([search("x", GOOD), model(TEXT), model("?"), model(TEXT[:90])], GOLD)
    assert hop.found[0].prompts == (1, 3)
    assert hop.found[0].cut_in == (3,)
    assert hop.found[0].fate == "seen"


def test_only_gold_leaves_the_fates_of_the_others_alone() -> None:
    (hop,) = hops_of([search("x", BAD, GOOD), model(BAD.text + GOOD.text)], GOLD, only_gold=True)
    assert [one.fate for one in hop.found] == ["not seen", "seen"]


def told_at_the_end(*found: Passage) -> TracedCall:
    """The documents that a system's state held: a search in no node, behind every call."""
    heard = search("x", *found)
    own = SearchRequest(corpus=SYSTEMS_OWN, query="x", k=5)
    return replace(heard, call=replace(heard.call, node=""), searched=own)


@pytest.mark.parametrize(
    ("prompt", "fate", "seen"),
    [(GOOD.text, "seen", 1), (GOOD.text[:90], "cut", 1), ("another text", "not known", None)],
)
def test_what_a_system_tells_at_its_end_is_looked_for_in_every_prompt(prompt: str, fate: str, seen: int | None) -> None:
    calls = [model(prompt), model("?"), told_at_the_end(GOOD)]
    (hop,) = hops_of(calls, GOLD)
    assert (hop.found[0].fate, hop.untimed) == (fate, True)
    row = facts_row(Attempt(run="r", question_id="q/1", epoch=0, status="completed", text=""), calls, GOLD, 0)[1]
    assert (row["gold_found"], row["gold_seen"]) == (1, seen)


def test_a_system_s_own_search_before_a_call_keeps_its_place() -> None:
    (hop,) = hops_of([model(GOOD.text), told_at_the_end(GOOD), model("?")], GOLD)
    assert (hop.found[0].fate, hop.untimed) == ("not seen", False)


def test_without_any_recorded_prompt_it_is_not_known_what_was_seen() -> None:
    (hop,) = hops_of([search("x", GOOD), replace(model("?"), asked=None)], GOLD)
    assert hop.found[0].fate == "not known"
