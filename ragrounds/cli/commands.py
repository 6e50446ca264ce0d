"""What every command and group of commands does alike: it answers a former spelling with today's."""

from __future__ import annotations

from typing import Any, ClassVar

from typer.core import TyperCommand, TyperGroup

from ragrounds.cli.help_text import OPTIONS, HelpFormatter, name_values, write_commands, write_help, write_options
from ragrounds.errors import UserError

FORMER_OPTIONS = {
    "--answer-tokens": "--max-answer-tokens",
    "--at-once": "--batch-size",
    "--check": "--sheet-size",
    "--depth": "--top-k",
    "--least": "--min-matches",
    "--least-rating": "--min-rating",
    "--least-words": "--min-words",
    "--max-tokens": "--max-total-tokens",
    "--model": "--judge",
    "--most-right": "--max-right",
    "--output": "--out",
    "--protocol": "--scorer",
    "--raters": "--experts",
    "--replicates": "--resamples",
    "--sample": "--sheet-size",
    "--svg": "--plot",
    "--to": "--out",
    "--upload": "--endpoint",
    "--url": "--endpoint",
}
"""Options of earlier versions → what they are called today, where a command does not have them any more."""
FORMER_COMMANDS = {("graph", "list"): "ls", ("arena", "list"): "ls"}
"""Group and command of earlier versions → the command's name today."""


class Command(TyperCommand):
    """A command that answers former spellings of its options, and says what their values mean."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        name_values(self.params)

    def format_options(self, ctx: Any, formatter: HelpFormatter) -> None:
        """Write the options by their groups."""
        write_options(((_group_of(one), help_record(one, ctx)) for one in self.get_params(ctx)), formatter)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """How the command is typed: what stands between brackets may be left out."""
        arguments = [one for one in self.get_params(ctx) if one.param_type_name == "argument"]
        return ["[OPTIONS]", *(argument_name(one, brackets=not one.required) for one in arguments)]

    def format_help_text(self, ctx: Any, formatter: HelpFormatter) -> None:
        """Write what the command does, with its examples."""
        write_help(self.help or "", formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of the command line.

        Raises:
            UserError: an option that has another name now.
        """
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # Typer brings its own copy of Click or imports it, by version: the class is known by its name.
            former = str(getattr(error, "option_name", ""))
            today = FORMER_OPTIONS.get(former)
            known = {name for parameter in self.params for name in parameter.opts}
            if type(error).__name__ != "NoSuchOption" or today not in known:
                raise
            raise UserError(f"{former} is now {today}.") from None


def help_record(parameter: Any, ctx: Any) -> tuple[str, str] | None:
    """How an option or an argument is typed, and what its help says; ``None``: it is not shown."""
    record: tuple[str, str] | None = parameter.get_help_record(ctx)
    if record is None or parameter.param_type_name != "argument":
        return record
    return argument_name(parameter), record[1]


def argument_name(parameter: Any, *, brackets: bool = False) -> str:
    """An argument as every command shows it: ``RUNS...``. Typer's own form differs from version to version."""
    name = parameter.metavar or parameter.name.upper()
    return (f"[{name}]" if brackets else name) + ("..." if parameter.nargs != 1 else "")


def _group_of(parameter: object) -> str:
    """The group of options that a parameter is of."""
    if getattr(parameter, "param_type_name", "") == "argument":
        return "Arguments"
    return getattr(parameter, "rich_help_panel", None) or OPTIONS


class Group(TyperGroup):
    """A noun with its commands; `default` is meant where a line names none."""

    default: ClassVar[str] = ""
    any_word: ClassVar[bool] = False
    """Whether a word that is no command belongs to the default one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of the command line."""
        first = args[0] if args else ""
        known = first in self.commands or first in ("--help", "-h") or (self.name, first) in FORMER_COMMANDS
        if self.default and not known and (not first or first.startswith("-") or self.any_word):
            args = [self.default, *args] if args or not self.any_word else args
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: Any, formatter: HelpFormatter) -> None:
        """Write the commands by subject."""
        found = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        write_commands([(name, one.help or "") for name, one in found if one is not None and not one.hidden], formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is named.

        Raises:
            UserError: it has another name now.
        """
        today = FORMER_COMMANDS.get((str(self.name), args[0]))
        if today is not None:
            raise UserError(f"`ragrounds {self.name} {args[0]}` is now `ragrounds {self.name} {today}`.")
        return super().resolve_command(ctx, args)


class ListGroup(Group):
    """A noun whose list is meant where nothing else is said: `ragrounds agents` is `ragrounds agents ls`."""

    default = "ls"
