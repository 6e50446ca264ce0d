"""Outcomes of all files and rows that an index was built from.

Nothing is left out silently: a file that was not read is listed here with the reason. What was read whole and without a
remark is only counted, so that a report of millions of rows stays small.

| outcome | meaning | searchable |
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
"""Outcomes, the worst first. They are shown in this order."""

_MOST_LISTED = 10_000
"""Number of entries that are listed. Further entries are only counted."""
_MOST_REASONS = 6
_FEW = 3
"""Number of files up to which all files of a reason are named."""
_INDENT = " " * 19


def fold(text: str, width: int, indent: str = "") -> list[str]:
    """Wrap text to lines of at most `width` columns, the later lines indented.

    A number is not separated from its unit.
    """
    protected = re.sub(r"(?<=\d) (?=(?:bytes|[kMG]?B)\b)", "\0", text)
    lines = textwrap.wrap(protected, width, subsequent_indent=indent, break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]


def storable(path: str) -> str:
    """Return a file's name as text that can be stored. Bytes that are not UTF-8 become ``\\xe9``."""
    try:
        return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # a surrogate that does not come from a file system
        return path.encode("utf-8", "backslashreplace").decode()


class BuildEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file or a row with something to report."""

    path: str
    outcome: Outcome
    reason: str = ""
    """Reason, in the same words for everything with the same fault, so that it is counted together."""
    detail: str = ""
    """Detail that is true of this file alone: a number of pages, a name, or a library's message."""
    row: int = 0
    """Row number from 1; 0 for the file as a whole."""

    def __str__(self) -> str:
        location = f"line {self.row} of {self.path}" if self.row else self.path
        return f"{location}: {self.reason}{f' ({self.detail})' if self.detail else ''}"


class BuildReport(msgspec.Struct, kw_only=True, dict=True):
    """Outcomes of all files of a folder, and of all rows of JSON Lines."""

    files: dict[str, int] = {}
    """Number of files by outcome."""
    rows: dict[str, int] = {}
    """Number of rows of JSON Lines by outcome."""
    entries: list[BuildEntry] = []
    """Everything that is not plainly ``read``, in the order of reading."""
    unlisted: int = 0
    """Number of entries that exceeded the limit and are not listed."""

    def __post_init__(self) -> None:
        self._texts: dict[bytes, str] = {}

    def same_text(self, path: str, text: str) -> str:
        """Return the first file that had this text, if it is a different file; else ``""``.

        Texts are not stored: after a build was resumed, duplicates of what was read before it are not
        found.
        """
        key = hashlib.blake2b(" ".join(text.split()).encode("utf-8", "replace"), digest_size=12).digest()
        first = self._texts.setdefault(key, path)
        return "" if first == path else first

    def add(self, path: str, outcome: Outcome, reason: str = "", *, detail: str = "", row: int = 0) -> None:
        """Count a file, or a row of a file. It is also listed if it has a reason or is not plainly read."""
        counts = self.rows if row else self.files
        counts[outcome] = counts.get(outcome, 0) + 1
        if outcome != "read" or reason:
            if len(self.entries) < _MOST_LISTED:
                self.entries.append(BuildEntry(storable(path), outcome, reason, storable(detail), row))
            else:
                self.unlisted += 1

    def add_entries(self, entries: Iterable[BuildEntry]) -> None:
        """Add the entries of another report, or of a listing of a folder."""
        for entry in entries:
            self.add(entry.path, entry.outcome, entry.reason, detail=entry.detail, row=entry.row)

    def add_read(self, path: str, remarks: Iterable[tuple[Outcome, str, str]], text: str) -> None:
        """Count a document that was read, once, by the worst of its remarks. The other remarks are listed with it.

        Args:
            path: the file.
            remarks: outcome, reason and detail of each.
            text: text that was read, to find another file with the same text.
        """
        findings = list(remarks)
        if (first := self.same_text(path, text)) and not any(outcome == "cut" for outcome, _, _ in findings):
            findings.append(("duplicate", "the same text as another file; both are searched", first))
        order = get_args(Outcome)
        ranked = sorted(findings, key=lambda finding: order.index(finding[0])) or [("read", "", "")]
        for number, (outcome, reason, detail) in enumerate(ranked):
            self.add(path, outcome, reason, detail=detail)
            if number:
                # `add` counted this remark as another file.
                self.files[outcome] -= 1

    @staticmethod
    def of_entries(entries: Iterable[BuildEntry]) -> BuildReport:
        """Return a report of these entries alone."""
        report = BuildReport()
        report.add_entries(entries)
        return report

    @property
    def lost(self) -> bool:
        """Return True if something is not searchable, in whole or in part."""
        return any(counts.get(outcome) for counts in (self.files, self.rows) for outcome in get_args(Outcome)[:-2])

    def counted(self) -> str:
        """Return all counts in one line: ``4,950 files read, 12 skipped, 30 unsupported``."""
        parts = []
        for noun, counts in (("file", self.files), ("row", self.rows)):
            first = True
            for outcome in reversed(get_args(Outcome)):
                if number := counts.get(outcome, 0):
                    unit = f" {noun if number == 1 else f'{noun}s'}" if first else ""
                    parts.append(f"{number:,}{unit} {outcome}")
                    first = False
        return ", ".join(parts) or "nothing was found"

    def lines(self, width: int = 100, limit: int = _MOST_REASONS) -> list[str]:
        """Return the lines of the report: the counts, then the problems, the worst first and each reason once.

        Args:
            width: columns of a line; at least 40 are taken.
            limit: reasons that are shown of an outcome, with the first files that have them.

        Returns:
            Lines that are safe to print: names and reasons come from files.
        """
        reasons: dict[Outcome, dict[str, list[BuildEntry]]] = {outcome: {} for outcome in get_args(Outcome)}
        for entry in self.entries:
            reasons[entry.outcome].setdefault(entry.reason, []).append(entry)
        output = [self.counted()]
        for outcome, groups in reasons.items():
            ranked = sorted(groups.items(), key=lambda group: -len(group[1]))
            listed = limit if len(ranked) <= limit else limit - 1
            for reason, entries in ranked[:listed]:
                output += _group_lines(outcome, reason, entries, width)
            if left := ranked[listed:]:
                number = sum(len(entries) for _, entries in left)
                output.append(f"{outcome:<11} {number:>5,}  for {len(left):,} other reasons")
        if self.unlisted:
            output.append(f"and {self.unlisted:,} more")
        return output


def _group_lines(outcome: Outcome, reason: str, entries: list[BuildEntry], width: int) -> list[str]:
    """Return lines with a reason and the files that have it: a few by name, each with its detail, else the first."""
    names = []
    for entry in entries if len(entries) <= _FEW else entries[:1]:
        location = f"line {entry.row:,} of {_one_line(entry.path, 80)}" if entry.row else _one_line(entry.path, 80)
        names.append(f"{location}{f' ({_one_line(entry.detail, 80)})' if entry.detail else ''}")
    more = f" and {len(entries) - 1:,} more" if len(entries) > _FEW else ""
    line = f"{outcome:<11} {len(entries):>5,}  {_one_line(reason, 160)}: {', '.join(names)}{more}"
    return fold(line, max(width, 40), _INDENT)


def _one_line(text: str, longest: int) -> str:
    """Return one safe line.

    A line that is too long loses its middle, since the end of a path is the most informative.
    """
    flat = safe(text).replace("\n", "<U+000A>").replace("\t", "<U+0009>")
    if len(flat) <= longest:
        return flat
    return f"{flat[: longest // 3]}…{flat[-(longest - longest // 3 - 1) :]}"
