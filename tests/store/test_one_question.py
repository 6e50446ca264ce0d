"""Looking at one answer reads one question of a run, however many it has."""

from __future__ import annotations

import pytest

from ragrounds.base.errors import UserError
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import trace
from tests.compare.making import add_run, questions

pytestmark = pytest.mark.parametrize("store", ["sqlite"], indirect=True)


def test_no_other_question_is_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = questions(30)
    run = add_run(store, "one", asked, [1] * 30)
    monkeypatch.setattr(Store, "questions", lambda self, run: pytest.fail("all questions were read"))
    found = trace(store, run, asked[7].id)
    assert (found.question, found.gold.question_id) == (asked[7], asked[7].id)
    assert {score.question_id for score in found.scores} == {asked[7].id}
    assert trace(store, run, asked[7].id.rpartition("/")[2]).question == asked[7]


def test_an_end_is_the_whole_of_what_follows_the_dataset(store: Store) -> None:
    asked = questions(12)
    run = add_run(store, "one", asked, [1] * 12)
    for wrong in (asked[7].id.rpartition("/")[2].upper() + "x", "%", "_", asked[7].id[:-1]):
        with pytest.raises(UserError, match="has no question"):
            trace(store, run, wrong)
    with pytest.raises(UserError) as unlike:
        trace(store, run, "c01")
    ids = [question.id for question in asked]
    assert str(unlike.value) == f"The run {run.id} has no question 'c01'. It has {', '.join(ids[:10])} and 2 more."
