"""Which run a name means, what a refused command leaves, what failed attempts say."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Cli
from tests.servers.process import Running


def ids(cli: Cli) -> list[str]:
    return [run["run"]["id"] for run in json.loads(cli("runs", "ls", "--json").stdout)]


@pytest.mark.parametrize(
    "refused",
    [("--until", "separated(a"), ("--max-questions", "5"), ("--until", "separated(direct, direct_cot) @ 95%")],
)
def test_a_refused_claim_leaves_no_run(cli: Cli, refused: tuple[str, ...]) -> None:
    done = cli("run", "--agent", "direct", "--limit", "2", "--display", "none", *refused)
    assert done.returncode == 2
    assert ids(cli) == []


def test_an_agents_name_means_its_newest_run_that_has_attempts(cli: Cli) -> None:
    assert cli("run", "--agent", "direct", "--limit", "2", "--display", "none").returncode == 0
    (made,) = ids(cli)
    dead = ("--model", "openai:m", "--base-url", "http://127.0.0.1:9/v1")
    assert cli("run", "--agent", "direct", "--limit", "2", "--display", "none", *dead).returncode == 2
    assert len(ids(cli)) == 2
    assert made in cli("compare", "direct", "--json").stdout


def test_a_run_is_removed_by_its_id_alone(cli: Cli) -> None:
    for more in ((), ("--new",)):
        assert cli("run", "--agent", "direct", "--limit", "2", "--display", "none", *more).returncode == 0
    one, other = ids(cli)
    refused = cli("runs", "rm", "direct")
    assert refused.returncode == 2
    assert "name the one to remove by its id" in refused.stderr
    assert ids(cli) == [one, other]
    assert cli("runs", "rm", other).returncode == 0
    assert cli("runs", "rm", one[:8]).returncode == 0
    assert ids(cli) == []


def test_failed_attempts_say_why(cli: Cli, server: Running) -> None:
    at = ("--base-url", server.url, "--limit", "3", "--display", "none")
    done = cli("run", "--agent", "direct", "--model", "openai:fault-400", *at)
    assert done.returncode == 3
    assert "3 failed: bad_request: 400: temperature must be 1" in done.stderr


def test_nothing_is_proposed_that_cannot_work(cli: Cli) -> None:
    done = cli("run", "--agent", "direct", "--limit", "2", "--display", "none")
    assert "ragrounds show direct-" in done.stderr
    assert "ragrounds compare" not in done.stderr
