"""`ragrounds compare --question`: what each run answered to one question."""

from __future__ import annotations

import json

import pytest

from ragrounds.api.question_answers import question_answers
from ragrounds.errors import UserError
from ragrounds.evals.store.store import Store
from ragrounds.settings import Settings
from tests.compare.making import add_run, questions
from tests.conftest import Cli


def test_each_run_and_epoch_has_a_line(store: Store) -> None:
    asked = questions(3)
    first = add_run(store, "one", asked, [[1, 0], [0, 0], [1, ...]], epochs=2)
    settings = Settings(home=store.home)
    found = question_answers([first.id], "0", settings)
    stored = {one.epoch: one.value for one in store.scores(first, "strict") if one.question_id == asked[0].id}
    assert [(line.epoch, line.score, line.scorer, line.status) for line in found.lines] == [
        (epoch, stored[epoch], "strict", "completed") for epoch in (0, 1)
    ]
    assert found.question.id == asked[0].id
    assert found.gold.answer == "A"
    assert [line.epoch for line in question_answers([first.id], "2", settings).lines] == [0]
    assert found.brief() == f"{asked[0].id}: 2 answers"
    with pytest.raises(UserError, match="There is no question '7' in x"):
        question_answers([first.id], "7", settings)
    never = add_run(store, "two", asked, [..., ..., ...])
    with pytest.raises(UserError, match="None of these runs has answered"):
        question_answers([never.id], "0", settings)


def test_the_command_shows_the_question_and_the_answers(command: Cli) -> None:
    asked = ("run", "--question", "c01", "--question", "c02", "--display", "none")
    assert command(*asked, "-a", "direct", "-a", "vanilla_rag[top_k=1]").returncode == 0
    shown = command("compare", "direct", "vanilla_rag[top_k=1]", "--question", "c01")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("sample/c01\n")
    assert shown.stdout.count("<- right") == 1
    head, first, second = shown.stdout.splitlines()[-3:]
    assert head.split()[:4] == ["#", "agent", "answer", "robust"]
    assert (first.split()[1], second.split()[1]) == ("direct", "vanilla_rag[top_k=1]")
    assert "Every step: ragrounds show direct-" in shown.stderr
    given = json.loads(command("compare", "direct", "vanilla_rag[top_k=1]", "--question", "c01", "--json").stdout)
    assert [line["searches"] for line in given["lines"]] == [0, 1]
    refused = command("compare", "direct", "--question", "c01", "--csv")
    assert (refused.returncode, "has no --csv" in refused.stderr) == (2, True)
