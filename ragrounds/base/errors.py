"""Errors whose messages are shown to users.

Every error that a user can cause is a :class:`UserError`: one line that states the given value, the expected value and
the next step. The command line prints it and exits with 2; it never shows a traceback.

Messages name options of the command line, ``--max-cost``. A caller from Python sees arguments instead, ``max_cost``.
Only :func:`as_arguments` translates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

from ragrounds.recorder.errors import AskedPerson as AskedPerson
from ragrounds.recorder.errors import Refused
from ragrounds.recorder.errors import nearest as nearest

_options_named: ContextVar[bool] = ContextVar("options_named", default=False)
_PLURAL = frozenset(
    "agent analysis axis epoch judge labeller mark measure outcome rater recipe retriever scorer size subject".split()
)
"""Options that can be repeated on a command line."""
_ARGUMENTS = {
    "yes": "confirmed=True", "force": "force=True", "common": "common=True", "new": "new=True",
    "reference": "reference=True", "assert": "claims", "run": "trec_runs", "analysis": "analyses", "axis": "axes",
    "as": "names",
}  # fmt: skip
"""Options whose Python argument has a different name."""
_QUOTED_OR_OPTION = re.compile(r"`[^`]*`|(?<![\w-])--(?P<option>[a-z][a-z-]*[a-z])")


def as_arguments(message: str) -> str:
    """Replace names of options by names of Python arguments in a message. Whole commands in it stay commands."""

    def _argument(match: re.Match[str]) -> str:
        name = match["option"]
        if name is None:
            return match[0]
        name = name.replace("-", "_")
        return f"`{_ARGUMENTS.get(name, name + 's' if name in _PLURAL else name)}`"

    return _QUOTED_OR_OPTION.sub(_argument, message).replace("he same command", "he same call")


@contextmanager
def options_named() -> Iterator[None]:
    """Let errors name options within the block, for readers at a command line."""
    token = _options_named.set(True)
    try:
        yield
    finally:
        _options_named.reset(token)


class UserError(Refused):
    """Error caused by bad input or a bad environment: one clear line, exit code 2."""

    def __str__(self) -> str:
        message = super().__str__()
        return message if _options_named.get() else as_arguments(message)


class StopRun(UserError):
    """Error after which the run cannot continue (wrong key, unknown model, server gone, disk full). Finished attempts
    are kept.
    """


class NotReplayed(StopRun):
    """Error of a replay that needs a call missing from every journal. The agent cannot be replayed, others can."""


class GaveUp(UserError):
    """Error of a tool's server that gave no answer after all tries or refused the request.

    The attempt of a search fails; work outside an attempt ends. `kind` is the fault: ``timeout``, ``server``,
    ``bad_request``, ``too_large`` …
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class SystemFailed(Exception):
    """Exception of a user's system in its host process, under the class name that it had there."""

    trace = ""
    """The traceback from the host process."""


class HostEnded(Exception):
    """Error: the process in which a system runs ended while it answered."""

    trace = ""
    """The last lines that the process printed."""


class SharedHostEnded(HostEnded):
    """Error: the process ended while it answered several questions, so the question that ended it is unknown.

    Attributes:
        alone: opens the same system in a new process that answers nothing else, for the duration of the block.
    """

    def __init__(self, message: str, alone: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        super().__init__(message)
        self.alone = alone


class Interrupted(StopRun):
    """The user interrupted the run. Finished attempts are kept."""


def unknown(kind: str, name: str, known_names: Iterable[str], where: str) -> UserError:
    """Build the error for an unknown name. `where` is the command that lists the known names."""
    return UserError(f"Unknown {kind} {name!r}.{nearest(name, known_names)} See `{where}` for all of them.")


def one_of(name: str, text: str, choices: Collection[str]) -> str:
    """Return `text` if it is among `choices`.

    Raises:
        UserError: it is not; the message names the nearest and all of `choices`.
    """
    if text not in choices:
        problem = f"{text!r} is unknown.{nearest(text, choices)}" if text else "is not set."
        raise UserError(f"{name} {problem} Known: {', '.join(choices)}.")
    return text
