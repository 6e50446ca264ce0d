"""What stands on a Textual screen, as plain text, and the comparison with what stood there before."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

from textual.app import App
from textual.binding import Binding
from textual.dom import DOMNode
from textual.pilot import Pilot
from textual.screen import Screen
from textual.worker import WorkerCancelled

from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.summaries import Pages
from ragrounds.ui.trace.app import TraceApp

SCREENS = Path(__file__).parent / "screens"
S = TypeVar("S", bound=Screen[Any])


@contextlib.asynccontextmanager
async def viewer(
    shown: Pages | Store, *keys: str, size: tuple[int, int] = (120, 40), **options: Any
) -> AsyncIterator[tuple[TraceApp, Pilot[None]]]:
    """Open the viewer of attempts or of a store's runs, and press keys."""
    app = TraceApp(shown, **options)
    async with app.run_test(size=size, notifications=True) as pilot:
        for _ in range(3 if "view" in options else 1):  # a view opens once the list is drawn
            await settle(pilot)
        await press(pilot, *keys)
        await settle(pilot)  # a screen that a key has opened may begin to read only now
        yield app, pilot


def current(app: App[Any], kind: type[S]) -> S:
    """Return the screen that is shown, which must be of this kind."""
    assert isinstance(app.screen, kind), app.screen
    return app.screen


def owners_of_keys() -> list[type[DOMNode]]:
    """All that has keys of its own: the application, its screens, dialogs and panes."""
    found, owners = [], list(DOMNode.__subclasses__())
    for owner in owners:
        owners += [one for one in owner.__subclasses__() if one not in owners]
        if owner.__module__.startswith("ragrounds.ui.trace") and owner.__dict__.get("BINDINGS"):
            found.append(owner)
    return found


def bindings() -> list[Binding]:
    """Every key of the viewer, on all its screens."""
    return [binding for owner in owners_of_keys() for binding in owner.BINDINGS if isinstance(binding, Binding)]


def screen(app: App[None]) -> str:
    """The characters on the screen, line by line: what goes to the terminal."""
    strips = app.screen._compositor.render_strips()
    return "".join("".join(segment.text for segment in strip).rstrip() + "\n" for strip in strips)


async def press(pilot: Pilot[None], *keys: str) -> None:
    """Press keys one after the other, each when what the last one set off has ended."""
    for key in keys:
        await pilot.press(key)
        await settle(pilot)


async def settle(pilot: Pilot[None]) -> None:
    """Wait for workers and rendering. A worker that a later key has cancelled has ended too."""
    for worker in list(pilot.app.workers):
        with contextlib.suppress(WorkerCancelled):
            await worker.wait()
    await pilot.pause()


async def until(pilot: Pilot[None], so: Callable[[], object]) -> None:
    """Wait for what is begun later than the key that asks for it, however slow the machine is."""
    for _ in range(1000):
        await settle(pilot)
        if so():
            return
        await pilot.pause(0.01)
    raise AssertionError(f"it never came to that:\n{screen(pilot.app)}")


def matches(app: App[None], name: str) -> None:
    """The screen is as it was when it was last looked at. UPDATE_SCREENS=1 writes it anew: look at it then."""
    file, now = SCREENS / f"{name}.txt", screen(app)
    if os.environ.get("UPDATE_SCREENS"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(now, encoding="utf-8")
    assert now == file.read_text(encoding="utf-8"), f"the screen differs from {file.name}:\n{now}"
