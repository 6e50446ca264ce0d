"""Answers that two scorers of choices read differently, and those that ``robust`` does not read: what was read, and the
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

_SHOWN = 100
"""Answers in the table; the record has all."""
_END = 160
"""Characters of an answer's end that are shown."""


class ReadAnswer(Struct, frozen=True, kw_only=True):
    """One answer that is read differently, or not at all."""

    question_id: str
    epoch: int
    right: str
    """The label of the right option."""
    read: str
    """What the scorer read; empty: nothing."""
    careful: str
    """What `robust` read."""
    reason: str
    """Why `robust` read nothing."""
    text: str


class RunReadings(Struct, frozen=True, kw_only=True):
    """The answers of one run."""

    run: str
    scorer: str
    answers: int
    """That both have read."""
    apart: tuple[ReadAnswer, ...]


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> tuple[RunReadings, ...]:
    check_accuracy("readings", options.scorer)
    return tuple(_of_run(store, run, options.scorer) for run in runs)


def _of_run(store: Store, run: Run, scorer: str) -> RunReadings:
    scored = scored_run(store, run, scorer)
    careful = store.scores(run, CAREFUL) or _read(store, run)
    both = two_readings({scorer: scored.scores, CAREFUL: careful}, scorer)
    apart = {
        (one.first.question_id, one.first.epoch): one
        for one in both
        if (not one.second.prediction if scorer == CAREFUL else one.differ)
    }
    found = []
    for attempt in store.attempts(run) if apart else ():
        if one := apart.get((attempt.question_id, attempt.epoch)):
            made = ReadAnswer(
                question_id=attempt.question_id,
                epoch=attempt.epoch,
                right=scored.golds[attempt.question_id].answer,
                read=one.first.prediction,
                careful=one.second.prediction,
                reason=one.second.reason,
                text=attempt.text,
            )
            found.append(made)
    return RunReadings(run=run.id, scorer=scorer, answers=len(both), apart=tuple(found))


def _read(store: Store, run: Run) -> list[Score]:
    """How `robust` reads a run that it has not scored."""
    questions, golds = store.questions(run)
    by_id = {question.id: question for question in questions}
    read = known_scorer(CAREFUL)
    attempts = ((attempt, by_id[attempt.question_id]) for attempt in store.attempts(run))
    return [score_by(read, attempt, asked, golds[asked.id]) for attempt, asked in attempts if read.suits(asked)]


def _table(made: tuple[RunReadings, ...], options: AnalysisOptions) -> AnalysisTable:
    rows = [
        (
            *(run.run, one.question_id, one.epoch, one.right, one.read or "-", one.careful or f"- ({one.reason})"),
            " ".join(one.text[-4 * _END :].split())[-_END:],
        )
        for run in made
        for one in run.apart
    ]
    said = "are not read" if options.scorer == CAREFUL else "are read differently"
    counts = "; ".join(f"{run.run}: {len(run.apart):,} of {run.answers:,} answers {said}" for run in made)
    more = f" The first {_SHOWN} of {len(rows):,} are shown; --json has all." if len(rows) > _SHOWN else ""
    return AnalysisTable(
        title=f"Answers that {CAREFUL} does not read"
        if options.scorer == CAREFUL
        else f"Answers that {options.scorer} and {CAREFUL} read differently",
        columns=("run", "question", "epoch", "right", options.scorer, f"{CAREFUL} reads", "end of the answer"),
        rows=tuple(rows[:_SHOWN]),
        note=f"{counts}.{more} `ragrounds show RUN QUESTION` has the whole answer.",
    )


def _picture(made: tuple[RunReadings, ...], options: AnalysisOptions) -> Picture:
    said = "not read" if options.scorer == CAREFUL else "read differently"
    marks = tuple(
        Mark(name=run.run, value=len(run.apart) / run.answers, note=f"{len(run.apart):,} of {run.answers:,}")
        for run in made
        if run.answers
    )
    return Picture(title=f"Share of answers that are {said} ({options.scorer})", marks=marks, bars=True)


READINGS = Analysis(
    name="readings",
    summary="answers that the headline and robust read differently, or, with --scorer robust, that it does not read",
    needs="scores of multiple choice, by the scorer and by robust",
    measure=_measure,
    table=_table,
    picture=_picture,
)
