"""What the viewer shows, without a terminal: attempts as text, JSON or Markdown, lists, and what only one has right."""

from __future__ import annotations

from typing import Any, Literal

from rich.console import Console
from rich.text import Text

from ragrounds.evals.store.outlines import Filter, Outline, SortBy
from ragrounds.evals.store.pages import Pages
from ragrounds.evals.store.traces import Trace
from ragrounds.ui.figures import UNKNOWN, dollars, duration, tokens
from ragrounds.ui.text import one_line, safe
from ragrounds.ui.trace.comparing import Difference, differences
from ragrounds.ui.trace.details import detail
from ragrounds.ui.trace.drawing import bar, mark, share
from ragrounds.ui.trace.opened import Opened
from ragrounds.ui.trace.shape import Figures, Node, shape

Format = Literal["text", "json", "markdown"]
FORMATS: tuple[Format, ...] = ("text", "json", "markdown")


def tree_json(node: Node) -> dict[str, Any]:
    """A tree as JSON-able values."""
    return {
        "key": node.key,
        "kind": node.kind,
        "label": node.label,
        "seconds": node.figures.seconds,
        "tokens": node.figures.tokens,
        "cost": node.figures.cost,
        "troubled": node.troubled,
        "children": [tree_json(child) for child in node.children],
    }


def tree_text(root: Node) -> str:
    """A tree as text: names, a bar of the share of time, time, tokens, cost uncached."""
    rows: list[tuple[str, Figures]] = []

    def add(node: Node, depth: int) -> None:
        sign = "! " if node.troubled else ""
        rows.append(("  " * depth + sign + one_line(node.label[:300], 60), node.figures))
        for child in node.children:
            add(child, depth + 1)

    add(root, 0)
    size = max(len(name) for name, _ in rows)
    lines = [
        f"{name:{size}}  {bar(share(figures, root.figures, 'time'), 10)} {duration(figures.seconds):>8}"
        f" {tokens(figures.tokens):>8} {dollars(figures.cost):>9}"
        for name, figures in rows
    ]
    return "\n".join(line.rstrip() for line in lines)


def attempt_json(trace: Trace) -> dict[str, Any]:
    """An attempt with everything about it, and its tree."""
    return {"trace": trace, "tree": tree_json(shape(trace.attempt))}


def print_attempt(trace: Trace, console: Console) -> None:
    """The tree, then every step with its exact messages."""
    from ragrounds.ui.trace_text import print_trace

    console.print(Text(tree_text(shape(trace.attempt))), soft_wrap=True)
    print_trace(trace, console, full=True)


def attempt_markdown(opened: Opened) -> str:
    """An attempt as Markdown. Everything that was recorded stands in fenced blocks: none of it is interpreted."""
    parts = [
        f"# {_code(opened.outline.question.id)} by {_code(opened.outline.run.agent)}",
        _fenced(tree_text(opened.root)),
    ]

    def add(node: Node, depth: int) -> None:
        if node.kind in ("attempt", "step", "call"):
            if node.kind != "attempt":
                parts.append(f"{'#' * depth} {_code(node.label)}")
            parts.append(_fenced("\n".join(safe(piece.text) for piece in detail(opened, node))))
        for child in node.children:
            add(child, depth + (node.kind != "group" and node.kind != "round"))

    add(opened.root, 1)
    return "\n\n".join(parts) + "\n"


def listed(pages: Pages, wanted: Filter, sort: SortBy, descending: bool, limit: int | None) -> list[Outline]:
    """The rows of the list."""
    places = pages.order(wanted, sort, descending) if wanted or sort != "asked" else range(len(pages))
    return pages.read(places[:limit] if limit is not None else places)


def outline_json(outline: Outline) -> dict[str, Any]:
    """A row as JSON-able values; the run by its id."""
    names = [name for name in Outline.__struct_fields__ if name not in ("run", "question", "gold", "index")]
    return {
        "run": outline.run.id,
        "agent": outline.run.agent,
        "question_id": outline.question.id,
        "subject": outline.question.group,
        "question": outline.question.text,
        "gold": outline.gold.answer,
        **{name: getattr(outline, name) for name in names},
    }


def list_rows(outlines: list[Outline]) -> list[list[str]]:
    """Rows as cells, the names of the columns first."""
    rows = [["", "score", "scorer", "outcome", "calls", "tokens", "cost_uncached", "time", "agent", "question"]]
    for one in outlines:
        ran = one.outcome != "not_run"
        rows.append(
            [
                mark(one)[0].strip(),
                UNKNOWN if one.value is None else f"{one.value:g}",
                one.scorer or UNKNOWN,
                one.outcome,
                f"{one.calls}" if ran else "",
                tokens(one.tokens) if ran else "",
                dollars(one.cost_uncached) if ran else "",
                duration(one.seconds) if ran else "",
                safe(one.run.agent),
                safe(one.question.id) + (f" #{one.epoch}" if one.run.epochs > 1 else ""),
            ]
        )
    return rows


def difference_rows(pages: Pages, first: int, second: int) -> list[list[str]]:
    """Questions that two runs did not answer equally well, the names of the columns first."""
    names = [safe(pages.runs[number].agent) for number in (first, second)]
    rows = [["question", *names]]
    for one in differences(pages, first, second):
        rows.append(
            [safe(one.question_id) + (f" #{one.epoch}" if one.epoch else ""), f"{one.first:g}", f"{one.second:g}"]
        )
    return rows


def difference_json(pages: Pages, first: int, second: int) -> dict[str, Any]:
    """The same as JSON-able values."""

    def line(one: Difference) -> dict[str, Any]:
        return {"question_id": one.question_id, "epoch": one.epoch, "first": one.first, "second": one.second}

    return {
        "first": pages.runs[first].id,
        "second": pages.runs[second].id,
        "questions": [line(one) for one in differences(pages, first, second)],
    }


def table_text(rows: list[list[str]]) -> str:
    """Rows as aligned text."""
    sizes = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(size) for cell, size in zip(row, sizes, strict=True)).rstrip() for row in rows
    )


def table_markdown(rows: list[list[str]]) -> str:
    """Rows as a Markdown table."""
    lines = ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])


def _cell(text: str) -> str:
    flat = " ".join(text.split())
    return "".join(f"\\{letter}" if letter in "|`*_<>[]\\" else letter for letter in flat)


def _code(text: str) -> str:
    return "`" + one_line(text[:300], 200).replace("`", "'") + "`"


def _fenced(text: str) -> str:
    """`text` between fences longer than any in it."""
    longest = 0
    run = 0
    for letter in text:
        run = run + 1 if letter == "`" else 0
        longest = max(longest, run)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"
