"""What a shell offers when Tab is pressed, by Typer's protocol of the environment."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.conftest import Cli


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ragrounds jud", ["judge"]),
        ("ragrounds runs s", ["show"]),
        ("ragrounds export tr", ["trec"]),
        ("ragrounds run --epo", ["--epochs"]),
        ("ragrounds nothing of that kind", []),
    ],
)
def test_commands_and_options_are_offered(command: Cli, line: str, expected: list[str], home: Path) -> None:
    place = len(shlex.split(line)) - 1
    done = command(_RAGROUNDS_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(place))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == expected
    assert not home.exists()
