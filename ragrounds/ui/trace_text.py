"""A trace as text for the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from ragrounds.evals.store.traces import Trace, TracedCall, TracedStep
from ragrounds.ui.figures import dollars, duration, percent, tokens
from ragrounds.ui.text import one_line, safe

_MARK = {True: ("right", "bold green"), False: ("wrong", "bold red"), None: ("no score", "dim")}


def print_trace(trace: Trace, console: Console | None = None, full: bool = False) -> None:
    """Print every step of an attempt. Long texts are shortened unless `full`. Nothing in them is interpreted."""
    console = console or Console()
    _head(trace, console)
    longest = None if full else 1500
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


def _head(trace: Trace, console: Console) -> None:
    question, attempt = trace.question, trace.attempt
    console.print(Rule(Text(f"{question.id}  by  {trace.run.agent}  ({trace.run.id})"), align="left"))
    console.print(_shown(question.text, None))
    for letter, text in question.options.items():
        gold = letter == trace.gold.answer
        console.print(Text(f"  {letter}. {safe(text)}" + ("   <- gold" if gold else ""), style="green" if gold else ""))
    if not question.options:
        console.print(Text(f"  reference: {safe(trace.gold.answer)}", style="green"))
    used = attempt.usage
    cost_paid = f"{tokens(used.input)} tokens in, {tokens(used.output)} out" if used else "tokens unknown"
    reason = f": {safe(attempt.reason, 300)}" if attempt.reason else ""
    facts = (
        f"{attempt.status}{reason} | {attempt.calls} calls | {cost_paid}"
        f" | paid {dollars(attempt.cost_paid)}, uncached {dollars(attempt.cost_uncached)} | {duration(attempt.seconds)}"
    )
    console.print(Text(facts, style="dim"), soft_wrap=True)


def _step(number: int, step: TracedStep, trace: Trace, console: Console, longest: int | None) -> None:
    took = duration(step.seconds) if step.seconds is not None else "not left"
    console.print(Rule(Text(f"step {number}: {step.node or 'outside of any node'}  {took}"), align="left"))
    for note in step.notes:
        console.print(Text(f"! {note.what}: {safe(note.text, longest)}", style="yellow"))
    if step.error:
        console.print(Text(f"error: {safe(step.error, longest)}", style="red"))
    for call in step.calls:
        _call(call, trace, console, longest)


def _call(traced: TracedCall, trace: Trace, console: Console, longest: int | None) -> None:
    call = traced.call
    facts = [call.actor, "from the journal" if call.cached else duration(call.seconds)]
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
        line = f"{passage.rank:3}. {passage.score:8.3f}  {passage.id}  {start}"
        console.print(Text(("* " if gold else "  ") + safe(line), style="green" if gold else ""), soft_wrap=True)
    for message in traced.asked.messages if traced.asked else ():
        console.print(Text(f"  [{message.role}]", style="dim"))
        console.print(Padding(_shown(message.content, longest), (0, 0, 0, 4)))
    if traced.reply:
        console.print(Text(f"  [reply, finish: {safe(traced.reply.finish)}]", style="dim"))
        if traced.reply.reasoning:
            console.print(Padding(Text(safe(traced.reply.reasoning, longest), style="italic"), (0, 0, 0, 4)))
        console.print(Padding(_shown(traced.reply.text, longest), (0, 0, 0, 4)))


def _shown(text: str, longest: int | None) -> Text:
    return Text(safe(text, longest))
