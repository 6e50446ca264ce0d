"""Contrast of colours, by WCAG 2.2 (success criterion 1.4.3)."""

from __future__ import annotations

from textual.color import Color

LEAST_CONTRAST = 4.5
"""Minimal contrast of text with its background."""


def contrast(text: Color, behind: Color) -> float:
    """Return the contrast of two colours, from 1 (the same) to 21 (black on white)."""
    lighter, darker = sorted((_luminance(text), _luminance(behind)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: Color) -> float:
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in color.normalized]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))
