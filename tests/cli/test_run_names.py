"""Which run a name means, and what else is proposed or removed by it."""

from __future__ import annotations

import json
from typing import Any

import pytest

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


@pytest.mark.slow
def test_any_spelling_of_an_agent_finds_its_runs(command: Cli) -> None:
    """What was typed at `run` is typed again elsewhere; the canonical text leaves out what equals the defaults."""
    asked = ("run", "--limit", "3", "--display", "none")
    assert command(*asked, "--agent", "vanilla_rag[top_k=32]", "--agent", SPELLINGS[1]).returncode == 0
    whole, eight = (run["run"] for run in sorted(listed(command), key=lambda run: run["run"]["agent"]))
    assert (whole["agent"], eight["agent"]) == ("vanilla_rag", "vanilla_rag[top_k=8]")
    for text, run in (("vanilla_rag[top_k=32]", whole), *((text, eight) for text in SPELLINGS)):
        assert run["id"] in command("runs", "show", text).stdout
        assert run["id"] in command("trace", text, "--format", "json").stdout
        assert run["id"] in command("score", text, "--scorer", "strict", "--json").stdout
    done = command("compare", "vanilla_rag[top_k=32]", SPELLINGS[1], "--json")
    assert {row["run"] for row in json.loads(done.stdout)["rows"]} == {whole["id"], eight["id"]}
    claim = "accuracy(vanilla_rag[top_k=32]) > 0 and accuracy(vanilla_rag[order=best_first,top_k=8]) > 0"
    assert command("compare", whole["id"], eight["id"], "--assert", claim).returncode == 0
    assert command("runs", "show", "vanilla_rag[top_k=31]").returncode == 2
    assert command("runs", "show", "vanilla_rag[top_k=").returncode == 2


def listed(command: Cli) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(command("runs", "ls", "--json").stdout)["runs"]
    return found
