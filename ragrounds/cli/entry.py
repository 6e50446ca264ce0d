"""How `ragrounds` starts: its commands are put together, errors become one line and an exit code.

Each file of this folder that has an `app` (a :class:`typer.Typer`) brings a family of commands: what is registered on
it joins `ragrounds`. A new command is a new file; nothing else has to know of it.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from operator import attrgetter
from pkgutil import iter_modules
from typing import Any

import typer

import ragrounds.cli
from ragrounds.cli.commands import Command, Group
from ragrounds.errors import Interrupted, UserError, options_named
from ragrounds.version import __version__

FIRST = ("run", "runs", "compare", "trace", "score", "judge", "arena", "analyse")
"""Files whose commands come first in ``ragrounds --help``, in this order; the others follow by name."""
_PATIENCE = 2.0
"""Seconds that threads at work are waited for at the end."""


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"ragrounds {__version__}")
        raise typer.Exit


def _install_completion(asked: bool) -> None:
    if asked:
        from ragrounds.cli.shells import install, shell_here

        shell = shell_here()
        typer.echo(f"{install(shell)}: {shell} completes ragrounds from its next start on.", err=True)
        raise typer.Exit


def _show_completion(asked: bool) -> None:
    if asked:
        from ragrounds.cli.shells import SCRIPTS, shell_here

        typer.echo(SCRIPTS[shell_here()].strip())
        raise typer.Exit


def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
    install_completion: bool = typer.Option(
        False,
        "--install-completion",
        callback=_install_completion,
        is_eager=True,
        help="Install completion for this shell: bash, zsh or fish.",
    ),
    show_completion: bool = typer.Option(
        False,
        "--show-completion",
        callback=_show_completion,
        is_eager=True,
        help="Print its script, to be kept elsewhere.",
    ),
) -> None:
    pass


@cache
def command_line() -> typer.Typer:
    """`ragrounds` with the commands of every file of this folder."""
    return _assembled((*FIRST, *_files()))


def command_tree(word: str = "") -> Any:
    """The command line as Click has it. Of a command whose file has its name only that file is imported, which takes a
    third of the time: a shell waits for it."""
    from typer.main import get_command

    if word in _files():
        part = get_command(_assembled((word,)))
        if word in getattr(part, "commands", ()):
            return part
    return get_command(command_line())


def _files() -> list[str]:
    return sorted(map(attrgetter("name"), iter_modules(ragrounds.cli.__path__)))


def _assembled(files: Iterable[str]) -> typer.Typer:
    whole = typer.Typer(
        name="ragrounds",
        cls=Group,
        help="Replay medical benchmark questions through LangGraph agents, keep every step, compare strategies on "
        "accuracy and cost.\n\nStart with `ragrounds run`: it needs no key and no network.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
        epilog="Exit codes: 0 done; 1 a claim (--assert, --until) fails, or the store is damaged; 2 bad input, a wrong "
        "key, or no answer possible; 3 done, but some attempts failed; 4 a claim cannot be told; 130 interrupted, 143 "
        "by SIGTERM (the same command resumes).",
    )
    whole.callback()(_options)
    for name in dict.fromkeys(files):
        family = getattr(import_module(f"ragrounds.cli.{name}"), "app", None)
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


def main(*, own_process: bool = True) -> None:
    """The console script. Typer itself ends usage errors with 2 and Ctrl-C with 130; SIGTERM is as Ctrl-C, and its code
    is 143.

    Args:
        own_process: Nothing else goes on in this process: it may be ended while threads of a system's own, whose
            attempts were interrupted or capped in the middle of something, are still at it.
    """
    with options_named(), _sigterm_as_ctrl_c() as terminated:
        try:
            if not _completed():
                command_line()()
        except UserError as error:
            _say(str(error))
            code = _code(130 if isinstance(error, Interrupted) else 2, terminated)
            if isinstance(error, Interrupted) and own_process:
                _leave_threads(code)
            sys.exit(code)
        except KeyboardInterrupt:  # while commands are imported
            sys.exit(_code(130, terminated))
        except SystemExit as ended:
            code = _code(ended.code, terminated)
            if own_process:
                _leave_busy_threads(code)
            sys.exit(code)
        except BrokenPipeError:
            # The reader of our output left (`| head`): no reason to complain.
            sys.stderr.close()
            sys.exit(141)
        except Exception as error:
            if not _of_the_database(error):
                raise
            _say(f"The store cannot be read: {error.args[0]}. `ragrounds doctor --store` looks at all of it.")
            sys.exit(2)


def _leave_threads(code: str | int | None) -> None:
    """End the process at once where threads are left: at its usual end Python would wait for what they wait for."""
    if any(not thread.daemon and thread is not threading.main_thread() for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def _leave_busy_threads(code: str | int | None) -> None:
    """End the process where threads are still at work after a moment: a capped system may wait for ever."""
    waited_for = time.monotonic() + _PATIENCE
    while busy := _busy_threads():
        if time.monotonic() > waited_for:
            _say(f"Not waited for: threads of a system that are still at work ({len(busy)}).")
            atexit._run_exitfuncs()  # what libraries write at the end; os._exit passes it over
            _leave_threads(code)
        time.sleep(0.02)


def _busy_threads() -> list[threading.Thread]:
    """The threads that Python would wait for; those of a pool that wait for work end by themselves."""
    frames = sys._current_frames()
    return [
        thread
        for thread in threading.enumerate()
        if not thread.daemon
        and thread is not threading.main_thread()
        and (frame := frames.get(thread.ident or 0)) is not None
        and (frame.f_globals.get("__name__"), frame.f_code.co_name) != ("concurrent.futures.thread", "_worker")
    ]


def _of_the_database(error: Exception) -> bool:
    """Whether a database could not do what it was asked, as one whose file is damaged."""
    loaded = sys.modules.get("sqlalchemy.exc")
    return loaded is not None and isinstance(error, loaded.DBAPIError)


def _code(code: str | int | None, terminated: list[int]) -> str | int | None:
    return 143 if code == 130 and terminated else code


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[list[int]]:
    """While the block lasts, SIGTERM does what Ctrl-C does at that moment: the first finishes what is in flight, the
    second stops at once. Gives the signals that came."""
    terminated: list[int] = []

    def interrupt(number: int, frame: object) -> None:
        """Hand the signal on to whoever hears Ctrl-C now."""
        terminated.append(number)
        signal.raise_signal(signal.SIGINT)

    if threading.current_thread() is not threading.main_thread():
        yield terminated
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield terminated
    finally:
        signal.signal(signal.SIGTERM, before)


def _completed() -> bool:
    """Answer a shell that asks how a word may go on, where one does."""
    if "_RAGROUNDS_COMPLETE" not in os.environ:
        return False
    from ragrounds.cli.completion import answer

    told = answer(os.environ, command_tree)
    if told:
        sys.stdout.write(f"{told}\n")
    return told is not None or os.environ["_RAGROUNDS_COMPLETE"].startswith("complete_")


def _say(message: str) -> None:
    from ragrounds.ui.text import safe

    typer.echo(f"ragrounds: {' '.join(safe(message).split())}", err=True)
