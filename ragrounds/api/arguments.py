"""The arguments of a public function as one record: its keywords in Python, the options of its command, their help,
what is checked of them, and what is kept with a run.

A field says by its type and an :class:`Arg` all that these need. :func:`takes` makes the function of the record, with
the record's own signature, so that an editor knows every keyword.
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

from ragrounds.api.workspace import Progress, RunsGiven, one_of
from ragrounds.base.errors import UserError, nearest
from ragrounds.base.settings import Settings

P = ParamSpec("P")
A = TypeVar("A", bound=Struct)
R = TypeVar("R")


class Arg(Struct, frozen=True):
    """What is said of one argument."""

    help: str
    """For Python and the command alike; the name of another argument stands in backticks."""
    least: float | None = None
    """Its least value."""
    most: float | None = None
    option: str = ""
    """The option of the command, where it is not the argument's name; ``-``: there is none; without a dash: it is an
    argument."""
    short: str = ""
    """The option's one-letter name."""
    group: str = ""
    """The heading that the option stands under."""
    metavar: str = ""
    """What stands for its value, where the option's name does not say it."""
    many: bool = False
    """Whether the option may be repeated."""
    duration: bool = False
    """Whether the option takes ``90s``, ``2h`` …"""
    hidden: bool = False
    kept: bool = False
    """Whether it is kept with a run, which resumes by it: it says what a run is, or how its server is reached."""


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
    str | None, Arg("A name for the server, or for the group of several, which needs one.", group=MODEL, kept=True)
]
Corpus = Annotated[
    str | None, Arg("What is searched: beir:FOLDER, an index by name, or sample.", short="-c", group=WHAT, kept=True)
]
Limit = Annotated[int | None, Arg("Only this many, drawn by `seed`.", 1, short="-n", group=WHAT, kept=True)]
Seed = Annotated[int, Arg("Random seed of sampling, ordering and bootstrap.", group=WHAT, kept=True)]
FailAfter = Annotated[
    str | int,
    Arg(
        "Stop (resumable) when this many judgements or items failed: a share of the last 100 (at least 20), a "
        "number, or never.",
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
    """The arguments of a record: its type and what is said of it."""
    hints = get_type_hints(record, include_extras=True)
    return {field.name: get_args(hints[field.name])[:2] for field in fields(record)}


def option_name(name: str, said: Arg) -> str:
    """The option of an argument."""
    return said.option or f"--{name.replace('_', '-')}"


def words_of(kind: Any) -> tuple[str, ...]:
    """The words that an argument may be, where its type says them."""
    return next((get_args(one) for one in (kind, *get_args(kind)) if get_origin(one) is Literal), ())


def check(given: Struct) -> None:
    """Check what each argument says of its values.

    Raises:
        UserError: one is no number, too small, or none of the known words.
    """
    for name, (kind, said) in described(type(given)).items():
        value, option = getattr(given, name), option_name(name, said)
        numbered = int in get_args(kind)
        if (words := words_of(kind)) and value is not None and not (numbered and isinstance(value, int)):
            one_of(option, value, (*words, "a number") if numbered else words)
        if said.least is not None and value is not None and value not in words:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise UserError(f"{option} {value!r} is no number.")
            if not value >= said.least:
                raise UserError(f"{option} {value:g} is too small; expected {said.least:g} or more.")
            if said.most is not None and value > said.most:
                raise UserError(f"{option} {value:g} is too large; expected {said.most:g} at most.")


def takes(record: Callable[P, A]) -> Callable[[Callable[[A], R]], Callable[P, R]]:
    """A function of a record as one of the record's fields: keywords that there are not are refused with the nearest.

    @takes(RunArguments)
    def run(given: RunArguments) -> RunResult: ...
    """

    def made(function: Callable[[A], R]) -> Callable[P, R]:
        known = described(record)
        signature = inspect.signature(record)
        plain = [one.replace(annotation=known[name][0]) for name, one in signature.parameters.items()]

        @wraps(function)
        def call(*given: P.args, **named: P.kwargs) -> R:
            for name in named:
                if name not in signature.parameters:
                    raise TypeError(
                        f"{function.__name__}() has no argument {name!r}.{nearest(name, list(signature.parameters))}"
                    )
            filled = record(*given, **named)
            check(filled)
            return function(filled)

        result = inspect.signature(function).return_annotation
        call.__signature__ = inspect.Signature(plain, return_annotation=result)  # type: ignore[attr-defined]
        lines = "".join(
            fill(f"{name}: {said.help}", 120, initial_indent=" " * 8, subsequent_indent=" " * 12) + "\n"
            for name, (_, said) in known.items()
        )
        text, raises, rest = (function.__doc__ or "").partition("    Raises:")
        call.__doc__ = f"{text.rstrip()}\n\n    Args:\n{lines}\n{raises}{rest}"
        return call

    return made
