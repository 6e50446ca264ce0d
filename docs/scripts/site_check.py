"""Checks a site that was built: every link inside it has a target, and no page asks for anything from elsewhere."""

from __future__ import annotations

import posixpath
import re
from functools import cache
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
_TAG = re.compile(r"<[a-z][^<>]*\s(?:id|name|href|src|srcset)=[^<>]*>|</script>")
"""A tag with an anchor or a target; most tags colour code and have neither. Sphinx writes no `>` inside a value."""
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
    """Return each fault in the links of a site as a line."""
    pages = {}
    for file in sorted(site.rglob("*.html")):
        page = _Page()
        page.feed("".join(_TAG.findall(file.read_text(encoding="utf-8"))))
        pages[file.relative_to(site).as_posix()] = page

    @cache  # the navigation leads from each page to all others
    def fault_of_target(target: str, fragment: str) -> str:
        if target.startswith(("..", "/")):
            return "leads out of the site"
        if (site / target).is_dir():
            target = posixpath.normpath(f"{target}/index.html")
        if not (site / target).is_file():
            return "leads to nothing"
        if fragment and target in pages and fragment not in pages[target].anchors:
            return "names no place on that page"
        return ""

    def fault_of_link(link: str, name: str) -> str:
        if re.match(r"data:|javascript:", link):
            return "" if link.startswith("data:image/") else "is no address"
        if re.match(r"\w+:", link):  # of an address outside, only the form is checked
            return "" if _ADDRESS.fullmatch(link) else "is no address"
        parts = urlsplit(link)
        target = posixpath.join(posixpath.dirname(name), unquote(parts.path)) if parts.path else name
        return fault_of_target(posixpath.normpath(target), unquote(parts.fragment))

    found = []
    for name, page in pages.items():
        found += [f"{name} loads {one} from elsewhere" for one in page.loaded if re.match(r"(\w+:)?//", one)]
        links = [*page.links, *page.loaded]
        found += [f"{name}: {link[:120]!r} {fault}" for link in links if (fault := fault_of_link(link, name))]
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        found += [f"{style.name} loads {one[1] or one[2]}" for one in _CSS.finditer(text)]
    return found
