"""The base of all results of the API: plain text, HTML, frames of pandas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from rich.console import Console

from ragrounds.api.frame_rows import rows_of
from ragrounds.api.frames import OF_RUNS, Frame, Part
from ragrounds.api.workspace import open_selected_runs
from ragrounds.base.errors import UserError, nearest
from ragrounds.base.settings import Settings
from ragrounds.ui.columns import ColumnType
from ragrounds.ui.pictures.plot import PictureMaker, Plot, chosen_picture, chosen_theme
from ragrounds.ui.tables.notebook import html_of, text_of

if TYPE_CHECKING:
    import pandas


class Result(Struct, frozen=True, kw_only=True):
    """Result of a function of the API.

    ``str(result)`` is the text that the command prints, a notebook shows the same as HTML, and the figures come as
    frames.
    """

    def draw(self, console: Console) -> None:
        """Print the result on a console of rich's, as the command does."""
        raise NotImplementedError

    def own_frames(self) -> tuple[Frame, ...]:
        """Return the frames of this result, the default one first."""
        return ()

    def parts(self, frame: Frame) -> AbstractContextManager[Iterator[Part]]:
        """Open the rows of one of `own_frames`, in parts."""
        raise NotImplementedError

    @property
    def frames(self) -> tuple[str, ...]:
        """Return the names of the frames of this result."""
        return tuple(frame.name for frame in self.own_frames())

    def to_pandas(self, frame: str = "") -> pandas.DataFrame:
        """Return a frame of this result for pandas; `ragrounds.api.frames.columns_table()` has the columns of each.

        Args:
            frame: one of `frames`; by default the first.

        Raises:
            UserError: this result has no such frame, or pandas is not installed.
        """
        selected_frame = self._find_frame(frame)
        with self.parts(selected_frame) as parts:
            return pandas_frame(selected_frame, parts)

    def own_pictures(self) -> Mapping[str, PictureMaker]:
        """Return the makers of this result's pictures, by name; the default one first."""
        return {}

    @property
    def pictures(self) -> tuple[str, ...]:
        """Return the names of the pictures that :meth:`plot` can render, without pictures that have nothing to show."""
        return tuple(name for name, maker in self.own_pictures().items() if _has_content(maker))

    def plot(self, picture: str = "", file: str | Path | None = None, *, theme: str = "light") -> Plot:
        """Return a picture of this result: a notebook shows it, ``print`` renders it with letters.

            result.plot("differences", "differences.pdf")

        Args:
            picture: one of `pictures`; by default the first.
            file: file to write, as SVG, PNG or PDF by its ending. The last two need the extra ``plot``.
            theme: ``light`` or ``dark``.

        Raises:
            UserError: this result has no such picture, or nothing to show in it; the file cannot be written; or the
                renderer of PNG and PDF is not installed.
        """
        name, shapes = chosen_picture(self.own_pictures(), picture, type(self).__name__)
        rendered_plot = Plot(name, shapes, chosen_theme(theme))
        if file is not None:
            rendered_plot.save(file)
        return rendered_plot

    def __str__(self) -> str:
        return text_of(self.draw)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, frames: {', '.join(self.frames) or 'none'}>"

    def _repr_html_(self) -> str:
        return html_of(self.draw)

    def _find_frame(self, name: str) -> Frame:
        by_name = {frame.name: frame for frame in self.own_frames()}
        if not by_name:
            raise UserError(f"{type(self).__name__} has no frames.")
        if name and name not in by_name:
            raise UserError(
                f"{type(self).__name__} has no frame {name!r}.{nearest(name, by_name)} It has {', '.join(by_name)}."
            )
        return by_name[name] if name else next(iter(by_name.values()))


def _has_content(maker: PictureMaker) -> bool:
    try:
        return maker.make() is not None
    except UserError:  # nothing is scored
        return False


class RunsResult(Result, frozen=True, kw_only=True):
    """Result that represents stored runs: it has their frames, too."""

    settings: Settings
    """Settings that lead to the store of the runs."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the ids of the runs."""
        raise NotImplementedError

    def own_frames(self) -> tuple[Frame, ...]:
        """Return the frames of the runs."""
        return OF_RUNS

    def own_rows(self, frame: Frame) -> Iterable[Part] | None:
        """Return the rows of a frame that is not read from the store; ``None`` if it is."""
        return None

    @contextmanager
    def parts(self, frame: Frame) -> Iterator[Iterator[Part]]:
        """Open the rows of one of `own_frames`, in parts."""
        own_parts = self.own_rows(frame)
        if own_parts is not None:
            yield iter(own_parts)
            return
        with open_selected_runs(self.ids, self.settings) as (store, runs):
            yield rows_of(frame, store, runs)


_PANDAS: dict[ColumnType, str] = {"text": "string", "whole": "Int64", "real": "float64", "truth": "boolean"}


def pandas_frame(frame: Frame, parts: Iterator[Part]) -> pandas.DataFrame:
    """Return the rows as a pandas frame.

    Raises:
        UserError: pandas is not installed.
    """
    try:
        import pandas as library
    except ImportError as error:
        raise UserError("to_pandas() needs pandas: pip install 'ragrounds[pandas]'.") from error
    part_frames = [_pandas_part(library, frame, part) for part in parts if part] or [_pandas_part(library, frame, [])]
    joined: pandas.DataFrame = (
        library.concat(part_frames, ignore_index=True) if len(part_frames) > 1 else part_frames[0]
    )
    return joined


def _pandas_part(library: Any, frame: Frame, rows: Part) -> Any:
    cells = list(zip(*rows, strict=True)) or [()] * len(frame.columns)
    return library.DataFrame(
        {
            column.name: _pandas_times(library, values)
            if column.type == "time"
            else library.Series(list(values), dtype=_PANDAS[column.type])
            for column, values in zip(frame.columns, cells, strict=True)
        }
    )


def _pandas_times(library: Any, seconds: tuple[Any, ...]) -> Any:
    microseconds = library.array([None if moment is None else round(moment * 1e6) for moment in seconds], dtype="Int64")
    return library.Series(library.to_datetime(microseconds, unit="us", utc=True)).astype("datetime64[us, UTC]")
