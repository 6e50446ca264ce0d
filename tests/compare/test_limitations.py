"""Limitations follow from the data: each is there where its data are, and nowhere else."""

from msgspec.structs import replace

from ragrounds.evals.compare.abstract import limitations
from ragrounds.evals.compare.comparison import compare
from ragrounds.ui.comparison_tables import agent_names
from ragrounds.ui.comparison_warnings import limitation_sentences
from tests.compare.making import add_run, questions

ASKED = questions(40)


def found(store, runs):
    made = compare(store, runs)
    return {one.kind: one for one in limitations(store, runs, made)}, " ".join(
        limitation_sentences(limitations(store, runs, made), agent_names(made))
    )


def test_the_smallest_difference_that_can_be_seen_is_that_of_the_pairs(store):
    runs = [add_run(store, name, ASKED, [1] * right + [0] * (40 - right)) for name, right in (("a", 20), ("b", 29))]
    made, said = found(store, runs)
    mde = compare(store, runs).tables[0].pairs[0].tests.mde
    assert (made["size"].low, made["size"].high, made["size"].of) == (mde, mde, 40)
    assert f"from so many points on: {100 * mde:.1f}" in said
    assert set(made) == {"size", "once", "one model"}


def test_clusters_and_unmarked_duplicates_are_counted(store):
    asked = [*(replace(one, cluster="same") for one in ASKED[:3]), *ASKED[3:]]
    asked[10] = replace(asked[10], text=asked[11].text)
    made, said = found(store, [add_run(store, "a", asked, [1, 0] * 20)])
    assert (made["clusters"].counts, made["clusters"].of) == ((1, 3), 40)
    assert made["same text"].counts == (1, 2)
    assert "3 of the 40 questions stand in 1 cluster of duplicates" in said


def test_open_attempts_are_there_with_the_bounds_that_they_leave(store):
    ended = {0: "failed", 1: "capped"}
    made, said = found(store, [add_run(store, "a", ASKED, [0, 0] + [1] * 20 + [0] * 18, status=ended)])
    assert made["open"].counts == (2,)
    assert made["open"].bounds == ((0.5, 0.55),)
    assert "a 50.00 to 55.00 (2)" in said


def test_unread_answers_unknown_costs_imports_and_samples_are_said(store):
    identity = {"models": {"model": "m"}, "selection": {"of": 400, "limit": 40, "seed": 1}}
    runs = [
        add_run(store, "a", ASKED, [0] * 40, answer_statuses={0: "unreadable"}, cost_uncached=None, identity=identity),
        add_run(store, "b", ASKED, [1] * 40, origin="imported", cost_uncached=None),
    ]
    made, said = found(store, runs)
    assert (made["unreadable"].runs, made["unreadable"].counts) == ((runs[0].id,), (1,))
    assert made["unpriced"].runs == (runs[0].id, runs[1].id)
    assert made["imported"].runs == (runs[1].id,)
    assert (made["sample"].counts, made["sample"].of) == ((40,), 400)
    assert "40 questions drawn from 400" in said


def test_answers_without_a_score_and_too_few_of_them_are_said(store):
    few = questions(3)
    made, said = found(store, [add_run(store, "a", few, [1, 0, "unscored"])])
    assert made["missing"].counts == (1,)
    assert "a 1 of 3 questions each" in said


def test_every_kind_has_its_words(store):
    from typing import get_args

    from ragrounds.evals.compare.abstract import Limitation, LimitationKind

    for kind in get_args(LimitationKind):
        one = Limitation(
            kind=kind,
            scorer="strict",
            runs=("r",),
            counts=(2, 5),
            of=9,
            low=0.1,
            high=0.2,
            bounds=((0.1, 0.2),),
            rights=((1, 2),),
            letter="A",
        )
        one = one if kind in ("clusters", "same text") else replace(one, counts=(2,))
        assert next(iter(limitation_sentences([one], {"r": "a"}))).endswith("."), kind
