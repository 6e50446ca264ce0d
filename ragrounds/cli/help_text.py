"""The text of ``--help``: options in groups, the meaning of values, examples as they are typed, commands by subject."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

OPTIONS = "Options"
"""Group of options that belong to no other group."""
SECTIONS = {
    "Run and compare": ("run", "compare", "judge", "arena", "retrieve", "study"),
    "Look": ("trace", "show", "runs", "report"),
    "What there is": ("list", "data", "index"),
    "Move and check": ("export", "doctor"),
}
"""Heading → commands below it in ``ragrounds --help``; other commands are named in a line."""
COMMON = frozenset(
    "agent assert axis base-url baseline benchmark change column concurrency corpus experts group-by json judge kind "
    "latex limit max-cost measure model out ratings retriever row until yes".split()
)
"""Options of long commands that ``--help`` explains; ``--more`` explains the others."""
FEW = 12
"""Maximum number of options of a command whose options are all explained."""
_SENTENCE = re.compile(r"(?<=[.;:])\s")


def value_name(option: Any) -> str:
    """Return the placeholder of an option's value in help texts, if the command sets none: the last word of its
    name.
    """
    return str(max(option.opts, key=len).rpartition("-")[2].upper())


def write_options(records: Iterable[tuple[str, tuple[str, str] | None]], formatter: Any) -> None:
    """Write options and arguments by the name of their group; those without a group come last."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for name, record in records:
        if record is not None:
            groups.setdefault(name, []).append(record)
    last = [OPTIONS] if OPTIONS in groups else []
    for name in (*(name for name in groups if name != OPTIONS), *last):
        with formatter.section(name):
            formatter.write_dl(groups[name], col_max=34)


def write_help(text: str, formatter: Any) -> None:
    """Write a command's help: paragraphs filled, examples as they are typed, long ones broken before an option."""
    for paragraph in inspect.cleandoc(text).partition("\f")[0].split("\n\n"):
        formatter.write_paragraph()
        with formatter.indentation():
            if paragraph.strip().startswith("ragrounds "):
                for line in _shell_lines(" ".join(paragraph.split()), formatter.width - 6):
                    formatter.write(f"    {line}\n")
            else:
                formatter.write_text(paragraph)


def _shell_lines(command: str, width: int) -> Iterator[str]:
    """Yield a command in lines that a shell takes as one."""
    line = ""
    for part in re.split(r" (?=--\w)", command):
        if line and len(line) + len(part) + 3 > width:
            yield f"{line} \\"
            line = f"    {part}"
        else:
            line = f"{line} {part}" if line else part
    yield line


def write_commands(
    commands: Sequence[tuple[str, str]], formatter: Any, subjects: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Write commands, by subject if subjects are given.

    Args:
        commands: names with their help; its first sentence is written.
        formatter: Click's help formatter.
        subjects: heading → names; other commands are named last.
    """
    about = {name: first_sentence(text) for name, text in commands}
    sections = {heading: [name for name in names if name in about] for heading, names in (subjects or {}).items()}
    other_names = [name for name in about if not any(name in names for names in sections.values())]
    if not subjects:
        sections["Commands"], other_names = other_names, []
    size = max(map(len, about), default=0)
    for heading, names in sections.items():
        if names:
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(size), about[name]) for name in names], col_max=34)
    write_more("More", other_names, "each explained by its --help", formatter)


def write_more(heading: str, names: Sequence[str], how: str, formatter: Any) -> None:
    """Write the names of things that are not explained here, and how to get their explanation."""
    if names:
        with formatter.section(f"{heading} ({how})"):
            margin = " " * formatter.current_indent
            lines = textwrap.wrap(
                ", ".join(names),
                formatter.width,
                break_on_hyphens=False,
                initial_indent=margin,
                subsequent_indent=margin,
            )
            formatter.write("\n".join(lines) + "\n")


def first_sentence(text: str) -> str:
    """Return the first sentence of a help text, to its first stop, colon or semicolon."""
    paragraph = " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())
    return _SENTENCE.split(paragraph, maxsplit=1)[0].rstrip(".;:")
