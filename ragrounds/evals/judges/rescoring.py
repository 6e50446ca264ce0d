"""Rescoring of stored scores by the current scorers.

Scores that other code made, or whose rows are missing, are computed again if no model has to be asked, otherwise
reported. All scores are also computed next to the stored ones to detect changes (`ragrounds doctor --store`).

A scorer that computes scores the stored attempts again. A judge's scores are read again from its recorded replies, if
these answer all current questions. If the prompt has changed they do not, and the command that judges again is
reported.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cache
from shlex import quote
from typing import TYPE_CHECKING

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.errors import StopRun, UserError
from ragrounds.base.records import Attempt, AttemptKey, Gold, Question, Run, Score
from ragrounds.evals.judges.attempts import LabelJudge, judge_code
from ragrounds.evals.judges.gate import WITHHELD
from ragrounds.evals.judges.methods import find_method
from ragrounds.evals.judges.recorded import RecordedJudge
from ragrounds.evals.scorers import described, known_scorer, score_by, scorer_code, scorers_for
from ragrounds.evals.scorers.judged import JudgedScorer, LabelMethod
from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import SCORED, column_text, scores_of
from ragrounds.evals.store.database import autocommit
from ragrounds.evals.store.store import Store

if TYPE_CHECKING:
    from ragrounds.evals.store.care.garbage import Progress
    from ragrounds.evals.store.care.verification import Findings, Grade

_LOG = logging.getLogger(__name__)
_MANY_ATTEMPTS = 2_000
"""Number of attempts from which scoring again is announced."""
_BATCH = 500
"""Number of attempts that are in memory together and whose scores are written together."""
_Set = tuple[Mapping[str, Question], Mapping[str, Gold]]


class StaleScores(Struct, frozen=True):
    """Scores of a run that were made by other code than the current one."""

    run: Run
    scorer: str
    command: str
    """Command that makes the scores again."""
    free: bool
    """True if that asks no model, so that opening the run is enough."""

    @property
    def note(self) -> str:
        """Note about the scores in tables."""
        return (
            f"The scores of {self.run.id} under {self.scorer} were made by another version of its code or prompt: "
            f"`{self.command}` makes them anew."
        )


def stale_scores(store: Store, run: Run) -> list[StaleScores]:
    """Return the scores of a run that were not made by the current code.

    Scores by other tools and by scorers that are not installed are left out, because nothing is known about their code.
    """
    stale = []
    judged_codes = cache(_judged_codes)  # up to a dozen scorers of a run have the same method
    for name, codes in sorted(store.score_codes(run).items()):
        scorer = described(name)
        if scorer.elsewhere or not (scorer.needs or scorer.computes):
            continue
        if codes <= (judged_codes(scorer.judging) if isinstance(scorer, JudgedScorer) else {scorer_code(scorer)}):
            continue
        stale.append(StaleScores(run, name, scorer.command([run.id]), not scorer.needs))
    return stale


def missing_scores(store: Store, run: Run) -> dict[str, list[AttemptKey]]:
    """Return the completed attempts without a score of a scorer that has scored others, or had, by scorer.

    Every attempt is written with its scores, so the rows are lost. Judges are left out: they may judge a part of a run.
    """
    missing: dict[str, list[AttemptKey]] = {}
    for name in sorted({*store.scorers(run), *store.lost_scorers(run)}):
        if not _is_computed(name) or not (keys := store.unscored(run, name)):
            continue
        scorer, questions = described(name), store.questions(run)[0]
        usual = {question.id for question in questions if scorer in scorers_for(question)}
        # A scorer that is only used on request is for all questions of its kind.
        scored_ids = usual or {question.id for question in questions if scorer.suits(question)}
        if lost := [key for key in keys if key[0] in scored_ids]:
            missing[name] = lost
    return missing


def missing_notes(store: Store, run: Run) -> list[str]:
    """Return a note for tables about each scorer of :func:`missing_scores`, and each whose scores are all lost."""
    missing = missing_scores(store, run)
    partly = [
        f"The store has lost {len(keys):,} scores of {run.id} under {name}, and its figure leaves these answers out: "
        f"`ragrounds score {quote(run.id)}` computes them again."
        for name, keys in missing.items()
    ]
    return partly + [
        f"The store has lost all scores of {run.id} under {name}: `{described(name).command([run.id])}` makes them "
        "again."
        for name in sorted(store.lost_scorers(run) - missing.keys())
        if not _is_computed(name)
    ]


def _is_computed(name: str) -> bool:
    """Return True if a scorer computes its scores from the answers alone."""
    scorer = described(name)
    return scorer.computes and not scorer.needs


def refresh_scores(store: Store, run: Run) -> list[StaleScores]:
    """Compute a run's stale and missing scores again if no model has to be asked, write them, and return those that
    remain stale.

    Args:
        store: store of the run.
        run: run of the scores.
    """
    stale, missing = stale_scores(store, run), missing_scores(store, run)
    if not stale and not missing:
        return []
    try:
        computed = {scores.scorer: store.scored(run, scores.scorer) for scores in stale if scores.free}
        if missing or computed:
            _score_again(store, run, computed, missing)
        for name, keys in missing.items():
            lost = f"The store had lost {len(keys):,} scores of {run.id} under {name}"
            _LOG.warning("%s: they were computed again from its answers.", lost)
        for scores in stale:
            if isinstance(scorer := described(scores.scorer), JudgedScorer):
                _judge_again(store, run, scorer)
    except StopRun as problem:  # scores that cannot be written can still be read
        cause = "were made by other code" if stale else "are missing in part"
        _LOG.warning("The scores of %s %s, and cannot be made again: %s", run.id, cause, problem)
    return stale_scores(store, run)


def _judged_codes(method_name: str) -> set[str]:
    """Return the digests of a judge method's current code: of a panel, and of one judge with each verifier."""
    method = find_method(method_name)
    verifiers = method.verifiers or ("llm",)
    return {judge_code(method, panel=True), *(judge_code(method, verifier=verifier) for verifier in verifiers)}


def _score_again(
    store: Store,
    run: Run,
    stale: Mapping[str, Set[AttemptKey]],
    missing: Mapping[str, Sequence[AttemptKey]],
) -> None:
    names = sorted({*stale, *missing})
    wanted = {(name, *key) for name in names for key in (*stale.get(name, ()), *missing.get(name, ()))}
    if stale and run.count * run.epochs > _MANY_ATTEMPTS:
        scorer_names = ", ".join(stale)
        _LOG.warning("%s: %s attempts are scored again by %s, whose code has changed or was not known.",
                     run.id, f"{run.count * run.epochs:,}", scorer_names)  # fmt: skip
    questions, golds = store.questions(run)
    by_id = {question.id: question for question in questions}
    scorers = [known_scorer(name) for name in names]
    scores: list[Score] = []
    for done, attempt in enumerate(store.attempts(run), 1):
        question, gold = by_id[attempt.question_id], golds[attempt.question_id]
        for scorer in scorers:
            if (scorer.name, question.id, attempt.epoch) in wanted:
                scores.append(score_by(scorer, attempt, question, gold))
        if done % _BATCH == 0:
            store.add_scores(run, scores)
            scores.clear()
    store.add_scores(run, scores)


def _judge_again(store: Store, run: Run, scorer: JudgedScorer) -> None:
    """Read the scores again from recorded replies, if those of exactly one judge are complete.

    If several judges could have given the scores, the judge is not known.
    """
    method = find_method(scorer.judging)
    if not isinstance(method, LabelMethod):
        return
    table = schema.scores
    reasons = sa.select(table.c.reason).where(table.c.run == store.number(run), table.c.scorer == scorer.name)
    with autocommit(store.engine) as connection:
        if connection.execute(reasons.where(table.c.reason.startswith(WITHHELD)).limit(1)).first():
            return  # judging again is free if all calls are recorded, including the probes
    stored = store.scored(run, scorer.name)
    complete_scores = [scores for name in store.judges(run) if (scores := _recorded(store, run, method, name, stored))]
    if len(complete_scores) == 1:
        store.add_scores(run, complete_scores[0])


def _recorded(
    store: Store, run: Run, method: LabelMethod, judge: str, attempt_keys: Set[tuple[str, int]]
) -> list[Score]:
    """Return the scores from a judge's recorded replies; empty if some reply is not recorded."""
    recorded_judge = RecordedJudge(store, LabelJudge(method.behind(method.name, lambda: store.scores(run))), judge)
    code = judge_code(method)
    questions, golds = store.questions(run)
    by_id = {question.id: question for question in questions}
    scores: list[Score] = []
    for attempt in store.attempts(run):
        if attempt.key in attempt_keys:
            judged_answer = recorded_judge.judge(attempt, by_id[attempt.question_id], golds[attempt.question_id])
            if judged_answer is None:
                return []
            scores += [replace(score, code=code) for score in judged_answer.scores]
    return scores


def check_scores(store: Store, run: Run, findings: Findings, report: Progress = lambda step, rows: None) -> None:
    """Score a run's answers again, and add missing scores and differences from the stored ones to `findings`.

    A difference is damage if the current code made the score, and a note if other code made it. Rows that cannot be
    read are skipped.
    """
    codes: dict[str, bool] = {}
    for name, made_by in store.score_codes(run).items():
        if _is_computed(name):
            codes[name] = made_by == {scorer_code(described(name))}
    lost = store.lost_scorers(run)
    if not codes and not lost:
        return
    try:
        questions, golds = store.questions(run)
        missing = missing_scores(store, run)
    except (UserError, ValueError):
        return  # the walk through the store has reported it
    for name in sorted(name for name in lost if name in missing or not _is_computed(name)):
        findings.add("damage", "score", f"{run.id}, {name}", "all of its scores are missing")
    for name, keys in missing.items():
        # A resumed run may have lost a scorer that was requested only for its beginning.
        grade: Grade = "note" if described(name).on_request else "damage"
        for question_id, epoch in () if name in lost else keys:
            location = f"{run.id}, {question_id!r}, epoch {epoch}, {name}"
            findings.add(grade, "score", location, "it is missing, and other answers of the run have one")
    question_maps = {question.id: question for question in questions}, golds
    done, batch = 0, list[Attempt]()
    for attempt in store.attempts(run, skip_damaged=True):
        batch.append(attempt)
        if len(batch) == _BATCH:
            _compare_scores(store, run, batch, codes, question_maps, findings)
            done, batch = done + len(batch), []
            report("scored again", done)
    _compare_scores(store, run, batch, codes, question_maps, findings)
    findings.checked["scored again"] += done + len(batch)
    report("scored again", done + len(batch))


def _compare_scores(
    store: Store,
    run: Run,
    attempts: Sequence[Attempt],
    codes: Mapping[str, bool],
    question_maps: _Set,
    findings: Findings,
) -> None:
    """Score consecutive attempts and report those whose stored scores differ."""
    questions, golds = question_maps
    stored = _stored_scores(store, run, codes, attempts) if attempts else {}
    for name, current in codes.items():
        scorer = known_scorer(name)
        for attempt in attempts:
            score = stored.get((name, attempt.question_id, attempt.epoch))
            if score is None or attempt.question_id not in questions:
                continue
            current_score = score_by(scorer, attempt, questions[attempt.question_id], golds[attempt.question_id])
            if _differs(current_score, score):
                location = f"{run.id}, {attempt.question_id!r}, epoch {attempt.epoch}, {name}"
                description = f"stored {score.value} {score.answer_status} {score.prediction!r}, today "
                description += f"{current_score.value} {current_score.answer_status} {current_score.prediction!r}"
                if not current:
                    description += "; other code made it, and opening the run scores it again"
                findings.add("damage" if current else "note", "score that differs", location, description)


def _stored_scores(
    store: Store, run: Run, scorers: Iterable[str], attempts: Sequence[Attempt]
) -> dict[tuple[str, str, int], Score]:
    """Return the undamaged scores of consecutive attempts by scorer, question id and epoch."""
    table = schema.scores
    query = sa.select(*SCORED).where(
        table.c.run == store.number(run),
        table.c.scorer.in_(scorers),
        table.c.question_id.between(attempts[0].question_id, attempts[-1].question_id),
    )
    with autocommit(store.engine) as connection:
        scores = scores_of(run, connection.execute(query), skip_damaged=True)
        return {(score.scorer, score.question_id, score.epoch): score for score in scores}


def _differs(current: Score, stored: Score) -> bool:
    if current.value is None or stored.value is None:
        is_same = current.value is stored.value
    else:
        is_same = math.isclose(current.value, stored.value, rel_tol=1e-9, abs_tol=1e-12)
    return not is_same or (current.answer_status, column_text(current.prediction)) != (
        stored.answer_status,
        stored.prediction,
    )
