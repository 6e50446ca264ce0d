"""The pages of the reference that are made from the source while the site is built. None is in the repository."""

from __future__ import annotations

from reference_pages.commands import command_pages
from reference_pages.formats import format_pages
from reference_pages.lists import list_pages
from reference_pages.python import python_pages


def reference_pages() -> tuple[dict[str, str], dict[str, str]]:
    """The pages, place → Markdown, and what code in sentences links to: name → page with the place on it."""
    pages: dict[str, str] = {}
    targets: dict[str, str] = {}
    for made in (command_pages, python_pages, format_pages, list_pages):
        more, named = made()
        pages |= more
        targets |= named
    return pages, targets
