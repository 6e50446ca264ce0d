"""Systems of one process share its modules and its variables: what two of them cannot share is refused before the later
is imported. Two versions of one package would otherwise be the first one twice.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ragrounds.agents.systems.reads import SystemReads
from ragrounds.errors import UserError

_LATER = re.compile(rb"^[ \t]+(?:from|import)\b|import_module|__import__", re.MULTILINE)
_APART = "Run them in two commands; `ragrounds compare` compares their runs."


class _Modules(NamedTuple):
    whose: str
    folders: set[Path]
    at_once: bool
    """They are read while the file that is named is imported, and never later: then each such file has its own
    (:func:`ragrounds.plugins.imported_module`)."""


_modules: dict[str, _Modules] = {}
"""Topmost name → which system has it first."""
_variables: dict[str, tuple[str, str | None]] = {}
"""Variables that nobody had set when a system was opened that brings them → which one, and the value."""


def check_apart(name: str, reads: SystemReads) -> None:
    """Check that a system's own modules, and the variables that it sets, are no others than those of the systems that
    this process has imported.

    Raises:
        UserError: they are.
    """
    begins = {path.resolve() for path in reads.source.files}
    beside = {path.parent for path in begins}
    own = reads.own_modules()
    at_once = not any(_LATER.search(path.read_bytes()) for path in own)
    for top, folders in sorted(_folders(own, begins).items()):
        mine = _Modules(name, folders, at_once and folders == beside)
        first = _modules.setdefault(top, mine)
        if first.folders.isdisjoint(folders) and not (first.at_once and mine.at_once):
            raise UserError(
                f"{first.whose} and {name} each import a module {top!r} of their own, and a process has one of that "
                f"name. {_APART}"
            )
    for key, value in sorted(reads.source.variables.items()):
        if key in os.environ and key not in _variables:
            continue  # the user's own comes before both
        whose, held = _variables.setdefault(key, (name, value))
        if whose == name:
            _variables[key] = (name, value)
        elif held != value:
            raise UserError(
                f"{whose} and {name} each set the environment variable {key} by a file of their own, to other values, "
                f"and a process has one of that name. {_APART}"
            )


def _folders(own: Mapping[Path, str], begins: set[Path]) -> dict[str, set[Path]]:
    """The topmost names of own modules, as other modules import them → the folders that hold these."""
    found: dict[str, set[Path]] = {}
    for path, name in own.items():
        parts = name.split(".")
        if path not in begins and parts[0] != "ragrounds":
            found.setdefault(parts[0], set()).add(path.parents[len(parts) - (path.name != "__init__.py")])
    return found
