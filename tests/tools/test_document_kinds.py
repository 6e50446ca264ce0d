"""Awkward documents: encodings, tables, Word, PDF without text, links, packed and disguised files. Each is read, or
named with its reason; nothing is dropped in silence."""

from __future__ import annotations

import gzip
import os
import runpy
from pathlib import Path

import msgspec
import pytest

from ragrounds.base.errors import UserError
from ragrounds.base.records import Passage
from ragrounds.tools import documents
from ragrounds.tools.corpora import BadLine, corpus_source, passages
from ragrounds.tools.documents.encodings import decode
from ragrounds.tools.documents.found import DocumentFault
from ragrounds.tools.documents.jats import read_article
from ragrounds.tools.index.build_report import BuildReport
from ragrounds.tools.index.collection_builder import open_collection

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "scripts" / "awkward_files.py"))
word, said, pdf = SCRIPT["word"], SCRIPT["said"], SCRIPT["pdf"]


def read(folder: Path, family: str = "files") -> tuple[list[Passage], BuildReport, list[BadLine]]:
    report, bad = BuildReport(), list[BadLine]()
    found = [passage for passage, _ in passages(corpus_source(f"{family}:{folder}"), bad=bad, report=report)]
    return found, report, bad


def outcomes(report: BuildReport) -> dict[str, tuple[str, str]]:
    return {one.path: (one.outcome, one.reason) for one in report.entries}


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1252", "The patient’s temperature was 38.5 °C — Sjögren’s syndrome was excluded by the rheumatologist."),
        ("latin-1", "Die Behandlung der Lungenentzündung erfolgt über zehn Tage; größere Kinder häufiger."),
        ("gb18030", "患者因发热三天入院，体温三十八度五，给予抗生素治疗十天后好转出院。"),
        ("cp1251", "Лечение пневмонии у детей длится обычно десять дней."),
        ("shift_jis", "患者は三日間の発熱で入院した。抗生物質による治療を十日間行い、症状は改善した。"),
    ],
)
def test_old_encodings_are_guessed_and_named(encoding: str, text: str) -> None:
    pytest.importorskip("chardet")
    found, remarks = decode(text.encode(encoding))
    assert found == text
    assert [(one.outcome, one.reason) for one in remarks] == [("read", "its encoding was guessed")]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig", "utf-8"])
def test_marks_and_utf8_are_no_guess(encoding: str) -> None:
    assert decode("Fièvre 发热".encode(encoding)) == ("Fièvre 发热", ())


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_without_its_mark_is_seen(encoding: str) -> None:
    text, (remark,) = decode("Fever ended after three days — no relapse.".encode(encoding))
    assert text == "Fever ended after three days — no relapse."
    assert remark.detail == encoding


def test_a_broken_letter_does_not_make_utf8_another_encoding() -> None:
    text, (remark,) = decode("十二个字的一段中文文本。".encode() * 3 + b"\xe5\x8d")
    assert text.startswith("十二个字")
    assert text.endswith("\ufffd")
    assert remark.outcome == "cut"


def test_bytes_that_are_no_text_are_refused() -> None:
    for data in (bytes(range(256)) * 20, b"%PDF-1.4 x", b"PK\x03\x04rest", b"text\0\0\0\1\2text"):
        with pytest.raises(DocumentFault):
            decode(data)


def test_a_page_says_its_encoding_or_is_not_believed(tmp_path: Path) -> None:
    pytest.importorskip("bs4")
    words = "Fièvre élevée à l’hôpital, traitée par antibiotiques"
    head = f'<html><head><meta charset="{{}}"></head><body><p>{words}</p></body></html>'
    (tmp_path / "right.html").write_bytes(head.format("iso-8859-1").encode("cp1252"))
    (tmp_path / "wrong.html").write_bytes(head.format("utf-8").encode("cp1252"))
    found, report, _ = read(tmp_path)
    assert {one.text for one in found} == {words}
    assert [(entry.path, entry.outcome, entry.reason) for entry in report.entries] == [
        ("wrong.html", "duplicate", "the same text as another file; both are searched"),
        ("wrong.html", "read", "its encoding was guessed"),
    ]


TABLE = (
    "<table><caption>Doses</caption><thead><tr><th>Drug</th><th>mg/kg</th></tr></thead>"
    "<tr><td>Amoxicillin<td>50<tr><td>Azithromycin<td>10<sup>a</sup></table>"
)


def test_a_table_of_html_is_rows_also_without_ends(tmp_path: Path) -> None:
    pytest.importorskip("bs4")
    (tmp_path / "a.html").write_text(f"<p>Before</p>{TABLE}<p>After</p>")
    [document], report, _ = read(tmp_path)
    rows = "| Drug | mg/kg |\n| Amoxicillin | 50 |\n| Azithromycin | 10a |"
    assert document.text == f"Before\n\nDoses\n\n{rows}\n\nAfter"
    assert not report.entries


def test_a_table_for_layout_keeps_its_paragraphs(tmp_path: Path) -> None:
    pytest.importorskip("bs4")
    (tmp_path / "a.html").write_text("<table><tr><td><h2>Head</h2><p>One</p><p>Two</p></td><td> </td></tr></table>")
    [document], _, _ = read(tmp_path)
    assert document.text == "## Head\n\nOne\n\nTwo"


def test_a_long_table_is_several_blocks_of_whole_rows(tmp_path: Path) -> None:
    pytest.importorskip("bs4")
    rows = "".join(f"<tr><td>drug {number}</td><td>{number} mg</td></tr>" for number in range(200))
    (tmp_path / "a.html").write_text(f"<table>{rows}</table>")
    [document], _, _ = read(tmp_path)
    blocks = document.text.split("\n\n")
    assert all(len(block) <= 1000 for block in blocks)
    assert [line for block in blocks for line in block.split("\n")] == [f"| drug {n} | {n} mg |" for n in range(200)]


ARTICLE = (
    rb"""<?xml version="1.0" encoding="ISO-8859-1"?>
<article><front><article-meta><title-group><article-title>Fi"""
    + b"\xe8"
    + rb"""vre</article-title></title-group></article-meta></front>
<body><sec><label>1</label><title>Doses</title><p>See <xref ref-type="table" rid="t1">Table 1</xref>
 <xref ref-type="bibr" rid="b1">[1]</xref>.&nbsp;Then:<list><list-item><label>a.</label><p>one</p></list-item>
<list-item><p>two</p></list-item></list></p>
<table-wrap id="t1"><label>Table 1</label><caption><title>By weight</title></caption>
<table><thead><tr><th>Drug</th><th>mg</th></tr></thead><tbody><tr><td>A<sub>2</sub></td><td>5</td></tr></tbody></table>
<table-wrap-foot><fn><p>Twice a day.</p></fn></table-wrap-foot></table-wrap>
<fig><label>Figure 1</label><caption><p>A rash.</p></caption><graphic/></fig>
<fig><label>Figure 2</label><graphic/></fig>
<boxed-text><p>In a box.</p></boxed-text>
<def-list><def-item><term>ACE</term><def><p>an enzyme</p></def></def-item></def-list>
<disp-formula><alternatives>
<tex-math>\begin{document}$x$\end{document}</tex-math><graphic/></alternatives></disp-formula>
</sec></body>
<back><app-group><app><title>Appendix</title><p>More.</p></app></app-group><ref-list><ref><mixed-citation>No</mixed-citation></ref></ref-list></back>
<floats-group><fig><label>Figure 3</label><caption><p>At the end.</p></caption></fig></floats-group></article>"""
)


def test_nothing_but_references_is_lost_of_an_article() -> None:
    pytest.importorskip("defusedxml")
    article = read_article(ARTICLE)
    assert article.title == "Fièvre"
    assert article.text.split("\n\n") == [
        "# Doses",
        "See Table 1 . Then:",
        "a. one",
        "two",
        "Table 1 By weight",
        "| Drug | mg |\n| A2 | 5 |",
        "Twice a day.",
        "Figure 1 A rash.",
        "Figure 2",
        "In a box.",
        "ACE an enzyme",
        "$x$",
        "# Appendix",
        "More.",
        "Figure 3 At the end.",
    ]


def test_medrags_reading_of_an_article_leaves_out_what_its_program_does() -> None:
    pytest.importorskip("defusedxml")
    article = read_article(ARTICLE, published=True)
    assert article.text.split("\n\n") == ["# Doses", "See . Then:a.one two"]


def test_every_awkward_file_is_read_or_named_as_the_page_says() -> None:
    """The page is written by the script; details, which come from libraries, may differ by their versions."""
    for name in ("bs4", "chardet", "cryptography", "defusedxml", "mammoth", "pypdf"):
        pytest.importorskip(name)

    def _rows(text: str) -> list[list[str]]:
        lines = [line.rsplit(" | ", 1) for line in text.splitlines() if line.startswith("| `")]
        return [[left, right.partition(" (")[0].removesuffix(" |")] for left, right in lines]

    page = (Path(__file__).parents[2] / "perf" / "awkward_files.md").read_text(encoding="utf-8")
    written = _rows(page.partition("<!-- awkward files -->")[2].partition("<!-- end -->")[0])
    assert len(written) >= 30
    assert _rows(SCRIPT["table"]()) == written, "python docs/scripts/awkward_files.py --write"


def test_word_gives_headings_tables_and_inserted_text(tmp_path: Path) -> None:
    pytest.importorskip("mammoth")
    cell = "<w:tc>{}</w:tc>"
    body = (
        said("Croup", "H1")
        + said("Barking cough.")
        + '<w:p><w:r><w:t xml:space="preserve">Given </w:t></w:r><w:ins w:id="1"><w:r><w:t>early</w:t></w:r></w:ins>'
        + '<w:del w:id="2"><w:r><w:delText>late</w:delText></w:r></w:del></w:p>'
        + f"<w:sdt><w:sdtContent>{said('In a field.')}</w:sdtContent></w:sdt>"
        + f"<w:tbl><w:tr>{cell.format(said('Drug'))}{cell.format(said('mg'))}</w:tr></w:tbl>"
    )
    (tmp_path / "a.docx").write_bytes(word(body))
    [document], report, _ = read(tmp_path)
    assert (document.title, document.text) == ("Croup", "Barking cough.\n\nGiven early\n\nIn a field.\n\n| Drug | mg |")
    assert not report.entries


def test_word_that_is_a_bomb_encrypted_or_another_kind_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mammoth")
    bomb = '<!DOCTYPE a [<!ENTITY x "xxxx"><!ENTITY y "&x;&x;">]>'
    (tmp_path / "bomb.docx").write_bytes(word(said("&y;"), bomb))
    (tmp_path / "other.docx").write_bytes(b"plain text")
    (tmp_path / "old.docx").write_bytes(b"\xd0\xcf\x11\xe0" + b"x" * 600)
    (tmp_path / "large.docx").write_bytes(word(said("measles " * 2000)))
    (tmp_path / "a.txt").write_text("text")
    monkeypatch.setattr(documents, "_LONGEST", 10_000)
    found, report, bad = read(tmp_path)
    assert [one.id for one in found] == ["a.txt"]
    reasons = outcomes(report)
    assert "entities" in reasons["bomb.docx"][1]
    assert "not a Word document" in reasons["other.docx"][1]
    assert "encrypted" in reasons["old.docx"][1]
    assert "unpacks to more" in reasons["large.docx"][1]
    assert len(bad) == report.files["skipped"] == 4


def test_pdf_that_is_scanned_encrypted_or_blank_is_named(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    pytest.importorskip("pypdf")
    (tmp_path / "scan.pdf").write_bytes(pdf(3, picture=True))
    (tmp_path / "locked.pdf").write_bytes(pdf(1, text="secret", password="x"))
    (tmp_path / "open.pdf").write_bytes(pdf(1, text="Measles", password=""))
    (tmp_path / "blank.pdf").write_bytes(pdf(2))
    (tmp_path / "part.pdf.gz").write_bytes(gzip.compress(pdf(2, picture=True, text="Rubella")))
    found, report, _ = read(tmp_path)
    assert [(one.id, one.text.strip()) for one in found] == [("open.pdf", "Measles"), ("part.pdf.gz", "Rubella")]
    reasons = {one.path: str(one) for one in report.entries}
    assert "scanned" in reasons["scan.pdf"]
    assert "(3 pages)" in reasons["scan.pdf"]
    assert "password" in reasons["locked.pdf"]
    assert "no text" in reasons["blank.pdf"]
    assert "(1 of 2 pages)" in reasons["part.pdf.gz"]
    assert report.files == {"read": 1, "cut": 1, "skipped": 3}


def test_kinds_that_are_not_read_and_empty_files_are_named_and_stop_nothing(tmp_path: Path) -> None:
    (tmp_path / "talk.pptx").write_bytes(b"PK\x03\x04")
    (tmp_path / "README").write_text("text")
    (tmp_path / "zero.txt").write_bytes(b"")
    (tmp_path / "blank.md").write_text(" \n\n")
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "b.txt").write_text("text")
    report = BuildReport()
    found = [one.id for one, _ in passages(corpus_source(f"files:{tmp_path}"), report=report)]
    assert found == ["a.txt", "b.txt"]
    assert outcomes(report) == {
        "talk.pptx": ("unsupported", ".pptx files are not read"),
        "README": ("unsupported", "files without an ending are not read"),
        "zero.txt": ("empty", "it has no byte"),
        "blank.md": ("empty", "nothing but white space"),
        "b.txt": ("duplicate", "the same text as another file; both are searched"),
    }
    assert sum(report.files.values()) == 6


def test_a_link_is_followed_inside_the_folder_alone(tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("outside")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/x.txt").write_text("outside")
    (folder / "sub/a.txt").write_text("inside")
    for name, target in {
        "in.txt": "sub/a.txt",
        "out.txt": "../secret.txt",
        "up": "..",
        "folder": "sub",
        "elsewhere": "../other",
        "loop.txt": "loop.txt",
        "gone.txt": "nothing.txt",
    }.items():
        (folder / name).symlink_to(target)
    os.mkfifo(folder / "pipe.txt")
    found, report, bad = read(folder)
    assert [(one.id, one.text) for one in found] == [("in.txt", "inside"), ("sub/a.txt", "inside")]
    reasons = {path: reason for path, (_, reason) in outcomes(report).items()}
    assert {path for path, reason in reasons.items() if "out of the folder" in reason} == {"out.txt", "up", "elsewhere"}
    assert {path for path, reason in reasons.items() if "leads nowhere" in reason} == {"loop.txt", "gone.txt"}
    assert "link to a folder" in reasons["folder"]
    assert "pipe" in reasons["pipe.txt"]
    assert bad == []


def test_packed_files_are_unpacked_some_times_and_no_more(tmp_path: Path) -> None:
    data = b"packed text"
    for depth in range(1, 7):
        data = gzip.compress(data)
        (tmp_path / f"{depth}.txt.gz").write_bytes(data)
    (tmp_path / "plain.txt.GZ").write_text("not packed at all")
    (tmp_path / "half.txt.gz").write_bytes(gzip.compress(b"x" * 9000)[:20])
    found, report, _ = read(tmp_path)
    assert [one.id for one in found] == ["1.txt.gz", "2.txt.gz", "3.txt.gz", "4.txt.gz", "plain.txt.GZ"]
    reasons = outcomes(report)
    assert "more than 4 times" in reasons["5.txt.gz"][1]
    assert "cannot be unpacked" in reasons["half.txt.gz"][1]


def test_a_text_that_is_too_long_is_cut_and_another_kind_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "_LONGEST", 1000)
    (tmp_path / "a.txt").write_text("a line of text\n" * 500)
    (tmp_path / "b.md.gz").write_bytes(gzip.compress(b"# T\n" + b"a line of words\n" * 500))
    (tmp_path / "c.nxml").write_text("<article><body><p>" + "x" * 2000 + "</p></body></article>")
    found, report, _ = read(tmp_path)
    assert [one.id for one in found] == ["a.txt", "b.md.gz"]
    assert all(len(one.text) <= 1000 and one.text.endswith("\n") for one in found)
    assert {path: outcome for path, (outcome, _) in outcomes(report).items()} == {
        "a.txt": "cut",
        "b.md.gz": "cut",
        "c.nxml": "skipped",
    }


def test_names_of_any_bytes_are_ids(tmp_path: Path) -> None:
    names = [b"caf\xe9.txt", b"caf\xea.txt", "发热 a\nb.txt".encode()]
    for number, name in enumerate(names):
        (Path(os.fsdecode(os.fsencode(tmp_path))) / os.fsdecode(name)).write_text(f"text {number}")
    found, report, _ = read(tmp_path)
    assert {one.id for one in found} == {"caf\\xe9.txt", "caf\\xea.txt", "发热 a\nb.txt"}
    for one in found:
        one.title.encode()
    assert {line.isprintable() for line in report.lines()} == {True}
    assert msgspec.json.decode(msgspec.json.encode(report), type=BuildReport).files == report.files


def test_json_lines_are_counted_and_what_lies_beside_them_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 1, "text": "x"}\n{"id": 2}\n{"id": 3, "text": "y"}\n')
    (tmp_path / "notes.md").write_text("x")
    found, report, bad = read(tmp_path, "jsonl")
    assert len(found) == 2
    assert report.counted() == "1 file unsupported, 2 rows read, 1 skipped"
    assert len(bad) == 1


def test_what_a_corpus_is_called_is_checked(tmp_path: Path) -> None:
    (tmp_path / "a.pptx").write_bytes(b"x")
    for text, words in {
        f"files[tables=false]:{tmp_path}": "no parameter 'tables'",
        f"files[reading=medrga]:{tmp_path}": "medrag",
        f"jsonl[reading=full]:{tmp_path}": "takes none",
        f"files:{tmp_path}/a.pptx": "pptx files are not read; expected .txt",
        f"files:{tmp_path}": "pptx files are not read: a.pptx",
    }.items():
        with pytest.raises(UserError, match=words):
            corpus_source(text)


def test_a_corpus_named_by_its_path_says_what_is_not_searched(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.txt").write_text("measles")
    (folder / "b.txt").write_text("measles")
    open_collection(f"files:{folder}", tmp_path / "home")
    assert caplog.messages == []
    (folder / "talk.pptx").write_bytes(b"PK")
    (folder / "c.txt").write_text("rubella")
    assert open_collection(f"files:{folder}", tmp_path / "home").manifest.passages == 3
    (said,) = caplog.messages
    assert "notes is searched: 2 files read, 1 duplicate, 1 unsupported" in said
    open_collection(f"files:{folder}", tmp_path / "home")
    assert len(caplog.messages) == 1  # once, when it is read
