"""Text in exactly so many cells."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size


def fit(text: str, width: int, right: bool = False) -> str:
    """`text` in exactly `width` cells: cut with an ellipsis, or padded."""
    if width <= 0:
        return ""
    text = text[: width * 4]
    size = cell_len(text)
    if size > width:
        return set_cell_size(text, width - 1) + "…"
    pad = " " * (width - size)
    return pad + text if right else text + pad
