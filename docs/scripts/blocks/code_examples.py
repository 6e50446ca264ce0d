"""Examples that stand in no page: of help texts, of public functions' docstrings, and the scripts of docs/examples."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from blocks.pages import Block, Page
from blocks.rules import Rules

_EXAMPLE = re.compile(r"^(?:Examples?:\s+)?((?:watch -n \d+ )?ragrounds [a-z].*)$")
_SECTION = re.compile(r"^(Args|Returns|Raises|Yields):$", re.MULTILINE)


def help_pages(tree: Any, rules: Rules) -> Iterator[Page]:
    """The examples of each command's help, a page a command of the first level."""
    for name, command in sorted(tree.commands.items()):
        page = f"ragrounds {name} --help"
        blocks = [
            Block(page, number, "sh", text + "\n", role="commands")
            for number, text in enumerate(dict.fromkeys(_help_examples(command)), 1)
        ]
        if blocks:
            yield _with_setup(Page(page, tuple(blocks)), rules)


def _help_examples(command: Any) -> Iterator[str]:
    for paragraph in inspect.cleandoc(command.help or "").partition("\f")[0].split("\n\n"):
        if found := _EXAMPLE.match(" ".join(paragraph.split())):
            yield found[1]
    for each in getattr(command, "commands", {}).values():
        yield from _help_examples(each)


def docstring_pages(root: Path, rules: Rules) -> Iterator[Page]:
    """The examples of public functions, extensions' too, and of the package, a page a file."""
    package = root / "ragrounds"
    for path in [
        package / "__init__.py",
        *sorted(package.glob("api/*.py")),
        *sorted(package.glob("extensions/*/*.py")),
    ]:
        page = path.relative_to(root).as_posix()
        blocks = []
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                line = getattr(node, "lineno", 1)
                blocks += [
                    Block(page, line, "python", f"import ragrounds as rr\n{code}\n", role="python")
                    for code in _indented(ast.get_docstring(node) or "")
                ]
        if blocks:
            yield _with_setup(Page(page, tuple(sorted(blocks, key=lambda one: one.line))), rules)


def _indented(docstring: str) -> Iterator[str]:
    """The indented paragraphs of a docstring that are code; those that follow each other are one example."""
    before = _SECTION.split(docstring)[0]
    for found in re.finditer(r"(?:^    .*\n?(?:\n(?=    ))*)+", before, re.MULTILINE):
        code = textwrap.dedent(found[0]).strip()
        if "rr." in code or code.startswith("from ragrounds"):
            yield code


def _with_setup(page: Page, rules: Rules) -> Page:
    setup = rules.setup.get(page.name)
    if not setup:
        return page
    return Page(page.name, (Block(page.name, 1, "sh", setup, role="setup"), *page.blocks))


def example_pages(root: Path) -> Iterator[Page]:
    """The scripts and notebooks of docs/examples, each a page; what the gallery's own page runs is run there."""
    folder = root / "docs" / "examples"
    shown = "\n".join(path.read_text(encoding="utf-8") for path in folder.glob("*.md"))
    for path in sorted([*folder.glob("*.py"), *folder.glob("*.ipynb")]):
        name = path.relative_to(root).as_posix()
        if re.search(rf"^(\$ )?.*\bpython {re.escape(name)}", shown, re.MULTILINE):
            continue
        script = f"python {name}" if path.suffix == ".py" else f"python docs/scripts/blocks/notebook.py {name}"
        yield Page(name, (Block(name, 1, "sh", script + "\n", role="commands"),))
