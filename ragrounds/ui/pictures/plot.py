"""A picture of a result: shown by a notebook, as text on a terminal, or written as SVG, PNG or PDF."""

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
"""Endings of files that a picture can be written to."""
_SCALE = 2.0
"""Pixels of a PNG for each unit of the SVG, so that it is sharp in print and on dense screens."""


class PictureMaker(NamedTuple):
    """Maker of one of a result's pictures."""

    make: Callable[[], Picture | None]
    """Function that returns the picture; ``None`` if there is nothing to draw."""
    lacking: str = "nothing in it has a value"
    """Reason why there may be nothing to draw."""


class Plot(Struct, frozen=True):
    """Picture of a result. A notebook shows it; ``print`` renders it with letters."""

    name: str
    """Name of the picture among the result's pictures."""
    picture: Picture
    """Marks and axes, as data."""
    theme: Theme = "light"

    def svg(self) -> str:
        """Return the picture as an SVG document: plain shapes, no script, no external font.

        Raises:
            UserError: nothing in the picture has a value.
        """
        from ragrounds.ui.pictures.chart_svg import svg  # imported here, since a printed result needs none of it

        return svg(self.picture, theme=self.theme)

    def png(self, scale: float = _SCALE) -> bytes:
        """Return the picture as PNG, scaled relative to the SVG.

        Raises:
            UserError: nothing in the picture has a value, or vl-convert is not installed.
        """
        image: bytes = _load_converter().svg_to_png(self.svg(), scale=scale)
        return image

    def pdf(self) -> bytes:
        """Return the picture as PDF.

        Raises:
            UserError: nothing in the picture has a value, or vl-convert is not installed.
        """
        document: bytes = _load_converter().svg_to_pdf(self.svg())
        return document

    def save(self, file: str | Path) -> Path:
        """Write the picture in the format of the file's ending (``.svg``, ``.png`` or ``.pdf``) and return the path.

        Raises:
            UserError: the ending is unknown, the file cannot be written, or vl-convert is not installed.
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


def chosen_picture(pictures: Mapping[str, PictureMaker], name: str, subject: str) -> tuple[str, Picture]:
    """Return the name and the picture that is meant.

    Args:
        pictures: pictures of a result.
        name: name of the picture; if empty, the first that has something to draw.
        subject: name of the result, for errors.

    Raises:
        UserError: there are no pictures, none of this name, or nothing to draw in it.
    """
    if not pictures:
        raise UserError(f"{subject} has no pictures.")
    if name and name not in pictures:
        raise UserError(f"There is no picture {name!r}.{nearest(name, pictures)} {subject} has {', '.join(pictures)}.")
    for candidate in [name] if name else pictures:
        picture = pictures[candidate].make()
        if picture is not None:
            return candidate, picture
    missing = f"no picture {name!r}" if name else "nothing"
    raise UserError(f"There is {missing} to draw: {pictures[name or next(iter(pictures))].lacking}.")


def chosen_theme(name: str) -> Theme:
    """Return a theme by its name.

    Raises:
        UserError: the name is unknown.
    """
    if name not in get_args(Theme):
        raise UserError(f"Unknown theme {name!r}; expected light or dark.")
    return cast("Theme", name)


def check_plot_file(file: str | Path) -> Path:
    """Return the path if a picture can be written to it.

    Raises:
        UserError: the ending is unknown, or the renderer is not installed.
    """
    path = Path(file).expanduser()
    if path.suffix.lower() not in ENDINGS:
        raise UserError(f"{path} names no kind of picture; expected a file that ends in {', '.join(ENDINGS)}.")
    if path.suffix.lower() != ".svg":
        _load_converter()
    return path


def _load_converter() -> Any:
    try:
        import vl_convert
    except ImportError as error:
        raise UserError(
            "PNG and PDF need vl-convert, which brings their font: pip install 'ragrounds[plot]'. SVG needs nothing."
        ) from error
    return vl_convert
