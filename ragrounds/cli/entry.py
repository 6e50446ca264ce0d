"""How `ragrounds` starts and ends: errors become one line and an exit code."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

import typer

from ragrounds.base.errors import Interrupted, UserError, options_named
from ragrounds.cli.commands import Commands
from ragrounds.version import __version__

_GRACE = 2.0
"""Seconds that threads at work are waited for at the end."""


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
    """`ragrounds`, whose commands are imported when they are called."""
    whole = typer.Typer(
        name="ragrounds",
        cls=Commands,
        help="Replay medical benchmark questions through LangGraph agents, keep every step, compare strategies on "
        "accuracy and cost.\n\nStart with `ragrounds run`: it needs no key and no network.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
        epilog="Exit codes: 0 done; 1 a claim (--assert, --until) fails, or the store is damaged; 2 bad input, a wrong "
        "key, or no answer possible; 3 done, but some attempts failed or wait for a person; 4 a claim is "
        "undecided; 130 interrupted, 143 by SIGTERM (the same command resumes).",
    )
    whole.callback()(_options)
    return whole


def command_tree() -> Any:
    """The command line as Click has it, with every command imported."""
    tree: Any = typer.main.get_command(command_line())
    tree.load()
    return tree


def main(*, own_process: bool = True) -> None:
    """The console script. Typer itself ends usage errors with 2 and Ctrl-C with 130; SIGTERM is as Ctrl-C, and its code
    is 143.

    Args:
        own_process: Nothing else goes on in this process: it may be ended while threads of a system's own, whose
            attempts were interrupted or capped in the middle of something, are still at it. Otherwise SIGTERM is left
            to whoever handles it.
    """
    with options_named(), _sigterm_as_ctrl_c() if own_process else nullcontext(list[int]()) as terminated:
        try:
            command_line()(prog_name="ragrounds")
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
            _say(
                f"The store cannot be read: {getattr(error, 'orig', error)}. `ragrounds doctor --store` names what is "
                "damaged; `ragrounds doctor --store --save FOLDER` saves what can be read into a new store."
            )
            sys.exit(2)


def _leave_threads(code: str | int | None) -> None:
    """End the process at once where threads are left: at its usual end Python would wait for what they wait for."""
    if any(not thread.daemon and thread is not threading.main_thread() for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def _leave_busy_threads(code: str | int | None) -> None:
    """End the process where threads are still at work after a moment: a capped system may wait for ever."""
    waited_for = time.monotonic() + _GRACE
    while busy := _busy_threads():
        if time.monotonic() > waited_for:
            _say(f"Threads of a system are still running ({len(busy)}): not waited for.")
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


def _say(message: str) -> None:
    from ragrounds.ui.text import safe

    typer.echo(f"ragrounds: {' '.join(safe(message).split())}", err=True)
