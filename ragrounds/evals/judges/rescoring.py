"""Stored scores and the scorers of now: scores that other code made are made again where no model is asked, else named;
and all are made again beside those that are stored, to find what was changed (`ragrounds doctor --store`).

A scorer that computes scores the stored attempts again. A judge's scores are read again from its recorded replies,
where these hold an answer to every question of now; where the prompt has changed they do not, and the command that
judges again is named.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.errors import StopRun, UserError
from ragrounds.base.records import Attempt, Gold, Question, Run, Score
from ragrounds.evals.judges.attempts import LabelJudge, judge_code
from ragrounds.evals.judges.gate import WITHHELD
from ragrounds.evals.judges.methods import find_method
from ragrounds.evals.judges.recorded import RecordedJudge
from ragrounds.evals.scorers import described, known_scorer, score_by, scorer_code
from ragrounds.evals.scorers.base import ScorerRecord
from ragrounds.evals.scorers.judged import JudgedScorer, LabelMethod
from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import column_text
from ragrounds.evals.store.database import autocommit
from ragrounds.evals.store.row_sums import is_whole_row
from ragrounds.evals.store.store import Store

if TYPE_CHECKING:
    from ragrounds.evals.store.care.garbage import Progress
    from ragrounds.evals.store.care.verification import Findings

_LOG = logging.getLogger(__name__)
_LONG = 2_000
"""Attempts from which on scoring them again is said."""
_BATCH = 500
"""Attempts that are in memory together, and whose scores are written together."""
_Set = tuple[Mapping[str, Question], Mapping[str, Gold]]


class StaleScores(Struct, frozen=True):
    """Scores of a run that other code made than that of now."""

    run: Run
    scorer: str
    command: str
    """Makes them anew."""
    free: bool
    """Whether that asks no model, so that opening the run is enough."""

    @property
    def note(self) -> str:
        """What tables say of them."""
        return (
            f"The scores of {self.run.id} under {self.scorer} were made by another version of its code or prompt: "
            f"`{self.command}` makes them anew."
        )


def stale_scores(store: Store, run: Run) -> list[StaleScores]:
    """The scores of a run that are not of the code of now. Those that another tool made, and scorers that are not here
    are left out: nothing is known of their code."""
    found = []
    for name, codes in sorted(store.score_codes(run).items()):
        scorer = described(name)
        if scorer.elsewhere or not (scorer.needs or scorer.computes):
            continue
        if codes <= _codes_now(scorer):
            continue
        found.append(StaleScores(run, name, scorer.command([run.id]), not scorer.needs))
    return found


def refresh_scores(store: Store, run: Run, progress: Callable[[int], None] = lambda done: None) -> list[StaleScores]:
    """Make a run's stale scores again where no model is asked, and write them; give those that are left.

    Args:
        store: of the run.
        run: whose scores.
        progress: is told how many attempts are scored again.
    """
    stale = stale_scores(store, run)
    if not stale:
        return []
    try:
        if computed := [one.scorer for one in stale if one.free]:
            _score_again(store, run, computed, progress)
        for one in stale:
            if isinstance(scorer := described(one.scorer), JudgedScorer):
                _judge_again(store, run, scorer)
    except StopRun as problem:  # what cannot be written can be read all the same
        _LOG.warning("The scores of %s were made by other code, and cannot be made again: %s", run.id, problem)
    return stale_scores(store, run)


def _codes_now(scorer: ScorerRecord) -> set[str]:
    if isinstance(scorer, JudgedScorer):
        method = find_method(scorer.judging)
        by = method.verifiers or ("llm",)
        return {judge_code(method, panel=True), *(judge_code(method, verifier=one) for one in by)}
    return {scorer_code(scorer)}


def _score_again(store: Store, run: Run, names: Sequence[str], progress: Callable[[int], None]) -> None:
    stored = {(name, *place) for name in names for place in store.scored(run, name)}
    if run.count * run.epochs > _LONG:
        said = ", ".join(names)
        _LOG.warning("%s: %s attempts are scored again by %s, whose code is another now, or was not known.",
                     run.id, f"{run.count * run.epochs:,}", said)  # fmt: skip
    questions, golds = store.questions(run)
    by_id = {question.id: question for question in questions}
    scorers = [known_scorer(name) for name in names]
    scores: list[Score] = []
    for done, attempt in enumerate(store.attempts(run), 1):
        question, gold = by_id[attempt.question_id], golds[attempt.question_id]
        for scorer in scorers:
            if (scorer.name, question.id, attempt.epoch) in stored:
                scores.append(score_by(scorer, attempt, question, gold))
        if done % _BATCH == 0:
            store.add_scores(run, scores)
            scores.clear()
            progress(done)
    store.add_scores(run, scores)


def _judge_again(store: Store, run: Run, scorer: JudgedScorer) -> None:
    """Read the scores again from recorded replies, where those of exactly one judge are complete: who gave scores that
    several could have given is not known."""
    method = find_method(scorer.judging)
    if not isinstance(method, LabelMethod):
        return
    table = schema.scores
    held = sa.select(table.c.reason).where(table.c.run == store.number(run), table.c.scorer == scorer.name)
    with autocommit(store.engine) as connection:
        if connection.execute(held.where(table.c.reason.startswith(WITHHELD)).limit(1)).first():
            return  # the command that judges again is free where all is recorded, probes too
    stored = store.scored(run, scorer.name)
    read = [scores for name in store.judges(run) if (scores := _recorded(store, run, method, name, stored))]
    if len(read) == 1:
        store.add_scores(run, read[0])


def _recorded(store: Store, run: Run, method: LabelMethod, judge: str, wanted: Set[tuple[str, int]]) -> list[Score]:
    """The scores that a judge's recorded replies make; empty: some reply is not recorded."""
    by = RecordedJudge(store, LabelJudge(method.behind(method.name, lambda: store.scores(run))), judge)
    code = judge_code(method)
    questions, golds = store.questions(run)
    by_id = {question.id: question for question in questions}
    scores: list[Score] = []
    for attempt in store.attempts(run):
        if (attempt.question_id, attempt.epoch) in wanted:
            judged = by.judge(attempt, by_id[attempt.question_id], golds[attempt.question_id])
            if judged is None:
                return []
            scores += [replace(one, code=code) for one in judged.scores]
    return scores


def check_scores(store: Store, run: Run, findings: Findings, report: Progress = lambda step, rows: None) -> None:
    """Score a run's answers again, and add to `findings` what differs from the scores that are stored: damage where the
    code that made them is that of now, a note where it is another. Rows that cannot be read are passed over."""
    codes: dict[str, bool] = {}
    for name, made_by in store.score_codes(run).items():
        scorer = described(name)
        if scorer.computes and not scorer.needs:
            codes[name] = made_by == {scorer_code(scorer)}
    if not codes:
        return
    try:
        questions, golds = store.questions(run)
    except (UserError, ValueError):
        return  # the walk through the store has named it
    sets = {one.id: one for one in questions}, golds
    done, batch = 0, list[Attempt]()
    for attempt in store.attempts(run, skip_damaged=True):
        batch.append(attempt)
        if len(batch) == _BATCH:
            _compared(store, run, batch, codes, sets, findings)
            done, batch = done + len(batch), []
            report("scored again", done)
    _compared(store, run, batch, codes, sets, findings)
    findings.checked["scored again"] += done + len(batch)
    report("scored again", done + len(batch))


def _compared(
    store: Store, run: Run, attempts: Sequence[Attempt], codes: Mapping[str, bool], sets: _Set, findings: Findings
) -> None:
    """Score some attempts that follow each other, and name those whose stored scores are others."""
    questions, golds = sets
    for name, current in codes.items() if attempts else ():
        scorer, stored = known_scorer(name), _stored(store, run, name, attempts)
        for attempt in attempts:
            row = stored.get((attempt.question_id, attempt.epoch))
            if row is None or not is_whole_row(schema.scores, row) or attempt.question_id not in questions:
                continue
            now = score_by(scorer, attempt, questions[attempt.question_id], golds[attempt.question_id])
            if _differs(now, row):
                place = f"{run.id}, {attempt.question_id!r}, epoch {attempt.epoch}, {name}"
                said = f"stored {row.value} {row.answer_status} {row.prediction!r}, today "
                said += f"{now.value} {now.answer_status} {now.prediction!r}"
                if not current:
                    said += "; other code made it, and opening the run scores it again"
                findings.add("damage" if current else "note", "score that differs", place, said)


def _stored(store: Store, run: Run, scorer: str, attempts: Sequence[Attempt]) -> dict[tuple[str, int], Any]:
    table = schema.scores
    wanted = sa.select(table).where(
        table.c.run == store.number(run),
        table.c.scorer == scorer,
        table.c.question_id.between(attempts[0].question_id, attempts[-1].question_id),
    )
    with autocommit(store.engine) as connection:
        return {(row.question_id, row.epoch): row for row in connection.execute(wanted)}


def _differs(now: Score, row: Any) -> bool:
    if now.value is None or row.value is None:
        same = now.value is row.value
    else:
        same = math.isclose(now.value, row.value, rel_tol=1e-9, abs_tol=1e-12)
    return not same or (now.answer_status, column_text(now.prediction)) != (row.answer_status, row.prediction)
