"""Figures in their units: one form for each, whatever table, screen or line shows them."""

from __future__ import annotations

import pytest

from ragrounds.ui.text import age, dollars, duration, number_of, one_line, size, tokens
from tests.rows import each_row


@each_row(
    ("text", "line"), [("abcd", "abcd"), ("abcde", "abc…"), ("胸痛", "胸痛"), ("胸痛x", "胸…"), ("x胸痛", "x胸…")]
)
def test_a_text_of_exactly_the_width_is_whole(text: str, line: str) -> None:
    assert one_line(text, 4) == line


@each_row(
    ("seconds", "text"),
    [
        (None, "-"), (0, "0 s"), (0.0002, "<1 ms"), (0.0049, "5 ms"), (0.25, "250 ms"), (0.9996, "1.0 s"),
        (1.24, "1.2 s"), (9.94, "9.9 s"), (9.96, "10 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (125, "2 min 05 s"),
        (3599.4, "59 min 59 s"), (3599.6, "1 h 00 min"), (3750, "1 h 02 min"), (86_399, "1 d 00 h"),
        (273_600, "3 d 04 h"), (-0.005, "-5 ms"),
    ],
)  # fmt: skip
def test_durations_are_written_as_people_say_them(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_no_duration_is_longer_than_its_column() -> None:
    every = [second + rest for second in range(0, 9 * 86_400, 13) for rest in (0, 0.5, 0.9996)]
    assert max(len(duration(seconds)) for seconds in every) == len("59 min 05 s")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "unknown"), (0, "$0.00"), (1234.5, "$1,234.50"), (0.25, "$0.25"), (0.0996, "$0.10"), (0.0123, "$0.012"),
        (0.00123, "$0.0012"), (0.001, "$0.001"), (0.0000123, "$0.000012"), (4e-8, "<$0.000001"), (-0.5, "-$0.50"),
    ],
)  # fmt: skip
def test_small_sums_keep_two_digits_and_have_no_exponent(value: float | None, text: str) -> None:
    assert dollars(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"), (0, "0"), (999.4, "999"), (999.6, "1.0 k"), (12_345, "12.3 k"), (999_940, "999.9 k"),
        (999_960, "1.0 M"), (1_234_567, "1.2 M"), (4e9, "4.0 G"),
    ],
)  # fmt: skip
def test_tokens_are_shortened_and_never_to_a_thousand_of_a_unit(value: float | None, text: str) -> None:
    assert tokens(value) == text


def test_sizes_and_ages_have_one_unit() -> None:
    assert [size(count) for count in (None, 12, 4_960, 999_960, 3.2e9)] == ["-", "12 B", "5.0 kB", "1.0 MB", "3.2 GB"]
    ages = [age(seconds) for seconds in (3, 200, 7_300, 100_000, 5e6, 8e7)]
    assert ages == ["now", "3 min", "2 h", "1 d", "1 mo", "2 y"]


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (1, "document", "1 document"), (2, "document", "2 documents"), (0, "query", "0 queries"), (2, "day", "2 days"),
        (1200, "match", "1,200 matches"), (2, "box", "2 boxes"),
    ],
)  # fmt: skip
def test_a_noun_stands_in_the_number_of_what_is_counted(number: int, noun: str, text: str) -> None:
    assert number_of(number, noun) == text
