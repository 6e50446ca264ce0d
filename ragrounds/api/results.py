"""What every result of the API gives: plain text, HTML, frames of pandas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from rich.console import Console

from ragrounds.api.frame_rows import rows_of
from ragrounds.api.frames import OF_RUNS, Frame, Part
from ragrounds.api.workspace import opened_runs
from ragrounds.base.errors import UserError, nearest
from ragrounds.base.settings import Settings
from ragrounds.ui.columns import ColumnType
from ragrounds.ui.pictures.plot import PictureMaker, Plot, chosen_picture, chosen_theme
from ragrounds.ui.tables.notebook import html_of, text_of

if TYPE_CHECKING:
    import pandas


class Result(Struct, frozen=True, kw_only=True):
    """What a function of the API returned.

    ``str(result)`` is what the command prints, a notebook shows the same as HTML, and the figures come as frames.
    """

    def draw(self, console: Console) -> None:
        """Print the result on a console of rich's, as the command does."""
        raise NotImplementedError

    def own_frames(self) -> tuple[Frame, ...]:
        """The frames that this result gives, the natural one first."""
        return ()

    def parts(self, frame: Frame) -> AbstractContextManager[Iterator[Part]]:
        """The rows of one of `own_frames`, in parts, while the block lasts."""
        raise NotImplementedError

    @property
    def frames(self) -> tuple[str, ...]:
        """The names of the frames that this result gives."""
        return tuple(frame.name for frame in self.own_frames())

    def to_pandas(self, frame: str = "") -> pandas.DataFrame:
        """A frame of this result for pandas; `ragrounds.api.frames.columns_table()` has the columns of each.

        Args:
            frame: one of `frames`; empty: the first of them.

        Raises:
            UserError: this result has no such frame, or pandas is not installed.
        """
        chosen = self._frame(frame)
        with self.parts(chosen) as parts:
            return pandas_frame(chosen, parts)

    def own_pictures(self) -> Mapping[str, PictureMaker]:
        """What draws the pictures of this result, by their names; the natural one first."""
        return {}

    @property
    def pictures(self) -> tuple[str, ...]:
        """The names of the pictures that :meth:`plot` draws, of those that there is something to draw in."""
        return tuple(name for name, maker in self.own_pictures().items() if _drawable(maker))

    def plot(self, picture: str = "", file: str | Path | None = None, *, theme: str = "light") -> Plot:
        """A picture of this result: a notebook shows it, ``print`` draws it with letters.

            result.plot("differences", "differences.pdf")

        Args:
            picture: one of `pictures`; empty: the first of them.
            file: also keep it here, by the end of the name as SVG, PNG or PDF. The last two need the extra ``plot``.
            theme: ``light`` or ``dark``.

        Raises:
            UserError: this result has no such picture, or nothing to draw in it; a file that cannot be written; PNG or
                PDF without what draws them.
        """
        name, drawn = chosen_picture(self.own_pictures(), picture, type(self).__name__)
        made = Plot(name, drawn, chosen_theme(theme))
        if file is not None:
            made.save(file)
        return made

    def __str__(self) -> str:
        return text_of(self.draw)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, frames: {', '.join(self.frames) or 'none'}>"

    def _repr_html_(self) -> str:
        return html_of(self.draw)

    def _frame(self, name: str) -> Frame:
        known = {frame.name: frame for frame in self.own_frames()}
        if not known:
            raise UserError(f"{type(self).__name__} has no frames.")
        if name and name not in known:
            raise UserError(
                f"{type(self).__name__} has no frame {name!r}.{nearest(name, known)} It has {', '.join(known)}."
            )
        return known[name] if name else next(iter(known.values()))


def _drawable(maker: PictureMaker) -> bool:
    try:
        return maker.make() is not None
    except UserError:  # nothing is scored
        return False


class RunsResult(Result, frozen=True, kw_only=True):
    """A result that stands for stored runs: it gives their frames, too."""

    settings: Settings
    """Where the runs are."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the runs."""
        raise NotImplementedError

    def own_frames(self) -> tuple[Frame, ...]:
        """The frames of the runs."""
        return OF_RUNS

    def own_rows(self, frame: Frame) -> Iterable[Part] | None:
        """The rows of a frame that does not come from the store; ``None``: it does."""
        return None

    @contextmanager
    def parts(self, frame: Frame) -> Iterator[Iterator[Part]]:
        """The rows of one of `own_frames`, in parts, while the block lasts."""
        own = self.own_rows(frame)
        if own is not None:
            yield iter(own)
            return
        with opened_runs(self.ids, self.settings) as (store, runs):
            yield rows_of(frame, store, runs)


_PANDAS: dict[ColumnType, str] = {"text": "string", "whole": "Int64", "real": "float64", "truth": "boolean"}


def pandas_frame(frame: Frame, parts: Iterator[Part]) -> pandas.DataFrame:
    """The rows as a pandas frame.

    Raises:
        UserError: pandas is not installed.
    """
    try:
        import pandas as library
    except ImportError as error:
        raise UserError("to_pandas() needs pandas: pip install 'ragrounds[pandas]'.") from error
    made = [_pandas_part(library, frame, part) for part in parts if part] or [_pandas_part(library, frame, [])]
    whole: pandas.DataFrame = library.concat(made, ignore_index=True) if len(made) > 1 else made[0]
    return whole


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
    microseconds = library.array([None if one is None else round(one * 1e6) for one in seconds], dtype="Int64")
    return library.Series(library.to_datetime(microseconds, unit="us", utc=True)).astype("datetime64[us, UTC]")
