"""The console that everything is printed on: no text of a model, a file or a server moves its cursor."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from ragrounds.text import safe


class SafeConsole(Console):
    """Writes control, formatting and zero-width characters out as ``<U+XXXX>``, whatever is drawn. What draws makes its
    texts safe itself, so that columns have their widths; here is where one that was forgotten is caught."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of what is drawn, each safe to show."""
        for segment in super().render(renderable, options):
            plain = segment.control or segment.text.isprintable()
            yield segment if plain else Segment(safe(segment.text), segment.style)
