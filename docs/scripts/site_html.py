"""What is mended in the HTML that Sphinx and the theme write, for keyboards and screen readers."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

_NAMED = (
    ('<p class="caption" role="heading">', '<p class="caption" role="heading" aria-level="2">'),
    ('<aside class="sidebar-drawer">', '<aside class="sidebar-drawer" aria-label="All pages">'),
    ('<aside class="toc-drawer', '<aside aria-label="This page" class="toc-drawer'),
    ('<div id="search-results">', '<h1>Search</h1>\n<div id="search-results">'),
)
"""What stands there → what a screen reader can name."""
_EMPTY = re.compile(r'<th class="head[^"]*">(?:<p></p>)?</th>')
_TABLE = re.compile(r'<div class="table-wrapper[^"]*">')


def mended(html: str) -> str:
    """A page on which a keyboard reaches what scrolls, and everything that is announced has a name."""
    for given, better in _NAMED:
        html = html.replace(given, better)
    html = _EMPTY.sub('<td class="head"></td>', html).replace("<pre>", '<pre tabindex="0">')
    count = itertools.count(1)

    def _box(_: object) -> str:
        return f'<div class="table-wrapper" tabindex="0" role="region" aria-label="Table {next(count)}">'

    return _TABLE.sub(_box, html)


def mend(site: Path) -> None:
    """Mend every page of a site."""
    for file in site.rglob("*.html"):
        file.write_text(mended(file.read_text(encoding="utf-8")), encoding="utf-8")
