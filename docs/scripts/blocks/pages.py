"""The blocks of a page: every fence of a Markdown file, with what the comments above it say.

A page is read as CommonMark by markdown-it-py, which Rich and MyST use too: a fence in a list or in an admonition is
found, a fence that is quoted in another one is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.token import Token

Role = Literal["commands", "session", "output", "python", "pycon", "data", "shown", "setup"]

DATA = ("toml", "json", "yaml", "csv", "tsv")
SHOWN = ("text", "mermaid", "bibtex", "latex", "html", "diff", "markdown", "xml")
ROLES: dict[str, Role] = {
    "sh": "commands",
    "console": "session",
    "output": "output",
    "python": "python",
    "pycon": "pycon",
    **dict.fromkeys(DATA, "data"),
    **dict.fromkeys(SHOWN, "shown"),
}
"""Language of a fence → what is done with it."""
_COMMENT = re.compile(r"<!--\s*(file|exit|setup):\s*(.*?)\s*-->", re.DOTALL)
_NAMED = re.compile(r"`([\w.-]+(?:/[\w.-]+)*\.\w+)`:")
_FIRST_LINE = re.compile(r"# ([\w.-]+(?:/[\w.-]+)*\.\w+)\n")
_SPAN = re.compile(r"^ragrounds [a-z]")


class PageFault(Exception):
    """A page that does not keep to the convention."""


@dataclass(frozen=True)
class Block:
    """A fence, or the commands of a setup comment."""

    page: str
    line: int
    """Of its first line of text, from 1."""
    language: str
    text: str
    indent: str = ""
    """Before each of its lines in the page: it stands in a list."""
    file: str = ""
    """The file that it is written to; empty: none."""
    exit: int = 0
    """The exit code of its last command."""
    role: Role = "shown"

    @property
    def place(self) -> str:
        """Where it stands, as an editor takes it."""
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Span:
    """A command in the running text."""

    page: str
    line: int
    text: str


@dataclass(frozen=True)
class Page:
    """A page with its blocks from top to bottom."""

    name: str
    """Its path below the repository, or what stands in for one."""
    blocks: tuple[Block, ...]
    spans: tuple[Span, ...] = ()


def read_page(path: Path, root: Path) -> Page:
    """Read a page.

    Raises:
        PageFault: a fence without a language, or with one that is not known.
    """
    name = path.relative_to(root).as_posix()
    return page_of(path.read_text(encoding="utf-8"), name)


def page_of(text: str, name: str) -> Page:
    """The page that a Markdown text is (:func:`read_page`)."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    return Page(name, tuple(_blocks(tokens, text.splitlines(), name)), tuple(_spans(tokens, name)))


def _blocks(tokens: list[Token], lines: list[str], page: str) -> Iterator[Block]:
    said: dict[str, str] = {}
    named = ""
    for token in tokens:
        if token.type == "inline":
            named = found[1] if (found := _NAMED.fullmatch(token.content)) else ""
        if token.type == "html_block" and token.map:
            for key, value in _COMMENT.findall(token.content):
                if key == "setup":
                    yield Block(page, token.map[0] + 1, "sh", value + "\n", role="setup")
                else:
                    said[key] = value
        elif token.type == "fence" and token.map:
            yield _block(token, lines, page, {"file": named} | said)
            said, named = {}, ""
        elif token.nesting == 0:  # a list or a quotation may open between a comment and its fence, a text may not
            said = {}


def _block(token: Token, lines: list[str], page: str, said: dict[str, str]) -> Block:
    first = token.map[0] if token.map else 0
    language = token.info.split()[0] if token.info.strip() else ""
    opening = lines[first]
    made = Block(page, first + 2, language, token.content, opening[: len(opening) - len(opening.lstrip())])
    if language.startswith("{"):
        return replace(made, role="shown")  # a directive of the site
    if language not in ROLES:
        said_of = f"the language {language!r}" if language else "no language"
        raise PageFault(f"{page}:{first + 1}: a fence with {said_of}; known: {', '.join(ROLES)}")
    role = ROLES[language]
    if role == "shown" and language == "text" and re.search(r"^(\$ )?ragrounds [a-z-]+ ", token.content, re.MULTILINE):
        raise PageFault(f"{made.place}: a text block with a command: write sh, or console with `$ `")
    file = said.get("file", "")
    if role in ("commands", "session", "output", "pycon"):
        file = ""
    if not file and role in ("python", "data") and (named := _FIRST_LINE.match(token.content)):
        file = named[1]
    return replace(made, role=role, file=file, exit=int(said.get("exit", "0")))


def _spans(tokens: list[Token], page: str) -> Iterator[Span]:
    for token in tokens:
        for child in token.children or ():
            if child.type == "code_inline" and _SPAN.match(child.content):
                yield Span(page, (token.map or [0])[0] + 1, child.content)


@dataclass(frozen=True)
class Typed:
    """A command of a session, with what is shown below it."""

    line: int
    """Of the command, from 1, in the page."""
    command: str
    expected: str
    after: int
    """The line on which what is shown begins."""


def session(block: Block) -> list[Typed]:
    """The commands of a ``console`` block, each with its output.

    Raises:
        PageFault: it does not begin with a command.
    """
    made: list[Typed] = []
    lines = block.text.splitlines()
    at = 0
    while at < len(lines):
        if not lines[at].startswith("$ "):
            raise PageFault(f"{block.place}: a console block begins with a command, `$ …`")
        begun, command = at, lines[at][2:]
        at += 1
        while at < len(lines) and (command.endswith("\\") or lines[at].startswith("> ")):
            command += "\n" + lines[at].removeprefix("> ")
            at += 1
        shown = at
        while at < len(lines) and not lines[at].startswith("$ "):
            at += 1
        expected = "".join(f"{line}\n" for line in lines[shown:at])
        made.append(Typed(block.line + begun, command, expected, block.line + shown))
    return made
