"""Questions, epochs and scorers on which runs can be compared.

Runs that differ in these are refused with a reason. With `common`, the comparison covers the part that all runs share,
and a note says what that part is.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from msgspec import Struct

from ragrounds.base.errors import UserError
from ragrounds.base.records import OPEN, AnswerStatus, Attempt, AttemptKey, Gold, Question, Run, Score
from ragrounds.evals.compare.question_values import QuestionValues, scorer_values
from ragrounds.evals.scorers import Headline, described, headline_of, questions_of
from ragrounds.evals.store import schema
from ragrounds.evals.store.database import fetch_rows
from ragrounds.evals.store.store import Store

ScoresByRun = Mapping[str, Mapping[str, Sequence[Score]]]
"""Run id → scorer → scores."""


class ComparisonSet(Struct, frozen=True, kw_only=True):
    """Questions, epochs and scorers that runs are compared on, with the attempts and scores that were loaded."""

    questions: tuple[Question, ...]
    golds: Mapping[str, Gold]
    epochs: int
    scorers: tuple[str, ...]
    """Scorers that all runs have scores under: first the headlines and their columns. The first is the default."""
    headlines: tuple[Headline, ...]
    """Scorers to show: one headline for each kind of question with its columns, by the benchmark's card. If the user
    named scorers, only these."""
    summaries: dict[str, list[Attempt]]
    """Run id → its attempts at these questions in these epochs, without texts."""
    status: dict[str, dict[AttemptKey, str]]
    """Run id → question id and epoch → how that attempt ended."""
    scores: dict[str, dict[str, list[Score]]]
    """Run id → scorer → scores of these attempts."""
    read: dict[str, dict[str, dict[AttemptKey, AnswerStatus]]]
    """Run id → scorer → question id and epoch → answer status."""
    notes: tuple[str, ...]

    def questions_for(self, scorer: str) -> list[Question]:
        """Return the questions that a scorer applies to.

        These are the questions that any run has a score for and those that it would score, whether or not an attempt
        was made. The denominator is every question.
        """
        scored = {question_id for by_scorer in self.read.values() for question_id, _ in by_scorer.get(scorer, ())}
        record = described(scorer)
        if not record.needs_judge and len(scored) < len(self.questions):
            scored |= {question.id for question in questions_of(record, self.questions)}
        return [question for question in self.questions if question.id in scored]

    def values(self, scorer: str, run: Run, questions: Sequence[Question]) -> tuple[QuestionValues, int]:
        """Return each question's mean score over all its epochs and the number of unscored answers.

        An answer without a score is not a wrong answer: the value of its question is missing, as after a failed judge.
        """
        scores, status, record = self.scores[run.id].get(scorer, []), self.status[run.id], described(scorer)
        attempt_keys = (
            ((question.id, epoch) for question in questions for epoch in range(self.epochs)) if record.ratio else ()
        )
        open_attempts = {key for key in attempt_keys if status.get(key, "not_run") in OPEN}
        values = scorer_values(questions, scores, self.epochs, record, self.golds, open_attempts)
        answer_statuses = self.read[run.id].get(scorer, {})
        unscored_ids = (
            key[0]
            for key, attempt_status in status.items()
            if attempt_status == "completed" and key not in answer_statuses
        )
        unscored = [question for question in unscored_ids if question in values]
        values.update(dict.fromkeys(unscored))
        return values, len(unscored)


def comparison_basis(
    store: Store,
    runs: Sequence[Run],
    scorer_names: Sequence[str],
    common: bool,
    answered: bool = False,
    shared_scorers: bool = False,
    loaded: Mapping[str, tuple[list[Attempt], list[Score]]] | None = None,
) -> ComparisonSet:
    """Return what these runs can be compared on.

    With `common` or `answered` that is the questions that all of them have answered. With `shared_scorers` only the
    scorers that some runs lack are left out. `loaded` has the attempts and the scores of each run by its id; by default
    all are loaded.

    Raises:
        UserError: there are no runs; a run is given twice; questions, epochs or scorers differ and `common` is not
            set; a scorer has no scores.
    """
    if not runs:
        raise UserError("No run was given. See `ragrounds runs ls`.")
    repeated_ids = [id for id, count in Counter(run.id for run in runs).items() if count > 1]
    if repeated_ids:
        raise UserError(f"The run {repeated_ids[0]} is given twice; give each run once.")
    questions, notes = common_questions(store, runs, common)
    epochs = _epochs(runs, common, notes)
    summaries = {run.id: loaded[run.id][0] if loaded else store.summaries(run) for run in runs}
    if common or answered:
        questions = _answered(questions, epochs, summaries, notes)
    ids = {question.id for question in questions}
    scores: dict[str, dict[str, list[Score]]] = {}
    for run in runs:
        summaries[run.id] = [
            attempt for attempt in summaries[run.id] if attempt.question_id in ids and attempt.epoch < epochs
        ]
        by_scorer: dict[str, list[Score]] = defaultdict(list)
        for score in loaded[run.id][1] if loaded else store.scores(run):
            if score.question_id in ids and score.epoch < epochs:
                by_scorer[score.scorer].append(score)
        scores[run.id] = by_scorer
    # A computed score has no value where a question has nothing to score by (``facts`` without listed facts): then
    # there is nothing to show. A judge's score without a value is a failure, and shown.
    showable = {
        name
        for by_scorer in scores.values()
        for name, run_scores in by_scorer.items()
        if described(name).needs_judge or any(score.value is not None for score in run_scores)
    }
    shared = _shared_scorers(runs, scorer_names, questions, summaries, scores, common or shared_scorers, notes)
    user_headlines = tuple(Headline(kind=described(name).kinds[0], scorer=name, columns=()) for name in scorer_names)
    headlines = user_headlines or headline_of(questions, showable.intersection(shared))
    headline_names = [name for headline in headlines for name in (headline.scorer, *headline.columns)]
    return ComparisonSet(
        questions=tuple(questions),
        golds=store.questions(runs[0])[1],
        epochs=epochs,
        scorers=tuple(dict.fromkeys([*headline_names, *sorted(shared)])),
        headlines=headlines,
        summaries=summaries,
        status={run: {attempt.key: attempt.status for attempt in attempts} for run, attempts in summaries.items()},
        scores=scores,
        read={
            run: {
                name: {score.key: score.answer_status for score in scorer_scores}
                for name, scorer_scores in by_scorer.items()
            }
            for run, by_scorer in scores.items()
        },
        notes=tuple(notes),
    )


def scorers_with_figures(store: Store, runs: Sequence[Run]) -> dict[str, list[str]]:
    """Map run ids to the scorers that have something to show: a value, or the failures of a judge."""
    scores, numbered = schema.scores, schema.runs
    query = (
        sa.select(numbered.c.id, scores.c.scorer, sa.func.count(scores.c.value))
        .join(numbered, numbered.c.number == scores.c.run)
        .where(numbered.c.id.in_([run.id for run in runs]))
        .group_by(numbered.c.id, scores.c.scorer)
    )
    scorers: dict[str, list[str]] = {run.id: [] for run in runs}
    for run, name, values in fetch_rows(store.engine, query):
        scorers[run] += [name] if values or described(name).needs_judge else []
    return scorers


def common_questions(store: Store, runs: Sequence[Run], common: bool) -> tuple[list[Question], list[str]]:
    """Return the questions that all runs answer, in the first run's order, and notes on what was left out.

    Raises:
        UserError: the runs' questions differ and `common` is not set, or none is shared.
    """
    by_question_set = {run.questions: run for run in runs}
    first, golds = store.questions(runs[0])
    if len(by_question_set) == 1:
        return first, []
    if not common:
        differing = "; ".join(f"{run.id}: {run.count:,} questions of {run.benchmark}" for run in runs)
        raise UserError(
            f"These runs answer different questions ({differing}). Compare runs on the same questions, or set "
            "--common to compare on the questions that all runs have."
        )
    shared = {question.id: _content(question, golds[question.id]) for question in first}
    changed: set[str] = set()
    for run in by_question_set.values():
        other_questions, other_golds = store.questions(run)
        contents = {question.id: _content(question, other_golds[question.id]) for question in other_questions}
        changed |= {id for id in shared if id in contents and contents[id] != shared[id]}
        shared = {id: content for id, content in shared.items() if contents.get(id) == content}
    shared_questions = [question for question in first if question.id in shared]
    if not shared_questions:
        raise UserError("These runs have no question in common.")
    notes = [f"Compared on the {len(shared_questions):,} questions that all runs have."]
    if changed:
        notes.append(f"{len(changed):,} questions have the same id but a different text or answer; they are left out.")
    return shared_questions, notes


def _answered(
    questions: list[Question], epochs: int, summaries: Mapping[str, Sequence[Attempt]], notes: list[str]
) -> list[Question]:
    """Return the questions that every run has made all its attempts at."""
    counts_by_run = [
        Counter(attempt.question_id for attempt in attempts if attempt.epoch < epochs)
        for attempts in summaries.values()
    ]
    answered = [question for question in questions if all(counts[question.id] >= epochs for counts in counts_by_run)]
    if not answered:
        raise UserError("No question is answered by all these runs yet.")
    if len(answered) < len(questions):
        notes.append(f"{len(questions) - len(answered):,} questions not answered by every run yet are left out.")
    return answered


def _content(question: Question, gold: Gold) -> tuple[object, ...]:
    """Return the parts of a question that must be equal for two answers to answer the same question."""
    return question.text, tuple(question.options.items()), question.kind, gold.answer, gold.documents, gold.facts


def _epochs(runs: Sequence[Run], common: bool, notes: list[str]) -> int:
    least = min(run.epochs for run in runs)
    if all(run.epochs == least for run in runs):
        return least
    if not common:
        differing = "; ".join(f"{run.id}: {run.epochs}" for run in runs)
        raise UserError(
            f"These runs ask every question a different number of times (epochs: {differing}). Compare runs of the "
            f"same epochs, or set --common to compare on the first {least} of each."
        )
    notes.append(f"Compared on the first {least} epochs of each run.")
    return least


def _shared_scorers(
    runs: Sequence[Run],
    requested: Sequence[str],
    questions: Sequence[Question],
    summaries: Mapping[str, Sequence[Attempt]],
    scores: ScoresByRun,
    common: bool,
    notes: list[str],
) -> list[str]:
    """Return the scorers, `requested` or all, that every run has scores under.

    A scorer next to the headlines never blocks a table: it is left out with a note if some runs lack scores under it.

    Raises:
        UserError: no run has scores under a requested scorer; some runs lack scores under a headline scorer; the runs
            have no scorer in common.
    """
    present = list(dict.fromkeys(scorer for run in runs for scorer in scores[run.id]))
    if len(runs) == 1 and not requested:
        return present
    headlines = {headline.scorer for headline in headline_of(questions, present)}
    lacking_by_scorer = {
        name: [run.id for run in runs if _lacks_scores(name, run, summaries, scores)] for name in requested or present
    }
    is_any_shared, shared = not all(lacking_by_scorer.values()), list[str]()
    for name, lacking in lacking_by_scorer.items():
        if name not in present:
            raise UserError(
                f"No run has scores under {name!r}, only {', '.join(sorted(present)) or 'none'}. "
                f"`{described(name).command([run.id for run in runs])}` makes them, if {name!r} applies to the "
                "questions."
            )
        may_be_left_out = common or described(name).elsewhere or (is_any_shared and name not in headlines)
        if lacking and (requested or not may_be_left_out):
            remedy = "" if requested else ", or set --common to compare under the scorers that all runs have"
            raise UserError(
                f"These runs were scored by different scorers: {', '.join(lacking)} has no scores under {name!r}. "
                f"`{described(name).command(lacking)}` computes them{remedy}."
            )
        if lacking:
            notes.append(f"Not compared under {name}: {', '.join(lacking)} has no scores by it.")
        else:
            shared.append(name)
    if present and not shared:
        raise UserError("These runs have no scorer in common. `ragrounds score` scores them again, without a model.")
    return shared


def _lacks_scores(
    scorer: str,
    run: Run,
    summaries: Mapping[str, Sequence[Attempt]],
    scores: ScoresByRun,
) -> bool:
    """Return True if a run answered questions that others have scores for under a scorer but has no scores itself.

    A run that has not reached these questions yet lacks nothing: they count as not correct there.
    """
    if scorer in scores[run.id]:
        return False
    scored_ids = {score.question_id for by_scorer in scores.values() for score in by_scorer.get(scorer, ())}
    return any(attempt.status == "completed" and attempt.question_id in scored_ids for attempt in summaries[run.id])
