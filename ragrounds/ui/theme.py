"""The colours of every page and picture: light, dark on a dark screen, and light on paper.

``theme.css`` holds them as CSS custom properties, and nothing else: pages include it unchanged, and standalone pictures
take the colours from it.

| name | used for |
|---|---|
| ``back``, ``soft``, ``mark`` | the page; raised areas on it; highlighted text |
| ``ink``, ``dim``, ``good``, ``bad``, ``accent`` | text, links: contrast of 4.5 and more on these three |
| ``edge`` | borders of controls: contrast of 3 and more |
| ``line`` | rules between lines and grids, which carry no information |
| ``series-1`` … ``series-8`` | shapes and their names: contrast of 4.5 and more on the page and on ``soft`` |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Literal

Theme = Literal["light", "dark"]
SERIES = 8
"""Number of colours for series."""


@cache
def theme_style() -> str:
    """Return the custom properties as CSS, for a page."""
    return (files(__package__) / "theme.css").read_text(encoding="utf-8").strip()


@cache
def palette(dark: bool = False) -> Mapping[str, str]:
    """Return the colours of the light or the dark theme by name, as ``#rrggbb``.

    palette()["series-1"]
    """
    light, dusky = theme_style().split("@media", 1)
    return MappingProxyType(dict(re.findall(r"--([a-z0-9-]+):(#[0-9a-f]{6})", dusky if dark else light)))


def series_name(index: int) -> str:
    """Return the name of a series' colour, counted from 0; the colours repeat after the last."""
    return f"series-{index % SERIES + 1}"


_NOTEBOOK_SERIES = ("#4a82c9", "#c0711f", "#2f8f5e", "#a566c9", "#d8594f", "#1f8f99", "#8f7d2a", "#7b8794")


def notebook_colours() -> Mapping[str, str]:
    """Return colours by name for a part of a foreign page, which may be light or dark.

    Text has the page's own colour. The colours of series have a contrast of 3 and more on white and on black pages
    alike.
    """
    ground = "var(--jp-layout-color0,var(--vscode-editor-background,Canvas))"
    plain = {
        "back": ground, "ink": "currentColor", "dim": "currentColor",
        "line": "rgba(128,128,128,.35)", "edge": "rgba(128,128,128,.9)",
    }  # fmt: skip
    return MappingProxyType(plain | {series_name(index): colour for index, colour in enumerate(_NOTEBOOK_SERIES)})
