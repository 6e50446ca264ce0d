"""`ragrounds compare NAME`: which run was taken is said, and one of several is asked for, never taken in silence."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from ragrounds.api.run_choice import run_choices
from ragrounds.api.workspace import opened_runs
from ragrounds.cli.run_choice import chosen_runs
from ragrounds.errors import UserError
from ragrounds.evals.store.run_names import keep_names
from ragrounds.evals.store.store import Store
from ragrounds.settings import Settings
from tests.compare.making import add_run, questions

FEW, MANY = questions(2), questions(4)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("RAGROUNDS_HOME", str(tmp_path))
    with Store(tmp_path) as store:
        yield store


def test_of_several_runs_those_on_the_same_questions_fit(kept: Store) -> None:
    add_run(kept, "one", MANY, [1, 0, 1, 1], id="one-many")
    add_run(kept, "one", FEW, [1, 0], id="one-few")
    add_run(kept, "two", MANY, [1, 0, 1, 1], id="two-many")
    settings = Settings(home=kept.home)
    assert [choice.run for choice in run_choices(["one", "two"], settings=settings)] == ["one-many", "two-many"]
    (alone,) = run_choices(["one"], settings=settings)
    assert alone.run == ""
    assert [one.run.id for one in alone.fitting] == ["one-few", "one-many"]  # the newest first
    assert [choice.run for choice in run_choices(["one"], newest=True, settings=settings)] == ["one-few"]
    assert [choice.run for choice in run_choices(["one"], {0: "one-many"}, settings=settings)] == ["one-many"]
    with pytest.raises(UserError, match="There is no run 'three'"):
        run_choices(["three"], settings=settings)


def test_what_was_taken_is_said(kept: Store, capsys: pytest.CaptureFixture[str]) -> None:
    run = add_run(kept, "one", MANY, [1, 0, 1, ...], id="one-run")
    add_run(kept, "two", MANY, [1, 0, 1, 1], id="two-run")
    keep_names(kept.engine, {run.id: "Ours"})
    assert chosen_runs(["Ours", "two-run", "one"]) == ["one-run", "two-run", "one-run"]
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(" (")[0] for line in said] == ["Ours: one-run", "one: one-run"]  # an id needs no word
    assert "4 questions of x, test:model, strict 66.67 so far, 3/4 done" in said[0]


def test_nobody_to_ask_is_an_error_that_lists_them(kept: Store) -> None:
    for name in ("a", "b"):
        add_run(kept, "one", MANY, [1, 0, 1, 1], id=name)
    with pytest.raises(UserError, match=r"'one' fits 2 runs: b \(4 questions.*; a \(4 questions.*latest"):
        chosen_runs(["one"])
    assert chosen_runs(["one"], latest=True) == ["b"]
    assert chosen_runs(["a"]) == ["a"]


def test_on_a_terminal_one_is_asked_for(kept: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        add_run(kept, "one", MANY if name != "b" else FEW, [1, 0, 1, 1] if name != "b" else [1, 0], id=name)
    add_run(kept, "two", FEW, [0, 1], id="two-few")
    add_run(kept, "two", MANY, [0, 1, 1, 1], id="two-many")
    answers = iter(["7", "x", "2"])
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(typer, "prompt", lambda *_, **__: next(answers))
    # c, b and a fit: the second is on few questions, and so is then the other agent's run.
    assert chosen_runs(["one", "two"]) == ["b", "two-few"]
    assert next(answers, "") == ""


def test_a_complete_run_is_meant_before_a_newer_unfinished_one(kept: Store, capsys: pytest.CaptureFixture[str]) -> None:
    add_run(kept, "one", MANY, [1, 0, 1, 1], id="one-old")
    add_run(kept, "one", MANY, [1, 0, 1, 1], id="one-whole")
    add_run(kept, "one", FEW, [1, ...], id="one-begun")
    with opened_runs("one") as (_, [run]):
        assert run.id == "one-whole"
    assert capsys.readouterr().err == "one: one-whole (x, 4 done), the newest complete one of 3 runs\n"
    with opened_runs("one", newest=True) as (_, [run]):
        assert run.id == "one-begun"
    assert capsys.readouterr().err == "one: one-begun (x, 1/2 done), the newest of 3 runs\n"
    with opened_runs("one-whole") as (_, [run]):
        assert run.id == "one-whole"
    assert capsys.readouterr().err == ""


def test_names_given_together_mean_runs_on_the_same_questions(kept: Store, capsys: pytest.CaptureFixture[str]) -> None:
    add_run(kept, "one", MANY, [1, 0, 1, 1], id="one-many")
    add_run(kept, "one", FEW, [1, 0], id="one-few")
    add_run(kept, "two", MANY, [1, 0, 1, 1], id="two-many")
    with opened_runs(["one", "two"]) as (_, found):
        assert [run.id for run in found] == ["one-many", "two-many"]
    assert capsys.readouterr().err == (
        "one: one-many (x, 4 done), of 2 runs the newest complete one on the same questions as the others\n"
    )
    add_run(kept, "two", FEW, [1, ...], id="two-few")  # a set that one of them has not finished stands back
    with opened_runs(["one", "two"]) as (_, found):
        assert [run.id for run in found] == ["one-many", "two-many"]
