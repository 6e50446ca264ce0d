"""A name that fits several runs: which one is taken, and that it is said; else it is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragrounds.api.workspace import open_selected_runs
from ragrounds.base.errors import UserError
from ragrounds.evals.store.run_names import keep_last_command
from ragrounds.evals.store.store import Store
from tests.compare.making import add_run, questions
from tests.conftest import Cli

FEW, MANY = questions(2), questions(4)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("RAGROUNDS_HOME", str(tmp_path))
    with Store(tmp_path) as store:
        yield store


def test_a_complete_run_is_meant_before_a_newer_unfinished_one(kept: Store, capsys: pytest.CaptureFixture[str]) -> None:
    add_run(kept, "one", MANY, [1, 0, 1, 1], id="one-old")
    add_run(kept, "one", MANY, [1, 0, 1, 1], id="one-whole")
    add_run(kept, "one", MANY, [1, ..., ..., ...], id="one-begun")
    with open_selected_runs("one") as (_, [run]):
        assert run.id == "one-whole"
    assert capsys.readouterr().err == "one: one-whole (x, 4 done), the newest complete one of 3 runs\n"
    with open_selected_runs("one", newest=True) as (_, [run]):
        assert run.id == "one-begun"
    assert capsys.readouterr().err == "one: one-begun (x, 1/4 done), the newest of 3 runs\n"
    with open_selected_runs("one-whole") as (_, [run]):
        assert run.id == "one-whole"
    assert capsys.readouterr().err == ""


def test_names_given_together_mean_runs_on_the_same_questions(kept: Store, capsys: pytest.CaptureFixture[str]) -> None:
    add_run(kept, "one", MANY, [1, 0, 1, 1], id="one-many")
    add_run(kept, "one", FEW, [1, 0], id="one-few")
    add_run(kept, "two", MANY, [1, 0, 1, 1], id="two-many")
    with open_selected_runs(["one", "two"]) as (_, found):
        assert [run.id for run in found] == ["one-many", "two-many"]
    assert capsys.readouterr().err == "one: one-many (x, 4 done), of 2 runs the newest with these questions\n"
    last = [add_run(kept, "two", FEW, [1, ...], id="two-few")]
    with pytest.raises(UserError, match=r"'one' has runs that differ in questions: one-few .* one-many"):
        kept.select_runs(["one", "two"])
    keep_last_command(kept.engine, last)
    assert [run.id for run in kept.select_runs(["one", "two"])] == ["one-few", "two-few"]


def test_an_agents_name_means_a_run_in_the_setting_of_the_last_command(
    kept: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    """A resumed run is older than one on another corpus, and still what its agent's name means."""
    small, large = ({"models": {"model": f"openai:{size}"}} for size in ("small", "large"))
    scores = [1, 0, 1, 1]
    resumed = add_run(kept, "rag", MANY, scores, id="rag-lib", identity=small | {"corpus": "lib@1"})
    add_run(kept, "rag", MANY, scores, id="rag-large", identity=large | {"corpus": "lib@1"})
    add_run(kept, "rag", MANY, scores, id="rag-ward", identity=small | {"corpus": "ward@1"})
    add_run(kept, "direct", MANY, scores, id="direct-small", identity=small)
    add_run(kept, "direct", MANY, scores, id="direct-large", identity=large)
    with pytest.raises(UserError) as refused:
        kept.select_runs(["rag"])
    for words in ("model and corpus: rag-ward (x, model openai:small, corpus ward@1, 4", "; rag-large", "; rag-lib ("):
        assert words in str(refused.value)
    assert [run.id for run in kept.select_runs(["rag", "direct-large"])] == ["rag-large", "direct-large"]
    keep_last_command(kept.engine, [resumed])
    with open_selected_runs(["rag", "direct"]) as (_, found):
        assert [run.id for run in found] == ["rag-lib", "direct-small"]
    assert capsys.readouterr().err.splitlines() == [
        "rag: rag-lib (x, model openai:small, corpus lib@1, 4 done), of 3 runs the newest with this model and "
        "this corpus",
        "direct: direct-small (x, model openai:small, 4 done), of 2 runs the newest with this model",
    ]


def test_the_last_command_is_the_one_that_resumed(command: Cli) -> None:
    """`run` and `import` store which runs they had, new or not."""
    for limit in ("2", "3", "2"):
        run = ("run", "--agent", "direct", "--limit", limit, "--display", "none")
        assert command(*run).returncode == 0
    shown = json.loads(command("compare", "direct", "--json").stdout)
    assert shown["questions"] == 2
