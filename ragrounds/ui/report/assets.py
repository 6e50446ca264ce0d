"""Scripts and style sheets of pages, read from the files of this folder."""

from __future__ import annotations

from importlib.resources import files

from ragrounds.base.errors import UserError

_TABLES = ("tables.js",)
_ATTEMPTS = ("unpacking.js", "filter.js", "hops.js", "detail.js", "listing.js")
_READY = "document.documentElement.dataset.ready = performance.now().toFixed(1);"


def page_script(*, attempts: bool) -> str:
    """Return the script of a page: that of its tables, and with `attempts` that of their browser.

    The script sets ``data-ready`` of the page's root when the page can be used.
    """
    names, begin = (_TABLES + _ATTEMPTS, "startAttempts();") if attempts else (_TABLES, _READY)
    pieces = "\n".join(asset(name) for name in names)
    return f"(()=>{{'use strict';\n{pieces}\nstartTables();\n{begin}}})();"


def asset(name: str) -> str:
    """Return the text of a script or style sheet of this folder.

    Raises:
        UserError: the file is missing.
    """
    file = files(__package__) / name
    if not file.is_file():
        raise UserError(f"The file {name} of the installed ragrounds is missing; install it again.")
    return file.read_text(encoding="utf-8").strip()
