"""What runs may be compared on: the same questions, the same epochs, the same scorers; or a refusal with its reason.

With `common`, the comparison is made on the part that all runs share, and a note says what that is.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ragrounds.base.errors import UserError
from ragrounds.base.records import OPEN, AnswerStatus, Attempt, Gold, Question, Run, Score
from ragrounds.evals.compare.question_values import QuestionValues, scorer_values
from ragrounds.evals.scorers import Headline, described, headline_of, scores_by_default
from ragrounds.evals.store.store import AttemptKey, Store

ScoresByRun = Mapping[str, Mapping[str, Sequence[Score]]]
"""Run id → scorer → scores."""


class ComparisonBasis(Struct, frozen=True, kw_only=True):
    """What runs are compared on, and everything that was read of them."""

    questions: tuple[Question, ...]
    golds: Mapping[str, Gold]
    epochs: int
    scorers: tuple[str, ...]
    """What all runs have scores under, the headlines and their columns first. Where one is to be chosen, it is the
    first."""
    headlines: tuple[Headline, ...]
    """The scorers to show: one headline for each kind of question, with the columns beside it, as the benchmark's card
    says; where scorers were named, these alone."""
    summaries: dict[str, list[Attempt]]
    """Run id → its attempts at these questions in these epochs, without texts."""
    status: dict[str, dict[AttemptKey, str]]
    """Run id → question id and epoch → how that attempt ended."""
    scores: dict[str, dict[str, list[Score]]]
    """Run id → scorer → scores of these attempts."""
    read: dict[str, dict[str, dict[AttemptKey, AnswerStatus]]]
    """Run id → scorer → question id and epoch → what was read of that answer."""
    notes: tuple[str, ...]

    def asked(self, scorer: str) -> list[Question]:
        """The questions that a scorer is for: those that any run has a score for, and those that it would score,
        whether an attempt was made or not. The denominator is every question."""
        scored = {question for found in self.read.values() for question, _ in found.get(scorer, ())}
        known = described(scorer)
        if not known.needs_judge and len(scored) < len(self.questions):
            usual = {question.id for question in self.questions if scores_by_default(known, question)}
            # A scorer that is only used when it is asked for is for all questions of its kind.
            scored |= usual or {question.id for question in self.questions if known.suits(question)}
        return [question for question in self.questions if question.id in scored]

    def values(self, scorer: str, run: Run, asked: Sequence[Question]) -> tuple[QuestionValues, int]:
        """Each question's mean score over all its epochs, and the number of answers that nobody scored. An answer
        without a score is not a wrong answer: the value of its question is missing, as where a judge failed."""
        scores, status, known = self.scores[run.id].get(scorer, []), self.status[run.id], described(scorer)
        made = ((question.id, epoch) for question in asked for epoch in range(self.epochs)) if known.ratio else ()
        open_ = {key for key in made if status.get(key, "not_run") in OPEN}
        values = scorer_values(asked, scores, self.epochs, known, self.golds, open_)
        read = self.read[run.id].get(scorer, {})
        left = (key[0] for key, ended in status.items() if ended == "completed" and key not in read)
        unscored = [question for question in left if question in values]
        values.update(dict.fromkeys(unscored))
        return values, len(unscored)


def comparison_basis(
    store: Store,
    runs: Sequence[Run],
    wanted: Sequence[str],
    common: bool,
    answered: bool = False,
    shared_scorers: bool = False,
) -> ComparisonBasis:
    """Find what these runs can be compared on. With `common` or `answered` that is what all of them have answered; with
    `shared_scorers` the scorers that some runs lack are left out, and nothing else.

    Raises:
        UserError: no runs, one named twice, or runs whose questions, epochs or scorers differ, where `common` is not
            set; a scorer that nothing was scored by.
    """
    if not runs:
        raise UserError("No run was given. See `ragrounds runs ls`.")
    twice = [id for id, count in Counter(run.id for run in runs).items() if count > 1]
    if twice:
        raise UserError(f"The run {twice[0]} is given twice; give each run once.")
    questions, notes = common_questions(store, runs, common)
    epochs = _epochs(runs, common, notes)
    summaries = {run.id: store.summaries(run) for run in runs}
    if common or answered:
        questions = _answered(questions, epochs, summaries, notes)
    ids = {question.id for question in questions}
    scores: dict[str, dict[str, list[Score]]] = {}
    for run in runs:
        summaries[run.id] = [one for one in summaries[run.id] if one.question_id in ids and one.epoch < epochs]
        by_scorer: dict[str, list[Score]] = defaultdict(list)
        for score in store.scores(run):
            if score.question_id in ids and score.epoch < epochs:
                by_scorer[score.scorer].append(score)
        scores[run.id] = by_scorer
    # A computed score has no value where a question has nothing to score by (``facts`` without listed facts): then
    # there is nothing to show. A judge's score without a value is a failure, and shown.
    showable = {
        name
        for found in scores.values()
        for name, made in found.items()
        if described(name).needs_judge or any(score.value is not None for score in made)
    }
    kept = _shared_scorers(runs, wanted, summaries, scores, common or shared_scorers, notes)
    named = tuple(Headline(kind=described(name).kinds[0], scorer=name, columns=()) for name in wanted)
    headlines = named or headline_of(questions, showable.intersection(kept))
    first = [name for one in headlines for name in (one.scorer, *one.columns)]
    return ComparisonBasis(
        questions=tuple(questions),
        golds=store.questions(runs[0])[1],
        epochs=epochs,
        scorers=tuple(dict.fromkeys([*first, *sorted(kept)])),
        headlines=headlines,
        summaries=summaries,
        status={run: {(one.question_id, one.epoch): one.status for one in made} for run, made in summaries.items()},
        scores=scores,
        read={
            run: {name: {(one.question_id, one.epoch): one.answer_status for one in made} for name, made in by.items()}
            for run, by in scores.items()
        },
        notes=tuple(notes),
    )


def common_questions(store: Store, runs: Sequence[Run], common: bool) -> tuple[list[Question], list[str]]:
    """The questions that all runs answer, in the first run's order, and notes on what was left out.

    Raises:
        UserError: the runs' questions differ and `common` is not set, or none is shared.
    """
    sets = {run.questions: run for run in runs}
    first, golds = store.questions(runs[0])
    if len(sets) == 1:
        return first, []
    if not common:
        differing = "; ".join(f"{run.id}: {run.count:,} questions of {run.benchmark}" for run in runs)
        raise UserError(
            f"These runs answer different questions ({differing}). Compare runs on the same questions, or set "
            "--common to compare on the questions that all runs have."
        )
    shared = {question.id: _content(question, golds[question.id]) for question in first}
    changed: set[str] = set()
    for run in sets.values():
        others, other_golds = store.questions(run)
        contents = {question.id: _content(question, other_golds[question.id]) for question in others}
        changed |= {id for id in shared if id in contents and contents[id] != shared[id]}
        shared = {id: content for id, content in shared.items() if contents.get(id) == content}
    kept = [question for question in first if question.id in shared]
    if not kept:
        raise UserError("These runs have no question in common.")
    notes = [f"Compared on the {len(kept):,} questions that all runs have."]
    if changed:
        notes.append(f"{len(changed):,} questions have the same id but a different text or answer; they are left out.")
    return kept, notes


def _answered(
    questions: list[Question], epochs: int, summaries: Mapping[str, Sequence[Attempt]], notes: list[str]
) -> list[Question]:
    """The questions that every run has made all its attempts at."""
    made = [Counter(one.question_id for one in found if one.epoch < epochs) for found in summaries.values()]
    kept = [question for question in questions if all(counts[question.id] >= epochs for counts in made)]
    if not kept:
        raise UserError("No question is answered by all these runs yet.")
    if len(kept) < len(questions):
        notes.append(f"{len(questions) - len(kept):,} questions not answered by every run yet are left out.")
    return kept


def _content(question: Question, gold: Gold) -> tuple[object, ...]:
    """What must be equal for two answers to be answers to the same question."""
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
    wanted: Sequence[str],
    summaries: Mapping[str, Sequence[Attempt]],
    scores: ScoresByRun,
    common: bool,
    notes: list[str],
) -> list[str]:
    """The scorers, `wanted` or all, that every run has scores under.

    Raises:
        UserError: nothing was scored by a wanted one; runs lack scores and may not; nothing is shared.
    """
    present = list(dict.fromkeys(scorer for run in runs for scorer in scores[run.id]))
    if len(runs) == 1 and not wanted:
        return present
    kept: list[str] = []
    for name in wanted or present:
        if name not in present:
            raise UserError(
                f"No run has scores under {name!r}, only {', '.join(sorted(present)) or 'none'}. "
                f"`{described(name).command([run.id for run in runs])}` makes them, if {name!r} applies to the "
                "questions."
            )
        lacking = [run.id for run in runs if _lacks(name, run, summaries, scores)]
        if lacking and (wanted or not (common or described(name).elsewhere)):
            others = "" if wanted else ", or set --common to compare under the scorers that all runs have"
            raise UserError(
                f"These runs were scored by different scorers: {', '.join(lacking)} has no scores under {name!r}. "
                f"`{described(name).command(lacking)}` computes them{others}."
            )
        if lacking:
            notes.append(f"Not compared under {name}: {', '.join(lacking)} has no scores by it.")
        else:
            kept.append(name)
    if present and not kept:
        raise UserError("These runs have no scorer in common. `ragrounds score` scores them again, without a model.")
    return kept


def _lacks(
    scorer: str,
    run: Run,
    summaries: Mapping[str, Sequence[Attempt]],
    scores: ScoresByRun,
) -> bool:
    """Whether a run answered questions that others have scores for under a scorer, and has none itself. A run that
    has not come to those questions yet lacks nothing: it counts as not correct there."""
    if scorer in scores[run.id]:
        return False
    asked = {score.question_id for by_scorer in scores.values() for score in by_scorer.get(scorer, ())}
    return any(attempt.status == "completed" and attempt.question_id in asked for attempt in summaries[run.id])
