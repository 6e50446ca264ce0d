"""Questions on which two runs differ, without a terminal: both answers, and the likely causes of wrong ones."""

from __future__ import annotations

from collections.abc import Sequence

from ragrounds.base.chunks import chunks
from ragrounds.base.records import Run
from ragrounds.evals.trace.hop_reading import HopReader
from ragrounds.evals.trace.summaries import AttemptSummary, Pages
from ragrounds.ui.columns import TextTable, table_of, words
from ragrounds.ui.text import number_of, one_line, safe
from ragrounds.ui.trace.attempt_list import ScoreDifference, mark
from ragrounds.ui.trace.hop_lines import HopLine, hop_line
from ragrounds.ui.trace.lists import attempt_name

_AT_ONCE = 100
"""Questions whose calls are read at a time."""
_ANSWER = 12
"""Cells of an answer in words, and of a gold one."""


class AnswerDifference(ScoreDifference, frozen=True):
    """Question that two runs answered with different success, with both answers."""

    attempts: tuple[AttemptSummary, AttemptSummary]
    lines: tuple[HopLine, HopLine]
    """Answer of each run and, if it is not right, the likely cause."""


def answer_differences(pages: Pages, score_differences: Sequence[ScoreDifference]) -> list[AnswerDifference]:
    """Return the differences of the first two runs of some pages with their answers. Passages and prompts are not
    kept."""
    reader, differences = HopReader(pages), []
    for chunk in chunks(score_differences, _AT_ONCE):
        against = [pages.row_of(1, difference.question_id, difference.epoch) for difference in chunk]
        indices = [
            index for difference, row in zip(chunk, against, strict=True) for index in (difference.row, row or 0)
        ]
        rows = {summary.index: summary for summary in pages.read(indices)}
        lines = [hop_line(attempt) for attempt in reader.read([rows[index] for index in indices])]
        for number, difference in enumerate(chunk):
            pair = (rows[indices[2 * number]], rows[indices[2 * number + 1]])
            both = (lines[2 * number], lines[2 * number + 1])
            differences.append(
                AnswerDifference(
                    difference.question_id,
                    difference.epoch,
                    difference.row,
                    difference.first,
                    difference.second,
                    pair,
                    both,
                )
            )
    return differences


def difference_table(first: Run, second: Run, differences: Sequence[AnswerDifference]) -> TextTable:
    """Return a table of both runs with the number of questions on which each scores higher, and a row per question.

    Long answers have partial scores.
    """
    names = [safe(side.agent_name) for difference in differences[:1] for side in difference.attempts]
    names = names if len(set(names)) == 2 else [first.id, second.id]
    ahead = sum(difference.first > difference.second for difference in differences)
    higher = f"#1 {names[0]} scores higher on {ahead:,}, #2 {names[1]} on {len(differences) - ahead:,}"
    columns = (
        words("question", lambda difference: attempt_name(difference.attempts[0]), unfolded=True),
        words("gold", lambda difference: one_line(difference.attempts[0].gold.answer, _ANSWER)),
        words("#1", lambda difference: _answer(difference, 0)),
        words("#2", lambda difference: _answer(difference, 1)),
        words("it begins", lambda difference: one_line(difference.attempts[0].question.text[:160], 60), spare=1),
    )
    title = f"{number_of(len(differences), 'question')} on which they differ: {higher}"
    return table_of("differing", differences, columns, title=title)


def difference_json(first: Run, second: Run, differences: Sequence[AnswerDifference]) -> dict[str, object]:
    """Return the differences as values that JSON can hold."""
    return {
        "first": first.id,
        "second": second.id,
        "questions": [
            {
                "question_id": difference.question_id,
                "epoch": difference.epoch,
                "first": difference.first,
                "second": difference.second,
                "text": difference.attempts[0].question.text,
                "gold": difference.attempts[0].gold.answer,
                "answers": [line.answer for line in difference.lines],
                "causes": [line.cause.word if line.cause else None for line in difference.lines],
            }
            for difference in differences
        ],
    }


def _answer(difference: AnswerDifference, side: int) -> str:
    """Return the answer of one run, and the likely cause if it is not right."""
    line = difference.lines[side]
    cause = line.cause.word if line.cause else ""
    answer = "" if line.answer == cause else one_line(line.answer, _ANSWER)
    return " ".join(filter(None, (mark(difference.attempts[side])[0].strip(), answer, cause)))
