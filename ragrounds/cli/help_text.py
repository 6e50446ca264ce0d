"""What ``--help`` shows: options in groups, what values mean, examples as they are typed, commands by subject."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

OPTIONS = "Options"
"""The group of options that belong to no other one."""
SECTIONS = {
    "Run and compare": ("run", "compare", "judge", "arena", "retrieve", "study"),
    "Look": ("trace", "show", "runs", "report"),
    "What there is": ("list", "data", "index"),
    "Move and check": ("export", "doctor"),
}
"""Heading → the commands below it in ``ragrounds --help``; others are named in a line."""
COMMON = frozenset(
    "agent assert axis base-url baseline benchmark change column concurrency corpus experts group-by json judge kind "
    "latex limit max-cost measure model out ratings retriever row until yes".split()
)
"""The options of long commands that ``--help`` explains; the others are explained by ``--more``."""
FEW = 12
"""Options of a command that are all explained."""
_SENTENCE = re.compile(r"(?<=[.;:])\s")


def value_name(option: Any) -> str:
    """What stands for an option's value in help texts, where the command says nothing else: the last word of its
    name."""
    return str(max(option.opts, key=len).rpartition("-")[2].upper())


def write_options(records: Iterable[tuple[str, tuple[str, str] | None]], formatter: Any) -> None:
    """Write options and arguments, each with the name of its group; those of no group come last."""
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
                for line in _typed(" ".join(paragraph.split()), formatter.width - 6):
                    formatter.write(f"    {line}\n")
            else:
                formatter.write_text(paragraph)


def _typed(command: str, width: int) -> Iterator[str]:
    """A command in lines that a shell takes as one."""
    line = ""
    for part in re.split(r" (?=--\w)", command):
        if line and len(line) + len(part) + 3 > width:
            yield f"{line} \\"
            line = f"    {part}"
        else:
            line = f"{line} {part}" if line else part
    yield line


def write_commands(
    known: Sequence[tuple[str, str]], formatter: Any, subjects: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Write commands, by subject where there are some.

    Args:
        known: names, each with its help, of which the first sentence is written.
        formatter: where.
        subjects: heading → names; others are named last.
    """
    about = {name: first_sentence(text) for name, text in known}
    sections = {heading: [name for name in names if name in about] for heading, names in (subjects or {}).items()}
    left = [name for name in about if not any(name in names for names in sections.values())]
    if not subjects:
        sections["Commands"], left = left, []
    size = max(map(len, about), default=0)
    for heading, names in sections.items():
        if names:
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(size), about[name]) for name in names], col_max=34)
    write_more("More", left, "each explained by its --help", formatter)


def write_more(heading: str, names: Sequence[str], how: str, formatter: Any) -> None:
    """Write the names of what is not explained here, and how it is."""
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
    """The first sentence of a help text, to its first stop, colon or semicolon."""
    whole = " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())
    return _SENTENCE.split(whole, maxsplit=1)[0].rstrip(".;:")
