"""What stands on a Textual screen, as plain text, and the comparison with what stood there before."""

from __future__ import annotations

import html
import os
import re
from pathlib import Path

from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Footer

_TEXT = re.compile(r'<text [^>]*x="([\d.]+)"[^>]*clip-path="url\(#[^)]*-line-(\d+)\)"[^>]*>(.*?)</text>', re.DOTALL)
_CELL = 12.2
"""Width of a cell in Rich's pictures."""
SCREENS = Path(__file__).parent / "screens"


def screen(app: App[None]) -> str:
    """The characters on the screen, line by line."""
    lines: dict[int, list[tuple[int, str]]] = {}
    for x, line, text in _TEXT.findall(app.export_screenshot()):
        lines.setdefault(int(line), []).append((round(float(x) / _CELL), html.unescape(text).replace("\xa0", " ")))
    drawn = []
    for line in range(max(lines) + 1):
        made = ""
        for at, text in sorted(lines.get(line, [])):
            made = made.ljust(at) + text
        drawn.append(made.rstrip())
    return "\n".join(drawn) + "\n"


async def press(pilot: Pilot[None], *keys: str) -> None:
    """Press keys one after the other, each when what the last one set off has ended."""
    for key in keys:
        await pilot.press(key)
        await settle(pilot)


async def settle(pilot: Pilot[None]) -> None:
    """Wait for threads and drawing."""
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()
    # The footer fills itself a little after its screen came up.
    for _ in range(1000):
        if all(footer.children for footer in pilot.app.screen.query(Footer)):
            return
        await pilot.pause(0.01)


def matches(app: App[None], name: str) -> None:
    """The screen is as it was when it was last looked at. UPDATE_SCREENS=1 writes it anew: look at it then."""
    file, now = SCREENS / f"{name}.txt", screen(app)
    if os.environ.get("UPDATE_SCREENS"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(now, encoding="utf-8")
    assert now == file.read_text(encoding="utf-8"), f"the screen differs from {file.name}:\n{now}"
