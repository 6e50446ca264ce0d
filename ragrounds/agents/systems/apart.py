"""Systems of one command share one process, and so its modules and variables: what two of them cannot share is refused
before either is asked. Two versions of one package would otherwise be the first one twice.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from ragrounds.agents.card import Card
from ragrounds.agents.systems import own_source
from ragrounds.agents.systems.code import Reading, reading_of
from ragrounds.agents.systems.place import is_brought
from ragrounds.errors import UserError

_APART = "Run them in two commands; `ragrounds compare` compares the runs."


class _Own(NamedTuple):
    name: str
    read: Reading
    folders: Mapping[str, set[Path]]
    beside: set[Path]
    """The folders of files that are named themselves: what these import from there is read anew for each of them."""


def check_apart(agents: Sequence[tuple[str, Card]]) -> None:
    """Check that no two systems, by their agents' texts, have modules of one name in different folders, or bring other
    values for one environment variable.

    Raises:
        UserError: two do.
    """
    for one, other in combinations(_known(agents), 2):
        for top in sorted(one.folders.keys() & other.folders.keys()):
            if one.folders[top].isdisjoint(other.folders[top]) and not (_at_once(one, top) and _at_once(other, top)):
                raise UserError(
                    f"{one.name} and {other.name} each import a module {top!r} of their own, and a process has one of "
                    f"that name. {_APART}"
                )
        for key in sorted(one.read.sets.keys() & other.read.sets.keys()):
            if is_brought(key) and one.read.sets[key] != other.read.sets[key]:
                raise UserError(
                    f"{one.name} and {other.name} each set the environment variable {key} by a file of their own, to "
                    f"other values, and a process has one of that name. {_APART}"
                )


def _known(agents: Sequence[tuple[str, Card]]) -> Iterator[_Own]:
    for name, card in agents if len(agents) > 1 else ():
        source = own_source(card)
        try:
            read = reading_of(source)
        except (SyntaxError, ModuleNotFoundError):  # who opens it says what is wrong
            continue
        yield _Own(name, read, read.folders(source), {path.resolve().parent for path in source.files})


def _at_once(own: _Own, top: str) -> bool:
    """Whether a module is read while the file that is named is imported, and never later: then that file has its own
    (:func:`ragrounds.plugins.imported_module`)."""
    if own.folders[top] != own.beside:
        return False
    for _, path in own.read.own:
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and any(_may_import(node, top)):
                return False
    return True


def _may_import(function: ast.AST, top: str) -> Iterator[bool]:
    for node in ast.walk(function):
        if isinstance(node, ast.Import):
            yield any(each.name.partition(".")[0] == top for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.level > 0 or (node.module or "").partition(".")[0] == top
        elif isinstance(node, ast.Name | ast.Attribute):
            yield (node.id if isinstance(node, ast.Name) else node.attr) in ("import_module", "__import__")
