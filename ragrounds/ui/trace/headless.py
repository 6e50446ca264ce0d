"""What the viewer shows, without a terminal: attempts as text, JSON or Markdown, lists, and what only one has right.

Nothing that was recorded is interpreted, neither by the terminal nor by Markdown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from ragrounds.evals.store.attempt_notes import AttemptNote
from ragrounds.evals.store.retries import EarlierAttempt
from ragrounds.evals.store.summaries import AttemptSummary, Pages, SortBy
from ragrounds.evals.store.traces import Trace, TracedCall, TracedStep, calls
from ragrounds.models.model_names import other_name
from ragrounds.records import Attempt, Run
from ragrounds.ui.call_words import probability_of, terms_of
from ragrounds.ui.console import SafeConsole
from ragrounds.ui.text import dollars, duration, one_line, percent, safe, tokens
from ragrounds.ui.trace.attempt_list import ScoreDifference
from ragrounds.ui.trace.details import detail
from ragrounds.ui.trace.tree import LoadedAttempt, Node, attempt_tree, telling
from ragrounds.ui.trace.tree_view import bar, own_time, row_cells, share

Format = Literal["text", "json", "markdown"]
FORMATS: tuple[Format, ...] = ("text", "json", "markdown")
LIST_FORMATS = (*FORMATS, "csv")
"""Of lists of attempts."""

_MARK = {True: ("right", "bold green"), False: ("wrong", "bold red"), None: ("no score", "dim")}
_LONGEST = 1500
"""Characters up to which texts are shown where they are not asked for whole."""


def tree_json(node: Node) -> dict[str, Any]:
    """A tree as values that JSON can hold."""
    return {
        "key": node.key,
        "kind": node.kind,
        "label": node.label,
        "says": node.row.plain,
        "seconds": node.figures.seconds,
        "own_seconds": node.figures.own,
        "tokens": node.figures.tokens,
        "cost": node.figures.cost,
        "troubled": node.troubled,
        "children": [tree_json(child) for child in node.children],
    }


def tree_text(root: Node, width: int = 100) -> str:
    """A tree as text, a line a node: what happened, a bar of its share of the time, time, own time, tokens, dollars
    uncached. `width` is of what happened."""
    lines: list[str] = []

    def _add(node: Node, depth: int) -> None:
        figures = node.figures
        says = "".join(text for text, _ in row_cells(node, depth, "", width))
        clocks = f"{bar(share(figures, root.figures, 'time'), 8)} {duration(figures.seconds):>10} {own_time(node):>10}"
        lines.append(f"{says} {clocks} {tokens(figures.tokens):>8} {dollars(figures.cost):>9}")
        for child in node.children:
            _add(child, depth + 1)

    _add(root, 0)
    head = f"{'what happened':{width}} {'share':8} {'time':>10} {'own':>10} {'tokens':>8} {'uncached':>9}"
    return "\n".join([head, *(line.rstrip() for line in lines)])


def attempt_json(trace: Trace) -> dict[str, Any]:
    """An attempt with everything about it, and its tree."""
    return {"trace": trace, "tree": tree_json(_tree(trace))}


def _tree(trace: Trace) -> Node:
    known = {id(one.call): one for step in trace.steps for one in step.calls}
    ordered = [known.get(id(call), TracedCall(call)) for call in calls(trace.attempt.events)]
    return attempt_tree(trace.attempt, telling(ordered, trace.gold, trace.attempt.text))


def print_attempt(trace: Trace, console: Console) -> None:
    """Print the tree, then every step with its exact messages."""
    console.print(Text(tree_text(_tree(trace))), soft_wrap=True)
    print_trace(trace, console, full=True)


def attempt_markdown(loaded: LoadedAttempt) -> str:
    """An attempt as Markdown. Everything that was recorded stands in fenced blocks: none of it is interpreted."""
    parts = [
        f"# {_code(loaded.summary.question.id)} by {_code(loaded.summary.run.agent)}",
        *([_fenced("\n".join(note_lines(loaded.summary.notes)))] if loaded.summary.notes else []),
        _fenced(tree_text(loaded.root)),
    ]

    def _add(node: Node, depth: int) -> None:
        if node.kind in ("attempt", "step", "call"):
            if node.kind != "attempt":
                parts.append(f"{'#' * depth} {_code(node.label)}")
            parts.append(_fenced("\n".join(safe(block.text) for block in detail(loaded, node))))
        for child in node.children:
            _add(child, depth + (node.kind != "round"))

    _add(loaded.root, 1)
    return "\n\n".join(parts) + "\n"


def listed(pages: Pages, where: str, sort: SortBy, descending: bool, limit: int | None) -> list[AttemptSummary]:
    """The rows that are wanted, in the order of `sort`, at most `limit` of them."""
    places = pages.order(where, sort, descending) if where or sort != "asked" else range(len(pages))
    return pages.read(places[:limit] if limit is not None else places)


def difference_rows(first: Run, second: Run, found: Sequence[ScoreDifference]) -> list[list[str]]:
    """Questions that two runs did not answer equally well, as cells of text, the headings first."""
    rows = [["question", safe(first.agent), safe(second.agent)]]
    for one in found:
        rows.append(
            [safe(one.question_id) + (f" #{one.epoch}" if one.epoch else ""), f"{one.first:g}", f"{one.second:g}"]
        )
    return rows


def difference_json(first: Run, second: Run, found: Sequence[ScoreDifference]) -> dict[str, object]:
    """Questions that two runs did not answer equally well, as values that JSON can hold."""
    return {
        "first": first.id,
        "second": second.id,
        "questions": [
            {"question_id": one.question_id, "epoch": one.epoch, "first": one.first, "second": one.second}
            for one in found
        ],
    }


def table_text(rows: list[list[str]]) -> str:
    """Rows as text in aligned columns."""
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


def print_trace(trace: Trace, console: Console | None = None, full: bool = False) -> None:
    """Print every step of an attempt. Long texts are shortened unless `full`. Nothing in them is interpreted."""
    console = console or SafeConsole()
    _head(trace, console)
    longest = None if full else _LONGEST
    for number, step in enumerate(trace.steps):
        _step(number, step, trace, console, longest)
    console.print(Rule(Text("answer"), align="left"))
    console.print(_shown(trace.attempt.text or "(no text)", longest))
    for score in trace.scores:
        word, style = _MARK[None if score.value is None else score.value >= 1]
        value = percent(score.value, 1)
        console.print(
            Text.assemble(
                f"{score.scorer:8} ", (f"{word:9}", style), f"{value:>6}  {score.answer_status}",
                f"  read as {score.prediction!r}" if score.prediction else "", f"  {safe(score.reason, 200)}",
            ),
            soft_wrap=True,
        )  # fmt: skip
    for one in trace.earlier:
        _earlier(one, console, longest)


def _earlier(one: EarlierAttempt, console: Console, longest: int | None) -> None:
    """An attempt that a newer one has replaced: how it ended, its calls, its text."""
    attempt = one.attempt
    heading = "first attempt" if not attempt.retry else f"attempt made again {attempt.retry} times"
    console.print(Rule(Text(f"{heading}, replaced (chosen by {safe(one.chosen)})"), align="left"))
    console.print(Text(_facts(attempt), style="dim"), soft_wrap=True)
    for call in calls(attempt.events):
        came = (
            f"error: {safe(call.error, longest)}" if call.error else "answered" + (", recorded" if call.cached else "")
        )
        console.print(
            Text(f"{call.kind} by {safe(call.actor)} in {safe(call.node)}: {came}", style="dim"), soft_wrap=True
        )
    console.print(_shown(attempt.text or "(no text)", longest))


def _facts(attempt: Attempt) -> str:
    used = attempt.usage
    cost_paid = f"{tokens(used.input)} tokens in, {tokens(used.output)} out" if used else "tokens unknown"
    reason = f": {safe(attempt.reason, 300)}" if attempt.reason else ""
    return (
        f"{attempt.status}{reason} | {attempt.calls} calls | {cost_paid}"
        f" | paid {dollars(attempt.cost_paid)}, uncached {dollars(attempt.cost_uncached)} | {duration(attempt.seconds)}"
    )


def _head(trace: Trace, console: Console) -> None:
    question, attempt = trace.question, trace.attempt
    console.print(Rule(Text(f"{question.id}  by  {trace.run.agent}  ({trace.run.id})"), align="left"))
    console.print(_shown(question.text, None))
    for letter, text in question.options.items():
        gold = letter == trace.gold.answer
        console.print(Text(f"  {letter}. {safe(text)}" + ("   <- gold" if gold else ""), style="green" if gold else ""))
    if not question.options:
        console.print(Text(f"  reference: {safe(trace.gold.answer)}", style="green"))
    console.print(Text(_facts(attempt), style="dim"), soft_wrap=True)
    for line in note_lines(trace.notes):
        console.print(Text(line, style="yellow"), soft_wrap=True)


def note_lines(notes: Sequence[AttemptNote]) -> list[str]:
    """What readers have left beside an attempt: who, the mark, the note."""
    return [
        " ".join(filter(None, (f"note by {safe(note.author)}:", note.mark and f"*{safe(note.mark)}", safe(note.text))))
        for note in notes
    ]


def _step(number: int, step: TracedStep, trace: Trace, console: Console, longest: int | None) -> None:
    took = duration(step.seconds) if step.seconds is not None else "not left"
    console.print(Rule(Text(f"step {number}: {safe(step.node) or 'outside of any node'}  {took}"), align="left"))
    for note in step.notes:
        console.print(Text(f"! {safe(note.what)}: {safe(note.text, longest)}", style="yellow"))
    if step.error:
        console.print(Text(f"error: {safe(step.error, longest)}", style="red"))
    for call in step.calls:
        _call(call, trace, console, longest)


def _call(traced: TracedCall, trace: Trace, console: Console, longest: int | None) -> None:
    call = traced.call
    other = other_name(call.actor, call.model)
    facts = [
        call.actor,
        *([f"answered by {other}"] if other else []),
        "from the journal" if call.cached else duration(call.seconds),
    ]
    if call.usage:
        facts.append(f"{tokens(call.usage.input)} + {tokens(call.usage.output)} tokens")
    console.print(Text(f"{call.kind} ({call.role}): {safe(', '.join(facts))}", style="cyan"), soft_wrap=True)
    for fault in call.faults:
        console.print(
            Text(f"  fault: {fault.kind} {safe(fault.message, 300)}; waited {duration(fault.waited)}", style="red")
        )
    if call.error:
        console.print(Text(f"  error: {safe(call.error, 500)}", style="red"))
    if traced.searched:
        console.print(Padding(Text(f"query: {safe(traced.searched.query, longest)}"), (0, 0, 0, 2)))
    for passage in traced.passages:
        gold = passage.document in trace.gold.documents or passage.id in trace.gold.documents
        start = one_line(f"{passage.title} | {passage.text}", 90)
        chunk = f"  whole, by its chunk {passage.chunk}" if passage.chunk else ""
        line = f"{passage.rank:3}. {passage.score:8.3f}  {passage.id}{chunk}  {start}"
        console.print(Text(("* " if gold else "  ") + safe(line), style="green" if gold else ""), soft_wrap=True)
    if traced.asked and (terms := terms_of(traced.asked)):
        console.print(Text(f"  asked for: {safe(terms, longest)}", style="dim"), soft_wrap=True)
    for message in traced.asked.messages if traced.asked else ():
        console.print(Text(f"  [{message.role}]", style="dim"))
        console.print(Padding(_shown(message.content, longest), (0, 0, 0, 4)))
    if traced.reply:
        console.print(Text(f"  [reply, finish: {safe(traced.reply.finish)}]", style="dim"))
        if traced.reply.reasoning:
            console.print(Padding(Text(safe(traced.reply.reasoning, longest), style="italic"), (0, 0, 0, 4)))
        console.print(Padding(_shown(traced.reply.text, longest), (0, 0, 0, 4)))
        for wish in traced.reply.calls:
            console.print(Text(f"    calls {safe(f'{wish.name}({wish.arguments})', longest)}", style="dim"))
        if likely := probability_of(traced.reply):
            console.print(Text(f"  {safe(likely, 500)}", style="dim"), soft_wrap=True)


def _shown(text: str, longest: int | None) -> Text:
    return Text(safe(text, longest))
