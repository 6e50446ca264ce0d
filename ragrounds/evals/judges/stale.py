"""Scores that other code made than that of now: made again where no model is asked, else named.

A scorer that computes scores the stored attempts again. A judge's scores are read again from its recorded replies,
where these hold an answer to every question of now; where the prompt has changed they do not, and the command that
judges again is named.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence, Set

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.errors import StopRun
from ragrounds.evals.judges.attempts import LabelJudge
from ragrounds.evals.judges.codes import judge_code
from ragrounds.evals.judges.methods import find_method
from ragrounds.evals.judges.recorded import AbsentModel, finished
from ragrounds.evals.scorers import described, known_scorer, score_by, scorer_code
from ragrounds.evals.scorers.base import ScorerRecord
from ragrounds.evals.scorers.judged import JudgedScorer, LabelMethod
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.prompts.loader import PromptFolder
from ragrounds.records import Run, Score

_LOG = logging.getLogger(__name__)
_LONG = 2_000
"""Attempts from which on scoring them again is said."""
_BATCH = 500
"""Attempts whose scores are written together."""


class StaleScores(Struct, frozen=True):
    """Scores of a run that other code made than that of now, or code that is not known."""

    run: Run
    scorer: str
    known: bool
    """Whether the store says which code made them: it does since version 0.2.0."""
    command: str
    """Makes them anew."""
    free: bool
    """Whether that asks no model, so that opening the run is enough."""

    @property
    def note(self) -> str:
        """What tables say of them."""
        made = "by another version of its code or prompt" if self.known else "before the store kept by which prompt"
        return f"The scores of {self.run.id} under {self.scorer} were made {made}: `{self.command}` makes them anew."


def stale_scores(store: Store, run: Run) -> list[StaleScores]:
    """The scores of a run that are not of the code of now. Scorers that are not here are left out: nothing is known of
    them."""
    found = []
    for name, codes in sorted(store.score_codes(run).items()):
        scorer = described(name)
        if not (scorer.needs or scorer.computes):
            continue
        if codes <= _codes_now(scorer):
            continue
        found.append(StaleScores(run, name, "" not in codes, scorer.command([run.id]), not scorer.needs))
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
        return {judge_code(method), judge_code(method, panel=True)}
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
    stored = store.scored(run, scorer.name)
    read = [scores for name in store.judges(run) if (scores := _recorded(store, run, method, name, stored))]
    if len(read) == 1:
        store.add_scores(run, read[0])


def _recorded(store: Store, run: Run, method: LabelMethod, judge: str, wanted: Set[tuple[str, int]]) -> list[Score]:
    """The scores that a judge's recorded replies make; empty: some reply is not recorded."""
    by, prompts, absent = LabelJudge(method), PromptFolder(), AbsentModel(judge)
    questions, golds = store.questions(run)
    by_id = {question.id: question for question in questions}
    journal = StoreJournal(store, "replay")
    scores: list[Score] = []
    try:
        for attempt in store.attempts(run):
            if (attempt.question_id, attempt.epoch) in wanted:
                question, gold = by_id[attempt.question_id], golds[attempt.question_id]
                judged = finished(by.judge(attempt, question, gold, absent, journal, prompts))
                scores += [replace(one, code=by.code) for one in judged.scores]
    except StopRun:
        return []
    finally:
        journal.close()
    return scores
