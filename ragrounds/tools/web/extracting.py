"""From a page to its text: the article without menus and scripts, and the part of it that a search was after."""

from __future__ import annotations

import io
import re
from collections import Counter

import msgspec

from ragrounds.tools.analysers import words
from ragrounds.tools.web.fetching import Fetched, FetchFailed, need_web

AROUND = 3000
"""Characters before and after the sentence that fits a snippet best (Search-o1)."""
BEGINNING = 6000
"""Characters given where no sentence fits."""
FITS = 0.2
"""Word-overlap F1 above which a sentence fits."""
_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？]?")


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A page as text."""

    url: str
    title: str
    text: str


def extract(fetched: Fetched) -> Page:
    """The text of what was fetched.

    Raises:
        FetchFailed: there is no text in it.
    """
    if fetched.type == "application/pdf":
        title, text = "", _pdf(fetched)
    elif fetched.type in ("text/plain", "text/markdown"):
        title, text = "", _decoded(fetched)
    else:
        title, text = _html(fetched)
    if not text.strip():
        raise FetchFailed(f"{fetched.url!r} has no text")
    return Page(url=fetched.url, title=title, text=text)


def excerpt(text: str, snippet: str, around: int = AROUND, beginning: int = BEGINNING) -> str:
    """The part of a page around the sentence that fits a search result's snippet best, as Search-o1 cuts it; the
    beginning of the page, where none fits."""
    wanted = Counter(words(snippet))
    best, place = FITS, None
    for sentence in _SENTENCE.finditer(text):
        fit = _f1(Counter(words(sentence.group())), wanted)
        if fit > best:
            best, place = fit, sentence.span()
    if place is None:
        return text[:beginning]
    return text[max(0, place[0] - around) : place[1] + around]


def _f1(one: Counter[str], other: Counter[str]) -> float:
    common = (one & other).total()
    return 2 * common / (one.total() + other.total()) if common else 0.0


def _decoded(fetched: Fetched) -> str:
    try:
        return fetched.content.decode(fetched.charset, "replace")
    except LookupError:  # a charset that nobody knows
        return fetched.content.decode("utf-8", "replace")


def _html(fetched: Fetched) -> tuple[str, str]:
    need_web()
    import trafilatura

    source = _decoded(fetched)
    text = trafilatura.extract(source, include_comments=False, favor_recall=True) or ""
    metadata = trafilatura.extract_metadata(source)
    return (metadata.title if metadata else None) or "", text


def _pdf(fetched: Fetched) -> str:
    try:
        from pypdf import PdfReader
    except ImportError:
        raise FetchFailed(f"{fetched.url!r} is a PDF: reading it needs ragrounds[files]") from None
    try:
        return "\n\n".join(page.extract_text() for page in PdfReader(io.BytesIO(fetched.content)).pages)
    except Exception as problem:  # pypdf has dozens of kinds for what a broken file can do
        raise FetchFailed(f"{fetched.url!r} is not a PDF that can be read ({problem})") from None
