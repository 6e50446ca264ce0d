"""The source of a system that was given as a Python object: its functions and classes, and what they find beside them.

A notebook's functions stand in no file. Their sources are read where Python knows them (IPython does keep them), else
what they were compiled to counts.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import TypeGuard

from ragrounds.agents.systems.models_held import beside, walked
from ragrounds.agents.systems.reads import OwnSource
from ragrounds.digests import FILE_MODULE, text_digest, tree_digest
from ragrounds.recorder.reads import is_own

_SESSION = "__main__"
_CHANGING = frozenset({"append", "extend", "insert", "add", "update", "pop", "clear", "remove", "setdefault"})
_LONGEST = 1_000_000
"""Characters of a value that a function names; a longer one is data, and does not count."""


class _OwnModules:
    """The names of the modules that are the user's own."""

    def __contains__(self, name: object) -> bool:
        return name == _SESSION or _file_of(str(name)) is not None


def object_source(made: object) -> OwnSource:
    """Where the source of an object begins."""
    own = _OwnModules()
    sources: set[str] = set()
    imports = {type(made).__module__}
    files: set[Path] = set()
    for one, _ in walked(made, own):
        code = one if isinstance(one, FunctionType) else type(one)
        module = str(code.__module__)
        if module not in own:
            continue
        if (path := _file_of(module)) is not None:
            files.add(path)
        else:
            source = _source(code)
            sources.add(tree_digest(ast.parse(source)))
            if isinstance(one, FunctionType):
                changing = _changed_in(source)
                for name, held in beside(one):
                    imports |= _imported(held, own)
                    if name not in changing and (text := _written(held)) and len(text) <= _LONGEST:
                        sources.add(f"{one.__qualname__}: {name}={text_digest(text)}")
    return OwnSource(
        files=tuple(sorted(files)),
        sources=tuple(sorted(sources)),
        imports=tuple(sorted(imports - {"builtins", _SESSION, ""})),
    )


def _file_of(module: str) -> Path | None:
    """The file of a module that is the user's own; ``None``: it is none, or is a session's."""
    loaded = sys.modules.get(module)
    file = getattr(loaded, "__file__", None)
    if module == _SESSION or not isinstance(file, str) or not file.endswith(".py"):
        return None
    path = Path(file)
    return path if module.startswith(FILE_MODULE) or is_own(file) else None


def _source(one: object) -> str:
    """The source of a function or class; of one whose source is not known, a text of what it was compiled to."""
    try:
        text = textwrap.dedent(inspect.getsource(one))  # type: ignore[arg-type]
        ast.parse(text)
    except (OSError, TypeError, SyntaxError):  # a lambda's line need not be a whole statement
        code = getattr(one, "__code__", None)
        return repr(text_digest(*_compiled(code))) if isinstance(code, CodeType) else repr(str(one))
    return text


def _compiled(code: CodeType) -> Iterator[str]:
    yield from (code.co_code.hex(), *code.co_names)
    for each in code.co_consts:
        yield from _compiled(each) if isinstance(each, CodeType) else (repr(each),)


def _changed_in(source: str) -> set[str]:
    """The names of what a function changes itself: a log, a counter."""
    found: set[str] = set()
    for each in ast.walk(ast.parse(source)):
        if isinstance(each, ast.Global | ast.Nonlocal):
            found |= {*each.names}
        elif _changes(each) and isinstance(each.value, ast.Name):
            found.add(each.value.id)
    return found


def _changes(node: ast.AST) -> TypeGuard[ast.Attribute | ast.Subscript]:
    """Whether this is ``NAME.append`` or ``NAME[…] = …``."""
    if isinstance(node, ast.Attribute):
        return node.attr in _CHANGING
    return isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)


def _imported(held: object, own: _OwnModules) -> set[str]:
    """The module of what a function names, unless it is its own."""
    module = held.__name__ if isinstance(held, ModuleType) else str(getattr(held, "__module__", "") or "")
    return {module} if module and module not in own else set()


def _written(held: object) -> str:
    """A plain value as text; empty: it is none."""
    if isinstance(held, Mapping):
        return "{" + ",".join(sorted(f"{key}={_written(value)}" for key, value in held.items())) + "}"
    if isinstance(held, list | tuple):
        return "[" + ",".join(map(_written, held)) + "]"
    if isinstance(held, set | frozenset):
        return "{" + ",".join(sorted(map(_written, held))) + "}"
    return repr(held) if isinstance(held, str | bytes | int | float | complex | None) else ""
