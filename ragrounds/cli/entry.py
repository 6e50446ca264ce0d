"""Start and end of `ragrounds`: errors become one line and an exit code."""

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
from ragrounds.base.process_end import ProcessEnd
from ragrounds.cli.commands import Commands
from ragrounds.recorder.redaction import redact_output
from ragrounds.version import __version__

_GRACE_SECONDS = 2.0
"""Seconds to wait at the end for threads that still work."""


def _version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"ragrounds {__version__}")
        raise typer.Exit


def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    pass


@cache
def command_line() -> typer.Typer:
    """Return `ragrounds`, whose commands are imported when they are called."""
    typer_app = typer.Typer(
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
    typer_app.callback()(_options)
    return typer_app


def command_tree() -> Any:
    """Return the command line as Click's object, with every command imported."""
    tree: Any = typer.main.get_command(command_line())
    tree.load()
    return tree


def main(*, own_process: bool = True) -> None:
    """Run the console script. Usage errors exit with 2, Ctrl-C with 130, SIGTERM with 143.

    Typer itself handles usage errors and Ctrl-C; SIGTERM acts as Ctrl-C.

    Args:
        own_process: True if nothing else runs in this process. Then it may be ended while threads of users' systems,
            whose attempts were interrupted or capped, still run. Otherwise SIGTERM is left to its handler.
    """
    if own_process:
        redact_output()
    with options_named(), _sigterm_as_ctrl_c() if own_process else nullcontext(list[int]()) as terminated:
        try:
            command_line()(prog_name="ragrounds")
        except UserError as error:
            _say(str(error))
            code = _exit_code(130 if isinstance(error, Interrupted) else 2, terminated)
            if isinstance(error, Interrupted) and own_process:
                _leave_threads(code)
            sys.exit(code)
        except KeyboardInterrupt:  # while commands are imported
            sys.exit(_exit_code(130, terminated))
        except SystemExit as ended:
            code = _exit_code(ended.code, terminated)
            if own_process:
                _leave_busy_threads(code)
            sys.exit(code)
        except BrokenPipeError:
            # The reader of our output has left (`| head`): no error.
            sys.stderr.close()
            sys.exit(141)
        except Exception as error:
            loaded = sys.modules.get("sqlalchemy.exc")  # the database raises its errors if its file is damaged
            if loaded is None or not isinstance(error, loaded.DBAPIError):
                raise
            from ragrounds.base.settings import read_settings

            settings = read_settings()
            if settings.store is None and not (path := settings.home / "store.sqlite").exists():
                _say(
                    f"The store {path} was removed while this command worked. Put it back from a backup; without one, "
                    "the same command starts again with an empty store."
                )
                sys.exit(2)
            _say(
                f"The store cannot be read: {getattr(error, 'orig', error)}. `ragrounds doctor --store` names what is "
                "damaged; `ragrounds doctor --store --save FOLDER` saves what can be read into a new store."
            )
            sys.exit(2)


def _leave_threads(code: str | int | None) -> None:
    """End the process at once if threads are left: at its usual end, Python would wait for them."""
    if any(not thread.daemon and thread is not threading.main_thread() for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def _leave_busy_threads(code: str | int | None) -> None:
    """End the process if threads still work after the grace period: a capped system may wait for ever."""
    waited_for = time.monotonic() + _GRACE_SECONDS
    while busy := _busy_threads():
        if time.monotonic() > waited_for:
            _say(f"Threads of a system are still running ({len(busy)}): not waited for.")
            atexit._run_exitfuncs()  # handlers of libraries at exit, which os._exit skips
            _leave_threads(code)
        time.sleep(0.02)


def _busy_threads() -> list[threading.Thread]:
    """Return the threads that Python would wait for, without idle threads of a pool, which end by themselves."""
    frames = sys._current_frames()
    return [
        thread
        for thread in threading.enumerate()
        if not thread.daemon
        and thread is not threading.main_thread()
        and (frame := frames.get(thread.ident or 0)) is not None
        and (frame.f_globals.get("__name__"), frame.f_code.co_name) != ("concurrent.futures.thread", "_worker")
    ]


def _exit_code(code: str | int | None, terminated: list[int]) -> str | int | None:
    return 143 if code == 130 and terminated else code


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[list[int]]:
    """Let SIGTERM act as Ctrl-C inside the block, and yield the received signals.

    The first signal finishes the calls in flight, for a minute at most; the second stops at once, and ends the process
    if something does not stop.
    """
    terminated, end = list[int](), ProcessEnd()

    def interrupt(number: int, frame: object) -> None:
        """Pass the signal to the current handler of Ctrl-C."""
        terminated.append(number)
        end.signalled()
        signal.raise_signal(signal.SIGINT)

    if threading.current_thread() is not threading.main_thread():
        yield terminated
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield terminated
    finally:
        end.cancel()
        signal.signal(signal.SIGTERM, before)


def _say(message: str) -> None:
    from ragrounds.cli.output import say

    say(f"ragrounds: {' '.join(message.split())}")
