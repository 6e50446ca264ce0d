"""Rows of the list and the tree as cells, for the width there is."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from ragrounds.evals.store.outlines import Outline
from ragrounds.records import Run
from ragrounds.ui.figures import UNKNOWN, duration, tokens
from ragrounds.ui.text import one_line, safe
from ragrounds.ui.trace.fitting import fit
from ragrounds.ui.trace.pieces import Cells
from ragrounds.ui.trace.shape import Figures, Node
from ragrounds.ui.trace.treestate import Branch

Measure = str
MEASURES = ("time", "tokens", "cost")
"""What a share bar can be a share of."""

_COMMON = 6
"""Characters that names must have in common to be left out."""
_OPTIONAL = ((30, "calls", 5), (56, "time", 7), (64, "tokens", 6), (76, "cost_uncached", 8))
"""Columns of the list: from which width on, name, cells."""
_TROUBLE = {
    "failed": "! ",
    "capped": "^ ",
    "blocked": "x ",
    "paused": "= ",
    "refused": "x ",
    "abstained": "~ ",
    "unreadable": "? ",
}


def mark(outline: Outline) -> tuple[str, str]:
    """An attempt's outcome in one sign, with its style: ✓ right, ✗ wrong, ½ partly, ! failed, x refused, ^ capped,
    ~ abstained, ? unreadable, · not run. A sign that says why stands before one that says wrong."""
    if outline.outcome == "not_run":
        return "· ", "dim"
    if outline.value is not None and outline.value >= 1:
        return "✓ ", "right"
    if outline.outcome in _TROUBLE:
        return _TROUBLE[outline.outcome], "trouble"
    if outline.value is None:
        return "- ", "dim"
    return ("✗ ", "wrong") if outline.value <= 0 else ("½ ", "key")


def short_names(runs: Sequence[Run]) -> dict[str, str]:
    """Run id → the agent's name for a narrow column, without what all of them begin with; empty for one run."""
    if len(runs) < 2:
        return {}
    agents = [run.agent for run in runs]
    common = len(list(itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*agents, strict=False))))
    cut = common if _COMMON < common < min(map(len, agents)) else 0
    return {run.id: ("…" if cut else "") + safe(run.agent[cut:]) for run in runs}


def attempt_cells(outline: Outline | None, width: int, agents: Mapping[str, str]) -> Cells:
    """A row of the list: mark, score, then what there is room for, agent, question."""
    if outline is None:
        return [("…", "dim")]
    sign, style = mark(outline)
    score = UNKNOWN if outline.value is None else f"{outline.value:.2f}".removesuffix("0").removesuffix(".0")
    ran = outline.outcome != "not_run"
    texts = {
        "calls": f"{outline.calls}" if ran else "",
        "time": duration(outline.seconds) if ran else "",
        "tokens": tokens(outline.tokens) if ran else "",
        "cost_uncached": money(outline.cost_uncached) if ran else "",
    }
    shown, size, rest = _columns(width, agents)
    cells: Cells = [(f"{sign}{fit(score, 5, right=True)} ", style)]
    cells += [(fit(texts[name], length, right=True) + " ", "dim") for name, length in shown]
    if size:
        cells.append((fit(agents.get(outline.run.id, ""), size) + " ", "key"))
    epoch = f"#{outline.epoch} " if outline.run.epochs > 1 else ""
    name = one_line(outline.question.id[:80], 60)
    text = one_line(outline.question.text[: max(0, rest) * 2], max(2, rest + 1))
    cells.append((fit(f"{epoch}{name}  {text}", rest), "plain"))
    return cells


def attempt_heading(width: int, agents: Mapping[str, str]) -> str:
    """The names of the columns of :func:`attempt_cells`."""
    shown, size, _ = _columns(width, agents)
    names = ["  score", *(fit(name, length, right=True) for name, length in shown)]
    return " ".join([*names, *([fit("agent", size)] if size else []), "question"])


def _columns(width: int, agents: Mapping[str, str]) -> tuple[list[tuple[str, int]], int, int]:
    """Columns that a list of `width` has room for, the cells of the agent's and those of the question's."""
    shown = [(name, length) for least, name, length in _OPTIONAL if width >= least]
    rest = width - 8 - sum(length + 1 for _, length in shown)
    size = min(max(map(len, agents.values())), max(4, rest // 3)) if agents else 0
    return shown, size, rest - (size + 1 if size else 0)


def branch_cells(branch: Branch, total: Figures, width: int, measure: Measure) -> Cells:
    """A row of the tree: name, share bar, time, tokens, cost."""
    node = branch.node
    fold = "  " if not node.children else "▸ " if branch.folded else "▾ "
    style = "trouble" if node.troubled else "heading" if node.kind == "attempt" else "plain"
    columns, room = figure_cells(node, total, width, measure)
    label = "! " * node.troubled + one_line(node.label[:300], 200)
    return [(fit("  " * branch.depth + fold + label, room), style), *columns]


def figure_heading(width: int) -> str:
    """The names of the columns of :func:`branch_cells`."""
    columns = [fit(" share", 9)] if width >= 56 else ["share"] if width >= 34 else []
    columns.append(fit("time", 8, right=True))
    columns += [fit("tokens", 7, right=True)] if width >= 30 else []
    columns += [fit("cost_uncached", 8, right=True)] if width >= 44 else []
    figures = "".join(columns)
    return fit("  step", width - len(figures)) + figures


def figure_cells(node: Node, total: Figures, width: int, measure: Measure) -> tuple[Cells, int]:
    """A node's figures for a pane of `width`, and the cells that they leave for its name."""
    figures = node.figures
    columns: Cells = []
    bars = 8 if width >= 56 else 4 if width >= 34 else 0
    if bars:
        columns.append((" " + bar(share(figures, total, measure), bars), "bar"))
    columns.append((fit(duration(figures.seconds), 8, right=True), "dim"))
    if width >= 30:
        columns.append((fit(tokens(figures.tokens), 7, right=True), "dim"))
    if width >= 44:
        columns.append((fit(money(figures.cost), 8, right=True), "dim"))
    used = sum(len(text) for text, _ in columns)
    return columns, max(0, width - used)


def money(value: float | None) -> str:
    """Dollars for a narrow column; an unknown cost is a question mark, never 0."""
    if value is None:
        return "$?"
    return f"${value:.2f}" if value == 0 or value >= 0.1 else f"${value:.2g}" if value >= 1e-4 else f"${value:.0e}"


def share(figures: Figures, total: Figures, measure: Measure) -> float:
    """A node's part of the attempt's time, tokens or cost."""
    name = {"time": "seconds"}.get(measure, measure)
    part, whole = getattr(figures, name), getattr(total, name)
    return min(1.0, part / whole) if part and whole else 0.0


def bar(value: float, width: int) -> str:
    """A bar of `width` cells, in eighths."""
    eighths = round(value * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")).ljust(width)[:width]
