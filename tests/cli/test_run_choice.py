"""A name that fits several runs: which one is taken, and that it is said, never taken in silence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ragrounds.api.workspace import open_selected_runs
from ragrounds.evals.store.store import Store
from tests.compare.making import add_run, questions

FEW, MANY = questions(2), questions(4)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("RAGROUNDS_HOME", str(tmp_path))
    with Store(tmp_path) as store:
        yield store


def test_a_complete_run_is_meant_before_a_newer_unfinished_one(kept: Store, capsys: pytest.CaptureFixture[str]) -> None:
    add_run(kept, "one", MANY, [1, 0, 1, 1], id="one-old")
    add_run(kept, "one", MANY, [1, 0, 1, 1], id="one-whole")
    add_run(kept, "one", FEW, [1, ...], id="one-begun")
    with open_selected_runs("one") as (_, [run]):
        assert run.id == "one-whole"
    assert capsys.readouterr().err == "one: one-whole (x, 4 done), the newest complete one of 3 runs\n"
    with open_selected_runs("one", newest=True) as (_, [run]):
        assert run.id == "one-begun"
    assert capsys.readouterr().err == "one: one-begun (x, 1/2 done), the newest of 3 runs\n"
    with open_selected_runs("one-whole") as (_, [run]):
        assert run.id == "one-whole"
    assert capsys.readouterr().err == ""


def test_names_given_together_mean_runs_on_the_same_questions(kept: Store, capsys: pytest.CaptureFixture[str]) -> None:
    add_run(kept, "one", MANY, [1, 0, 1, 1], id="one-many")
    add_run(kept, "one", FEW, [1, 0], id="one-few")
    add_run(kept, "two", MANY, [1, 0, 1, 1], id="two-many")
    with open_selected_runs(["one", "two"]) as (_, found):
        assert [run.id for run in found] == ["one-many", "two-many"]
    assert capsys.readouterr().err == (
        "one: one-many (x, 4 done), of 2 runs the newest complete one on the same questions as the others\n"
    )
    add_run(kept, "two", FEW, [1, ...], id="two-few")  # a set that one of them has not finished stands back
    with open_selected_runs(["one", "two"]) as (_, found):
        assert [run.id for run in found] == ["one-many", "two-many"]
