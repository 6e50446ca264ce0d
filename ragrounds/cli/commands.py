"""The common behaviour of commands and groups, and ``ragrounds`` itself, which imports a command's file when the
command is called.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from ragrounds.base import hooks
from ragrounds.base.errors import UserError
from ragrounds.cli.command_files import command_files
from ragrounds.cli.help_text import (
    COMMON,
    FEW,
    OPTIONS,
    SECTIONS,
    value_name,
    write_commands,
    write_help,
    write_more,
    write_options,
)

_MORE = "ragrounds.more"


class Command(TyperCommand):
    """Command whose help explains the values of its options."""

    def __init__(self, *positional: Any, **keywords: Any) -> None:
        super().__init__(*positional, **keywords)
        for parameter in self.params:
            is_option = parameter.param_type_name == "option" and not getattr(parameter, "is_flag", False)
            if parameter.metavar is None and is_option:
                parameter.metavar = value_name(parameter)
        self.long = sum(parameter.param_type_name == "option" for parameter in self.params) > FEW

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of the command line; ``--more`` is a longer ``--help``."""
        ctx.meta[_MORE] = self.long and "--more" in args
        takes_more, ctx.allow_extra_args = ctx.allow_extra_args, True  # Click's error names no option for the words
        rest = super().parse_args(ctx, ["--help"] if ctx.meta[_MORE] else args)
        if rest and not takes_more and not ctx.resilient_parsing:
            has_benchmark = any("--benchmark" in parameter.opts for parameter in self.params)
            meant = f" Did you mean --benchmark {rest[0]}?" if has_benchmark else ""
            ctx.fail(f"{' '.join(rest)!r} belongs to no option.{meant}")
        return rest

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options by their groups; of a long command, only the common options, and the names of the
        others.
        """
        parameters = self.get_params(ctx)
        rare = [parameter for parameter in parameters if self.long and not ctx.meta[_MORE] and _is_rare(parameter)]
        write_options(
            ((_group_of(parameter), help_record(parameter, ctx)) for parameter in parameters if parameter not in rare),
            formatter,
        )
        write_more(
            "More options", [max(parameter.opts, key=len) for parameter in rare], "--more explains them", formatter
        )

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the usage line's parts; brackets mark optional parts."""
        arguments = [parameter for parameter in self.get_params(ctx) if parameter.param_type_name == "argument"]
        return ["[OPTIONS]", *(argument_name(argument, brackets=not argument.required) for argument in arguments)]

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write the description of the command, with its examples."""
        write_help(self.help or "", formatter)


def _is_rare(parameter: Any) -> bool:
    """Return True if a parameter of a long command is explained only by ``--more``."""
    names = {name.lstrip("-") for name in parameter.opts}
    return parameter.param_type_name == "option" and not parameter.hidden and not names & {*COMMON, "help"}


def help_record(parameter: Any, ctx: Any) -> tuple[str, str] | None:
    """Return the syntax and the help of an option or an argument; ``None`` if it is hidden."""
    record: tuple[str, str] | None = parameter.get_help_record(ctx)
    if record is None or parameter.param_type_name != "argument":
        return record
    return argument_name(parameter), record[1]


def argument_name(parameter: Any, *, brackets: bool = False) -> str:
    """Return an argument as every command shows it: ``RUNS...``. Typer's own form differs between versions."""
    name = parameter.metavar or parameter.name.upper()
    return (f"[{name}]" if brackets else name) + ("..." if parameter.nargs != 1 else "")


def _group_of(parameter: object) -> str:
    """Return the group of options that contains a parameter."""
    if getattr(parameter, "param_type_name", "") == "argument":
        return "Arguments"
    return getattr(parameter, "rich_help_panel", None) or OPTIONS


class Group(TyperGroup):
    """Noun with its commands; `default` is called if a line names none."""

    default: ClassVar[str] = ""
    any_word: ClassVar[bool] = False
    """True if a word that is no command belongs to the default command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of the command line."""
        first = args[0] if args else ""
        is_command = first in self.commands or first in ("--help", "-h")
        ends = ctx.resilient_parsing and not args  # a shell completes the word after the group's name
        if self.default and not is_command and not ends and (not first or first.startswith("-") or self.any_word):
            args = [self.default, *args] if args or not self.any_word else args
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, each with its first sentence."""
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        write_commands(
            [(name, command.help or "") for name, command in commands if command is not None and not command.hidden],
            formatter,
        )


class ListGroup(Group):
    """Noun whose list is printed by default: `ragrounds runs` is `ragrounds runs ls`."""

    default = "ls"


def _installed_commands() -> list[str]:
    """Return the names of the commands that installed packages add; none is imported."""
    if not hooks.COMMAND.is_extended():
        return []
    from ragrounds.base.plugins import declared  # the import takes as long as everything else that `--help` needs

    return [addition.name for addition in declared(hooks.COMMAND.group) if addition.name not in command_files()]


class Commands(Group):
    """Command line `ragrounds`: the commands of every module that has an `app`
    (:data:`ragrounds.base.hooks.COMMAND`).
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """List the commands by subject, then those of installed packages."""
        return [*command_files(), *_installed_commands()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, whose module is imported.

        Raises:
            UserError: the installed package that adds it cannot be used.
        """
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        if cmd_name in command_files():
            commands = _commands_by_name(import_module(command_files()[cmd_name][0]).app)
        elif cmd_name in _installed_commands():
            from ragrounds.cli.installed import COMMANDS

            app = COMMANDS.find(cmd_name)
            commands = {cmd_name: _commands_by_name(app).get(cmd_name)}
            if commands[cmd_name] is None:
                raise UserError(f"The package {COMMANDS.origin(cmd_name)} adds {cmd_name!r}, but has no such command.")
        else:
            return None
        self.commands.update(commands)
        return self.commands[cmd_name]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the named command; an unknown word is refused with the nearest command."""
        if self.get_command(ctx, args[0]) is None:
            self.load()
        return super().resolve_command(ctx, args)

    def load(self) -> None:
        """Import every command that can be used."""
        for name in self.list_commands(None):
            with suppress(UserError):
                self.get_command(None, name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by subject."""
        names = [(name, command_files().get(name, ("", ""))[1]) for name in self.list_commands(ctx)]
        write_commands(names, formatter, SECTIONS)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Return the commands that begin with this text; none of their modules is imported."""
        from typer._click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        return [CompletionItem(name, help=command_files().get(name, ("", None))[1]) for name in names]


@cache
def _commands_by_name(app: Any) -> dict[str, Any]:
    """Return the commands of an app by name, as Click has them.

    They are built once in a process: options with their types take 30 ms a command.
    """
    _set_classes(app)
    part = typer.Typer(rich_markup_mode=None)
    part.registered_commands, part.registered_groups = app.registered_commands, app.registered_groups
    return dict(typer.main.get_group(part).commands)


def _set_classes(app: typer.Typer) -> None:
    """Set the classes of commands and groups, so that their help looks alike."""
    for command in app.registered_commands:
        command.cls = Command
    for group in app.registered_groups:
        if isinstance(group.typer_instance, typer.Typer):
            info = group.typer_instance.info
            info.cls = info.cls if isinstance(info.cls, type) else Group
            _set_classes(group.typer_instance)
