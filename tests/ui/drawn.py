"""What a terminal shows of a picture, as lines of text."""

from __future__ import annotations

from rich.console import Console, ConsoleDimensions, RenderableType


def drawn_lines(console: Console, picture: RenderableType, width: int, height: int) -> list[str]:
    """What is drawn with its styles, at most `height` lines and none longer than `width`."""
    console.size = ConsoleDimensions(width, max(height, 1))
    with console.capture() as captured:
        console.print(picture, overflow="ellipsis", crop=True)
    return captured.get().removesuffix("\n").split("\n")[:height]
