"""Wrapping: no line is too wide, nothing is lost, whatever the text."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ragrounds.ui.trace.layout import TextBlock, TextLayout, shown_text, wrap
from tests.rows import each_row


@given(st.text(max_size=120), st.integers(2, 40))
def test_no_line_is_wider_than_asked_and_only_spaces_and_line_ends_are_left_out(text: str, width: int) -> None:
    text = shown_text(text)
    spans = list(wrap(text, width))
    assert all(cell_len(text[begin:end]) <= width for begin, end in spans)
    gaps = [text[end:begin] for (_, end), (begin, _) in itertools.pairwise(spans)]
    assert set(gaps) <= {"", " ", "\n"}
    assert spans[0][0] == 0
    assert spans[-1][1] == len(text)


@pytest.mark.parametrize("letter", ["x", "医", "é", "́", "\U0001f600"])
def test_a_line_of_two_hundred_thousand_letters_is_cut(letter: str) -> None:
    text = "a" + letter * 200_000
    spans = list(wrap(text, 80))
    assert max(end - begin for begin, end in spans) <= 320
    assert sum(end - begin for begin, end in spans) == len(text)


@each_row("text", ["頭痛持續三日。伴有發熱，", "患者頭痛持（三日）。「伴有發熱」，"])
@each_row("width", range(6, 16))
def test_no_line_begins_with_a_full_stop_of_chinese(text: str, width: int) -> None:
    lines = [text[begin:end] for begin, end in wrap(text, width)]
    assert "".join(lines) == text
    assert not [line for line in lines if line[0] in "。，）」"]


@each_row("width", range(12, 30))
def test_a_figure_and_its_unit_stay_on_one_line(width: int) -> None:
    text = "a model call took 427 ms, 12.3 k tokens in, 95 % read"
    lines = [text[begin:end] for begin, end in wrap(text, width)]
    assert " ".join(lines) == text
    assert not [line for line in lines if line.startswith(("ms", "k ", "%"))]


def test_a_search_finds_what_a_line_end_divides() -> None:
    page = TextLayout([TextBlock("one two three four five six")], 10)
    assert [line.text for line in page.lines] == ["one two", "three four", "five six"]
    assert page.find("FOUR FIVE") == [1]
    assert page.find("two three") == [0]
    assert page.find("seven") == []
    assert page.find("") == []
