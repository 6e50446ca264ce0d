"""The words, signs and colours of the grid's cells and headings, without a terminal."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct
from rich.cells import cell_len
from rich.style import Style
from textual.color import Color

from ragrounds.evals.compare.figures import MOST_PAIRS
from ragrounds.evals.compare.grid import AgentGridCell, TwoByTwo, Untested
from ragrounds.records import Run
from ragrounds.ui.text import UNKNOWN, number_of, one_line, p_value, percent, points, safe
from ragrounds.ui.trace.attempt_list import outcome_sign
from ragrounds.ui.trace.layout import TextBlock, fit
from ragrounds.ui.trace.themes import contrast

_NARROWEST = 7
"""Columns of the screen that an agent gets at least."""
_WIDEST = 16
_QUESTION = 22
"""Columns that the question keeps at least."""
_FIGURE = 7
"""Columns of the figure by which the grid is sorted."""
_PARAMETER = 12
"""Letters up to which the one parameter of an agent stands in its heading where no other agent has its graph."""
HEATS = 5
"""Steps of colour from a score of 0 to one of 1."""

_UNTESTED: dict[Untested, str] = {
    "reading": "Exact test: reading the questions …",
    "many": f"No exact test: of more than {MOST_PAIRS} pairs none is tested.",
    "fractional": "No exact test: some scores are neither 0 nor 1.",
}


class GridWidths(Struct, frozen=True):
    """How the width of the screen is shared."""

    question: int
    figure: int
    cell: int
    shown: int
    """Agents that have room at once."""

    @property
    def left(self) -> int:
        """Where the first agent's column begins."""
        return self.question + self.figure


def grid_widths(width: int, agents: int, longest: int) -> GridWidths:
    """How `width` columns are shared by the question, the figure sorted by, and so many agents, the longest of whose
    names has so many letters."""
    figure = _FIGURE if width >= 60 else 0
    room = max(_NARROWEST, width - max(_QUESTION, width * 3 // 10) - figure)
    wanted = max(_NARROWEST, min(_WIDEST, longest + 2))
    cell = max(_NARROWEST, min(wanted, room // max(1, agents)))
    shown = max(1, min(agents, room // cell))
    return GridWidths(max(0, width - figure - cell * shown), figure, cell, shown)


def column_names(runs: Sequence[Run], names: Mapping[str, str], parameter: bool = False) -> list[str]:
    """A short name for every run, each another: its own name or its agent's, with only those parameters that tell it
    apart. Safe to show.

    Args:
        runs: the columns.
        names: run id → what it is called, where it has a name of its own.
        parameter: an agent's only parameter stands there too where it is short, for a screen that has room.
    """
    whole = [names.get(run.id) or run.agent for run in runs]
    bases = [text.partition("[")[0] for text in whole]
    many = Counter(bases)
    parts = [_parameters(text) for text in whole]
    found = []
    for base, own in zip(bases, parts, strict=True):
        alike = [other for name, other in zip(bases, parts, strict=True) if name == base]
        telling = [part for part in own if not all(part in other for other in alike)]
        # The only agent of its graph has no other to be told apart from; one parameter has room all the same.
        own = own if parameter and len(own) == 1 and len(own[0]) <= _PARAMETER else []
        found.append(" ".join((base, *(own if many[base] == 1 else telling))))
    # Where several are left alike, their runs' ids tell them apart.
    again, ids = Counter(found), dict[str, list[str]]()
    for name, run in zip(found, runs, strict=True):
        ids.setdefault(name, []).append(run.id)
    return [
        one_line(name if again[name] == 1 else f"{name} {_telling(run.id, ids[name])}", 60)
        for name, run in zip(found, runs, strict=True)
    ]


def _telling(id: str, alike: Sequence[str]) -> str:
    """The first letters of an id, without its words that all of them begin with, that no other has; at least four."""
    same = itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*alike, strict=False))
    common = "".join(letters[0] for letters in same)
    start = max(common.rfind("-"), common.rfind("_")) + 1
    begun = [id[start:end] for end in range(start + 4, len(id)) if id[end - 1] != "-"]
    return next((part for part in begun if sum(one[start:].startswith(part) for one in alike) == 1), id[start:])


def _parameters(text: str) -> list[str]:
    inside = text.partition("[")[2].removesuffix("]")
    found, depth, begin = [], 0, 0
    for at, letter in enumerate(inside):
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and not depth:
            found.append(inside[begin:at].strip())
            begin = at + 1
    return [part for part in (*found, inside[begin:].strip()) if part]


def headings(names: Sequence[str], width: int) -> list[tuple[str, str]]:
    """The names in two lines of a width each, with the number by which other panes call them where there is room."""
    return [
        _two_lines(f"{place} {name}", width) or _two_lines(name, width) or _cut(name, width)
        for place, name in enumerate(names, 1)
    ]


def _two_lines(name: str, width: int) -> tuple[str, str] | None:
    """A name broken where a word ends; ``None``: it does not fit so."""
    if cell_len(name) <= width:
        return "", name
    ends = [at + (letter in "_-") for at, letter in enumerate(name) if letter in " _-"]
    for end in reversed(ends):
        first, second = name[:end].strip(), name[end:].strip()
        if cell_len(first) <= width and cell_len(second) <= width:
            return first, second
    return None


def _cut(name: str, width: int) -> tuple[str, str]:
    """The beginning of a name and its end, which tells it apart from others of the same graph."""
    first = fit(name, width + 1)[:-1] if cell_len(name) > width else name
    rest = name[len(first) :].strip()
    while cell_len(rest) > width - 1:
        rest = rest[1:]
    return first, rest if first + rest == name else "…" + rest


def score_text(value: float) -> str:
    """A score in three cells: ``.67``, ``0`` or ``1``."""
    text = f"{value:.2f}"
    return "1" if text == "1.00" else "0" if text == "0.00" else text.removeprefix("0")


def cell_text(cell: AgentGridCell) -> str:
    """A cell without colour: the sign of the list of attempts, a share of epochs, or a score."""
    sign = outcome_sign(cell.outcome)
    if cell.outcome == "not_run":
        return "·"
    if not cell.scored:
        return sign or "-"
    if cell.epochs > 1:
        share = score_text(cell.value or 0.0) if cell.fractional else f"{cell.right}/{cell.epochs}"
        return share + sign
    value = cell.value or 0.0
    if value >= 1:
        return "✓"
    return sign or ("✗" if value <= 0 else score_text(value))


def cell_style(cell: AgentGridCell) -> str:
    """The style of a cell: ``heat-0`` … ``heat-4`` by its score, ``heat-trouble``, or ``dim`` where there is none."""
    if cell.outcome == "not_run":
        return "dim"
    if outcome_sign(cell.outcome) and (cell.value or 0.0) < 1 and cell.right == 0:
        return "heat-trouble"
    return "dim" if cell.value is None else heat(cell.value)


def heat(value: float) -> str:
    """The style of a score between 0 and 1."""
    if value <= 0 or value >= 1:
        return f"heat-{0 if value <= 0 else HEATS - 1}"
    return f"heat-{1 + min(HEATS - 3, int(value * (HEATS - 2)))}"


def heat_styles(theme: Mapping[str, str]) -> dict[str, Style]:
    """Style name → how it looks in a theme, whose colours are given by name. The letters are black or white, whichever
    can be read better."""
    ground, bad, half, good = (Color.parse(theme[name]) for name in ("background", "error", "warning", "success"))
    ends = [ground.blend(bad, 0.62), ground.blend(half, 0.6), ground.blend(good, 0.62)]
    steps = [ends[0], ends[0].blend(ends[1], 0.6), ends[1], ends[1].blend(ends[2], 0.6), ends[2]]
    shades = {f"heat-{place}": shade for place, shade in enumerate(steps)}
    shades["heat-trouble"] = ground.blend(Color.parse("#9a5fe0"), 0.6)
    return {name: Style(color=letters(shade).rich_color, bgcolor=shade.rich_color) for name, shade in shades.items()}


def letters(ground: Color) -> Color:
    """Black or white: what can be read better on a colour."""
    return max((Color(0, 0, 0), Color(255, 255, 255)), key=lambda letter: contrast(letter, ground))


def two_by_two_blocks(
    pair: TwoByTwo, names: Sequence[str], unit: str, scorer: str, untested: Untested, ids: Sequence[str]
) -> list[TextBlock]:
    """The 2 × 2 of two agents, with its test in words.

    Args:
        pair: the counts.
        names: of all columns.
        unit: of the score: ``percent`` or another.
        scorer: of the grid.
        untested: why there is no test, where there is none.
        ids: of all columns' runs where their agents' names do not tell them apart, else empty.
    """
    first, second = f"{pair.first + 1} {names[pair.first]}", f"{pair.second + 1} {names[pair.second]}"
    size = max(7, *(len(f"{number:,}") for number in (pair.both, pair.first_only, pair.second_only, pair.neither)))
    one, other = f"{pair.first + 1}", f"{pair.second + 1}"
    blocks = [
        TextBlock(f"{first}  ×  {second}", "heading"),
        TextBlock(f"{'':9}{fit(f'{other} right', size + 2, right=True)}{fit(f'{other} wrong', size + 3, right=True)}"),
        TextBlock(f"{one} right  {pair.both:>{size + 2},}{pair.first_only:>{size + 3},}"),
        TextBlock(f"{one} wrong  {pair.second_only:>{size + 2},}{pair.neither:>{size + 3},}"),
    ]
    if pair.difference is not None:
        shown = f"{points(pair.difference)} points" if unit == "percent" else f"{pair.difference:+.4g}"
        blocks.append(TextBlock(f"{shown} for {second}", "strong"))
    if pair.p is not None:
        corrected = "" if pair.pairs < 2 else f"; Holm over {pair.pairs} pairs: p {p_value(pair.p_holm)}"
        blocks.append(TextBlock(f"McNemar exact: p {p_value(pair.p)}{corrected}"))
    elif pair.n and untested:
        blocks.append(TextBlock(_UNTESTED[untested], "dim"))
    left = f"; {pair.left_out:,} left out: not both have a score by it" if pair.left_out else ""
    blocks.append(TextBlock(f"{number_of(pair.n, 'question')} by {scorer or 'no scorer'}{left}", "dim"))
    told = ", ".join(f"{at + 1} {safe(ids[at])}" for at in (pair.first, pair.second) if ids[at])
    blocks += [TextBlock(f"runs {told}", "dim")] if told else []
    return blocks


def mean_text(value: float | None, unit: str) -> str:
    """A mean score for a heading: ``64.2`` percent, or as it is."""
    if value is None:
        return UNKNOWN
    return percent(value, 1) if unit == "percent" else safe(f"{value:.3g}")
