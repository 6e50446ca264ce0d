"""A user's own object, named by its import path."""

from __future__ import annotations

import importlib
from typing import Any

from ragrounds.errors import UserError, nearest


def imported(path: str, kinds: type | tuple[type, ...], expected: str) -> Any:
    """The object that ``package.module:name`` names, or what it makes when it is called without arguments.

    Args:
        path: The import path. Importing runs the user's code: paths come from the user's command, never from data.
        kinds: What the object must be.
        expected: The same in words, for the error.

    Raises:
        UserError: there is no such module or name, or it is something else.
    """
    module_name, colon, name = path.partition(":")
    if not colon or not name:
        raise UserError(f"{path!r} is no import path: expected package.module:name.")
    try:
        found: Any = importlib.import_module(module_name)
    except ImportError as problem:
        raise UserError(f"Cannot import {module_name!r} of {path!r}: {problem}.") from None
    for part in name.split("."):
        if not hasattr(found, part):
            raise UserError(f"{module_name!r} has no {name!r}.{nearest(part, dir(found))}")
        found = getattr(found, part)
    if not isinstance(found, kinds) and callable(found):
        found = found()
    if not isinstance(found, kinds):
        raise UserError(f"{path!r} gives {type(found).__name__}: expected {expected}, or a function that makes one.")
    return found
