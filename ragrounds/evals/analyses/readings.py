"""Answers that two scorers of choices read differently, or that ``robust`` does not read, with both readings and the
end of the text."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ragrounds.base.records import Run, Score
from ragrounds.evals.analyses.analysis import Analysis, AnalysisOptions, AnalysisTable
from ragrounds.evals.analyses.pictures import Mark, Picture
from ragrounds.evals.analyses.run_data import check_accuracy, scored_run
from ragrounds.evals.compare.question_values import CAREFUL, two_readings
from ragrounds.evals.scorers import known_scorer, score_by
from ragrounds.evals.store.store import Store

_MOST_ROWS = 100
"""Largest number of answers in the table; the record has all."""
_END = 160
"""Number of characters at an answer's end that are shown."""


class ReadAnswer(Struct, frozen=True, kw_only=True):
    """Answer that is read differently, or not at all."""

    question_id: str
    epoch: int
    right: str
    """Label of the right option."""
    read: str
    """Label that the scorer read; empty if none."""
    careful: str
    """Label that `robust` read."""
    reason: str
    """Reason why `robust` read no label."""
    text: str


class RunReadings(Struct, frozen=True, kw_only=True):
    """Readings of one run's answers."""

    run: str
    scorer: str
    answers: int
    """Number of answers that both scorers have read."""
    apart: tuple[ReadAnswer, ...]


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> tuple[RunReadings, ...]:
    check_accuracy("readings", options.scorer)
    return tuple(_run_readings(store, run, options.scorer) for run in runs)


def _run_readings(store: Store, run: Run, scorer: str) -> RunReadings:
    scored = scored_run(store, run, scorer)
    careful = store.scores(run, CAREFUL) or _score_by_robust(store, run)
    readings = two_readings({scorer: scored.scores, CAREFUL: careful}, scorer)
    differing = {
        (reading.first.question_id, reading.first.epoch): reading
        for reading in readings
        if (not reading.second.prediction if scorer == CAREFUL else reading.differ)
    }
    read_answers = []
    for attempt in store.attempts(run) if differing else ():
        if reading := differing.get(attempt.key):
            read_answer = ReadAnswer(
                question_id=attempt.question_id,
                epoch=attempt.epoch,
                right=scored.golds[attempt.question_id].answer,
                read=reading.first.prediction,
                careful=reading.second.prediction,
                reason=reading.second.reason,
                text=attempt.text,
            )
            read_answers.append(read_answer)
    return RunReadings(run=run.id, scorer=scorer, answers=len(readings), apart=tuple(read_answers))


def _score_by_robust(store: Store, run: Run) -> list[Score]:
    """Return the scores by `robust` of a run that it has not scored."""
    questions, golds = store.questions(run)
    by_id = {question.id: question for question in questions}
    robust = known_scorer(CAREFUL)
    attempts = ((attempt, by_id[attempt.question_id]) for attempt in store.attempts(run))
    return [
        score_by(robust, attempt, question, golds[question.id])
        for attempt, question in attempts
        if robust.suits(question)
    ]


def _table(readings: tuple[RunReadings, ...], options: AnalysisOptions) -> AnalysisTable:
    rows = [
        (
            *(run.run, answer.question_id, answer.epoch, answer.right),
            answer.read or "-",
            answer.careful or f"- ({answer.reason})",
            " ".join(answer.text[-4 * _END :].split())[-_END:],
        )
        for run in readings
        for answer in run.apart
    ]
    verb_phrase = "are not read" if options.scorer == CAREFUL else "are read differently"
    counts = "; ".join(f"{run.run}: {len(run.apart):,} of {run.answers:,} answers {verb_phrase}" for run in readings)
    remark = f" The first {_MOST_ROWS} of {len(rows):,} are shown; --json has all." if len(rows) > _MOST_ROWS else ""
    title = f"Answers that {options.scorer} and {CAREFUL} read differently"
    if options.scorer == CAREFUL:
        title = f"Answers that {CAREFUL} does not read"
    return AnalysisTable(
        title=title,
        columns=("run", "question", "epoch", "right", options.scorer, f"{CAREFUL} reads", "end of the answer"),
        rows=tuple(rows[:_MOST_ROWS]),
        note=f"{counts}.{remark} `ragrounds show RUN QUESTION` has the whole answer.",
    )


def _picture(readings: tuple[RunReadings, ...], options: AnalysisOptions) -> Picture:
    verb_phrase = "not read" if options.scorer == CAREFUL else "read differently"
    marks = tuple(
        Mark(name=run.run, value=len(run.apart) / run.answers, note=f"{len(run.apart):,} of {run.answers:,}")
        for run in readings
        if run.answers
    )
    return Picture(title=f"Share of answers that are {verb_phrase} ({options.scorer})", marks=marks, bars=True)


READINGS = Analysis(
    name="readings",
    summary="answers that the headline and robust read differently, or, with --scorer robust, that it does not read",
    needs="scores of multiple choice, by the scorer and by robust",
    measure=_measure,
    table=_table,
    picture=_picture,
)
