"""Checks a site that was built: every link inside it has a target, and no page asks for anything from elsewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {
    "img": "src",
    "script": "src",
    "iframe": "src",
    "source": "srcset",
    "video": "src",
    "audio": "src",
    "embed": "src",
}
"""Elements whose target a browser fetches by itself → the attribute that names it."""
_ADDRESS = re.compile(r"https?://[\w.-]+(:\d+)?(/\S*)?|mailto:\S+@\S+")
_CSS = re.compile(r"url\(\s*['\"]?((?:https?:)?//[^)'\"]+)|@import\s+['\"]([^'\"]+)")


class _Page(HTMLParser):
    """What a page links to, what it loads, and its anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and given.get("rel") not in ("next", "prev", "index", "search", "canonical"):
            self.loaded.append(given.get("href", ""))
        if tag in LOADED and given.get(LOADED[tag]):
            self.loaded.append(given[LOADED[tag]])


def faults(site: Path) -> list[str]:
    """What is wrong with the links of a site, each as a line."""
    pages = {}
    for file in sorted(site.rglob("*.html")):
        page = _Page()
        page.feed(file.read_text(encoding="utf-8"))
        pages[file.resolve()] = page
    found = []
    for file, page in pages.items():
        name = file.relative_to(site.resolve()).as_posix()
        found += [f"{name} loads {one} from elsewhere" for one in page.loaded if re.match(r"(\w+:)?//", one)]
        for link in (*page.links, *page.loaded):
            if fault := _amiss(link, file, pages, site.resolve()):
                found.append(f"{name}: {link[:120]!r} {fault}")
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        found += [f"{style.name} loads {one[1] or one[2]}" for one in _CSS.finditer(text)]
    return found


def _amiss(link: str, file: Path, pages: dict[Path, _Page], site: Path) -> str:
    """What is wrong with a link; empty: nothing. Of an address outside, only its form is looked at."""
    if re.match(r"data:|javascript:", link):
        return "" if link.startswith("data:image/") else "is no address"
    if re.match(r"\w+:", link):
        return "" if _ADDRESS.fullmatch(link) else "is no address"
    parts = urlsplit(link)
    target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    if not target.is_relative_to(site):
        return "leads out of the site"
    if target.is_dir():
        target = target / "index.html"
    if not target.is_file():
        return "leads to nothing"
    if parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
        return "names no place on that page"
    return ""
