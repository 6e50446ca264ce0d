"""Result of reading one document: a title, a text and remarks, or a fault."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import NamedTuple

from ragrounds.base.text import normalized
from ragrounds.tools.index.build_report import Outcome


class Remark(NamedTuple):
    """A remark for the build report on a document that was read."""

    outcome: Outcome
    reason: str
    """Reason, in the same words for every document of which it is true."""
    detail: str = ""


class DocumentText(NamedTuple):
    """A document as text."""

    title: str
    text: str
    remarks: tuple[Remark, ...] = ()


class DocumentReader(NamedTuple):
    """Reader of files with some endings."""

    name: str
    endings: tuple[str, ...]
    """Endings such as ``.pdf``, in lower case."""
    read: Callable[[bytes, str, int], DocumentText]
    """Function that reads the bytes.

    It also gets one of :data:`~ragrounds.tools.documents.READINGS`, and how many bytes may be unpacked.
    """
    may_be_cut: bool = False
    """True if the beginning of a file that is too large is read, and the cut is reported."""


NORMALISED = "signs that no search finds were replaced: ligatures, soft hyphens, zero width, words cut at line ends"
_LIGATURE = re.compile("[\ufb00-\ufb06]")
_INVISIBLE = re.compile("\u00ad[ \t]*\r?\n[ \t]*|[\u00ad\u200b\u2060\ufeff]")
_CUT_WORD = re.compile(r"([^\W\d_]+)[-\u2010][ \t]*\r?\n[ \t]*([^\W\d_]+)")


def normal_text(text: str, *, joins_lines: bool) -> tuple[str, int]:
    """Return a text as a search needs it, and the number of signs that were replaced.

    Letters are composed (NFC), ligatures are letters, and soft hyphens and signs of no width are left out. With
    `joins_lines` a word that is cut at a line's end is joined. It keeps its hyphen if the text has it so elsewhere.
    """
    if text.isascii() and not joins_lines:
        return text, 0
    text, n_ligatures = _LIGATURE.subn(lambda match: normalized("NFKC", match[0]), text)
    text, n_invisible = _INVISIBLE.subn("", text)
    composed = text if unicodedata.is_normalized("NFC", text) else normalized("NFC", text)
    count = n_ligatures + n_invisible + len(text) - len(composed)
    if not joins_lines:
        return composed, count
    lowered_words = set(re.findall(r"[^\W\d_]+-[^\W\d_]+", composed.lower()))
    n_joined = 0

    def join(match: re.Match[str]) -> str:
        nonlocal n_joined
        left, right = match.groups()
        if not (left[-1].islower() and right[0].islower()):
            return match[0]
        n_joined += 1
        return f"{left}-{right}" if f"{left}-{right}".lower() in lowered_words else left + right

    return _CUT_WORD.sub(join, composed), count + n_joined


class DocumentFault(ValueError):
    """Reason why a document could not be read.

    Args:
        reason: the reason, in the same words for every document with this fault.
        detail: detail of this document alone.
        outcome: outcome in the build report.
    """

    def __init__(self, reason: str, detail: str = "", outcome: Outcome = "skipped") -> None:
        super().__init__(f"{reason} ({detail})" if detail else reason)
        self.reason = reason
        self.detail = detail
        self.outcome: Outcome = outcome
