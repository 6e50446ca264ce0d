"""PDF as text, page by page, by pypdf, which LlamaIndex's reader uses too.

Used directly it reports which pages have no text, and why a file cannot be read. Pictures are not read: a scanned
document is reported as such.
"""

from __future__ import annotations

import io
import logging
from typing import TYPE_CHECKING

from ragrounds.tools.documents.found import DocumentFault, DocumentReader, DocumentText, Remark

if TYPE_CHECKING:
    from pypdf import PageObject, PdfReader

SCANNED = "scanned: its pages are pictures without text"
ENCRYPTED = "it is encrypted and needs a password"


def read_pdf(data: bytes) -> DocumentText:
    """Read a PDF.

    Raises:
        DocumentFault: it is broken, encrypted, or has no text; or pypdf is not installed.
    """
    try:
        from pypdf import PdfReader
        from pypdf.errors import DependencyError
    except ImportError:
        raise DocumentFault("reading PDF needs pypdf: install ragrounds[files]") from None
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it reports every oddity of a file on stderr
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise DocumentFault(ENCRYPTED)
        return _text_of(reader)
    except (DocumentFault, RecursionError, MemoryError):
        raise
    except DependencyError:
        raise DocumentFault("it is encrypted; reading it needs cryptography: install ragrounds[files]") from None
    except Exception as problem:  # pypdf raises dozens of types of errors for broken files
        raise DocumentFault("it is not a PDF that can be read", _message(problem)) from None


def _text_of(reader: PdfReader) -> DocumentText:
    """Return the text of all pages, with remarks on pages that are pictures or cannot be read."""
    texts: list[str] = []
    pictures, broken = 0, list[str]()
    for page in reader.pages:
        try:
            text = page.extract_text()
        except Exception as problem:  # only this page; the others may be readable
            broken.append(_message(problem))
            continue
        texts.append(text)
        pictures += not text.strip() and _has_picture(page)
    pages = len(texts) + len(broken)
    counted = f"{pages:,} page{'s' * (pages != 1)}"
    if not any(text.strip() for text in texts):
        if broken:
            raise DocumentFault("it is not a PDF that can be read", f"{counted}: {broken[0]}")
        raise DocumentFault(SCANNED if pictures else "it holds no text", counted)
    remarks = []
    if broken:
        remarks.append(Remark("cut", "some pages cannot be read", f"{len(broken):,} of {counted}: {broken[0]}"))
    if pictures:
        remarks.append(
            Remark("cut", "scanned in part: some pages are pictures without text", f"{pictures:,} of {counted}")
        )
    return DocumentText("", "\n\n".join(texts), tuple(remarks))  # titles in PDF are mostly a program's


def _has_picture(page: PageObject) -> bool:
    try:
        return bool(list(page.images.keys()))
    except Exception:  # a broken page, which is already known to have no text
        return False


def _message(problem: Exception) -> str:
    return " ".join(str(problem).split())[:200] or type(problem).__name__


PDF = DocumentReader("pdf", (".pdf",), lambda content, reading, largest: read_pdf(content))
