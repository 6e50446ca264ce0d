"""A test of many rows runs all of them and reports those that fail."""

from __future__ import annotations

import pytest

from tests.rows import each_row


def test_every_row_that_fails_is_reported() -> None:
    @each_row(("number", "double"), [(1, 2), (2, 5), (3, 6), (4, 0)])
    def check(number: int, double: int) -> None:
        assert 2 * number == double

    with pytest.raises(BaseExceptionGroup, match="2 of 4 rows fail") as caught:
        check()
    notes = [failure.__notes__[-1] for failure in caught.value.exceptions]
    assert notes == ["with number, double = (2, 5)", "with number, double = (4, 0)"]
