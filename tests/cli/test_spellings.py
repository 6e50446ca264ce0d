"""The same verbs for each noun, and a new command as one file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import ragrounds.cli
from ragrounds.api.resume import code_in_options
from ragrounds.base.errors import UserError
from ragrounds.cli.command_files import command_files
from ragrounds.cli.entry import command_tree
from ragrounds.cli.options import age, duration
from tests.conftest import Cli, succeeded

NOUNS = ("runs", "data", "index", "arena")


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
    return commands(command_tree())


def options(command: Any) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts if name.startswith("-")}


@pytest.mark.parametrize("noun", NOUNS)
def test_each_noun_is_listed_and_shown(every: dict[tuple[str, ...], Any], noun: str) -> None:
    assert {(noun, "ls"), (noun, "show")} <= every.keys()
    assert "--json" in options(every[noun, "ls"])


@pytest.mark.parametrize("noun", ["data", "runs"])
def test_a_noun_alone_lists(command: Cli, noun: str) -> None:
    assert command(noun).stdout == command(noun, "ls").stdout
    assert '"version": 2' in command(noun, "--json").stdout


@pytest.mark.parametrize(
    ("kind", "one"),
    [
        ("agents", "direct"), ("graphs", "direct"), ("profiles", "medrag"), ("prompts", "choice/cot"),
        ("retrievers", "bm25"), ("scorers", "robust"), ("analyses", "hops"),
    ],
)  # fmt: skip
def test_what_there_is_is_listed_and_shown(command: Cli, kind: str, one: str) -> None:
    assert one in command("list", kind).stdout
    assert command("list", kind, one).stdout.strip()
    for words in ((kind,), (kind, one)):
        assert '"version": 2' in command("list", *words, "--json").stdout
    done = command("list", kind[:-1])
    assert f"Did you mean {kind!r}?" in done.stderr


def test_a_word_without_its_option_is_given_one(command: Cli) -> None:
    assert "'sample' belongs to no option. Did you mean --benchmark sample?" in command("run", "sample").stderr
    assert "'x y' belongs to no option.\n" in command("doctor", "x", "y").stderr


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


def test_the_age_of_what_is_removed_has_a_unit() -> None:
    assert [age(text) for text in ("0", "2d", "90s")] == [0, 172_800, 90]
    for text in ("2", "0.5", "3600"):
        with pytest.raises(UserError, match=f"'{text}' has no unit; expected such as 30m, 2h"):
            age(text)


def test_a_new_command_is_one_file(command: Cli, tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text(
        '"""`ragrounds hello`: greet somebody."""\n\nimport typer\n\napp = typer.Typer()\n\n\n'
        '@app.command("hello")\ndef hello(name: str = typer.Option("you", help="Whom.")) -> None:\n'
        '    """Greet somebody."""\n    typer.echo(f"Hello {name}")\n'
    )
    ragrounds.cli.__path__.append(str(tmp_path))
    command_files.cache_clear()
    try:
        assert "hello" in command("--help").stdout.partition("More (")[2]
        assert command("hello", "--name", "Ada").stdout == "Hello Ada\n"
        assert command("hello", "--nme", "Ada").returncode == 2
    finally:
        ragrounds.cli.__path__.remove(str(tmp_path))
        command_files.cache_clear()
        sys.modules.pop("ragrounds.cli.hello", None)


def test_the_first_sentences_of_a_file_name_its_commands() -> None:
    """`ragrounds --help` reads them there."""
    assert set(command_files()) == set(command_tree().commands)


def test_a_resumed_run_is_scored_by_what_it_was_asked_for_with(command: Cli, tmp_path: Path) -> None:
    given = ("run", "--limit", "3", "--agent", "direct", "--display", "none")
    made = succeeded(command(*given, "--scorer", "strict", "--json"))
    [run] = {row["run"] for row in json.loads(made.stdout)["rows"]}
    resumed = succeeded(command("runs", "resume", run, "--display", "none"))
    assert resumed.stdout.startswith("Accuracy (strict reading): direct has ")
    (tmp_path / "mine.py").write_text("")
    assert code_in_options(("--scorer", "./mine.py:own", "--scorer", "strict")) == ["./mine.py:own"]
