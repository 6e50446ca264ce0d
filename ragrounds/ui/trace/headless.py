"""What the viewer shows of an attempt, without a terminal. Nothing that was recorded is interpreted."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from ragrounds.evals.trace.traces import Trace
from ragrounds.ui.tables.notebook import Prose
from ragrounds.ui.text import one_line, safe
from ragrounds.ui.trace.attempt_list import agent_names
from ragrounds.ui.trace.details import detail
from ragrounds.ui.trace.layout import Cells, TextBlock, TextLayout
from ragrounds.ui.trace.lists import notes_cell
from ragrounds.ui.trace.loaded import LoadedAttempt
from ragrounds.ui.trace.parting import parting_blocks, side_name
from ragrounds.ui.trace.tree import Node, walk
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
"""How the styles of the viewer look where there is only a console."""
_LONGEST = 1500
"""Characters up to which texts are shown where there is no terminal and they are not asked for whole."""


def tree_lines(loaded: LoadedAttempt, width: int) -> list[Cells]:
    """A tree as lines of text with styles, as the viewer shows it unfolded in `width` cells; the headings first."""
    state, total = TreeState(loaded), loaded.root.figures
    state.folded.clear()
    return [[(figure_heading(width, total), "dim")], *(tree_cells(line, total, width) for line in state.lines())]


def print_attempt(trace: Trace, console: Console, full: bool = True) -> None:
    """Print the answer, then the tree, then the detail of every step; without `full`, none of these, and long texts
    folded."""
    loaded = LoadedAttempt.of_trace(trace)
    for node in walk(loaded.root):
        if node.kind == "round":
            continue
        console.print(Rule(Text(one_line(_title(node, trace), 110)), align="left"))
        if node.kind == "attempt" and trace.notes:
            console.print(Text(f"notes: {notes_cell(trace.notes)}", style="yellow"), soft_wrap=True)
        print_blocks([block for block in _blocks(loaded, node) if full or not block.more], console, full)
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
    agents = agent_names(list({trace.run.id: trace.run for trace in traces}.values()))
    names = [side_name(agents, loaded.summary) for loaded in (left, right)]
    chosen: dict[str, list[str]] = {}
    for name, loaded in zip(names, (left, right), strict=True):
        chosen.setdefault(loaded.summary.prediction, []).append(name)
    print_blocks(parting_blocks((left, right), names, chosen), console, full)


def _blocks(loaded: LoadedAttempt, node: Node) -> list[TextBlock]:
    """The detail of a node, where those of its children follow: without what they tell."""
    follow = node.kind != "attempt" and node.children
    return [block for block in detail(loaded, node) if not (follow and block.elsewhere)]


def _title(node: Node, trace: Trace) -> str:
    if node.kind == "attempt":
        return f"{node.row.plain}  by  {trace.run.agent}  ({trace.run.id})"
    return node.row.plain


def print_blocks(blocks: Sequence[TextBlock], console: Console, full: bool) -> None:
    """Print blocks: on a terminal, and in columns, laid out as in the viewer; else each in lines as long as it has."""
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
            whole = "\n".join(" " * block.indent + line for line in lines)
            console.print(kind(whole, style=_STYLES.get(block.style, "")), soft_wrap=True)
