"""Rows as frames of pandas, with the types that their columns say, also where there is nothing in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ragrounds.api.frames import Frame, Part
from ragrounds.errors import UserError
from ragrounds.ui.columns import ColumnType

if TYPE_CHECKING:
    import pandas

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
