"""The arguments of a public function as one record.

The record defines the function's keywords in Python, the options of its command, their help, the checks of their
values, and which of them are stored with a run. All of this follows from a field's type and its :class:`Arg`.
:func:`takes` turns a function of the record into one with the record's own signature, so that editors know every
keyword.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from pathlib import Path
from textwrap import fill
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, get_args, get_origin, get_type_hints

from msgspec import Struct
from msgspec.structs import fields

from ragrounds.api.workspace import Progress, RunsGiven
from ragrounds.base.errors import UserError, nearest, one_of
from ragrounds.base.settings import Settings

P = ParamSpec("P")
A = TypeVar("A", bound=Struct)
R = TypeVar("R")


class Arg(Struct, frozen=True):
    """Description of one argument."""

    help: str
    """Help text for Python and the command; names of other arguments are in backticks."""
    least: float | None = None
    """Minimum value."""
    maximum: float | None = None
    option: str = ""
    """Option of the command if it is not the argument's name; ``-`` if the command has none; an argument if it has no
    dash.
    """
    short: str = ""
    """One-letter name of the option."""
    group: str = ""
    """Heading of the option in the help."""
    metavar: str = ""
    """Placeholder of the value in the help, if the option's name does not explain it."""
    many: bool = False
    """True if the option may be repeated."""
    duration: bool = False
    """True if the option takes ``90s``, ``2h`` …"""
    hidden: bool = False
    stored: bool = False
    """True if the value is stored with a run and used to resume it: it is part of the run's identity, or of how its
    server is reached.
    """


WHAT = "What is run"
MODEL = "The model and its server"
HOW = "How it is carried out"
OWN = "A system of your own"
BUDGET = "What a command may use"
"""Headings in the help of commands."""
MaxCost = Annotated[float | None, Arg("Dollars to spend; calls in flight are finished.", 0, group=BUDGET)]
MaxTotalTokens = Annotated[int | None, Arg("Tokens to use in this command, in and out.", 0, group=BUDGET)]
MaxTime = Annotated[
    float | None, Arg("Time limit: 90s, 2h, 1h30m.", 0, metavar="DURATION", duration=True, group=BUDGET)
]
Concurrency = Annotated[int | None, Arg("Attempts, judgements or items in flight. [default: 16]", 1, group=HOW)]
Workers = Annotated[
    Literal["auto"] | int,
    Arg(
        "Processes that share the work and its limits; auto: one, and more once they save time (with ray one a node).",
        1,
        group=HOW,
        metavar="N|auto",
    ),
]
Journal = Annotated[
    Literal["reuse", "replay", "fresh"],
    Arg("Recorded calls: reuse, replay (no network; a miss is an error), fresh.", group=HOW),
]
ServerChanged = Annotated[
    Literal["stop", "new"],
    Arg(
        "If a different server answers at this address: stop, or new, which stores its answers separately.",
        group=HOW,
    ),
]
Alias = Annotated[
    str | None, Arg("A name for the server, or for the group of several, which needs one.", group=MODEL, stored=True)
]
Corpus = Annotated[
    str | None, Arg("What is searched: beir:FOLDER, an index by name, or sample.", short="-c", group=WHAT, stored=True)
]
Limit = Annotated[int | None, Arg("Only this many, sampled by `seed`.", 1, short="-n", group=WHAT, stored=True)]
Seed = Annotated[int, Arg("Random seed of sampling, ordering and bootstrap.", group=WHAT, stored=True)]
FailAfter = Annotated[
    str | int,
    Arg(
        "Stop (resumable) when this many attempts of an agent, judgements or items failed: a share of the last 100 "
        "(at least 20), a number, or never.",
        group=BUDGET,
        metavar="SHARE|N|never",
    ),
]
BaseUrl = Annotated[str | None, Arg("The model's OpenAI-compatible server.", group=MODEL)]
Judges = Annotated[
    str | Sequence[str],
    Arg(
        "A judge, provider:model[…] (repeatable: the majority of the panel counts); none: the settings' model.",
        option="--judge",
        group=MODEL,
        many=True,
    ),
]
Resamples = Annotated[int, Arg("Bootstrap samples.", 100)]
Runs = Annotated[RunsGiven, Arg("Ids, beginnings of ids, agents' texts, results or loaded runs.", option="-")]
Names = Annotated[
    Mapping[str, str],
    Arg("What runs are called in tables and pictures: an id, its beginning or an agent's text → a name.", option="-"),
]
Progressed = Annotated[
    Progress | bool | None, Arg("Gets the step and how many are done; False: nothing is shown.", option="-")
]
Displayed = Annotated[bool | None, Arg("False: no display; True: lines also where there is no terminal.", option="-")]
Message = Annotated[Callable[[str], None], Arg("Gets messages for the user.", option="-")]
Force = Annotated[bool, Arg("Overwrite existing files.")]
Home = Annotated[str | Path | None, Arg("The folder of runs and journal; none: the default.", option="-")]
OwnSettings = Annotated[Settings | None, Arg("All settings; none: the default.", option="-")]
New = Annotated[bool, Arg("Begin a new run even if there is one with the same settings.", group=HOW)]
Confirmed = Annotated[bool, Arg("Do not ask for confirmation.", option="--yes", short="-y", group=HOW)]


@cache
def described(record: type[Struct]) -> dict[str, tuple[Any, Arg]]:
    """Return the type and the description of each argument of a record."""
    hints = get_type_hints(record, include_extras=True)
    return {field.name: get_args(hints[field.name])[:2] for field in fields(record)}


def option_name(name: str, argument: Arg) -> str:
    """Return the option of an argument."""
    return argument.option or f"--{name.replace('_', '-')}"


def words_of(kind: Any) -> tuple[str, ...]:
    """Return the allowed words of an argument, if its type lists them."""
    return next((get_args(candidate) for candidate in (kind, *get_args(kind)) if get_origin(candidate) is Literal), ())


def check(arguments: Struct) -> None:
    """Check the values of a record against the descriptions of its arguments.

    Raises:
        UserError: a value is no number, out of range, or none of the allowed words.
    """
    for name, (kind, argument) in described(type(arguments)).items():
        value, option = getattr(arguments, name), option_name(name, argument)
        numbered = int in get_args(kind)
        if (words := words_of(kind)) and value is not None and not (numbered and isinstance(value, int)):
            one_of(option, value, (*words, "a number") if numbered else words)
        if argument.least is not None and value is not None and value not in words:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise UserError(f"{option} {value!r} is no number.")
            if not value >= argument.least:
                raise UserError(f"{option} {value:g} is too small; expected {argument.least:g} or more.")
            if argument.maximum is not None and value > argument.maximum:
                raise UserError(f"{option} {value:g} is too large; expected {argument.maximum:g} at most.")


def takes(record: Callable[P, A]) -> Callable[[Callable[[A], R]], Callable[P, R]]:
    """Turn a function of a record into a function of the record's fields.

    Unknown keywords are refused with the nearest.

        @takes(RunArguments)
        def run(given: RunArguments) -> RunResult: ...
    """

    def decorate(function: Callable[[A], R]) -> Callable[P, R]:
        described_arguments = described(record)
        signature = inspect.signature(record)
        plain = [
            parameter.replace(annotation=described_arguments[name][0])
            for name, parameter in signature.parameters.items()
        ]

        @wraps(function)
        def call(*positional: P.args, **keywords: P.kwargs) -> R:
            for name in keywords:
                if name not in signature.parameters:
                    raise TypeError(
                        f"{function.__name__}() has no argument {name!r}.{nearest(name, list(signature.parameters))}"
                    )
            filled = record(*positional, **keywords)
            check(filled)
            return function(filled)

        result = inspect.signature(function).return_annotation
        call.__signature__ = inspect.Signature(plain, return_annotation=result)  # type: ignore[attr-defined]
        lines = "".join(
            fill(f"{name}: {argument.help}", 120, initial_indent=" " * 8, subsequent_indent=" " * 12) + "\n"
            for name, (_, argument) in described_arguments.items()
        )
        text, raises, rest = (function.__doc__ or "").partition("    Raises:")
        call.__doc__ = f"{text.rstrip()}\n\n    Args:\n{lines}\n{raises}{rest}"
        return call

    return decorate
