"""One spelling of each option, the same verbs for each noun, and what becomes of earlier spellings."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer

import ragrounds.cli
from ragrounds.api.resume import code_in_options, kept_options
from ragrounds.cli.commands import FORMER_OPTIONS
from ragrounds.cli.entry import command_line
from ragrounds.cli.options import duration, duration_with_unit
from ragrounds.errors import UserError
from ragrounds.evals.store.store import Store
from ragrounds.records import Asked
from tests.conftest import Cli

NOUNS = ("runs", "agents", "graph", "prompts", "retrievers", "analyses", "data", "benchmarks", "index", "arena")


def commands(group: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Every command by the words that name it, those of export formats too, which are made when they are asked for."""
    found: dict[tuple[str, ...], Any] = {}
    named = group.list_commands(None) if path == ("export",) else group.commands
    for name in named:
        command = group.get_command(None, name)
        here = (*path, name)
        found |= commands(command, here) if hasattr(command, "commands") else {here: command}
    return found


@pytest.fixture
def every() -> dict[tuple[str, ...], Any]:
    return commands(typer.main.get_command(command_line()))


def options(command: Any) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts if name.startswith("-")}


@pytest.mark.parametrize("noun", NOUNS)
def test_each_noun_is_listed_and_shown(every: dict[tuple[str, ...], Any], noun: str) -> None:
    assert {(noun, "ls"), (noun, "show")} <= every.keys()
    assert "--json" in options(every[noun, "ls"])


def test_former_options_are_nowhere_but_where_they_mean_something_else(every: dict[tuple[str, ...], Any]) -> None:
    for former, today in FORMER_OPTIONS.items():
        for words, command in every.items():
            assert not {former, today} <= options(command) or (former, words[-1]) == ("--sample", "false-negatives")
        assert any(today in options(command) for command in every.values())
    for former in ("--max-tokens", "--answer-tokens", "--protocol", "--output", "--replicates"):
        assert not any(former in options(command) for command in every.values())


@pytest.mark.parametrize(
    ("words", "today"),
    [
        (["run", "--max-tokens", "5"], "--max-tokens is now --max-total-tokens."),
        (["run", "--answer-tokens=5"], "--answer-tokens is now --max-answer-tokens."),
        (["judge", "x", "--kind", "equivalence", "--max-tokens", "5"], "--max-tokens is now --max-total-tokens."),
        (["arena", "play", "x", "y", "--judge", "openai:j", "--least", "3"], "--least is now --min-matches."),
        (["compare", "x", "--protocol", "strict"], "--protocol is now --scorer."),
        (["compare", "x", "--cost", "cold"], "--cost cold is now --cost uncached."),
        (["score", "x", "--protocol", "strict"], "--protocol is now --scorer."),
        (["judge", "sheet", "x", "--output", "y"], "--output is now --out."),
        (["export", "store", "--to", "y"], "--to is now --out."),
        (["graph", "list"], "`ragrounds graph list` is now `ragrounds graph ls`."),
        (["analyse", "list"], "`ragrounds analyse list` is now `ragrounds analyses ls`."),
    ],
)
def test_an_earlier_spelling_is_answered_with_todays(command: Cli, words: list[str], today: str) -> None:
    done = command(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert today in done.stderr


@pytest.mark.parametrize("noun", ["agents", "retrievers", "runs", "analyses"])
def test_a_noun_alone_lists(command: Cli, noun: str) -> None:
    assert command(noun).stdout == command(noun, "ls").stdout
    assert '"version": 2' in command(noun, "--json").stdout


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("2h", 7200), ("1h30m", 5400), ("1.5d", 129_600), ("250ms", 0.25), ("90", 90), ("0.5", 0.5)],
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "2 hours", "h", "-1", "1h-30m", "nan", "inf"])
def test_what_is_no_duration_is_said(text: str) -> None:
    with pytest.raises(UserError, match="is no duration; expected such as 90s"):
        duration(text)


def test_what_once_was_hours_needs_its_unit(command: Cli) -> None:
    assert duration_with_unit("2h") == 7200
    assert duration_with_unit("0") == 0
    done = command("runs", "gc", "--older-than", "2")
    assert done.returncode == 2
    assert "'2' has no unit: say 2h for hours" in done.stderr


def test_a_run_kept_with_former_options_is_resumed_with_todays(command: Cli, home: Path) -> None:
    made = command("run", "--limit", "2", "--agent", "direct", "--display", "none", "--max-answer-tokens", "50")
    assert made.returncode == 0, made.stderr
    with Store(home) as store:
        [run] = store.runs()
        assert run.asked is not None
        assert "--max-answer-tokens" in run.asked.options
        former = ("--answer-tokens" if word == "--max-answer-tokens" else word for word in run.asked.options)
        old = msgspec.structs.replace(run, id="old-1", asked=Asked(run.asked.folder, tuple(former)))
        store.add_run(old, *store.questions(run))
    assert kept_options("old-1")[1].options == run.asked.options
    done = command("runs", "resume", "old-1", "--display", "none", "--json")
    assert done.returncode == 0, done.stderr
    assert '"run": "old-1"' in done.stdout


def test_a_new_command_is_one_file(command: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hello.py").write_text(
        '"""`ragrounds hello`."""\n\nimport typer\n\napp = typer.Typer()\n\n\n'
        '@app.command("hello")\ndef hello(name: str = typer.Option("you", help="Whom.")) -> None:\n'
        '    """Greet somebody."""\n    typer.echo(f"Hello {name}")\n'
    )
    monkeypatch.setattr(ragrounds.cli, "__path__", [*ragrounds.cli.__path__, str(tmp_path)])
    command_line.cache_clear()
    try:
        assert "Greet somebody" in command("--help").stdout
        assert command("hello", "--name", "Ada").stdout == "Hello Ada\n"
        assert command("hello", "--nme", "Ada").returncode == 2
    finally:
        command_line.cache_clear()
        sys.modules.pop("ragrounds.cli.hello", None)


def test_a_resumed_run_is_scored_by_what_it_was_asked_for_with(command: Cli, tmp_path: Path) -> None:
    given = ("run", "--limit", "3", "--agent", "direct", "--display", "none")
    made = command(*given, "--scorer", "strict", "--json")
    assert made.returncode == 0, made.stderr
    [run] = {row["run"] for row in json.loads(made.stdout)["rows"]}
    resumed = command("runs", "resume", run, "--display", "none")
    assert resumed.returncode == 0, resumed.stderr
    assert "\nstrict, percent" in resumed.stdout
    (tmp_path / "mine.py").write_text("")
    assert code_in_options(("--scorer", "./mine.py:own", "--scorer", "strict")) == ["./mine.py:own"]
