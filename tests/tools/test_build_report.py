"""The report of a build: counts first, the worst next, each reason once, and never a line per file."""

from __future__ import annotations

import msgspec
import pytest

from ragrounds.tools.index import build_report
from ragrounds.tools.index.build_report import BuildEntry, BuildReport


def of_a_large_folder() -> BuildReport:
    report = BuildReport()
    for number in range(4900):
        report.add(f"notes/{number}.txt", "read")
    for number in range(60):
        report.add(f"slides/{number}.pptx", "unsupported", ".pptx files are not read")
    for number in range(30):
        report.add(f"scans/{number}.pdf", "skipped", "its pages are pictures without text", detail=f"{number} pages")
    for number in range(10):
        report.add(f"empty/{number}.txt", "empty", "nothing but white space")
    return report


def test_counts_come_first_then_the_worst_each_reason_once() -> None:
    told = of_a_large_folder().lines()
    assert told[0] == "4,900 files read, 10 empty, 60 unsupported, 30 skipped"
    assert [line.split()[:2] for line in told[1:]] == [["skipped", "30"], ["unsupported", "60"], ["empty", "10"]]
    assert told[1].endswith("scans/0.pdf (0 pages) and 29 more")
    assert all(len(line) <= 100 for line in told)


def test_what_is_plainly_read_is_counted_and_not_listed() -> None:
    report = BuildReport()
    report.add("a.txt", "read")
    assert not report.entries
    assert [one for one in report.entries if one.path == "a.txt"] == []
    report.add("b.txt", "read", "taken for cp1252")
    assert report.entries
    assert report.lines() == ["2 files read", "read            1  taken for cp1252: b.txt"]


def test_rows_are_counted_apart_from_files() -> None:
    report = BuildReport(rows={"read": 1_000_000})
    report.add("c.jsonl", "skipped", "it has no id", row=7)
    report.add("notes.md", "unsupported", ".md files are no JSON Lines")
    assert report.counted() == "1 file unsupported, 1,000,000 rows read, 1 skipped"
    assert "line 7 of c.jsonl" in report.lines()[1]
    assert str(report.entries[0]) == "line 7 of c.jsonl: it has no id"


def test_it_is_kept_as_json_and_read_back() -> None:
    report = of_a_large_folder()
    assert msgspec.json.decode(msgspec.json.encode(report), type=BuildReport) == report
    assert msgspec.json.decode(b"{}", type=BuildReport) == BuildReport()
    assert BuildReport().files is not BuildReport().files


def test_one_report_takes_in_another() -> None:
    report = BuildReport()
    report.add_entries([BuildEntry("x.pdf", "skipped", "encrypted"), BuildEntry("y.txt", "cut", "too long")])
    assert (report.files, len(report.entries)) == ({"skipped": 1, "cut": 1}, 2)


def test_more_than_can_be_listed_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_report, "_MOST_LISTED", 3)
    report = of_a_large_folder()
    assert (len(report.entries), report.unlisted, report.files["unsupported"]) == (3, 97, 60)
    assert report.lines()[-1] == "and 97 more"


def test_reasons_beyond_a_screen_are_counted() -> None:
    report = BuildReport()
    for number in range(40):
        report.add(f"{number}.pdf", "skipped", f"fault {number}")
    told = report.lines()
    assert len(told) == 7
    assert told[-1].split() == ["skipped", "35", "for", "35", "other", "reasons"]


def test_what_does_not_fit_a_line_is_shortened_or_stands_below() -> None:
    report = BuildReport()
    for number in range(9):
        report.add(f"a/long/way/down/to/the/{number}.pdf", "skipped", "pictures " * 4, detail="x" * 70)
    for width in (60, 80, 120):
        told = report.lines(width)
        assert all(len(line) <= width for line in told)
        assert told[-1].endswith(" more")
        assert ".pdf (x" in "".join(line.strip() for line in told[1:]).replace(".pdf(", ".pdf (")


def test_what_is_true_of_a_file_alone_is_never_left_out() -> None:
    report = BuildReport()
    for name, pages in (("guideline-of-2021.pdf", "the 3 pages 4, 17 and 18"), ("leaflet.pdf", "28.3 kB and 1 page")):
        report.add(f"scans/of/the/archive/{name}", "cut", "some pages are pictures without text", detail=pages)
    for width in range(40, 120):
        told = report.lines(width)
        assert all(len(line) <= width for line in told)
        assert not any(line.endswith("28.3") for line in told)
        flat = " ".join(" ".join(told).split())
        assert "(the 3 pages 4, 17 and 18)" in flat
        assert "(28.3 kB and 1 page)" in flat


def test_names_from_files_do_nothing_to_a_terminal() -> None:
    report = BuildReport()
    report.add("a\nb\x1b[31m\u202e.txt", "skipped", "a\x07bell", detail="\x9b")
    (line,) = report.lines()[1:]
    assert line.isprintable()
    assert "a<U+000A>b<U+001B>[31m<U+202E>.txt" in line


def test_a_file_is_counted_once_by_the_worst_that_is_said_of_it() -> None:
    report = BuildReport()
    report.add_read("a.txt", [], "the  same")
    report.add_read("b.txt", [("read", "guessed", "")], "the same")
    report.add_read("c.txt", [("read", "guessed", ""), ("cut", "too long", "")], "the same")
    assert report.files == {"read": 1, "duplicate": 1, "cut": 1}
    assert [(one.path, one.outcome) for one in report.entries] == [
        ("b.txt", "duplicate"),
        ("b.txt", "read"),
        ("c.txt", "cut"),
        ("c.txt", "read"),
    ]
