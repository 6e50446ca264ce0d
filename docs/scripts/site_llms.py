"""Writes `llms.txt` and `llms-full.txt`: the documentation for language models, as llmstxt.org describes these files.

`llms.txt` names every page with its first sentence; `llms-full.txt` holds them all. Each page lies beside its HTML as
Markdown too, and that is what `llms.txt` links to.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from pathlib import Path

from site_source import LINK, SECTIONS, lines_of, ordered, summary_of, title_of

LEFT_OUT = ("files/", "measurements/", "project/changelog")
"""Pages that stand in no file for models: source files, measurements, the list of changes."""
_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_TARGET = re.compile(r"^\([\w.-]+\)=\n|(?<=`)\{#[\w.-]+\}|^---\n(?:\w+: .*\n)+---\n+", re.MULTILINE)


def write_llms(site: Path, pages: Mapping[str, str], summary: str) -> None:
    """Write the files.

    Args:
        site: where the site was built.
        pages: place → Markdown, as Sphinx read them.
        summary: what ragrounds is, in a sentence.
    """
    chosen = {place: plain(text) for place, text in pages.items() if not place.startswith(LEFT_OUT)}
    for place, text in chosen.items():
        (site / place).parent.mkdir(parents=True, exist_ok=True)
        (site / place).write_text(text, encoding="utf-8")
    order = _order(pages)
    lines = ["# ragrounds", "", f"> {summary}", ""]
    for caption, places in order.items():
        kept = [place for place in places if place in chosen]
        lines += [f"## {caption}", "", *(_line(place, chosen[place]) for place in kept), ""]
    (site / "llms.txt").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    every = dict.fromkeys(["index.md", *(place for places in order.values() for place in places)])
    whole = [f"<!-- {place} -->\n\n{_flat(chosen[place]).strip()}\n" for place in every if place in chosen]
    (site / "llms-full.txt").write_text("\n".join(whole), encoding="utf-8")


def plain(text: str) -> str:
    """A page without what only Sphinx reads."""
    return _TARGET.sub("", _COMMENT.sub("", text))


def _order(pages: Mapping[str, str]) -> dict[str, list[str]]:
    """Heading → the pages below it, in the order of the navigation."""
    found: dict[str, list[str]] = {}
    for caption, names in SECTIONS:
        found[caption] = [place for name in names for place in _below(f"{name}.md", pages)]
    return found


def _below(place: str, pages: Mapping[str, str]) -> list[str]:
    """A page, and those of its folder where it is an index."""
    if place not in pages:
        return []
    if not place.endswith("/index.md"):
        return [place]
    folder = posixpath.dirname(place)
    names = ordered(pages[place], folder, pages)
    return [place, *(one for name in names for one in _below(posixpath.join(folder, f"{name}.md"), pages))]


def _line(place: str, text: str) -> str:
    summary = summary_of(text)
    return f"- [{title_of(text)}]({place})" + (f": {summary}" if summary else "")


def _flat(text: str) -> str:
    """A page whose links to other pages are their texts: in one file they lead nowhere."""
    return "\n".join(line if fenced else LINK.sub(_text, line) for line, fenced in lines_of(text))


def _text(found: re.Match[str]) -> str:
    return found[0] if re.match(r"https?:", found[2]) else found[1].lstrip("!").removeprefix("[").removesuffix("](")
