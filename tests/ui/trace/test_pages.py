"""Rows of runs: what they say, in which order, and that they are what was asked, not what was answered."""

from __future__ import annotations

import itertools
from pathlib import Path

from ragrounds.base.records import outcome
from ragrounds.evals.store.database import ChangeWatch
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.summaries import Pages
from tests.ui.trace.making import attempt, make_run, score


def test_every_question_has_a_row_in_the_order_asked(pages: Pages) -> None:
    rows = pages.read(range(len(pages)))
    assert len(pages) == 12
    assert [(one.run.agent, one.question.id) for one in rows] == [
        (run.agent, f"quiz/{number:03}") for run in pages.runs for number in range(6)
    ]
    assert [one.outcome for one in rows[:6]] == ["answered", "answered", "abstained", "failed", "answered", "not_run"]
    assert rows[5].model_calls is None
    assert rows[5].value is None


def test_a_scorer_that_is_not_preferred_counts_where_no_preferred_one_has_scored(store: Store) -> None:
    plain, seeker = store.runs()
    store.add_scores(plain, [score(0, False, scorer="equivalent"), score(5, False, scorer="equivalent")])
    store.add_scores(seeker, [score(2, True, scorer="judged"), score(2, False, scorer="equivalent")])
    pages = Pages(store, store.runs())
    shown = {(one.index, one.scorer, one.value) for one in pages.read([0, 5, 8, 9])}
    assert shown == {(0, "strict", 1.0), (5, "equivalent", 0.0), (8, "equivalent", 0.0), (9, "", None)}
    assert pages.seek("wrong", 4, 1) == 5
    assert 8 in pages.order("wrong")


def test_rows_come_in_the_order_they_are_asked_for_and_those_beyond_the_end_do_not(pages: Pages) -> None:
    assert [one.index for one in pages.read([7, 0, 11, 99])] == [7, 0, 11]


def test_outcomes_are_those_of_the_tally(tmp_path: Path) -> None:
    statuses = ("completed", "blocked", "failed", "capped", "paused", "not_run")
    readings = ("answered", "abstained", "refused", "unreadable", "empty")
    pairs = list(itertools.product(statuses, readings))
    with Store(tmp_path) as store:
        run = make_run(store, "all", len(pairs))
        store.add_attempts(
            run,
            [attempt(run, number, (), status) for number, (status, _) in enumerate(pairs)],
            [score(number, False, reading) for number, (_, reading) in enumerate(pairs)],
        )
        rows = Pages(store, [run]).read(range(len(pairs)))
    assert [one.outcome for one in rows] == [outcome(status, reading) for status, reading in pairs]


def test_what_was_never_scored_was_answered_and_has_no_value(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        run = make_run(store, "bare", 1)
        store.add_attempts(run, [attempt(run, 0, ())])
        found = Pages(store, [run]).read([0])[0]
    assert (found.outcome, found.value, found.scorer, found.wrong) == ("answered", None, "", False)


def test_epochs_are_rows_of_their_own_and_missing_ones_were_not_run(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        run = make_run(store, "twice", 3, epochs=2)
        store.add_attempts(run, [attempt(run, 1, (), epoch=1)], [score(1, True, epoch=1)])
        pages = Pages(store, [run])
        rows = pages.read(range(len(pages)))
        assert [(one.question.id[-1], one.epoch, one.value) for one in rows] == [
            ("0", 0, None), ("0", 1, None), ("1", 0, None), ("1", 1, 1.0), ("2", 0, None), ("2", 1, None),
        ]  # fmt: skip
        assert pages.row_of(0, "quiz/001", 1) == 3
        assert pages.row_of(0, "quiz/001", 2) is None
        assert list(pages.order("right")) == [3]


def test_the_first_preferred_scorer_counts_and_is_named(store: Store, pages: Pages) -> None:
    assert pages.read([2])[0].scorer == "strict"
    published = Pages(store, store.runs(), ("mirage", "strict"))
    assert (published.read([2])[0].scorer, published.read([2])[0].value) == ("mirage", 1.0)
    assert published.read([1])[0].scorer == "strict"  # not scored by mirage


def test_sorting_puts_what_is_not_known_last_either_way(pages: Pages) -> None:
    known = [one.model_calls for one in pages.read(pages.order("", "model_calls"))]
    assert known[:3] == [4, 4, 4]
    assert known[-4:] == [None] * 4
    rising = [one.seconds for one in pages.read(pages.order("", "time", descending=False))]
    assert rising[:8] == sorted(rising[:8])
    assert rising[-4:] == [None] * 4


def test_questions_on_which_two_runs_differ(pages: Pages) -> None:
    assert [(id, one, other) for id, _, _, one, other in pages.differing(0, 1)] == [
        ("quiz/001", 0.0, 1.0),
        ("quiz/004", 1.0, 0.0),
    ]
    assert [row for _, _, row, _, _ in pages.differing(1, 0)] == [7, 10]


def test_all_scores_of_an_attempt(pages: Pages) -> None:
    assert [one.scorer for one in pages.scores(pages.read([0])[0])] == ["mirage", "strict"]
    assert pages.scores(pages.read([5])[0]) == ()


def test_a_watch_sees_what_another_connection_writes(store: Store, pages: Pages) -> None:
    watch = ChangeWatch(pages.store.engine)
    assert not watch.changed()
    store.add_scores(store.runs()[0], [score(0, False)])
    assert watch.changed()
    assert not watch.changed()
    watch.close()
