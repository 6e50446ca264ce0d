"""What can go wrong beside a system, without a word of our command line."""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable
from pathlib import Path


class Refused(Exception):
    """A system that cannot be opened, or an answer that cannot be read: one line for the user."""


class AskedPerson(Exception):
    """A system stopped to ask a person, and nobody is there: the attempt ends as paused. The message is what it
    asked."""


def nearest(given: str, known: Iterable[str]) -> str:
    """Return `` Did you mean …?`` for the closest known names, or an empty string; names of which it is a part between
    slashes come first, by the alphabet."""
    names = list(dict.fromkeys(known))
    whole = sorted(name for name in names if given.casefold() in name.casefold().split("/"))
    close = list(dict.fromkeys([*whole, *difflib.get_close_matches(given, names, n=3, cutoff=0.5)]))[:3]
    return f" Did you mean {' or '.join(repr(name) for name in close)}?" if close else ""


def failure(problem: BaseException) -> str:
    """What code from outside raised, in one line, with the place in its file."""
    said = " ".join(f"{type(problem).__name__}: {problem}".split())[:500]
    frames = traceback.extract_tb(problem.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith((_OURS, "<"))]
    return f"{said} ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else said


_OURS = str(Path(__file__).parents[1])
