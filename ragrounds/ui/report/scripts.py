"""What stands beside the pages' Python: style sheets, pieces of HTML, and the one script that a page has."""

from __future__ import annotations

from importlib.resources import files

from ragrounds.errors import UserError

_TABLES = ("tables.js",)
_ATTEMPTS = ("unpacking.js", "filter.js", "hops.js", "detail.js", "listing.js")
_READY = "document.documentElement.dataset.ready = performance.now().toFixed(1);"


def page_script(*, attempts: bool) -> str:
    """The script of a page: what its tables need, and with `attempts` their browser.

    It sets ``data-ready`` of the page's root when it can be used.
    """
    names, begin = (_TABLES + _ATTEMPTS, "startAttempts();") if attempts else (_TABLES, _READY)
    pieces = "\n".join(asset(name) for name in names)
    return f"(()=>{{'use strict';\n{pieces}\nstartTables();\n{begin}}})();"


def asset(name: str) -> str:
    """A file that stands beside this one.

    Raises:
        UserError: it does not.
    """
    found = files(__package__) / name
    if not found.is_file():
        raise UserError(f"The installed ragrounds lacks its file {name}; install it again.")
    return found.read_text(encoding="utf-8").strip()
