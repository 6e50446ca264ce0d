"""The navigation of the site's pages, as an extension of Sphinx.

Sphinx and the theme render the tree of all pages again for each page, which takes longer than all else. Here it is
rendered once, and each page gets it with its own links and marks.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_PART = re.compile(r'(</?ul>|<li class="[^"]*">|</li>|<a class="reference internal" href="[^"]*">|<input [^>]*>)')
_HREF = re.compile(r'href="([^"]*)"')


class Navigation:
    """The tree of all pages.

    Args:
        rendered: The tree as the page at the top of the site has it: with addresses from there, and without marks.
    """

    def __init__(self, rendered: str) -> None:
        self._parts = _PART.split(rendered)
        self._addresses: dict[int, str] = {}
        """Index of a link → address of the page."""
        self._marked: dict[str, list[int]] = defaultdict(list)
        """Address of a page → indices of its link and of all that it is inside of."""
        inside: list[list[int]] = []
        address = ""
        for index, part in enumerate(self._parts):
            if part == "<ul>" or part.startswith("<li "):
                inside.append([index])
            elif part in ("</ul>", "</li>"):
                inside.pop()
            elif part.startswith("<a "):
                address = self._addresses[index] = _HREF.findall(part)[0]
                self._marked[address] += [*(other for indices in inside for other in indices), index]
            elif part.startswith("<input "):  # opens what is below the last link
                self._marked[address].append(index)
                inside[-1].append(index)

    def for_page(self, address: str) -> str:
        """Return the tree for the page with this address."""
        parts, folder = list(self._parts), posixpath.dirname(address) or "."
        for index, other in self._addresses.items():
            page, mark, anchor = other.partition("#")
            link = (posixpath.relpath(page, folder) if page != address else "") + mark + anchor
            parts[index] = f'<a class="reference internal" href="{link or "#"}">'
        marked = self._marked.get(address, [])
        for index in marked:
            parts[index] = _as_current(parts[index])
        if items := [index for index in marked if parts[index].startswith("<li ")]:
            parts[items[-1]] = parts[items[-1]].replace('">', ' current-page">')
        return "".join(parts)


def _as_current(part: str) -> str:
    """Return a part of the tree as it is on a page that it leads to."""
    if part == "<ul>":
        return '<ul class="current">'
    if part.startswith("<a "):
        return part.replace('"reference', '"current reference')
    if part.startswith("<input "):
        return part.replace(' class="', ' checked="" class="')
    return re.sub(r"(toctree-l\d+)", r"\1 current", part)


def leave_out_tree(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: object) -> None:
    """Have the theme render no tree."""
    context["toctree"] = lambda **options: ""


def add_tree(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: object) -> None:
    """Give a page the tree, which is rendered for the first page that needs it."""
    context["furo_navigation_tree"] = navigation(app).for_page(app.builder.get_target_uri(page))


@cache
def navigation(app: Sphinx) -> Navigation:
    """Return the tree of all pages of a site."""
    from furo.navigation import get_navigation_tree  # type: ignore[import-untyped]  # late: it takes seconds

    options = {"collapse": False, "titles_only": True, "maxdepth": -1, "includehidden": True}
    builder: Any = app.builder
    rendered = builder._get_local_toctree(app.config.root_doc, **options)  # what pages get as `toctree`
    return Navigation(get_navigation_tree(rendered))


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx. The theme's own listener is called between the two."""
    app.connect("html-page-context", leave_out_tree, priority=400)
    app.connect("html-page-context", add_tree, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
