"""One question across runs, as a table of text under the question."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from ragrounds.evals.compare.question_answers import AnswerLine
from ragrounds.records import Gold, Question
from ragrounds.ui.columns import Column, TextTable, table_of, words
from ragrounds.ui.tables import print_table
from ragrounds.ui.text import dollars, duration, in_scale, one_line, safe, tokens

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
    scorers = {line.scorer for line in lines if line.scorer}
    one = next(iter(scorers)) if len(scorers) == 1 else "score"
    searched = any(line.searches for line in lines)
    numbers = {id(line): f"{number}" for number, line in enumerate(lines, 1)}

    def score(line: AnswerLine) -> str:
        """The score, with its scorer where there are several."""
        return in_scale(line.score, line.unit) + (f" {line.scorer}" if len(scorers) > 1 else "")

    return table_of(
        "answers",
        lines,
        (
            Column("#", lambda line: numbers[id(line)]),
            words("agent", "name"),
            Column("answer", lambda line: one_line(line.read, _READ) or line.status),
            Column("epoch", where="epoch"),
            Column(one, score),
            Column("calls"),
            Column("searches") if searched else None,
            Column("gold at", "gold_rank") if searched else None,
            Column("tokens", text=tokens),
            Column("uncached", "cost_uncached", dollars),
            Column("time", "seconds", duration),
        ),
    )
