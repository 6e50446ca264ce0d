"""The questions on which two runs differ, without a terminal: what each answered, and why it may have been wrong."""

from __future__ import annotations

from collections.abc import Sequence
from os.path import commonprefix

from rich.cells import cell_len

from ragrounds.evals.store.hop_reading import HopReader
from ragrounds.evals.store.summaries import AttemptSummary, Pages
from ragrounds.records import Run
from ragrounds.ui.text import number_of, one_line, safe
from ragrounds.ui.trace.attempt_list import ScoreDifference, mark
from ragrounds.ui.trace.hop_lines import HopLine, hop_line
from ragrounds.ui.trace.layout import fit
from ragrounds.ui.trace.lists import table_text

_AT_ONCE = 100
"""Questions whose calls are read at a time."""
_ANSWER = 12
"""Cells of an answer in words, and of a gold one."""
_WIDE = 110
"""Columns from which on there is room for answers in words; narrower, a line has letters alone."""
_LEAST = 12
"""Cells that the beginning of a question has at least."""


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


def difference_text(first: Run, second: Run, found: Sequence[AnswerDifference], width: int) -> str:
    """Both runs with how often each is ahead, then a line a question in `width` columns."""
    if not found:
        return f"{safe(first.agent)} and {safe(second.agent)} differ on no question."
    begin = commonprefix([one.question_id for one in found])  # noqa: RUF071 (by letters)
    rows = [_cells(one, begin[: begin.rfind("/") + 1], width >= _WIDE) for one in found]
    heads = ["question", "gold", "#1", "#2"]
    size = sum(max(cell_len(row[column]) + 2 for row in (heads, *rows)) for column in range(len(heads)))
    room = max(_LEAST, width - size)
    texts = [one_line(one.attempts[0].question.text[: room * 2], room) for one in found]
    table = [[*heads, "it begins"], *([*row, text] for row, text in zip(rows, texts, strict=True))]
    return "\n".join([*_counts(_names(first, second), found), "", table_text(table)])


def difference_rows(first: Run, second: Run, found: Sequence[AnswerDifference]) -> list[list[str]]:
    """The same as cells of a table, the headings first; ids of questions are whole."""
    names = _names(first, second)
    rows = [["question", "gold", *names, "it begins"]]
    for one in found:
        rows.append([*_cells(one, ""), one_line(one.attempts[0].question.text[:160], 80)])
    return rows


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


def _counts(names: Sequence[str], found: Sequence[AnswerDifference]) -> list[str]:
    """How often each is ahead. Questions with options count apart: a long answer has part of a score, so that full
    marks against a part are no right answer against a wrong one."""
    choice = [one for one in found if one.attempts[0].question.options]
    long = [one for one in found if not one.attempts[0].question.options]
    right = [
        sum(one.first >= 1 > one.second for one in choice),
        sum(one.second >= 1 > one.first for one in choice),
    ]
    higher = [sum(one.first > one.second for one in long), sum(one.second > one.first for one in long)]
    size, number = max(map(cell_len, names)), number_of(len(found), "question")
    lines = []
    for place, name in enumerate(names):
        parts = [f"alone is right on {right[place]:,}"] if choice else []
        if long:
            parts.append(f"scores higher on {higher[place]:,}" + (" long" if choice else ""))
        lines.append(f"#{place + 1} {fit(name, size)}  {', '.join(parts)}")
    if not (choice and long):
        lines[-1] += f" of {number} on which they differ"
        return lines
    return [*lines, f"They differ on {number}: {len(choice):,} with options, {number_of(len(long), 'long answer')}."]


def _names(first: Run, second: Run) -> list[str]:
    return [safe(run.id if first.agent == second.agent else run.agent) for run in (first, second)]


def _cells(one: AnswerDifference, begin: str, words: bool = True) -> list[str]:
    epoch = f" #{one.epoch}" if one.attempts[0].run.epochs > 1 else ""
    words = words or bool(one.attempts[0].question.options)
    gold = one_line(one.attempts[0].gold.answer, _ANSWER) if words else ""
    cells = [safe(one.question_id.removeprefix(begin)) + epoch, gold]
    for summary, line in zip(one.attempts, one.lines, strict=True):
        cause = line.cause.word if line.cause else ""
        parts = [mark(summary)[0].strip(), one_line(line.answer, _ANSWER) if words and line.answer != cause else ""]
        cells.append(" ".join(filter(None, [*parts, cause])))
    return cells
