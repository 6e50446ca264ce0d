"""`ragrounds journal`: recorded calls as a text file for version control, and back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ragrounds.cli import options
from ragrounds.cli.commands import Group
from ragrounds.cli.output import print_json, say
from ragrounds.extensions.gate.journal import JournalFile, read_journal, write_journal
from ragrounds.ui.text import number_of

app = typer.Typer()
journal = typer.Typer(
    name="journal",
    cls=Group,
    help="Recorded calls as a text file for version control: runs are replayed from it elsewhere, with no network.",
    no_args_is_help=True,
)
app.add_typer(journal)


@journal.command("write")
def write_command(
    runs: options.Runs,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file (JSON Lines); an existing one is replaced.")],
    keep: Annotated[bool, typer.Option("--keep", help="Keep calls that the file already has.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Write the calls of runs into a text file: sorted, without keys, the same bytes for the same calls.

    Example: ragrounds journal write direct_cot 'vanilla_rag[top_k=8]' --out tests/answers.jsonl
    """
    _tell([write_journal(runs, out, keep=keep)], as_json)


@journal.command("read")
def read_command(
    files: Annotated[list[Path], typer.Argument(help="Files of `ragrounds journal write` or of the pytest plugin.")],
    as_json: options.AsJson = False,
) -> None:
    """Answer from the calls of these files from now on; `ragrounds run --journal replay` then sends nothing.

    Example: ragrounds journal read tests/answers.jsonl
    """
    _tell([read_journal(file) for file in files], as_json)


def _tell(files: Sequence[JournalFile], as_json: bool) -> None:
    if as_json:
        print_json([{"path": str(file.path), "calls": file.calls, "bytes": file.size} for file in files], "files")
    for file in () if as_json else files:
        say(f"{file.path}: {number_of(file.calls, 'call')}, {number_of(file.size, 'byte')}")
