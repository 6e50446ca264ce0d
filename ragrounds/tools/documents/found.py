"""Result of reading one document: a title, a text and remarks, or a fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

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
