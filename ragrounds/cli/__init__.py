"""The command line: it parses, calls :mod:`ragrounds.api`, prints. Heavy imports stand inside the commands.

Each file of this folder that has an `app` (a :class:`typer.Typer`) brings a family of commands: what is registered on
it joins `ragrounds`. A new command is a new file; nothing else has to know of it.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from operator import attrgetter
from pkgutil import iter_modules

import typer

from ragrounds.cli.commands import Command, Group
from ragrounds.errors import Interrupted, UserError, options_named
from ragrounds.version import __version__

FIRST = ("run", "runs", "compare", "trace", "score", "judge", "arena", "analyse")
"""Files whose commands come first in ``ragrounds --help``, in this order; the others follow by name."""


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"ragrounds {__version__}")
        raise typer.Exit


def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    pass


@cache
def command_line() -> typer.Typer:
    """`ragrounds` with the commands of every file of this folder."""
    whole = typer.Typer(
        name="ragrounds",
        cls=Group,
        help="Replay medical benchmark questions through LangGraph agents, keep every step, compare strategies on "
        "accuracy and cost.\n\nStart with `ragrounds run`: it needs no key and no network.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
        epilog="Exit codes: 0 done; 1 an --assert does not hold; 2 bad input, a wrong key, or no answer possible; "
        "3 done, but some attempts failed; 130 interrupted (the same command resumes).",
    )
    whole.callback()(_options)
    names = sorted(map(attrgetter("name"), iter_modules(__path__)))
    for name in dict.fromkeys((*FIRST, *names)):
        family = getattr(import_module(f"{__name__}.{name}"), "app", None)
        if isinstance(family, typer.Typer):
            _dress(family)
            whole.registered_commands += family.registered_commands
            whole.registered_groups += family.registered_groups
    return whole


def _dress(app: typer.Typer) -> None:
    """Commands and groups answer former spellings, and say errors alike."""
    for command in app.registered_commands:
        command.cls = Command
    for group in app.registered_groups:
        if isinstance(group.typer_instance, typer.Typer):
            told = group.typer_instance.info
            told.cls = told.cls if isinstance(told.cls, type) else Group
            _dress(group.typer_instance)


def main() -> None:
    """The console script. Typer itself ends usage errors with 2 and Ctrl-C with 130."""
    with options_named():
        try:
            command_line()()
        except UserError as error:
            _say(str(error))
            sys.exit(130 if isinstance(error, Interrupted) else 2)
        except BrokenPipeError:
            # The reader of our output left (`| head`): no reason to complain.
            sys.stderr.close()
            sys.exit(141)


def _say(message: str) -> None:
    from ragrounds.ui.text import safe

    typer.echo(f"ragrounds: {' '.join(safe(message).split())}", err=True)
