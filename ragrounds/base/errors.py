"""What can go wrong, in the words a user is shown.

Every error that a user can cause is a :class:`UserError`: one line that names what was given, what was expected
and what to do next. The command line prints it and exits with 2; it never shows a traceback.

Messages are written with the options of the command line, ``--max-cost``. Who called from Python reads arguments in
their place, ``max_cost``: :func:`as_arguments` is the one place that translates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
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
"""Options that are repeated on a command line."""
_ARGUMENTS = {
    "yes": "confirmed=True", "force": "force=True", "common": "common=True", "new": "new=True",
    "reference": "reference=True", "assert": "claims", "run": "trec_runs", "analysis": "analyses", "axis": "axes",
    "as": "names",
}  # fmt: skip
"""Options whose argument is not called as they are."""
_QUOTED_OR_OPTION = re.compile(r"`[^`]*`|(?<![\w-])--(?P<option>[a-z][a-z-]*[a-z])")


def as_arguments(message: str) -> str:
    """A message with the names of Python's arguments in place of options. Whole commands in it stay commands."""

    def _argument(found: re.Match[str]) -> str:
        name = found["option"]
        if name is None:
            return found[0]
        name = name.replace("-", "_")
        return f"`{_ARGUMENTS.get(name, name + 's' if name in _PLURAL else name)}`"

    return _QUOTED_OR_OPTION.sub(_argument, message).replace("he same command", "he same call")


@contextmanager
def options_named() -> Iterator[None]:
    """While the block lasts, errors name options: for whoever reads them at a command line."""
    before = _options_named.set(True)
    try:
        yield
    finally:
        _options_named.reset(before)


class UserError(Refused):
    """Bad input or a bad environment: one clear line, exit code 2."""

    def __str__(self) -> str:
        message = super().__str__()
        return message if _options_named.get() else as_arguments(message)


class StopRun(UserError):
    """The run cannot go on (wrong key, unknown model, server gone, disk full); what is done is kept."""


class NotReplayed(StopRun):
    """A replay meets something that no journal holds: the agent that asks for it cannot be replayed, others can."""


class GaveUp(UserError):
    """A server of a tool gave no answer after all tries, or refused this request: a search's attempt fails, and what is
    no attempt ends. `kind` is the fault: ``timeout``, ``server``, ``bad_request``, ``too_large`` …"""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class SystemFailed(Exception):
    """What somebody's own system raised in its host, as a class of the name that it had there."""

    trace = ""
    """The traceback, as it was there."""


class HostEnded(Exception):
    """The process that a system runs in ended while it answered."""


class SharedHostEnded(HostEnded):
    """It answered several questions, and whose doing it was is not known.

    Attributes:
        alone: gives the same system in a fresh process that answers nothing else, as long as the block lasts.
    """

    def __init__(self, said: str, alone: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        super().__init__(said)
        self.alone = alone


class Interrupted(StopRun):
    """The user asked to stop; what is done is kept."""


def unknown(kind: str, given: str, known: Iterable[str], where: str) -> UserError:
    """Build the error for a name that does not exist. `where` is the command that lists the names that do."""
    return UserError(f"Unknown {kind} {given!r}.{nearest(given, known)} See `{where}` for all of them.")
