"""One question across runs, as a table of text under the question."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from ragrounds.evals.compare.question_answers import AnswerLine
from ragrounds.records import Gold, Question
from ragrounds.ui.tables import Column, TextTable, print_table
from ragrounds.ui.text import UNKNOWN, dollars, duration, in_scale, one_line, safe, tokens

_READ = 60
"""Columns of what was read as an answer."""


def print_question(question: Question, gold: Gold, lines: Sequence[AnswerLine], console: Console) -> None:
    """Print a question with its options, the right one marked, and a line for each answer."""
    console.print(Text(safe(question.id), style="bold"))
    console.print(Text(safe(question.text)))
    for letter, text in question.options.items():
        right = letter == gold.answer
        console.print(
            Text(f"  {safe(letter)}. {safe(text)}{'  <- right' if right else ''}", style="bold" if right else "")
        )
    if not question.options and gold.answer:
        console.print(Text(f"  right: {one_line(gold.answer, 400)}"))
    print_table(answer_table(lines), console)


def answer_table(lines: Sequence[AnswerLine]) -> TextTable:
    """A line for each run, and where there are several, each epoch."""
    several = any(line.epoch for line in lines)
    scorers = {line.scorer for line in lines if line.scorer}
    one = next(iter(scorers)) if len(scorers) == 1 else "score"
    searched = any(line.searches for line in lines)
    names = [*(["epoch"] if several else []), one, "calls", *(["searches", "gold at"] if searched else [])]
    return TextTable(
        key="answers",
        title="",
        columns=(
            Column("#"),
            Column("agent", right=False),
            *map(Column, ("answer", *names, "tokens", "uncached", "time")),
        ),
        rows=tuple(
            (
                f"{number}",
                safe(line.name),
                one_line(line.read, _READ) or line.status,
                *([f"{line.epoch}"] if several else []),
                in_scale(line.score, line.unit) + (f" {line.scorer}" if len(scorers) > 1 else ""),
                f"{line.calls:,}",
                *([_count(line.searches), _count(line.gold_rank)] if searched else []),
                tokens(line.tokens),
                dollars(line.cost_uncached),
                duration(line.seconds),
            )
            for number, line in enumerate(lines, 1)
        ),
    )


def _count(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"
