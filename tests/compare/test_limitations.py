"""Limitations follow from the data: each is said where its data are, and nowhere else."""

from msgspec.structs import replace

from ragrounds.evals.compare.comparison import compare
from ragrounds.ui.agent_names import agent_names
from ragrounds.ui.tables.comparison_warnings import limitation_sentences
from tests.compare.making import add_run, questions

ASKED = questions(40)
ONCE = "Each question was asked once: how much the answers of one system vary was not measured."


def found(store, runs):
    made = compare(store, runs)
    return list(limitation_sentences(store, runs, made, (), agent_names(made)))


def test_the_smallest_difference_that_can_be_seen_is_that_of_the_pairs(store):
    runs = [add_run(store, name, ASKED, [1] * right + [0] * (40 - right)) for name, right in (("a", 20), ("b", 29))]
    size, once, one_model = found(store, runs)
    mde = compare(store, runs).tables[0].pairs[0].tests.mde
    assert size.startswith("40 questions under strict show a true difference")
    assert f"from so many points on: {100 * mde:.1f} (" in size
    assert once == ONCE
    assert one_model.startswith("All systems asked one model")


def test_clusters_and_unmarked_duplicates_are_counted(store):
    asked = [*(replace(one, cluster="same") for one in ASKED[:3]), *ASKED[3:]]
    asked[10] = replace(asked[10], text=asked[11].text)
    clusters, same, once = found(store, [add_run(store, "a", asked, [1, 0] * 20)])
    assert clusters.startswith("3 of the 40 questions are in 1 cluster of duplicates")
    assert same.startswith("2 questions share their text and options with another (1 text)")
    assert once == ONCE


def test_unread_answers_imports_and_samples_are_said(store):
    identity = {"models": {"model": "m"}, "selection": {"of": 400, "limit": 40, "seed": 1}}
    runs = [
        add_run(store, "a", ASKED, [0] * 40, answer_statuses={0: "unreadable"}, identity=identity),
        add_run(store, "b", ASKED, [1] * 40, origin="imported"),
    ]
    said = " ".join(found(store, runs))
    assert "strict can read no choice; they are not right. Of 40 attempts each: a 1." in said
    assert "The answers of b were made elsewhere" in said
    assert "40 questions sampled from 400" in said
