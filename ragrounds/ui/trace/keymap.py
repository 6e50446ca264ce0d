"""The user's own keys: a file that gives bindings, named by their ids, other keys."""

from __future__ import annotations

import tomllib
from pathlib import Path

from textual.binding import Binding

from ragrounds.errors import UserError, nearest


def read_keymap(file: Path) -> dict[str, str]:
    """Binding id → keys, separated by commas; empty where there is no file.

    Raises:
        UserError: not TOML, a value that is not text, or an id that no binding has.
    """
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UserError(f"Cannot read {file}: {error}") from error
    known = ids()
    for name, value in found.items():
        if name not in known:
            raise UserError(f"{file}: unknown key id {name!r}.{nearest(name, known)} `?` in the viewer lists all.")
        if not isinstance(value, str):
            raise UserError(f'{file}: {name} = {value!r} is not text; expected keys such as "ctrl+f,f3".')
    return found


def ids() -> list[str]:
    """The ids of all bindings."""
    return sorted({binding.id for binding in bindings() if binding.id})


def bindings() -> list[Binding]:
    """Every key of the viewer."""
    from ragrounds.ui.trace.app import TraceApp
    from ragrounds.ui.trace.browse import BrowseScreen
    from ragrounds.ui.trace.compare import CompareScreen
    from ragrounds.ui.trace.filtering import FilterScreen
    from ragrounds.ui.trace.finding import FindBar
    from ragrounds.ui.trace.help import HelpScreen
    from ragrounds.ui.trace.lines import Rows
    from ragrounds.ui.trace.pager import Pager

    owners = (TraceApp, BrowseScreen, CompareScreen, FilterScreen, FindBar, HelpScreen, Rows, Pager)
    return [binding for owner in owners for binding in owner.BINDINGS if isinstance(binding, Binding)]
