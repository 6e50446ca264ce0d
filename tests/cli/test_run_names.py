"""Which run a name means, and what else is proposed or removed by it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragrounds.base.errors import UserError
from ragrounds.evals.store.run_names import run_among
from ragrounds.evals.store.store import Store
from tests.compare.making import add_run, questions
from tests.conftest import Cli


def ids(command: Cli) -> list[str]:
    return [run["run"]["id"] for run in json.loads(command("runs", "ls", "--json").stdout)["runs"]]


def test_an_agents_name_means_its_newest_run_that_has_attempts(command: Cli) -> None:
    assert command("run", "--agent", "direct", "--limit", "2", "--display", "none").returncode == 0
    (made,) = ids(command)
    dead = ("--model", "openai:m", "--base-url", "http://127.0.0.1:9/v1")
    assert command("run", "--agent", "direct", "--limit", "2", "--display", "none", *dead).returncode == 2
    assert len(ids(command)) == 2
    assert made in command("compare", "direct", "--json").stdout


@pytest.mark.slow
def test_a_run_is_removed_by_its_id_alone(command: Cli) -> None:
    for more in ((), ("--new",)):
        assert command("run", "--agent", "direct", "--limit", "2", "--display", "none", *more).returncode == 0
    one, other = ids(command)
    refused = command("runs", "rm", "direct")
    assert refused.returncode == 2
    assert "give the id of the one to remove" in refused.stderr
    assert ids(command) == [one, other]
    assert command("runs", "rm", other).returncode == 0
    assert command("runs", "rm", one[:8]).returncode == 0
    assert ids(command) == []


def test_nothing_is_proposed_that_cannot_work(command: Cli) -> None:
    done = command("run", "--agent", "direct", "--limit", "2", "--display", "none")
    assert "ragrounds trace" in done.stderr
    assert "ragrounds compare" not in done.stderr


SPELLINGS = (
    "vanilla_rag[top_k=8]",
    "vanilla_rag[ top_k = 8 , order=best_first ]",
    'vanilla_rag["top_k"=8,layout="",retriever=bm25]',
)


def test_any_spelling_of_an_agent_finds_its_runs(home: Path) -> None:
    """What was typed at `run` is typed again elsewhere; the canonical text leaves out what equals the defaults."""
    with Store(home) as store:
        whole = add_run(store, "vanilla_rag", questions(1), [1], id="whole")
        eight = add_run(store, "vanilla_rag[top_k=8]", questions(1), [1], id="eight")
        for text, run in (("vanilla_rag[top_k=32]", whole), *((text, eight) for text in SPELLINGS)):
            assert store.run(text) == run, text
            assert run_among(text, [whole, eight], "claim") == run, text
        for text in ("vanilla_rag[top_k=31]", "vanilla_rag[top_k="):
            with pytest.raises(UserError, match="There is no run"):
                store.run(text)
