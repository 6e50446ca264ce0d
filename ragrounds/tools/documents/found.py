"""What the reading of one document gives: a title, a text, and what is to be said of it; or a fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ragrounds.tools.index.build_report import Outcome


class Remark(NamedTuple):
    """Something that a reader of the build report wants to know of a document that was read."""

    outcome: Outcome
    reason: str
    """The same words for every document of which it is true."""
    detail: str = ""


class DocumentText(NamedTuple):
    """A document as text."""

    title: str
    text: str
    remarks: tuple[Remark, ...] = ()


class DocumentReader(NamedTuple):
    """What reads files of some endings."""

    name: str
    endings: tuple[str, ...]
    """Such as ``.pdf``, in small letters."""
    read: Callable[[bytes, str, int], DocumentText]
    """From the bytes, one of :data:`~ragrounds.tools.documents.READINGS`, and how many bytes may be unpacked."""
    may_be_cut: bool = False
    """The beginning of a file that is too large is read, and said to be that."""


class DocumentFault(ValueError):
    """Why a document could not be read.

    Args:
        reason: the same words for every document with this fault.
        detail: what is true of this one alone.
        outcome: what the build report calls it.
    """

    def __init__(self, reason: str, detail: str = "", outcome: Outcome = "skipped") -> None:
        super().__init__(f"{reason} ({detail})" if detail else reason)
        self.reason = reason
        self.detail = detail
        self.outcome: Outcome = outcome
