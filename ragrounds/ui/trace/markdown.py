"""Markdown laid out as lines by rich, as text alone: addresses, tags and images stay as they were written.

If Markdown would hide or change a letter or a digit (nesting too deep, a table too wide, a renumbered list), the text
is shown as it was written instead.
"""

from __future__ import annotations

import io
from collections import Counter
from functools import lru_cache

from markdown_it import MarkdownIt
from rich.console import Console
from rich.markdown import Markdown
from rich.style import Style
from rich.theme import Theme

_HEADING = Style(bold=True, underline=True)
_THEME = Theme(
    {
        **{f"markdown.h{level}": _HEADING for level in range(1, 7)},
        **dict.fromkeys(("markdown.code", "markdown.code_block", "markdown.table.header"), Style(color="cyan")),
        **dict.fromkeys(("markdown.item.bullet", "markdown.item.number", "markdown.hr"), Style()),
        **dict.fromkeys(("markdown.link", "markdown.link_url", "markdown.table.border"), Style()),
        "markdown.block_quote": Style(italic=True),
    }
)
Span = tuple[int, int, str]


# A reference, an entity, an escape and an image would take away or change what was written.
_PARSER = (
    MarkdownIt("commonmark", {"html": False})
    .enable(["table", "strikethrough"])
    .disable(["reference", "entity", "escape", "image", "autolink"])
)


@lru_cache(maxsize=64)
def markdown_lines(text: str, width: int) -> list[tuple[str, tuple[Span, ...]]] | None:
    """Return the lines of a text that is safe to show, each with its spans; ``None`` if Markdown would lose letters."""
    page = Markdown("", hyperlinks=False)
    page.parsed = _PARSER.parse(text)
    for token in page.parsed:
        if token.info:  # a model must not choose a code lexer
            token.content, token.info = f"{token.info}\n{token.content}", ""
        token.tag = "h3" if token.type.startswith("heading") else token.tag
        for part in token.children or ():
            part.type = "hardbreak" if part.type == "softbreak" else part.type
    console = Console(file=io.StringIO(), width=max(10, width), theme=_THEME, color_system=None, legacy_windows=False)
    lines = list[tuple[str, tuple[Span, ...]]]()
    for segments in console.render_lines(page, pad=False):
        line, spans = "", list[Span]()
        for segment in segments:
            if segment.style and (name := _name(segment.style)) and segment.text.strip():
                spans.append((len(line), len(line) + len(segment.text), name))
            line += segment.text
        visible = line.rstrip()
        if visible or (lines and lines[-1][0]):
            lines.append((visible, tuple((begin, min(end, len(visible)), name) for begin, end, name in spans)))
    if _letters(text) != _letters("".join(line for line, _ in lines)):
        return None
    return lines[:-1] if lines and not lines[-1][0] else lines


def _letters(text: str) -> Counter[str]:
    return Counter(filter(str.isalnum, text))


def _name(style: Style) -> str:
    if style.underline and style.bold:
        return "heading"
    return "strong" if style.bold else "key" if style.color else "note" if style.italic else ""
