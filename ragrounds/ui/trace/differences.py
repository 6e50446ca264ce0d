"""The questions on which two runs differ, without a terminal: what each answered, and why it may have been wrong."""

from __future__ import annotations

from collections.abc import Sequence

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
    """A question that two runs answered with different success, with both answers."""

    attempts: tuple[AttemptSummary, AttemptSummary]
    lines: tuple[HopLine, HopLine]
    """Each one's answer and, where it is not right, the likely cause."""


def answer_differences(pages: Pages, found: Sequence[ScoreDifference]) -> list[AnswerDifference]:
    """The differences of the first two runs of some pages with their answers; no passage and no prompt is kept."""
    reader, made = HopReader(pages), []
    for start in range(0, len(found), _AT_ONCE):
        chunk = found[start : start + _AT_ONCE]
        against = [pages.row_of(1, one.question_id, one.epoch) for one in chunk]
        places = [place for one, row in zip(chunk, against, strict=True) for place in (one.row, row or 0)]
        rows = {one.index: one for one in pages.read(places)}
        lines = [hop_line(one) for one in reader.read([rows[place] for place in places])]
        for number, one in enumerate(chunk):
            pair = (rows[places[2 * number]], rows[places[2 * number + 1]])
            both = (lines[2 * number], lines[2 * number + 1])
            made.append(AnswerDifference(one.question_id, one.epoch, one.row, one.first, one.second, pair, both))
    return made


def difference_table(first: Run, second: Run, found: Sequence[AnswerDifference]) -> TextTable:
    """Both runs with how often each scores higher, then a row a question. A long answer has part of a score."""
    names = [safe(run.id if first.agent == second.agent else run.agent) for run in (first, second)]
    ahead = sum(one.first > one.second for one in found)
    higher = f"#1 {names[0]} scores higher on {ahead:,}, #2 {names[1]} on {len(found) - ahead:,}"
    columns = (
        words("question", lambda one: attempt_name(one.attempts[0]), whole=True),
        words("gold", lambda one: one_line(one.attempts[0].gold.answer, _ANSWER)),
        words("#1", lambda one: _answer(one, 0)),
        words("#2", lambda one: _answer(one, 1)),
        words("it begins", lambda one: one_line(one.attempts[0].question.text[:160], 60), spare=1),
    )
    title = f"{number_of(len(found), 'question')} on which they differ: {higher}"
    return table_of("differing", found, columns, title=title)


def difference_json(first: Run, second: Run, found: Sequence[AnswerDifference]) -> dict[str, object]:
    """The same as values that JSON can hold."""
    return {
        "first": first.id,
        "second": second.id,
        "questions": [
            {
                "question_id": one.question_id,
                "epoch": one.epoch,
                "first": one.first,
                "second": one.second,
                "text": one.attempts[0].question.text,
                "gold": one.attempts[0].gold.answer,
                "answers": [line.answer for line in one.lines],
                "causes": [line.cause.word if line.cause else None for line in one.lines],
            }
            for one in found
        ],
    }


def _answer(one: AnswerDifference, place: int) -> str:
    """What one of them answered, and the likely cause where it is not right."""
    line = one.lines[place]
    cause = line.cause.word if line.cause else ""
    said = "" if line.answer == cause else one_line(line.answer, _ANSWER)
    return " ".join(filter(None, (mark(one.attempts[place])[0].strip(), said, cause)))
