"""An attempt as tables: its question and answer, its scores, and every call with what was asked and came back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from ragrounds.contracts import Request
from ragrounds.evals.store.traces import Trace, TracedCall
from ragrounds.ui.columns import TextTable, words
from ragrounds.ui.tables import print_table
from ragrounds.ui.text import dollars, duration, safe, tokens

_LONGEST = 2000
"""Characters of one text that are shown."""


def print_trace(trace: Trace, console: Console) -> None:
    """Print what was asked and answered, the scores, then the calls in their order, long texts cut."""
    run, attempt, asked, gold = trace.run, trace.attempt, trace.question, trace.gold
    console.print(Text(f"{asked.id}, epoch {attempt.epoch}, by {run.agent} ({run.id})", style="bold"))
    options = [f"{letter}. {text}" for letter, text in asked.options.items()]
    right = gold.answer or "; ".join(wordings[0] for wordings in gold.facts)
    used = attempt.usage.input + attempt.usage.output if attempt.usage else None
    took = f"{tokens(used)} tokens, {dollars(attempt.cost_uncached)} uncached, {duration(attempt.seconds)}"
    rows = [
        ("question", "\n".join([asked.text, *options])),
        ("right answer", right),
        ("status", attempt.status + (f": {attempt.reason}" if attempt.reason else "") + f" ({took})"),
        ("answer", attempt.text),
        *((f"note by {note.author}", f"{note.mark} {note.text}".strip()) for note in trace.notes),
    ]
    _print("", ("", ""), [(name, safe(text, _LONGEST)) for name, text in rows if text], console)
    scored = [
        (one.scorer, "missing" if one.value is None else f"{one.value:g}", one.answer_status.replace("_", " "),
         safe(one.prediction or one.reason, _LONGEST))
        for one in trace.scores
    ]  # fmt: skip
    if scored:
        _print("scores", ("scorer", "score", "answer", "read as"), scored, console)
    calls = [(safe(step.node), *_call(call)) for step in trace.steps for call in step.calls or (None,)]
    _print("steps", ("step", "call", "time", "asked", "came back"), calls, console)


def _print(title: str, heads: Sequence[str], rows: Sequence[tuple[str, ...]], console: Console) -> None:
    table = TextTable(key=title or "attempt", title=title, columns=tuple(map(words, heads)), rows=tuple(rows))
    print_table(table, console)


def _call(made: TracedCall | None) -> tuple[str, str, str, str]:
    """What a call was, how long it took, what it was asked, and what came back."""
    if made is None:
        return "", "", "", ""
    came = "\n".join(_came(made)) or "not in the journal"
    asked = _asked(made.asked) if made.asked else made.searched.query if made.searched else str(made.used or "")
    call = made.call
    return f"{call.kind}, {call.role}", duration(call.seconds), safe(asked, _LONGEST), safe(came, _LONGEST)


def _asked(asked: Request) -> str:
    return "\n\n".join(f"[{message.role}]\n{message.content}" for message in asked.messages)


def _came(made: TracedCall) -> Iterator[str]:
    if made.call.error:
        yield made.call.error
    if made.reply is not None:
        yield made.reply.text or ", ".join(f"{call.name}({call.arguments})" for call in made.reply.calls)
    for passage in made.passages:
        yield f"{passage.rank}. {passage.title or passage.document}: {passage.text}"
    if made.searched and not made.passages:
        yield "nothing was found"
    if made.gave is not None:
        yield str(made.gave)
