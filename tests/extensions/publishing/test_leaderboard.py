"""Runs as rankings: who meets whom, why others do not, and which places the tests leave open."""

from msgspec.structs import replace

from ragrounds.evals.store.store import Store
from ragrounds.extensions.publishing.leaderboard import rank, selection_words
from tests.compare.making import add_run, questions


def ids(ranking):
    return [run.id for run in ranking.runs]


def test_runs_of_other_questions_are_never_in_one_ranking_(store: Store) -> None:
    add_run(store, "one", questions(20), [1] * 20)
    add_run(store, "two", questions(20), [0] * 20)
    add_run(store, "few", questions(8), [1] * 8)
    changed = [*questions(19), replace(questions(20)[-1], text="Another text?")]
    add_run(store, "changed", changed, [1] * 20)
    found = rank(store, store.runs()).rankings
    assert sorted(ids(one) for one in found) == [["changed-run"], ["few-run"], ["one-run", "two-run"]]
    assert ids(found[-1]) == ["few-run"]
    assert len({one.key for one in found}) == 3


def test_epochs_and_headlines_part_rankings_of_the_same_questions(store: Store) -> None:
    add_run(store, "once", questions(6), [1] * 6)
    add_run(store, "thrice", questions(6), [[1, 0, 1]] * 6, epochs=3)
    add_run(store, "lenient", questions(6), [1] * 6, scorer="robust")
    found = {ids(one)[0]: one for one in rank(store, store.runs()).rankings}
    assert set(found) == {"once-run", "thrice-run", "lenient-run"}
    assert len({one.key for one in found.values()}) == 3
    assert all(one.key.startswith("x-") for one in found.values())


def test_the_best_is_first_and_places_are_what_the_tests_leave_open(store: Store) -> None:
    asked = questions(60)
    add_run(store, "low", asked, [0] * 60)
    add_run(store, "high", asked, [1] * 58 + [0, 0])
    add_run(store, "near", asked, [1] * 57 + [0, 1, 0])
    (found,) = rank(store, store.runs()).rankings
    assert ids(found) == ["high-run", "near-run", "low-run"]
    places = {run: (one.first, one.last) for run, one in found.places["strict"].items()}
    assert places == {"high-run": (1, 2), "near-run": (1, 2), "low-run": (3, 3)}
    assert [row.run for row in found.comparison.rows] == ids(found)


def test_what_open_attempts_could_turn_round_decides_no_place(store: Store) -> None:
    asked = questions(60)
    add_run(store, "high", asked, [1] * 58 + [0, 0])
    add_run(store, "half", asked, [1] * 5 + [...] * 55)
    (found,) = rank(store, store.runs()).rankings
    places = {run: (one.first, one.last) for run, one in found.places["strict"].items()}
    assert places == {"high-run": (1, 2), "half-run": (1, 2)}
    assert [lack.run for lack in found.abstract.missing_results] == ["half-run"]


def test_a_run_that_lacks_a_column_does_not_end_the_ranking(store: Store) -> None:
    asked = questions(6)
    both = add_run(store, "both", asked, [1] * 6)
    store.add_scores(both, [replace(score, scorer="mirage") for score in store.scores(both)])
    add_run(store, "alone", asked, [0] * 6)
    (found,) = rank(store, store.runs()).rankings
    assert ids(found) == ["both-run", "alone-run"]
    assert [table.scorer for table in found.comparison.tables] == ["strict"]
    assert "Not compared under mirage: alone-run has no scores by it." in found.comparison.notes


def test_a_run_without_an_attempt_is_left_out_with_the_reason(store: Store) -> None:
    add_run(store, "none", questions(3), [...] * 3)
    found = rank(store, store.runs())
    assert found.rankings == ()
    assert [(one.runs, one.why) for one in found.left_out] == [(("none-run",), "no attempt was made yet")]


def test_the_selection_in_words(store: Store) -> None:
    run = add_run(store, "one", questions(5), [1] * 5)
    assert selection_words(run) == ""
    drawn = replace(run, identity={"selection": {"seed": 7, "limit": 5, "per_dataset": None, "of": 7663}})
    assert selection_words(drawn) == "5 of 7,663, sampled with seed 7"
    each = replace(run, identity={"selection": {"seed": 0, "limit": None, "per_dataset": 5, "of": 7663}})
    assert selection_words(each) == "5 of 7,663, 5 of each dataset, sampled with seed 0"
