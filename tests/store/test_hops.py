"""Hops: what each search found, what was new, and whether a later prompt held it."""

from __future__ import annotations

import json

from ragrounds.evals.store.hops import hops_of
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
