"""Makes a folder of awkward files, reads it as `files:`, and writes what came of each into perf/awkward_files.md.

    python docs/scripts/awkward_files.py [--write | --folder PATH]

Without an option the table goes to standard output; with --folder the files stay there, to build an index of them.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from ragrounds.base.records import Passage
from ragrounds.base.text import safe
from ragrounds.tools.corpora import BadLine, corpus_source, passages
from ragrounds.tools.index.build_report import BuildReport, storable

PAGE = Path(__file__).parents[2] / "perf" / "awkward_files.md"
_FORMS = "http://schemas.openxmlformats.org"


def word(body: str, before: str = "") -> bytes:
    """A Word document of one part; `before` stands in front of its root."""
    space = f'xmlns:w="{_FORMS}/wordprocessingml/2006/main"'
    kind = f"{_FORMS}/officeDocument/2006/relationships/officeDocument"
    style = '<w:style w:type="paragraph" w:styleId="H1"><w:name w:val="heading 1"/></w:style>'
    files = {
        "[Content_Types].xml": f'<Types xmlns="{_FORMS}/package/2006/content-types"/>',
        "_rels/.rels": f'<Relationships xmlns="{_FORMS}/package/2006/relationships">'
        f'<Relationship Id="r1" Type="{kind}" Target="word/document.xml"/></Relationships>',
        "word/document.xml": f"{before}<w:document {space}><w:body>{body}</w:body></w:document>",
        "word/styles.xml": f"<w:styles {space}>{style}</w:styles>",
    }
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, text in files.items():
            packed.writestr(name, text)
    return held.getvalue()


def said(text: str, style: str = "") -> str:
    """A paragraph of a Word document."""
    kind = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{kind}<w:r><w:t>{text}</w:t></w:r></w:p>"


def pdf(pages: int, *, picture: bool = False, text: str = "", password: str | None = None) -> bytes:
    """A PDF whose first page has the text, if one; the others are blank, or a picture each."""
    from pypdf import PdfWriter
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject, NumberObject

    def _named(**values: str | int | DictionaryObject) -> DictionaryObject:
        made = DictionaryObject()
        for key, value in values.items():
            as_object = NumberObject(value) if isinstance(value, int) else value
            made[NameObject(f"/{key}")] = NameObject(f"/{value}") if isinstance(value, str) else as_object
        return made

    writer = PdfWriter()
    for number in range(pages):
        page = writer.add_blank_page(200, 200)
        content = DecodedStreamObject()
        if text and not number:
            font = _named(Type="Font", Subtype="Type1", BaseFont="Helvetica")
            page[NameObject("/Resources")] = _named(Font=_named(F1=font))
            content.set_data(f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode())
        elif picture:
            image = DecodedStreamObject()
            image.set_data(b"\xff" * 3)
            form = _named(Type="XObject", Subtype="Image", Width=1, Height=1, ColorSpace="DeviceRGB")
            image.update(form | _named(BitsPerComponent=8))
            place = DictionaryObject({NameObject("/I"): writer._add_object(image)})
            page[NameObject("/Resources")] = DictionaryObject({NameObject("/XObject"): place})
            content.set_data(b"/I Do")
        page[NameObject("/Contents")] = writer._add_object(content)
    if password is not None:
        writer.encrypt(password, "owner", algorithm="AES-256")
    held = io.BytesIO()
    writer.write(held)
    return held.getvalue()


_ROWS = "<tr><th>Drug</th><th>mg/kg</th></tr><tr><td>Amoxicillin</td><td>50</td></tr>"
_ARTICLE = (
    "<article><front><article-meta><title-group><article-title>Croup</article-title></title-group></article-meta></front>"
    "<body><sec><title>Therapy</title><p>Steroids&nbsp;early (<xref ref-type='table' rid='t'>Table 1</xref>).</p>"
    f"<table-wrap id='t'><label>Table 1</label><caption><p>Doses</p></caption><table>{_ROWS}</table></table-wrap>"
    "<fig><label>Figure 1</label><caption><p>Steeple sign</p></caption></fig></sec></body></article>"
)
_FRENCH = "Fièvre élevée depuis trois jours, traitée par antibiotiques à l’hôpital."
_CHINESE = "患者因发热三天入院，给予抗生素治疗十天后好转出院。"
_XML_BOMB = '<!DOCTYPE a [<!ENTITY x "xxxx"><!ENTITY y "&x;&x;&x;">]><article><body><p>&y;</p></body></article>'


def _made() -> dict[str | bytes, tuple[str, bytes]]:
    """Name → what is awkward about it, and its bytes."""
    deep = "<div>" * 3000 + "Deep down" + "</div>" * 3000
    cells = f"<w:tbl><w:tr><w:tc>{said('Drug')}</w:tc><w:tc>{said('mg')}</w:tc></w:tr></w:tbl>"
    inserted = "<w:p><w:ins w:id='1'><w:r><w:t>Inserted while tracked</w:t></w:r></w:ins></w:p>"
    open_table = "<table><tr><th>Drug<th>mg/kg<tr><td>Azithromycin<td>10</table>"
    bomb = '<!DOCTYPE a [<!ENTITY x "xxxx">]>'
    latin_page = (
        f"<html><head><meta charset='iso-8859-1'><title>Page</title></head><body>Une page. {_FRENCH}</body></html>"
    )
    return {
        "bare.html": ("text in no paragraph, and in a bare `div`", b"Loose words<div>Bare <b>div</b></div>tail"),
        "table.html": ("a table with `th`", f"<p>Doses</p><table>{_ROWS}</table>".encode()),
        "unclosed.html": ("a table without closing tags", open_table.encode()),
        "layout.html": ("a table for layout", b"<table><tr><td><h2>Head</h2><p>One</p></td></tr></table>"),
        "list.html": ("`dl`, `sub`, `br`", b"<dl><dt>pCO<sub>2</sub><dd>partial<br>pressure</dl>"),
        "deep.html": ("3,000 `div` in each other", deep.encode()),
        "latin.html": ("a page that says ISO-8859-1", latin_page.encode("cp1252")),
        "script.html": ("a page that scripts fill", b"<html><body><script>draw()</script></body></html>"),
        "article.nxml": ("table, figure, `&nbsp;` without a DTD", _ARTICLE.encode()),
        "bomb.nxml": ("entities that expand", _XML_BOMB.encode()),
        "other.xml": ("XML that is no article", b"<project><name>x</name></project>"),
        "report.docx": ("heading, table, tracked insertion", word(said("Croup", "H1") + cells + inserted)),
        "bomb.docx": ("entities in Word's XML", word(said("x"), bomb)),
        "locked.docx": ("encrypted, or an old `.doc`", b"\xd0\xcf\x11\xe0" + b"\0" * 600),
        "broken.docx": ("no zip archive", b"PK broken"),
        "text.pdf": ("text", pdf(1, text="Measles spreads by air")),
        "scan.pdf": ("three pictures", pdf(3, picture=True)),
        "half_scanned.pdf": ("text and a picture", pdf(2, picture=True, text="Page one")),
        "owner.pdf": ("encrypted with an empty password", pdf(1, text="Opens without one", password="")),
        "locked.pdf": ("encrypted with a password", pdf(1, text="Secret", password="x" * 8)),
        "blank.pdf": ("blank pages", pdf(2)),
        "broken.pdf": ("cut in the middle", pdf(1, text="Half")[:300]),
        "cp1252.txt": ("cp1252, as Windows writes it", _FRENCH.encode("cp1252")),
        "gb18030.txt": ("GB 18030", _CHINESE.encode("gb18030")),
        "utf16.txt": ("UTF-16 with its mark", f"Avec marque. {_FRENCH}".encode("utf-16")),
        "utf16le.txt": ("UTF-16 without", f"Sans marque. {_FRENCH}".encode("utf-16-le")),
        "torn.txt": ("UTF-8 whose last letter is torn", f"{_CHINESE}{_CHINESE}".encode()[:-2]),
        "binary.txt": ("bytes that are no text", bytes(range(256)) * 8),
        "really_a.pdf.txt": ("a PDF under another ending", b"%PDF-1.7 and so on"),
        "zero.txt": ("no byte", b""),
        "blank.md": ("white space", b" \n\t\n"),
        "twice.txt": ("the same as text.txt", b"The same text"),
        "text.txt": ("plain", b"The same text"),
        "nested.txt.gz": ("packed twice", gzip.compress(gzip.compress(b"Packed twice"))),
        "cut.txt.gz": ("an archive that ends too early", gzip.compress(b"x" * 5000)[:20]),
        "slides.pptx": ("slides", b"PK\x03\x04"),
        "README": ("no ending", b"read me"),
        b"caf\xe9.txt": ("a name that is no UTF-8", b"A name in latin-1"),
        "two\nlines \u202e.txt": ("a name with a line feed and a bidirectional mark", b"An odd name"),
    }


def write_folder(folder: Path) -> dict[str, str]:
    """Write all files; what is awkward about each, by the path that the report gives it."""
    awkward: dict[str, str] = {}
    for name, (what, data) in _made().items():
        as_text = os.fsdecode(name)
        (folder / as_text).write_bytes(data)
        awkward[as_text] = what
    (folder / "sub").mkdir()
    (folder.parent / "outside.txt").write_text("Not of this folder")
    for name, target, what in (
        ("zz_link.txt", "text.txt", "a link to text.txt"),
        ("link_outside.txt", "../outside.txt", "a link out of the folder"),
        ("link_loop.txt", "link_loop.txt", "a link to itself"),
        ("link_folder", "sub", "a link to a folder"),
    ):
        (folder / name).symlink_to(target)
        awkward[name] = what
    os.mkfifo(folder / "pipe.txt")
    return awkward | {"pipe.txt": "a pipe"}


def read_folder(folder: Path) -> tuple[list[Passage], BuildReport]:
    """What `--skip-bad` reads of a folder, and what the report says."""
    report, bad = BuildReport(), list[BadLine]()
    found = [passage for passage, _ in passages(corpus_source(f"files:{folder}"), bad=bad, report=report)]
    return found, report


def rows() -> Iterator[tuple[str, str, str, str]]:
    """File, what is awkward about it, what was read, and what the report says."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "awkward"
        folder.mkdir()
        awkward = write_folder(folder)
        found, report = read_folder(folder)
        by_id = {one.id: one for one in found}
        for name in sorted(awkward):
            entries = [one for one in report.entries if one.path == storable(name)]
            one = by_id.get(entries[0].path if entries else name)
            text = f"{one.title}: {one.text}" if one is not None and one.title not in name else one.text if one else ""
            told = "; ".join(
                f"**{entry.outcome}**: {entry.reason}{f' ({entry.detail})' if entry.detail else ''}"
                for entry in entries
            )
            shown = entries[0].path if entries else name
            yield (
                shown,
                awkward[name],
                _short(text),
                told or "**read**",
            )


def _short(text: str) -> str:
    """The beginning of a text in one line, with marks where paragraphs and lines end."""
    flat = text.strip().replace("\n\n", " ¶ ").replace("\n", " ⏎ ")
    return f"{flat[:140]}{'…' * (len(flat) > 140)}"


def table() -> str:
    """The rows as Markdown."""

    def _name(text: str) -> str:
        return safe(text).replace("\n", "<U+000A>")

    def _cell(text: str) -> str:
        return _name(text).replace("|", "\\|").replace("<U", "\\<U")

    lines = ["| file | what it is | read | the report |", "|---|---|---|---|"]
    lines += [
        f"| `{_name(name)}` | {what} | {_cell(read) or '-'} | {_cell(told)} |" for name, what, read, told in rows()
    ]
    return "\n".join(lines)


def main() -> None:
    if "--folder" in sys.argv:
        folder = Path(sys.argv[sys.argv.index("--folder") + 1])
        folder.mkdir(parents=True)
        write_folder(folder)
        return
    made = table()
    if "--write" not in sys.argv:
        sys.stdout.write(f"{made}\n")
        return
    page = PAGE.read_text(encoding="utf-8")
    between = re.compile(r"(<!-- awkward files -->\n).*(<!-- end -->)", re.S)
    PAGE.write_text(between.sub(lambda part: f"{part[1]}\n{made}\n\n{part[2]}", page), encoding="utf-8")


if __name__ == "__main__":
    main()
