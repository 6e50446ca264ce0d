"""Headings of a study's rows and columns. A line whose model or corpus a call replaced says what the call used.

The figures of such a line are not those of the paper's model. They have a line of their own, named after the model that
answered; the published figures keep the paper's name. Lines that the call made equal share one line.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from msgspec import Struct

from ragrounds.extensions.studies.study import Study, StudyCell, StudyLine


class ShownLine(Struct, frozen=True, kw_only=True):
    """Row or column as it is shown."""

    line: StudyLine
    heading: str
    has_figures: bool = True
    """True if it shows the figures of this study's cells."""
    has_published: bool = True
    """True if it shows the figures that the paper prints."""


class Headings:
    """Rows or columns of a study as they are shown."""

    def __init__(
        self, study: Study, cells: Sequence[StudyCell], axis: Literal["row", "column"], only: Collection[str] = ()
    ) -> None:
        """Group the lines that a call made equal.

        Args:
            study: the study.
            cells: its cells, with the overrides of a call applied.
            axis: which of its lines.
            only: names of the lines to show; empty: all that are not hidden.
        """
        self._study_lines = {line.name: line for line in (study.rows if axis == "row" else study.columns)}
        self.is_partial = bool(only)
        """True if some lines are left out."""
        self._replaced: dict[str, dict[str, str]] = {name: {} for name in self._study_lines}
        self.by_name: dict[str, str] = {name: name for name in self._study_lines}
        """Heading of each line's figures."""
        shown = {
            name: line for name, line in self._study_lines.items() if not line.hidden and (not only or name in only)
        }
        keys: dict[str, list[str]] = {}
        for cell in cells:
            line = self._study_lines[cell.row if axis == "row" else cell.column]
            keys.setdefault(line.name, []).append(cell.key)
            own_settings = {*line.settings, *(study.settings if axis == "row" else ())}
            self._replaced[line.name] |= {key: value for key, value in cell.replaced.items() if key in own_settings}
        groups: dict[tuple[str, ...], list[StudyLine]] = {}
        # A line that the call did not change gives its name to the lines that became equal to it.
        for name in sorted(keys, key=lambda name: (name not in shown, bool(self._replaced[name]))):
            groups.setdefault(tuple(keys[name]), []).append(self._study_lines[name])
        self.equal: list[list[str]] = []
        """Names of the shown lines that share a line's figures, that line's name first."""
        repeated = set[str]()
        for first, *later in groups.values():
            same = [line.name for line in later if self._replaced[line.name]]
            same_shown = [name for name in same if name in shown]
            self.equal += [[first.name, *same_shown]] if same_shown else []
            repeated.update(same)
            count = f" and {len(same_shown)} equal {axis}{'s' * (len(same_shown) > 1)}" if same_shown else ""
            self.by_name |= dict.fromkeys([first.name, *same], self._heading(first, count))
        self.by_name |= {name: self._heading(line, "") for name, line in self._study_lines.items() if line.made_of}
        self.lines: list[ShownLine] = [
            ShownLine(line=line, heading=self.by_name[line.name], has_published=False)
            for line in shown.values()
            if self._replaced_in(line) and line.name not in repeated
        ]
        """Lines with figures of a replaced model or corpus, then the lines as the study has them."""
        for line in shown.values():
            is_replaced = bool(self._replaced_in(line))
            if not is_replaced or axis == "column" or any(line.published):
                self.lines.append(ShownLine(line=line, heading=line.name, has_figures=not is_replaced))

    def _replaced_in(self, line: StudyLine) -> dict[str, str]:
        """Return the settings that a call replaced in a line, or in the lines that it is computed from."""
        replaced = dict(self._replaced[line.name])
        for name in line.made_of:
            replaced |= self._replaced_in(self._study_lines[name])
        return replaced

    def _heading(self, line: StudyLine, count: str) -> str:
        replaced = self._replaced_in(line)
        return f"{', '.join(replaced.values())} ({line.name}{count})" if replaced else line.name
