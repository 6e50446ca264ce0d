"""Views of an attempt without a terminal. Nothing that was recorded is interpreted."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from ragrounds.evals.trace.traces import Trace
from ragrounds.ui.agent_names import names_of_runs
from ragrounds.ui.tables.notebook import Prose
from ragrounds.ui.text import one_line, safe
from ragrounds.ui.trace.details import detail
from ragrounds.ui.trace.layout import Cells, TextBlock, TextLayout
from ragrounds.ui.trace.lists import notes_cell
from ragrounds.ui.trace.loaded import LoadedAttempt
from ragrounds.ui.trace.parting import parting_blocks, side_name
from ragrounds.ui.trace.tree import walk
from ragrounds.ui.trace.tree_view import TreeState, figure_heading, tree_cells

_STYLES = {
    "dim": "dim",
    "heading": "bold",
    "key": "cyan",
    "note": "italic",
    "right": "bold green",
    "gold": "green",
    "wrong": "red",
    "trouble": "bold yellow",
    "bar": "blue",
    "strong": "bold",
    "term": "bold underline",
    "new": "magenta",
}
"""Console styles for the styles of the viewer."""
_LONGEST = 1500
"""Characters up to which texts are shown without a terminal, unless full texts are requested."""


def tree_lines(loaded: LoadedAttempt, width: int) -> list[Cells]:
    """Return the unfolded tree as lines of styled text in `width` cells; the headings come first."""
    state, total = TreeState(loaded), loaded.root.figures
    state.folded.clear()
    return [[(figure_heading(width, total), "dim")], *(tree_cells(line, total, width) for line in state.lines())]


def print_attempt(trace: Trace, console: Console, full: bool = True) -> None:
    """Print the answer, the tree, and the detail of every step; without `full`, only answer and tree, with long texts
    folded."""
    loaded = LoadedAttempt.of_trace(trace)
    for node in walk(loaded.root):
        if node.kind == "round":
            continue
        title = node.row.plain
        if node.kind == "attempt":
            title += f"  by  {loaded.summary.agent_name}  ({trace.run.id})"
        console.print(Rule(Text(one_line(title, 110)), align="left"))
        if node.kind == "attempt" and trace.notes:
            console.print(Text(f"notes: {notes_cell(trace.notes)}"), soft_wrap=True)
        print_blocks(detail(loaded, node), console, full)
        if node.kind == "attempt":
            console.print()
            lines = tree_lines(loaded, max(80, console.width) if console.is_terminal else 150)
            styled = (Text.assemble(*((text, _STYLES.get(style, "")) for text, style in line)) for line in lines)
            console.print(Text("\n").join(styled), soft_wrap=True)
            if not full:
                console.print(Text("--full: every step with its prompts, passages and replies", style="dim"))
                return


def print_pair(traces: tuple[Trace, Trace], console: Console, full: bool) -> None:
    """Print two answers to a question on one page; `full`: nothing is folded."""
    left, right = (LoadedAttempt.of_trace(trace) for trace in traces)
    runs = list({trace.run.id: trace.run for trace in traces}.values())
    agents = names_of_runs(runs, {trace.run.id: trace.given_name for trace in traces})
    names = [side_name(agents, loaded.summary) for loaded in (left, right)]
    choosers: dict[str, list[str]] = {}
    for name, loaded in zip(names, (left, right), strict=True):
        choosers.setdefault(loaded.summary.prediction, []).append(name)
    print_blocks(parting_blocks((left, right), names, choosers), console, full)


def print_blocks(blocks: Sequence[TextBlock], console: Console, full: bool) -> None:
    """Print blocks. On a terminal and in columns they are laid out as in the viewer; else each in lines of any
    length."""
    if console.is_terminal or any(block.beside for block in blocks):
        for line in TextLayout(blocks, console.width, unfolds="" if full else "--full").lines:
            text = Text(line.text, _STYLES.get(line.style, ""), no_wrap=True)
            for begin, end, style in line.spans:
                text.stylize(_STYLES.get(style, ""), begin, end)
            console.print(text, soft_wrap=True)
        return
    for block in blocks:
        if block.seen(raw=False) or full:
            lines = safe(block.text, None if full else _LONGEST).split("\n")
            kind = Prose if block.markdown or block.fold else Text
            indented = "\n".join(" " * block.indent + line for line in lines)
            console.print(kind(indented, style=_STYLES.get(block.style, "")), soft_wrap=True)
