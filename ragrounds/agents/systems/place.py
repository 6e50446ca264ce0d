"""Where a system of the user's own stands: ``PATH.py:NAME`` or ``package.module:NAME``, an object or a function that
makes one."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

from ragrounds.digests import code_digest, file_digest
from ragrounds.errors import UserError, nearest
from ragrounds.graphs.user_graph import About, about
from ragrounds.plugins import imported_module

_ROOMS = ("ragrounds.graphs",)
_EARLIER_NAMES = {"own": "user_graph", "answering": "answer_prompts"}
"""Modules of the graphs' room that users' files import → what they are called now."""


def is_place(name: str) -> bool:
    """Say whether a name is a place in a file or in an installed module: ``PATH.py:NAME``, ``package.module:NAME``."""
    place, colon, function = name.rpartition(":")
    return bool(colon) and function.isidentifier() and (place.endswith(".py") or is_module(name))


def is_module(name: str) -> bool:
    """Say whether what has such a name stands in a module, rather than in a file that is named by its path."""
    parts = name.rpartition(":")[0].split(".")
    return parts[-1] != "py" and all(part.isidentifier() for part in parts)


def named_object(name: str) -> object:
    """What stands at a place: a system, the function that makes one, or an agent's card.

    Raises:
        UserError: there is no such module or name, or the module fails.
    """
    module = module_of(name)
    wanted = name.rpartition(":")[2]
    if not hasattr(module, wanted):
        known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise UserError(f"{name}: the file has no function {wanted!r}.{nearest(wanted, known)}")
    return getattr(module, wanted)


def about_place(name: str) -> About:
    """What the decorator of what stands at a place says, or the defaults."""
    return about(named_object(name))


def digest(name: str) -> str:
    """Hash what a system does: its file or module, and what that imports from its own folder or package, and from the
    built-in graphs."""
    if not is_module(name):
        return file_digest(_path(name), within=_ROOMS)
    place = name.rpartition(":")[0]
    room = ".".join(place.split(".")[:2])
    return code_digest(module_of(name).__name__, within=(*_ROOMS, *([room] if room.startswith("ragrounds.") else ())))


def prompts(name: str) -> tuple[str, ...]:
    """``PROMPTS`` of the file: names of prompts that a graph renders through the context."""
    return tuple(getattr(module_of(name), "PROMPTS", ()))


def module_of(name: str) -> ModuleType:
    """The module that a place is in, imported.

    Raises:
        UserError: there is none, or it fails.
    """
    for earlier, module in _EARLIER_NAMES.items():
        sys.modules.setdefault(f"ragrounds.graphs.{earlier}", importlib.import_module(f"ragrounds.graphs.{module}"))
    return imported_module(name.rpartition(":")[0])


def _path(name: str) -> Path:
    path = Path(name.rpartition(":")[0]).expanduser()
    if not path.is_file():
        raise UserError(f"There is no file {str(path)!r} (from {name!r}). Expected PATH.py:NAME.")
    return path.resolve()
