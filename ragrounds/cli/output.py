"""Output of commands: results on standard output, messages and progress on standard error."""

from __future__ import annotations

import sys

import msgspec
import typer

from ragrounds.api.results import Result
from ragrounds.base.text import escaped_json, safe
from ragrounds.cli.options import PlotOptions
from ragrounds.ui.console import at_work as at_work
from ragrounds.ui.console import counting as counting
from ragrounds.ui.console import for_stream

JSON_VERSION = 2
"""Version of every document that ``--json`` prints: 1 had no version, and other words (docs/glossary.md)."""


def print_json(value: object, key: str = "items") -> None:
    """Print one JSON document on standard output, with its ``version``; records are objects.

    A value that is no object is written as the field `key`.
    """
    plain = _replace_minus_zero(msgspec.to_builtins(value, str_keys=True))
    fields = plain if isinstance(plain, dict) else {key: plain}
    document = {"version": JSON_VERSION, **fields}
    text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
    sys.stdout.buffer.write(escaped_json(text).encode() + b"\n")


def _replace_minus_zero(value: object) -> object:
    """Replace -0.0 by 0.0, since it is the same figure."""
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, dict):
        return {key: _replace_minus_zero(element) for key, element in value.items()}
    return [_replace_minus_zero(element) for element in value] if isinstance(value, list | tuple) else value


def print_fields(record: object) -> None:
    """Print a line for each field of a record that is not empty."""
    for key, value in msgspec.to_builtins(record).items():
        text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value or "")
        if text:
            tell(f"{key:12} {safe(text)}")


FAILS, FAILED_ATTEMPTS, CANNOT_TELL = 1, 3, 4
"""Exit codes: a claim fails; attempts failed; a claim is undecided. 2 is bad input."""


def exit_by(decision: str) -> None:
    """Exit with the code of the claims' decision: 1 if one fails, 4 if one is undecided."""
    if decision != "holds":
        raise typer.Exit(FAILS if decision == "fails" else CANNOT_TELL)


def say(text: str) -> None:
    """Print a message on standard error; standard output is for results."""
    tell(text, err=True)


def tell(text: str, *, nl: bool = True, err: bool = False) -> None:
    """Print a safe text on standard output, with or without a line end. It cannot move the cursor of a terminal.

    On a terminal, lines are broken between words.
    """
    typer.echo(for_stream(text, sys.stderr if err else sys.stdout), nl=nl, err=err)


def draw_picture(result: Result, options: PlotOptions) -> None:
    """Write a picture of a result to the file of ``--plot``, and print its title.

    Raises:
        UserError: there is no such picture, nothing to show in it, or the file cannot be written.
    """
    if options.plot is not None:
        plot = result.plot(options.picture, options.plot, theme=options.theme)
        other_names = ", ".join(name for name in result.pictures if name != plot.name)
        more = f" (--picture: also {other_names})" if other_names and not options.picture else ""
        say(f"{options.plot}: {plot.picture.title}{more}")


def say_next(further: str = "ragrounds report RUNS (page)") -> None:
    """Print possible next commands after a comparison."""
    say(f"next: ragrounds trace (answers) · --full (tests) · {further}")
