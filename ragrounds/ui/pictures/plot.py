"""A picture that a result gave: shown by a notebook, as text on a terminal, kept as SVG, PNG or PDF."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args

from msgspec import Struct

from ragrounds.base.errors import UserError, nearest
from ragrounds.evals.analyses.pictures import Picture
from ragrounds.ui.console import SafeConsole
from ragrounds.ui.pictures.chart_text import draw
from ragrounds.ui.theme import Theme

ENDINGS = (".svg", ".png", ".pdf")
"""Of files that a picture can be kept as."""
_SCALE = 2.0
"""Dots of a PNG for each of the drawing's, so that it is sharp in print and on dense screens."""


class PictureMaker(NamedTuple):
    """What makes one of a result's pictures."""

    make: Callable[[], Picture | None]
    """``None``: there is nothing to draw."""
    lacking: str = "nothing in it has a value"
    """Why there may be nothing to draw."""


class Plot(Struct, frozen=True):
    """One picture of a result. A notebook shows it; ``print`` draws it with letters."""

    name: str
    """Which of the result's pictures it is."""
    picture: Picture
    """Marks and axes, as data."""
    theme: Theme = "light"

    def svg(self) -> str:
        """The picture as an SVG document: plain shapes, no script, no font from outside.

        Raises:
            UserError: nothing in the picture has a value.
        """
        from ragrounds.ui.pictures.chart_svg import svg  # a result that is printed needs none of it

        return svg(self.picture, theme=self.theme)

    def png(self, scale: float = _SCALE) -> bytes:
        """The picture as PNG, so many times as large as the SVG.

        Raises:
            UserError: nothing in the picture has a value, or vl-convert is not installed.
        """
        made: bytes = _converter().svg_to_png(self.svg(), scale=scale)
        return made

    def pdf(self) -> bytes:
        """The picture as PDF.

        Raises:
            UserError: nothing in the picture has a value, or vl-convert is not installed.
        """
        made: bytes = _converter().svg_to_pdf(self.svg())
        return made

    def save(self, file: str | Path) -> Path:
        """Keep the picture as its file's name ends: ``.svg``, ``.png`` or ``.pdf``; gives the file.

        Raises:
            UserError: another ending; a file that cannot be written; vl-convert is not installed.
        """
        path = check_plot_file(file)
        ending = path.suffix.lower()
        body = self.svg().encode("utf-8") if ending == ".svg" else self.png() if ending == ".png" else self.pdf()
        try:
            path.write_bytes(body)
        except OSError as error:
            raise UserError(f"Cannot write {path}: {error.strerror}.") from error
        return path

    def __str__(self) -> str:
        return draw(self.picture, min(SafeConsole().width, 100)).plain

    def __repr__(self) -> str:
        return f"<Plot: {self.picture.title}>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"image/svg+xml": self.svg(), "text/plain": repr(self)}


def chosen_picture(known: Mapping[str, PictureMaker], name: str, of: str) -> tuple[str, Picture]:
    """The name and the picture that is meant.

    Args:
        known: the pictures of a result.
        name: empty: the first of them that has something to draw.
        of: what has these pictures, for errors.

    Raises:
        UserError: it has no pictures, or none of this name, or nothing to draw in it.
    """
    if not known:
        raise UserError(f"{of} has no pictures.")
    if name and name not in known:
        raise UserError(f"There is no picture {name!r}.{nearest(name, known)} {of} has {', '.join(known)}.")
    for each in [name] if name else known:
        picture = known[each].make()
        if picture is not None:
            return each, picture
    what = f"no picture {name!r}" if name else "nothing"
    raise UserError(f"There is {what} to draw: {known[name or next(iter(known))].lacking}.")


def chosen_theme(name: str) -> Theme:
    """A theme by its name.

    Raises:
        UserError: there is none of this name.
    """
    if name not in get_args(Theme):
        raise UserError(f"Unknown theme {name!r}; expected light or dark.")
    return cast("Theme", name)


def check_plot_file(file: str | Path) -> Path:
    """The file, where a picture can be kept in it.

    Raises:
        UserError: its name ends otherwise, or what draws it is not installed.
    """
    path = Path(file).expanduser()
    if path.suffix.lower() not in ENDINGS:
        raise UserError(f"{path} names no kind of picture; expected a file that ends in {', '.join(ENDINGS)}.")
    if path.suffix.lower() != ".svg":
        _converter()
    return path


def _converter() -> Any:
    try:
        import vl_convert
    except ImportError as error:
        raise UserError(
            "PNG and PDF need vl-convert, which brings their font: pip install 'ragrounds[plot]'. SVG needs nothing."
        ) from error
    return vl_convert
