"""An agent's file that names code: said before it is run, and somebody else's is not run without a yes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.conftest import Cli

GRAPH = """
from pathlib import Path
from ragrounds.graphs.direct import PROMPTS, build
with Path(__file__).with_name("ran").open("a") as file:
    file.write("x")
"""
RUN = ("run", "--agent", "theirs/a.toml", "--limit", "1", "--display", "none")
SAID = "theirs/a.toml contains code, which is run with it: theirs/mine.py:build"


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A folder with an agent's file and the code that it names."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "mine.py").write_text(GRAPH)
    (folder / "a.toml").write_text('graph = "mine.py:build"\nsummary = "s"\n')
    return folder


def test_what_shows_an_agent_says_it_and_runs_nothing(
    command: Cli, theirs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for line in (
        ("list", "agents"),
        ("list", "agents", "theirs/a.toml"),
        ("list", "agents", "theirs/a.toml", "--json"),
    ):
        assert command(*line).returncode == 0
        assert (SAID in caplog.text) is (len(line) > 2)
    assert not (theirs / "ran").exists()


@pytest.mark.slow
def test_it_is_said_until_that_code_was_run_once(forked_cli: Cli, theirs: Path) -> None:
    first = forked_cli(*RUN)
    assert first.returncode == 0, first.stderr
    assert first.stderr.count(SAID) == 1
    assert (theirs / "ran").exists()
    assert "contains code" not in forked_cli("list", "agents", "theirs/a.toml").stderr
    (theirs / "mine.py").write_text(GRAPH + "\nOTHER = 1\n")
    assert SAID in forked_cli("list", "agents", "theirs/a.toml").stderr


def _others(folder: Path) -> str:
    """Make the code somebody else's; gives why it is."""
    if os.geteuid() == 0:
        os.chown(folder / "mine.py", 12345, 12345)
        return "belongs to another user"
    (folder / "mine.py").chmod(0o666)
    return "is writable by everybody"


def test_somebody_elses_code_needs_a_yes(command: Cli, theirs: Path) -> None:
    why = _others(theirs)
    for _ in range(2):
        refused = command(*RUN)
        assert refused.returncode == 2
        assert why in refused.stderr
        assert "ragrounds trust theirs/a.toml" in refused.stderr
        assert not (theirs / "ran").exists()
    trusted = command("trust", "theirs/a.toml", "--json")
    assert json.loads(trusted.stdout)["trusted"] == ["theirs/mine.py:build"]
    assert not (theirs / "ran").exists()
    assert command(*RUN).returncode == 0
    assert (theirs / "ran").exists()
    (theirs / "mine.py").write_text(GRAPH + "\nOTHER = 1\n")
    assert command(*RUN).returncode == 2


def test_code_that_everybody_can_write_and_a_yes_for_all(command: Cli, theirs: Path) -> None:
    (theirs / "a.toml").chmod(0o666)
    refused = command(*RUN)
    assert refused.returncode == 2
    assert "is writable by everybody" in refused.stderr
    assert command(*RUN, RAGROUNDS_ALLOW_CODE="true").returncode == 0


def test_a_retriever_that_a_file_names_is_code_too(command: Cli, theirs: Path) -> None:
    (theirs / "b.toml").write_text(
        'graph = "vanilla_rag"\nsummary = "s"\ncorpus = "sample"\nsearches = true\n'
        'retriever = "rrf[a=bm25,b=theirs/mine.py:R]"\n'
    )
    _others(theirs)
    refused = command("run", "--agent", "theirs/b.toml", "--limit", "1", "--display", "none")
    assert refused.returncode == 2
    assert "ragrounds trust theirs/b.toml" in refused.stderr
    assert not (theirs / "ran").exists()


def test_a_file_without_code_has_nothing_to_trust(command: Cli, tmp_path: Path) -> None:
    (tmp_path / "plain.toml").write_text('graph = "direct"\nsummary = "s"\n')
    done = command("trust", "plain.toml")
    assert (done.returncode, done.stderr) == (0, "plain.toml contains no code.\n")
    assert command("trust", "direct").returncode == 2


def test_code_of_another_user_that_is_named_itself_is_run_and_says_so_once(
    command: Cli, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "named"
    folder.mkdir()
    (folder / "mine.py").write_text("def ask(question):\n    return 'A'\n")
    line = ("run", "--agent", "named/mine.py:ask", "--limit", "1", "--display", "none", "--new")
    assert command(*line).returncode == 0
    assert "run with your permissions" not in caplog.text
    why = _others(folder)
    for _ in range(2):
        assert command(*line).returncode == 0
    assert (
        caplog.text.count(
            f"named/mine.py:ask is run with your permissions, and {(folder / 'mine.py').resolve()} {why}."
        )
        == 1
    )
