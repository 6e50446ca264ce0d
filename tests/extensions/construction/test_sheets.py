"""Sheets for experts: nothing in them is carried out, by a spreadsheet or a terminal, and they are read back."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragrounds.base.errors import UserError
from ragrounds.base.files import as_csv, read_sheet
from ragrounds.base.text import safe
from ragrounds.extensions.construction.expert_sheets import (
    FinalLabel,
    expert_agreement,
    read_ratings,
    sample_lines,
    sheet_lines,
)

HOSTILE = [
    "=1+1", "+49 30", "-5 °C", "@SUM(A1)", "\t=1", " =1", "'=1", "a;=1", '"=1"', "two\nlines", "plain",
    "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "bell\x07", "\u202eright to left", "\u200b=1", "\x9b2J", "\x00", "\x7f",
]  # fmt: skip


def test_no_cell_is_a_formula_or_a_command_and_all_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "sheet.csv"
    path.write_bytes(as_csv(("id", "text"), ((str(n), text) for n, text in enumerate(HOSTILE))))
    written = path.read_bytes()
    assert not [byte for byte in written if (byte < 32 and byte not in b"\n\t") or byte == 127]
    assert "\x9b" not in written.decode("utf-8")
    rows = [row["text"] for _, row in read_sheet(path, ("id",))]
    assert rows == [safe(text) for text in HOSTILE]
    # What holds nothing of that kind comes back as it was.
    assert rows[:11] == HOSTILE[:11]
    assert rows[11] == "<U+001B>[31mred<U+001B>[0m"
    plain = written.decode("utf-8-sig").splitlines()
    assert [line.partition(",")[2] for line in plain[1:5]] == ["'=1+1", "'+49 30", "'-5 °C", "'@SUM(A1)"]


def test_an_item_is_known_by_its_id_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "sheet.csv"
    ids = ["=a", "b\x1bc", "-d"]
    path.write_bytes(b"".join(sheet_lines(("text",), dict.fromkeys(ids, ("x",)))).replace(b",x,,", b",x,3,"))
    assert read_ratings(path, ids, ("1", "2", "3")).items == dict.fromkeys(ids, ("3",))


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "sheet.csv"
    path.write_text("id,rating,rating\na,1,2\n")
    with pytest.raises(UserError, match="line 1: two columns have the name 'rating'") as error:
        read_ratings(path, ["a"], ("1", "2"))
    assert "\n" not in str(error.value)
    path.write_text("id;rating_1;rating_2;;\na;1;2;;\n")
    assert read_ratings(path, ["a"], ("1", "2")).items == {"a": ("1", "2")}


YES, NO = ("yes", "Y", "YES", "1", "1.0", "true", "TRUE"), ("no", "n", "No", "0", "0,0", "False")


def test_yes_and_no_are_taken_in_their_usual_spellings(tmp_path: Path) -> None:
    said = [*YES, *NO]
    labels = [FinalLabel(query="q", document=f"d{n}", relevant=word in YES) for n, word in enumerate(said)]
    path = tmp_path / "sheet.csv"
    texts = {"q": "Why?"}, {label.document: "Text" for label in labels}
    lines = b"".join(sample_lines(labels, *texts)).decode("utf-8")
    heading, *rows = lines.splitlines()
    filled = [row.replace(",Text,,", f',Text,"{word}",') for row, word in zip(rows, said, strict=True)]
    path.write_text("\n".join([heading, *filled]), encoding="utf-8")
    found = expert_agreement(path, labels, *texts)
    assert (found.judge.n, found.judge.accuracy.value) == (len(said), 1.0)
    path.write_text("\n".join([heading, filled[0].replace('"yes"', "2"), *filled[1:]]), encoding="utf-8")
    with pytest.raises(UserError, match="line 2: the rating '2' is not one of yes, no"):
        expert_agreement(path, labels, *texts)
