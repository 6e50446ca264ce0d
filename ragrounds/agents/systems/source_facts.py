"""What a file of somebody's own code names: texts, fields of classes, files that it writes. It is read from the syntax
tree; nothing is run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from ragrounds.digests import file_mark

_LONGEST = 200
"""Characters of a text that may name a file, a folder or a variable."""
_READERS = ("environ", "getenv", "Settings")
"""What the names of those end with that read environment variables."""
_DOTENV = frozenset({"load_dotenv", "dotenv_values", "find_dotenv", "env_file"})
_WRITERS = frozenset({"write_text", "write_bytes", "touch"})
_WRITING = re.compile(r"[rbt]*[wax+][bt+]*")


class SourceFacts(Struct, frozen=True):
    """What one source names."""

    texts: frozenset[str] = frozenset()
    """Texts of one line, those of f-strings too, without the names of files that it writes."""
    fields: frozenset[str] = frozenset()
    """Annotated fields, as the variables that they may be read from; none where it reads no variables."""
    dotenv: bool = False
    """It reads ``.env`` files."""


def facts_of(path: Path) -> SourceFacts:
    """What a file names.

    Raises:
        SyntaxError: the file is not Python.
    """
    return _facts(path, file_mark(path))


@lru_cache(maxsize=4096)
def _facts(path: Path, mark: tuple[int, int]) -> SourceFacts:
    return facts_in(ast.parse(path.read_bytes(), filename=str(path)))


def facts_in(tree: ast.AST) -> SourceFacts:
    """What a syntax tree names."""
    names: set[str] = set()
    fields: set[str] = set()
    written: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            names.add(_last(node))
        elif isinstance(node, ast.keyword):
            names.add(node.arg or "")
        elif isinstance(node, ast.AnnAssign):
            fields.add(_last(node.target))
        elif isinstance(node, ast.Call):
            written |= {*_written(node)}
    texts = {text for text in _texts(tree) if 0 < len(text) <= _LONGEST and "\n" not in text}
    prefixes = {"", *(text for text in texts if text.endswith("_"))}  # env_prefix of a settings class
    read = any(name.endswith(_READERS) for name in names)
    return SourceFacts(
        # ".md" may end other names than those that are written.
        texts=frozenset(text for text in texts if text not in written or text.startswith((".", "*"))),
        fields=frozenset(f"{prefix}{name}".upper() for prefix in prefixes for name in fields if read),
        dotenv=bool(_DOTENV & names),
    )


def _texts(tree: ast.AST) -> Iterator[str]:
    yield from (one.value for one in ast.walk(tree) if isinstance(one, ast.Constant) and isinstance(one.value, str))


def _written(call: ast.Call) -> Iterator[str]:
    """The texts that stand where ``PATH.write_text(…)`` or ``open(…, "w")`` names its file."""
    name = _last(call.func)
    if name in _WRITERS and isinstance(call.func, ast.Attribute):
        yield from _texts(call.func.value)
    elif name == "open" and any(_WRITING.fullmatch(text) for text in _texts(call)):
        yield from _texts(call)


def _last(node: ast.AST) -> str:
    """The last name of ``a.b.c``."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
