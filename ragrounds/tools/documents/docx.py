"""Word documents (``.docx``), turned into HTML by mammoth and read as such: headings, lists, tables, notes.

python-docx was considered: its paragraphs and tables leave out tracked insertions, content controls
and text boxes, all of which mammoth reads. Headers, footers and comments are left out, deleted text too."""

from __future__ import annotations

import io
import re
import zipfile

from ragrounds.tools.documents.found import DocumentFault, DocumentReader, DocumentText
from ragrounds.tools.documents.html import parse_html

_STYLES = "p[style-name='Title'] => h1.title:fresh\np[style-name='Subtitle'] => p:fresh"
_BACK = re.compile(r'<a href="#(?:foot|end)note-ref-[^"]*">[^<]*</a>')
"""Pattern of the arrow behind a note that leads back to the text."""
_ENCRYPTED = b"\xd0\xcf\x11\xe0"


def read_docx(data: bytes, largest: int) -> DocumentText:
    """Read a Word document.

    Args:
        data: the file.
        largest: bytes that it may unpack to.

    Raises:
        DocumentFault: it is not a Word document, encrypted or too large, has no text, or mammoth is not installed.
    """
    try:
        import mammoth
    except ImportError:
        raise DocumentFault("reading .docx needs mammoth: install ragrounds[files]") from None
    if data.startswith(_ENCRYPTED):
        raise DocumentFault("it is encrypted, or Word's old format (.doc)")
    try:
        _check(data, largest)
        converted = mammoth.convert_to_html(
            io.BytesIO(data),
            style_map=_STYLES,
            convert_image=mammoth.images.img_element(lambda image: {}),
            id_prefix="",
        )
    except (DocumentFault, RecursionError, MemoryError):
        raise
    except Exception as problem:  # mammoth checks nothing: a part that is missing shows as any error
        message = " ".join(str(problem).split())[:200]
        raise DocumentFault("it is not a Word document that can be read", message or type(problem).__name__) from None
    _, blocks = parse_html(_BACK.sub("", converted.value))
    if not blocks:
        raise DocumentFault("it holds no text")
    title = ""
    if blocks[0].level == 1:  # as in Markdown: the first heading, if the text begins with it
        title, blocks = blocks[0].text, blocks[1:]
    return DocumentText(title, "\n\n".join(block.markdown() for block in blocks))


def _check(content: bytes, largest: int) -> None:
    """Refuse a bomb: a file of too many bytes, or with entities. No Word document declares any."""
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import fromstring

    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        if sum(part.file_size for part in packed.infolist()) > largest:
            raise DocumentFault(f"it unpacks to more than {largest >> 20} MiB")
        for part in packed.infolist():
            if part.filename.endswith((".xml", ".rels")):
                try:
                    fromstring(packed.read(part), forbid_dtd=True)
                except DefusedXmlException:
                    raise DocumentFault("it declares entities, as no Word document does") from None


DOCX = DocumentReader("docx", (".docx",), lambda content, reading, largest: read_docx(content, largest))
