"""The options that several commands share, each with one spelling and one meaning."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
import typer
from msgspec import Struct

from ragrounds.api.arguments import Arg, described, option_name, words_of
from ragrounds.base.errors import UserError
from ragrounds.ui.pictures.plot import check_plot_file, chosen_theme

_UNIONS = (Union, UnionType)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ms|s|m|h|d)")


def duration(text: str | float) -> float:
    """Return the seconds of ``90s``, ``2h``, ``1h30m`` or ``1.5d``; a bare number is seconds.

    Raises:
        UserError: the text is no duration.
    """
    try:
        seconds = float(text)
    except ValueError:
        parts = _DURATION.findall(str(text))
        if not parts or "".join(number + unit for number, unit in parts) != text:
            raise _duration_error(text) from None
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    if not 0 <= seconds < float("inf"):
        raise _duration_error(text)
    return seconds


def age(text: str | float) -> float:
    """Return the seconds of an age above which things are removed, as :func:`duration`.

    A bare number other than 0 is refused: a user who writes ``2`` may mean days, and too much would be removed.

    Raises:
        UserError: the text is no duration, or has no unit.
    """
    seconds = duration(text)
    if seconds and str(text)[-1:] not in _UNITS:
        raise UserError(f"{text!r} has no unit; expected such as 30m, 2h or 1.5d.")
    return seconds


def _duration_error(text: object) -> UserError:
    return UserError(f"{text!r} is no duration; expected such as 90s, 15m, 2h or 1h30m (a bare number is seconds).")


SHORT = {"-a": "--agent", "-b": "--benchmark", "-c": "--corpus", "-m": "--model", "-n": "--limit"}
"""Short names of the most used options of `ragrounds run` → their names."""
Runs = Annotated[list[str], typer.Argument(help="Runs: an id, the beginning of one, or an agent's text.")]
RunName = Annotated[str, typer.Argument(help="A run: an id, the beginning of one, or an agent's text.")]
Full = Annotated[bool, typer.Option("--full", help="Print every table, test and note.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
AskedNothing = Annotated[
    bool, typer.Option("--yes", "-y", help="As in `run`; this command never asks for confirmation.")
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]
Epoch = Annotated[int, typer.Option("--epoch", min=0, help="Which of the run's epochs, from 0.")]
Names = Annotated[
    list[str] | None,
    typer.Option("--as", metavar="RUN=NAME", help="What a run is called in tables and pictures (repeatable)."),
]
Resamples = Annotated[int, typer.Option("--resamples", min=100, help="Bootstrap samples.")]
Display = Annotated[
    str | None, typer.Option("--display", help="Progress: full, plain, json or none. [default: by terminal]")
]


class PlotOptions(Struct, frozen=True, kw_only=True):
    """Options for a picture of the result."""

    plot: Annotated[
        Path | None, Arg("Draw a picture into this file: .svg, .png or .pdf.", group="A picture of the result")
    ] = None
    picture: Annotated[
        str,
        Arg("Which one; an unknown name lists them. [default: the first]", group="A picture of the result"),
    ] = ""
    theme: Annotated[str, Arg("Its colours: light or dark.", group="A picture of the result")] = "light"

    def check(self) -> None:
        """Check these options before the command does anything.

        Raises:
            UserError: the file cannot hold a picture, its renderer is not installed, the theme is unknown, or
                ``--plot`` is missing.
        """
        chosen_theme(self.theme)
        if self.plot is not None:
            check_plot_file(self.plot)
        elif self.picture or self.theme != "light":
            raise UserError("--picture and --theme need --plot FILE.")


class FormOptions(Struct, frozen=True, kw_only=True):
    """Options for the printed format."""

    as_json: Annotated[bool, Arg("One JSON document on standard output.", option="--json", group="What is printed")] = (
        False
    )
    as_csv: Annotated[bool, Arg("Every figure as a row of one CSV table.", option="--csv", group="What is printed")] = (
        False
    )
    as_latex: Annotated[bool, Arg("The tables as LaTeX.", option="--latex", group="What is printed")] = False
    as_markdown: Annotated[bool, Arg("The tables as Markdown.", option="--markdown", group="What is printed")] = False

    def selected(self) -> str:
        """Return the option that was given; empty if none was.

        Raises:
            UserError: several were given.
        """
        by_option = {f"--{name.removeprefix('as_')}": getattr(self, name) for name in self.__struct_fields__}
        names = [name for name, is_set in by_option.items() if is_set]
        if len(names) > 1:
            raise UserError(f"{' and '.join(names)} were given; choose one format for standard output.")
        return names[0] if names else ""


Alias = Annotated[
    str | None,
    typer.Option("--alias", help="A name for the server, or for the group of several, which needs one."),
]


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Replace a command by one in which Typer sees an option for each field of every record among its parameters."""
    records: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        kind = parameter.annotation
        if not isinstance(kind, type) or not issubclass(kind, Struct):
            parameters.append(parameter)
            continue
        records[parameter.name] = kind
        for field in msgspec.structs.fields(kind):
            default = inspect.Parameter.empty if field.required else None if field.default == () else field.default
            if (hint := _typer_option(kind, field.name)) is not None:
                parameters.append(parameter.replace(name=field.name, default=default, annotation=hint))
    arguments = set(inspect.signature(command).parameters)
    keyword_parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]

    def typed(**values: object) -> None:
        for name, record in records.items():
            repeatable = {field for field, (_, argument) in described(record).items() if argument.many}
            record_values = {field: values[field] for field in record.__struct_fields__ if field in values}
            for field in record_values.keys() - arguments:
                del values[field]
            values[name] = filled = record(
                **{key: value or () if key in repeatable else value for key, value in record_values.items()}
            )
            if isinstance(filled, PlotOptions):
                filled.check()
        command(**values)

    typed.__name__, typed.__doc__, typed.__module__ = command.__name__, command.__doc__, command.__module__
    typed.__annotations__ = {parameter.name: parameter.annotation for parameter in keyword_parameters}
    typed.__signature__ = inspect.Signature(keyword_parameters)  # type: ignore[attr-defined]
    return typed


def _word_or_number(text: str | int) -> str | int:
    return int(text) if str(text).isdecimal() else text


_WORD = re.compile(r"`(\w+)`")


def _typer_option(record: type[Struct], name: str) -> object:
    """Return Typer's option for an argument of a public function; ``None`` if the argument is only for Python."""
    kind, argument = described(record)[name]
    if argument.option == "-":
        return None
    minimum = argument.least if isinstance(argument.least, int) else None
    if argument.option and not argument.option.startswith("-"):
        return Annotated[_option_type(kind), typer.Argument(help=argument.help)]
    option = typer.Option(
        *filter(None, (option_name(name, argument), argument.short)),
        help=_WORD.sub(lambda name_match: f"--{name_match[1].replace('_', '-')}", argument.help),
        min=None if argument.duration or argument.many else minimum,
        max=argument.maximum if isinstance(argument.maximum, int) else None,
        metavar=argument.metavar or "|".join(words_of(kind)) or ("N" if int in (kind, *get_args(kind)) else None),
        parser=duration if argument.duration else _word_or_number if words_of(kind) and int in get_args(kind) else None,
        hidden=argument.hidden,
        rich_help_panel=argument.group or None,
    )
    several: Any = list[int] if kind == Sequence[int] else list[str]
    return Annotated[several | None if argument.many else _option_type(kind), option]


def _option_type(kind: Any) -> Any:
    """Return the type of an option's value: text if the argument is one of several words, or a word or a number."""
    parts = [part for part in get_args(kind) if part is not type(None)] if get_origin(kind) in _UNIONS else [kind]
    plain: Any = parts[0] if len(parts) == 1 and parts[0] in (bool, int, float, str, Path) else str
    return plain | None if type(None) in get_args(kind) else plain
