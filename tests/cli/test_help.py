"""What ``--help`` says: values by what they mean, options in groups, examples that a shell takes as they stand."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from ragrounds.base.errors import UserError
from ragrounds.base.settings import Settings
from ragrounds.cli.entry import command_line, command_tree
from ragrounds.cli.help_text import SECTIONS, first_sentence
from ragrounds.cli.options import SHORT
from ragrounds.cli.runs import _merged
from ragrounds.evals.benchmarks import load, select
from tests.conftest import Cli


def every(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        yield (*path, name), command
        if hasattr(command, "commands"):
            yield from every(command, (*path, name))


@pytest.fixture(scope="module")
def tree() -> Any:
    return command_tree()


def told(*words: str, asked: str = "--help") -> str:
    done = CliRunner().invoke(command_line(), [*words, asked], env={"COLUMNS": "100", "TERMINAL_WIDTH": "100"})
    assert done.exit_code == 0, done.output
    return done.output


def test_each_option_says_what_its_value_means(tree: Any) -> None:
    bare = [
        (*path, parameter.opts)
        for path, command in every(tree)
        for parameter in command.params
        if parameter.param_type_name == "option" and not getattr(parameter, "is_flag", False) and not parameter.metavar
    ]
    assert bare == []


def test_the_options_of_a_run_stand_in_groups_with_the_five_that_are_typed_most() -> None:
    text = told("run", asked="--more")
    headings = re.findall(r"^(\S.*):$", text, re.MULTILINE)
    assert headings == [
        "What is run", "The model and its server", "How it is carried out", "A system of your own",
        "What a command may use", "Options",
    ]  # fmt: skip
    assert {(short, long) for short, long in re.findall(r"^  (-\w), (--[\w-]+) ", text, re.MULTILINE)} >= set(
        SHORT.items()
    )
    assert "<" not in text.replace("<=", "")


def test_examples_are_taken_by_a_shell_as_they_stand() -> None:
    text = told("run")
    examples = re.findall(r"^    (ragrounds(?:.*\\\n)*.*)$", text, re.MULTILINE)
    assert len(examples) == 4
    words = [shlex.split(example.replace("\\\n", " ")) for example in examples]
    assert words[0] == ["ragrounds", "run"]
    assert words[1][-6:] == ["--corpus", "beir:FOLDER", "--model", "openai:gpt-4o-mini", "--limit", "100"]
    assert all(len(line) <= 100 for line in text.splitlines())


def test_a_long_command_explains_what_people_use_and_names_the_rest(tree: Any) -> None:
    leaves = {path: command for path, command in every(tree) if not hasattr(command, "commands")}
    assert len(leaves) <= 60
    for path, command in leaves.items():
        if command.long:
            short, whole = told(*path), told(*path, asked="--more")
            explained, _, rest = short.partition("More options (--more explains them):")
            assert len(re.findall(r"^  (?:-\w, )?--", explained, re.MULTILINE)) <= 15
            named = set(re.findall(r"--[\w-]+", rest))
            assert named
            assert {
                max(one.opts, key=len) for one in command.params if one.param_type_name == "option" and not one.hidden
            } == set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", whole, re.MULTILINE)) - {"--help"}
            assert named <= set(re.findall(r"--[\w-]+", whole))


def test_commands_stand_by_subject(tree: Any) -> None:
    text = told()
    assert re.findall(r"^(\S.*):$", text, re.MULTILINE) == ["Options", *SECTIONS, "More (each explained by its --help)"]
    visible = {name for name, command in tree.commands.items() if not command.hidden}
    first = {name for names in SECTIONS.values() for name in names}
    rest = text.partition("--help):")[2].partition("Exit codes")[0]
    assert len(first) <= 15
    assert first | set(re.findall(r"[\w-]+", rest)) == visible
    assert "..." not in text.partition("\n")[2]  # no line is cut


def test_a_commands_line_is_its_first_sentence() -> None:
    assert first_sentence("Grade the long answers; set people's labels beside.\n\nMore.") == "Grade the long answers"
    assert first_sentence("One\ntwo. Three.") == "One two"


def test_short_names_take_the_place_of_what_a_run_kept() -> None:
    kept = ("--benchmark", "sample", "--limit", "5", "--agent", "direct", "--model", "x")
    assert _merged(kept, ["-n", "9", "--model=y"]) == [
        "--benchmark", "sample", "--agent", "direct", "-n", "9", "--model=y",
    ]  # fmt: skip
    assert _merged(kept, ["-n9"])[-1] == "-n9"
    assert "--limit" not in _merged(kept, ["-n9"])


def test_questions_are_named_by_their_ids_or_ends() -> None:
    sample = load("sample", Settings().home)
    chosen = select(sample, ids=("c02", "sample/c01", "c02"))
    assert [question.id for question in chosen.questions] == ["sample/c01", "sample/c02"]
    assert chosen.selection is not None
    assert chosen.selection.ids == ("sample/c02", "sample/c01")
    assert len(select(sample, ids=("c01", "c02"), limit=1)) == 1
    whole = select(sample, limit=3).selection
    assert whole is not None
    # What a run without named questions is does not change.
    import msgspec

    assert msgspec.to_builtins(whole) == {"seed": 0, "limit": 3, "per_dataset": None, "of": len(sample)}
    with pytest.raises(UserError, match=r"There is no question 'c0x' in sample\. Did you mean 'c\d0' or"):
        select(sample, ids=("c0x",))


def test_a_run_of_named_questions_is_made_shown_and_resumed(command: Cli) -> None:
    made = command("run", "-a", "direct", "-b", "sample", "--question", "c01", "--question", "c02", "--display", "none")
    assert made.returncode == 0, made.stderr
    assert "2 model calls made" in made.stderr
    again = command("runs", "resume", "direct")
    assert "--question c01 --question c02" in again.stderr
    assert "0 model calls made" in again.stderr
    assert command("show", "direct", "--question", "c01").stdout == command("show", "direct", "c01").stdout
    refused = command("show", "direct")
    assert (refused.returncode, "Name one question of direct" in refused.stderr) == (2, True)
