"""Errors in a system's process. Their messages do not mention the command line."""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable
from pathlib import Path

from .redaction import redacted


class Refused(Exception):
    """Error of a system that cannot be opened, or of an answer that cannot be read: one line for the user."""


class AskedPerson(Exception):
    """A system stopped to ask a person, and no answer is configured. The attempt ends as paused. The message is the
    request.
    """


def nearest(given_name: str, known_names: Iterable[str]) -> str:
    """Return `` Did you mean …?`` for the closest known names, or an empty string.

    Names that contain the given text as a part between slashes come first, in alphabetical order.
    """
    names = list(dict.fromkeys(known_names))
    partial_matches = sorted(name for name in names if given_name.casefold() in name.casefold().split("/"))
    close_matches = difflib.get_close_matches(given_name, names, n=3, cutoff=0.5)
    matches = list(dict.fromkeys([*partial_matches, *close_matches]))[:3]
    return f" Did you mean {' or '.join(repr(name) for name in matches)}?" if matches else ""


def failure(problem: BaseException) -> str:
    """Describe an exception of outside code in one line, with the location in its file."""
    message = redacted(" ".join(f"{type(problem).__name__}: {problem}".split()))[:500]
    frames = traceback.extract_tb(problem.__traceback__)
    user_frames = [frame for frame in frames if not frame.filename.startswith((_OURS, "<"))]
    if not user_frames:
        return message
    return f"{message} ({Path(user_frames[-1].filename).name}, line {user_frames[-1].lineno})"


_OURS = str(Path(__file__).parents[1])
