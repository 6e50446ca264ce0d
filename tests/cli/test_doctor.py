"""`ragrounds doctor`."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

from tests.conftest import Cli, succeeded
from tests.servers.process import Running


def test_it_says_where_things_are_and_what_is_missing(command: Cli, home: Path) -> None:
    done = succeeded(command("doctor"))
    assert str(home) in done.stdout
    assert "extras" in done.stdout
    extras = set(metadata.metadata("ragrounds").get_all("Provides-Extra")) - {"test", "mutation"}
    assert set(json.loads(command("doctor", "--json").stdout)["extras"]) == extras


def test_a_home_that_is_not_there_is_not_made_to_be_looked_through(command: Cli, home: Path, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    done = command("doctor", "--store", RAGROUNDS_HOME=str(nowhere))
    assert done.returncode == 2
    assert f"There is no store to check: the folder '{nowhere}' does not exist." in done.stderr
    assert not nowhere.exists()


def test_it_asks_a_server_what_it_can_do(command: Cli, server: Running) -> None:
    asked = server.stats()["asked"]
    done = succeeded(command("doctor", "--model", "openai:plain", "--base-url", server.url, "--json"))
    assert json.loads(done.stdout)["model"]["continues"] in ("prefix", "turns")
    assert server.stats()["asked"] > asked
    told = command("doctor", "--model", "openai:plain", "--base-url", server.url).stdout.splitlines()
    assert told[1].startswith("model "), "what was asked for stands before the search engines"
    assert command("doctor", "--model", "openai:fault-401-always", "--base-url", server.url).returncode == 2
