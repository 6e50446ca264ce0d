"""Rows as frames of pandas and Polars, with the types that their columns say, also where there is nothing in them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ragrounds.api.frames import Frame, Part
from ragrounds.errors import UserError
from ragrounds.ui.columns import ColumnType

if TYPE_CHECKING:
    import pandas
    import polars

_PANDAS: dict[ColumnType, str] = {"text": "string", "whole": "Int64", "real": "float64", "truth": "boolean"}


def pandas_frame(frame: Frame, parts: Iterator[Part]) -> pandas.DataFrame:
    """The rows as a pandas frame.

    Raises:
        UserError: pandas is not installed.
    """
    library = _library("pandas")
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


def polars_frame(frame: Frame, parts: Iterator[Part]) -> polars.DataFrame:
    """The rows as a Polars frame.

    Raises:
        UserError: Polars is not installed.
    """
    library = _library("polars")
    made = [_polars_part(library, frame, part) for part in parts if part] or [_polars_part(library, frame, [])]
    whole: polars.DataFrame = library.concat(made, rechunk=True) if len(made) > 1 else made[0]
    return whole


def _polars_part(library: Any, frame: Frame, rows: Part) -> Any:
    types = {"text": library.String, "whole": library.Int64, "real": library.Float64, "truth": library.Boolean}
    cells = list(zip(*rows, strict=True)) or [()] * len(frame.columns)
    series = []
    for column, values in zip(frame.columns, cells, strict=True):
        if column.type == "time":
            whole = [None if one is None else round(one * 1e6) for one in values]
            series.append(library.Series(column.name, whole, library.Int64).cast(library.Datetime("us", "UTC")))
        else:
            series.append(library.Series(column.name, list(values), types[column.type]))
    return library.DataFrame(series)


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise UserError(f"to_{name}() needs {name}: pip install 'ragrounds[{name}]'.") from error
