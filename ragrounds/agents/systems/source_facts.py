"""What a file of somebody's own code names: texts, files, environment variables. It is read from the syntax tree;
nothing is run."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from ragrounds.digests import file_mark

_LONGEST = 200
"""Characters of a text that may name a file, a folder or a variable."""
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{2,}")
_WRITING = frozenset("wax+")
_DOTENV = frozenset({"load_dotenv", "dotenv_values", "find_dotenv", "env_file"})
_WRITERS = frozenset({"write_text", "write_bytes", "touch"})


class SourceFacts(Struct, frozen=True):
    """What one source names."""

    texts: frozenset[str] = frozenset()
    """Texts of one line, without those that name a file which is written. Of an f-string the fixed parts, with ``*``
    for the others."""
    variables: frozenset[str] = frozenset()
    """Names of environment variables that it may read."""
    fields: frozenset[str] = frozenset()
    """Annotated fields of classes, in capitals, where it reads variables by computed names or has settings classes."""
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
    reader = _Reader()
    reader.visit(tree)
    texts = reader.texts - reader.written
    variables = reader.variables | {text for text in texts if _VARIABLE.fullmatch(text)}
    fields = reader.fields if reader.computed else reader.settings
    return SourceFacts(frozenset(texts), frozenset(variables), frozenset(fields), reader.dotenv)


class _Reader(ast.NodeVisitor):
    """Collects what a tree names."""

    def __init__(self) -> None:
        self.texts: set[str] = set()
        self.written: set[str] = set()
        self.variables: set[str] = set()
        self.fields: set[str] = set()
        self.settings: set[str] = set()
        self.computed = self.dotenv = False

    def visit_Constant(self, node: ast.Constant) -> None:
        """A text of one line may name something."""
        if isinstance(node.value, str) and _may_be_named(node.value):
            self.texts.add(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """The fixed parts of an f-string."""
        text = _fixed(node)
        if text != "*" and _may_be_named(text):
            self.texts.add(text)
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.visit(part.value)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """``HERE / "prompts" / f"{name}.md"``."""
        if not isinstance(node.op, ast.Div):
            if (text := _fixed(node)) != "*" and _may_be_named(text):  # NAME + ".md"
                self.texts.add(text)
            for each in (node.left, node.right):
                if not isinstance(each, ast.Constant):
                    self.visit(each)
            return
        parts: list[ast.expr] = []
        left: ast.expr = node
        while isinstance(left, ast.BinOp) and isinstance(left.op, ast.Div):
            parts.insert(0, left.right)
            left = left.left
        self.visit(left)
        self._path(parts)

    def _path(self, parts: Sequence[ast.expr]) -> None:
        """The parts of a path, the first of which may stand in any folder."""
        for part in parts:
            if _fixed(part) == "*":
                self.visit(part)
        texts = [_fixed(part) for part in parts]
        while texts and texts[0] == "*":
            del texts[0]
        self.texts.update(text for text in [*texts[:-1], "/".join(texts)] if _may_be_named(text) and text != "*")

    def visit_Name(self, node: ast.Name) -> None:
        """A name by which ``.env`` files are read."""
        self.dotenv |= node.id in _DOTENV

    def visit_keyword(self, node: ast.keyword) -> None:
        """``SettingsConfigDict(env_file=…)``."""
        self.dotenv |= node.arg in _DOTENV
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """``dotenv.load_dotenv``."""
        self.dotenv |= node.attr in _DOTENV
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """``os.getenv(…)``, ``os.environ.get(…)``, and files that are written."""
        name = _last(node.func)
        if name == "getenv" or (isinstance(node.func, ast.Attribute) and _last(node.func.value) == "environ"):
            self._variable(node.args[0] if node.args else None)
        elif name in _WRITERS and isinstance(node.func, ast.Attribute):
            self._written(node.func.value)
        elif name == "open" and _writes(node):
            self._written(node.func if isinstance(node.func, ast.Attribute) else (node.args or [node.func])[0])
        elif name in ("join", "joinpath") and isinstance(node.func, ast.Attribute) and not node.keywords and node.args:
            self.visit(node.func)
            self._path(node.args)
            return
        elif name == "dict" and any(_last(each) == "environ" for each in node.args):
            self.computed = True
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """``os.environ[…]``."""
        if _last(node.value) == "environ":
            self._variable(node.slice)
        self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """The annotated fields of a class; of a settings class they name variables, whatever else is in the file."""
        names = {
            each.target.id.upper()
            for each in node.body
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
        }
        self.fields |= names
        if any("Settings" in _last(base) for base in node.bases):
            prefixes = [text for each in ast.walk(node) if isinstance(each, ast.keyword) and (text := _prefix(each))]
            self.settings |= {f"{''.join(prefixes[:1])}{name}".upper() for name in names}
        self.generic_visit(node)

    def _variable(self, name: ast.expr | None) -> None:
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            self.variables.add(name.value)
        else:
            self.computed = True

    def _written(self, target: ast.AST) -> None:
        self.written |= {
            each.value for each in ast.walk(target) if isinstance(each, ast.Constant) and isinstance(each.value, str)
        }


def _fixed(node: ast.expr) -> str:
    """A text with ``*`` for what is computed."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    parts = node.values if isinstance(node, ast.JoinedStr) else []
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [node.left, node.right]
    return re.sub(r"\*+", "*", "".join(map(_fixed, parts))) if parts else "*"


def _may_be_named(text: str) -> bool:
    return 0 < len(text) <= _LONGEST and "\n" not in text


def _prefix(each: ast.keyword) -> str:
    """``env_prefix="…"`` of a settings class."""
    return str(each.value.value) if each.arg == "env_prefix" and isinstance(each.value, ast.Constant) else ""


def _last(node: ast.AST) -> str:
    """The last name of ``a.b.c``."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _writes(call: ast.Call) -> bool:
    """Whether ``open(…)`` or ``PATH.open(…)`` is given a mode that writes."""
    modes = [each.value for each in call.keywords if each.arg == "mode"]
    modes += call.args[:1] if isinstance(call.func, ast.Attribute) else call.args[1:2]
    return any(
        isinstance(mode, ast.Constant)
        and isinstance(mode.value, str)
        and len(mode.value) <= 3
        and bool(_WRITING & {*mode.value})
        for mode in modes
    )
