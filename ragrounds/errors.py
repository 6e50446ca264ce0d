"""What can go wrong, in the words a user is shown.

Every error that a user can cause is a :class:`UserError`: one line that names what was given, what was expected
and what to do next. The command line prints it and exits with 2; it never shows a traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Bad input or a bad environment: one clear line, exit code 2."""


class StopRun(UserError):
    """The run cannot go on (wrong key, unknown model, server gone, disk full); what is done is kept."""


def nearest(given: str, known: Iterable[str]) -> str:
    """Return `` Did you mean …?`` for the closest known names, or an empty string."""
    close = difflib.get_close_matches(given, list(known), n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(repr(name) for name in close)}?" if close else ""


def unknown(kind: str, given: str, known: Iterable[str], where: str) -> UserError:
    """Build the error for a name that does not exist. `where` is the command that lists the names that do."""
    return UserError(f"Unknown {kind} {given!r}.{nearest(given, known)} See `{where}` for all of them.")
