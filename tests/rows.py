"""Tests of tables: one test for all rows, where a case for each would take longer than what it checks."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def each_row(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test on every row, with the arguments of `pytest.mark.parametrize`. Rows that fail or skip are reported."""
    parameters = (names,) if isinstance(names, str) else names
    table = [(row,) if isinstance(names, str) else row for row in rows]
    assert table, "no rows"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        assert not inspect.iscoroutinefunction(test), "it would not be awaited"

        @functools.wraps(test)
        def test_rows(**fixtures: object) -> None:
            failures: list[BaseException] = []
            for row in table:
                try:
                    test(**dict(zip(parameters, row, strict=True)), **fixtures)
                except (Exception, pytest.fail.Exception, pytest.skip.Exception) as failure:
                    failure.add_note(f"with {', '.join(parameters)} = {repr(row)[:500]}")
                    failures.append(failure)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(table)} rows fail", failures)

        signature = inspect.signature(test)  # pytest fills in the rest: fixtures
        others = [parameter for parameter in signature.parameters.values() if parameter.name not in parameters]
        test_rows.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return test_rows

    return decorate
