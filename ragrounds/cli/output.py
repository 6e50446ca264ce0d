"""How commands speak: results on standard output, talk and progress on standard error."""

from __future__ import annotations

import sys

import msgspec
import typer

from ragrounds.api.results import Result
from ragrounds.base.text import escaped_json, safe
from ragrounds.cli.options import PlotOptions
from ragrounds.ui.console import at_work as at_work
from ragrounds.ui.console import counting as counting

JSON_VERSION = 2
"""Of every document that ``--json`` prints: 1 had no version, and other words (docs/glossary.md)."""


def print_json(value: object, key: str = "items") -> None:
    """One JSON document on standard output, with its ``version``; records as objects. A value that is no object
    stands under `key`."""
    plain = _without_minus_zero(msgspec.to_builtins(value, str_keys=True))
    held = plain if isinstance(plain, dict) else {key: plain}
    document = {"version": JSON_VERSION, **held}
    text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
    sys.stdout.buffer.write(escaped_json(text).encode() + b"\n")


def _without_minus_zero(value: object) -> object:
    """The same, with 0.0 in place of -0.0, which is no figure of its own."""
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, dict):
        return {key: _without_minus_zero(each) for key, each in value.items()}
    return [_without_minus_zero(each) for each in value] if isinstance(value, list | tuple) else value


def print_fields(record: object) -> None:
    """A line for each field of a record that says something."""
    for key, value in msgspec.to_builtins(record).items():
        text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value or "")
        if text:
            tell(f"{key:12} {safe(text)}")


FAILS, FAILED_ATTEMPTS, CANNOT_TELL = 1, 3, 4
"""Exit codes: a claim fails; attempts failed; a claim is undecided. 2 is bad input."""


def exit_by(decision: str) -> None:
    """End the command by the decision of its claims: with 1 where one fails, with 4 where one is undecided."""
    if decision != "holds":
        raise typer.Exit(FAILS if decision == "fails" else CANNOT_TELL)


def say(text: str) -> None:
    """Talk goes to standard error; standard output is for results."""
    tell(text, err=True)


def tell(text: str, *, nl: bool = True, err: bool = False) -> None:
    """A text on standard output, in which nothing moves the cursor of a terminal; with a line end, or without."""
    typer.echo(safe(text), nl=nl, err=err)


def draw_picture(result: Result, options: PlotOptions) -> None:
    """Keep a picture of a result where ``--plot`` says, and say what it shows.

    Raises:
        UserError: it has no such picture, or nothing to draw; the file cannot be written.
    """
    if options.plot is not None:
        made = result.plot(options.picture, options.plot, theme=options.theme)
        others = ", ".join(name for name in result.pictures if name != made.name)
        more = f" (--picture: also {others})" if others and not options.picture else ""
        say(f"{options.plot}: {made.picture.title}{more}")


def say_next(further: str = "ragrounds report RUNS (page)") -> None:
    """Say what can be typed behind a comparison."""
    say(f"next: ragrounds trace (answers) · --full (tests) · {further}")
