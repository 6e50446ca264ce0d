"""What became of every file and row that an index was built from.

Nothing is left out in silence: a file that was not read stands here with the reason. What was read whole and without a
remark is only counted, so that a report of millions of rows stays small.

| outcome | what it says | searchable |
|---|---|---|
| ``read`` | read; with a reason: something worth knowing, such as a guessed encoding | yes |
| ``cut`` | read in part: the rest was too much, or could not be read | yes |
| ``duplicate`` | read; its text is the same as another's, and both are searched | yes |
| ``empty`` | nothing but white space | no |
| ``unsupported`` | a kind of file that is not read | no |
| ``skipped`` | it should have been read and could not be: broken, encrypted, pictures without text | no |
"""

from __future__ import annotations

import hashlib
import re
import textwrap
from collections.abc import Iterable
from typing import Literal, get_args

import msgspec

from ragrounds.base.text import safe

Outcome = Literal["skipped", "cut", "unsupported", "empty", "duplicate", "read"]
"""The worst first: in this order they are shown."""

_MOST_LISTED = 10_000
"""Entries that are kept one by one; of more only the number is known."""
_MOST_REASONS = 6
_FEW = 3
"""Files of a reason that are all named."""
_INDENT = " " * 19


def fold(text: str, width: int, indent: str = "") -> list[str]:
    """Lines of at most `width` columns, the later ones indented; a number is not torn from its unit."""
    held = re.sub(r"(?<=\d) (?=(?:bytes|[kMG]?B)\b)", "\0", text)
    lines = textwrap.wrap(held, width, subsequent_indent=indent, break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]


def storable(path: str) -> str:
    """A file's name as text that can be kept: bytes that are no UTF-8 stand as ``\\xe9``."""
    try:
        return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # a surrogate that no file system gave
        return path.encode("utf-8", "backslashreplace").decode()


class BuildEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file or a row about which there is something to say."""

    path: str
    outcome: Outcome
    reason: str = ""
    """The same words for everything that has the same fault, so that it is counted together."""
    detail: str = ""
    """What is true of this file alone: a number of pages, a name, what a library said."""
    row: int = 0
    """From 1; 0: the file as a whole."""

    def __str__(self) -> str:
        place = f"line {self.row} of {self.path}" if self.row else self.path
        return f"{place}: {self.reason}{f' ({self.detail})' if self.detail else ''}"


class BuildReport(msgspec.Struct, kw_only=True, dict=True):
    """Outcomes of all files of a folder, and of all rows of JSON Lines."""

    files: dict[str, int] = {}
    """Outcome → how many files."""
    rows: dict[str, int] = {}
    """Outcome → how many rows of JSON Lines."""
    entries: list[BuildEntry] = []
    """What is not plainly ``read``, in the order in which it was met."""
    unlisted: int = 0
    """Entries that were too many to be kept."""

    def __post_init__(self) -> None:
        self._texts: dict[bytes, str] = {}

    def same_text(self, path: str, text: str) -> str:
        """The first file that was asked about here with this text, if another one; else ``""``.

        What is known of texts is not kept: after a build was resumed, duplicates of what was read before it are not
        found.
        """
        key = hashlib.blake2b(" ".join(text.split()).encode("utf-8", "replace"), digest_size=12).digest()
        first = self._texts.setdefault(key, path)
        return "" if first == path else first

    def add(self, path: str, outcome: Outcome, reason: str = "", *, detail: str = "", row: int = 0) -> None:
        """Count a file, or the row of a file; one with a reason, or not plainly read, is listed too."""
        counts = self.rows if row else self.files
        counts[outcome] = counts.get(outcome, 0) + 1
        if outcome != "read" or reason:
            if len(self.entries) < _MOST_LISTED:
                self.entries.append(BuildEntry(storable(path), outcome, reason, storable(detail), row))
            else:
                self.unlisted += 1

    def add_entries(self, entries: Iterable[BuildEntry]) -> None:
        """Add what another report, or a listing of a folder, says."""
        for one in entries:
            self.add(one.path, one.outcome, one.reason, detail=one.detail, row=one.row)

    def add_read(self, path: str, remarks: Iterable[tuple[Outcome, str, str]], text: str) -> None:
        """Count a document that was read, once, by the worst of its remarks; the others are listed with it.

        Args:
            path: the file.
            remarks: outcome, reason and detail of each.
            text: what was read, to find another file with the same.
        """
        said = list(remarks)
        if (first := self.same_text(path, text)) and not any(outcome == "cut" for outcome, _, _ in said):
            said.append(("duplicate", "the same text as another file; both are searched", first))
        order = get_args(Outcome)
        ranked = sorted(said, key=lambda one: order.index(one[0])) or [("read", "", "")]
        for number, (outcome, reason, detail) in enumerate(ranked):
            self.add(path, outcome, reason, detail=detail)
            if number:
                self.files[outcome] -= 1

    @staticmethod
    def of_entries(entries: Iterable[BuildEntry]) -> BuildReport:
        """A report of these alone."""
        report = BuildReport()
        report.add_entries(entries)
        return report

    @property
    def lost(self) -> bool:
        """Whether something that was found is not searchable, in whole or in part."""
        return any(counts.get(outcome) for counts in (self.files, self.rows) for outcome in get_args(Outcome)[:-2])

    def counted(self) -> str:
        """All counts in one line: ``4,950 files read, 12 skipped, 30 unsupported``."""
        parts = []
        for noun, counts in (("file", self.files), ("row", self.rows)):
            first = True
            for outcome in reversed(get_args(Outcome)):
                if number := counts.get(outcome, 0):
                    unit = f" {noun if number == 1 else f'{noun}s'}" if first else ""
                    parts.append(f"{number:,}{unit} {outcome}")
                    first = False
        return ", ".join(parts) or "nothing was found"

    def lines(self, width: int = 100, most: int = _MOST_REASONS) -> list[str]:
        """The report as it is printed: the counts, then what is wrong, the worst first and each reason once.

        Args:
            width: columns of a line; at least 40 are taken.
            most: reasons that are shown of an outcome, with the first files that have them.

        Returns:
            Lines that are safe to print: names and reasons come from files.
        """
        reasons: dict[Outcome, dict[str, list[BuildEntry]]] = {outcome: {} for outcome in get_args(Outcome)}
        for one in self.entries:
            reasons[one.outcome].setdefault(one.reason, []).append(one)
        told = [self.counted()]
        for outcome, groups in reasons.items():
            ranked = sorted(groups.items(), key=lambda group: -len(group[1]))
            shown = most if len(ranked) <= most else most - 1
            for reason, found in ranked[:shown]:
                told += _group_lines(outcome, reason, found, width)
            if left := ranked[shown:]:
                number = sum(len(found) for _, found in left)
                told.append(f"{outcome:<11} {number:>5,}  for {len(left):,} other reasons")
        if self.unlisted:
            told.append(f"and {self.unlisted:,} more")
        return told


def _group_lines(outcome: Outcome, reason: str, found: list[BuildEntry], width: int) -> list[str]:
    """A reason with the files that have it: a few by name, each with what is true of it alone, else the first."""
    names = []
    for one in found if len(found) <= _FEW else found[:1]:
        place = f"line {one.row:,} of {_flat(one.path, 80)}" if one.row else _flat(one.path, 80)
        names.append(f"{place}{f' ({_flat(one.detail, 80)})' if one.detail else ''}")
    more = f" and {len(found) - 1:,} more" if len(found) > _FEW else ""
    line = f"{outcome:<11} {len(found):>5,}  {_flat(reason, 160)}: {', '.join(names)}{more}"
    return fold(line, max(width, 40), _INDENT)


def _flat(text: str, longest: int) -> str:
    """One safe line; what is too long loses its middle, since the end of a path tells most."""
    flat = safe(text).replace("\n", "<U+000A>").replace("\t", "<U+0009>")
    if len(flat) <= longest:
        return flat
    return f"{flat[: longest // 3]}…{flat[-(longest - longest // 3 - 1) :]}"
