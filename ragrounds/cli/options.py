"""The options that several commands share, each with one spelling, one meaning and one place."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
import typer
from msgspec import Struct
from typer.models import OptionInfo

from ragrounds.api.arguments import described, option_name, words_of
from ragrounds.errors import UserError
from ragrounds.ui.plot import check_plot_file, chosen_theme

_UNIONS = (Union, UnionType)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ms|s|m|h|d)")


def duration(text: str | float) -> float:
    """Seconds of ``90s``, ``2h``, ``1h30m`` or ``1.5d``; a bare number is seconds.

    Raises:
        UserError: it is none of these.
    """
    try:
        seconds = float(text)
    except ValueError:
        parts = _DURATION.findall(str(text))
        if not parts or "".join(number + unit for number, unit in parts) != text:
            raise _no_duration(text) from None
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    if not 0 <= seconds < float("inf"):
        raise _no_duration(text)
    return seconds


def age(text: str | float) -> float:
    """As :func:`duration`, for what is removed by its age: a bare number but 0 is refused, as who writes ``2`` may mean
    days, and more would go than is meant.

    Raises:
        UserError: it is no duration, or has no unit.
    """
    seconds = duration(text)
    if seconds and str(text)[-1:] not in _UNITS:
        raise UserError(f"{text!r} has no unit; expected such as 30m, 2h or 1.5d.")
    return seconds


def _no_duration(text: object) -> UserError:
    return UserError(f"{text!r} is no duration; expected such as 90s, 15m, 2h or 1h30m (a bare number is seconds).")


SHORT = {"-a": "--agent", "-b": "--benchmark", "-c": "--corpus", "-m": "--model", "-n": "--limit"}
"""Short names of the options of `ragrounds run` that are typed most → their names."""
Runs = Annotated[list[str], typer.Argument(help="Runs: an id, the beginning of one, or an agent's text.")]
RunName = Annotated[str, typer.Argument(help="A run: an id, the beginning of one, or an agent's text.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Force = Annotated[bool, typer.Option("--force", help="Write over what is there.")]
Epoch = Annotated[int, typer.Option("--epoch", min=0, help="Which of the run's epochs, from 0.")]
Names = Annotated[
    list[str] | None,
    typer.Option("--as", metavar="RUN=NAME", help="What a run is called in tables and pictures (repeatable)."),
]
Resamples = Annotated[int, typer.Option("--resamples", min=100, help="Bootstrap samples.")]
Display = Annotated[
    str | None, typer.Option("--display", help="Progress: full, plain, json or none. [default: by terminal]")
]


class Options(Struct, frozen=True, kw_only=True):
    """A group of options: :func:`grouped` gives them to a command that has a parameter of this type."""

    def check(self) -> None:
        """Say what is wrong with these, before the command does anything."""


class PlotOptions(Options, frozen=True, kw_only=True):
    """A picture of the result."""

    plot: Annotated[Path | None, typer.Option("--plot", help="Draw a picture into this file: .svg, .png or .pdf.")] = (
        None
    )
    picture: Annotated[
        str,
        typer.Option(
            "--picture", help="Which one; a name that there is not lists them. [default: the first]", show_default=False
        ),
    ] = ""
    theme: Annotated[str, typer.Option("--theme", help="Its colours: light or dark.")] = "light"

    def check(self) -> None:
        """Say what is wrong with these, before the command does anything.

        Raises:
            UserError: a file that cannot hold a picture, or what draws it is not installed; an unknown theme; one of
                the others without ``--plot``.
        """
        chosen_theme(self.theme)
        if self.plot is not None:
            check_plot_file(self.plot)
        elif self.picture or self.theme != "light":
            raise UserError("--picture and --theme go with --plot FILE, which says where the picture is kept.")


Alias = Annotated[
    str | None,
    typer.Option("--alias", help="A name for the server, or for the group of several, which needs one."),
]


def _placed(hint: object, group: type[Options]) -> object:
    """The type of an option, which stands in the help under what its group is."""
    value, *told = get_args(hint)
    heading = inspect.cleandoc(group.__doc__ or "").partition(".")[0]
    placed = [_under(one, heading) if isinstance(one, OptionInfo) else one for one in told]
    return Annotated[(value, *placed)]


def _under(option: OptionInfo, heading: str) -> OptionInfo:
    made = copy.copy(option)
    made.rich_help_panel = option.rich_help_panel or heading
    return made


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command in whose place Typer sees the options of every group and of every record among its parameters."""
    groups: dict[str, Any] = {}
    seen: list[inspect.Parameter] = []
    for each in inspect.signature(command, eval_str=True).parameters.values():
        kind = each.annotation
        if not isinstance(kind, type) or not issubclass(kind, Struct):
            seen.append(each)
            continue
        groups[each.name] = kind
        hints = get_type_hints(kind, include_extras=True)
        for field in msgspec.structs.fields(kind):
            default = inspect.Parameter.empty if field.required else field.default
            hint = _placed(hints[field.name], kind) if issubclass(kind, Options) else _option(kind, field.name)
            if hint is not None:
                default = None if default == () else default
                seen.append(each.replace(name=field.name, default=default, annotation=hint))
    arguments = set(inspect.signature(command).parameters)
    taken = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in seen]

    def typed(**given: object) -> None:
        for name, group in groups.items():
            own = {field: given[field] for field in group.__struct_fields__ if field in given}
            for field in own.keys() - arguments:
                del given[field]
            if issubclass(group, Options):
                given[name] = made = group(**own)
                made.check()
            else:
                many = {field for field, (_, said) in described(group).items() if said.many}
                given[name] = group(**{field: value or () if field in many else value for field, value in own.items()})
        command(**given)

    typed.__name__, typed.__doc__, typed.__module__ = command.__name__, command.__doc__, command.__module__
    typed.__annotations__ = {each.name: each.annotation for each in taken}
    typed.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
    return typed


_WORD = re.compile(r"`(\w+)`")


def _option(record: type[Struct], name: str) -> object:
    """The option of an argument of a public function; ``None``: it is for Python alone."""
    kind, said = described(record)[name]
    if said.option == "-":
        return None
    least = said.least if isinstance(said.least, int) else None
    if said.option and not said.option.startswith("-"):
        return Annotated[_typed(kind), typer.Argument(help=said.help)]
    option = typer.Option(
        *filter(None, (option_name(name, said), said.short)),
        help=_WORD.sub(lambda found: f"--{found[1].replace('_', '-')}", said.help),
        min=None if said.duration or said.many else least,
        max=said.most if isinstance(said.most, int) else None,
        metavar=said.metavar or "|".join(words_of(kind)) or ("N" if int in (kind, *get_args(kind)) else None),
        parser=duration if said.duration else None,
        hidden=said.hidden,
        rich_help_panel=said.group or None,
    )
    several: Any = list[int] if kind == Sequence[int] else list[str]
    return Annotated[several | None if said.many else _typed(kind), option]


def _typed(kind: Any) -> Any:
    """The type of an option's value: a text where the argument is one of several words, or a word or a number."""
    parts = [part for part in get_args(kind) if part is not type(None)] if get_origin(kind) in _UNIONS else [kind]
    plain: Any = parts[0] if len(parts) == 1 and parts[0] in (bool, int, float, str, Path) else str
    return plain | None if type(None) in get_args(kind) else plain
