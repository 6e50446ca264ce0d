"""Stored answers scored again by the scorers of now, beside the scores that are stored (`ragrounds doctor --store`).

Nothing is written, and no model is asked: scores that need a judge, an embedder or a file of the user's are left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from ragrounds.errors import UserError
from ragrounds.evals.scorers import described, known_scorer, score_by, scorer_code
from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import column_text, is_whole
from ragrounds.evals.store.database import autocommit
from ragrounds.evals.store.garbage import Progress
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.verification import Findings
from ragrounds.records import Attempt, Gold, Question, Run, Score

_TOGETHER = 500
"""Attempts that are in memory."""


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
    check = _Check(store, run, {one.id: one for one in questions}, golds, codes, findings)
    done, batch = 0, list[Attempt]()
    for attempt in store.attempts(run, skip_damaged=True):
        batch.append(attempt)
        if len(batch) == _TOGETHER:
            check.compare(batch)
            done, batch = done + len(batch), []
            report("scored again", done)
    check.compare(batch)
    findings.checked["scored again"] += done + len(batch)
    report("scored again", done + len(batch))


class _Check:
    def __init__(
        self,
        store: Store,
        run: Run,
        questions: Mapping[str, Question],
        golds: Mapping[str, Gold],
        codes: Mapping[str, bool],
        findings: Findings,
    ) -> None:
        self._store, self._run, self._questions, self._golds = store, run, questions, golds
        self._codes, self._findings = codes, findings
        self._number = store.number(run)

    def compare(self, attempts: Sequence[Attempt]) -> None:
        """Score some attempts that follow each other, and compare."""
        for name, current in self._codes.items() if attempts else ():
            scorer, stored = known_scorer(name), self._stored(name, attempts)
            for attempt in attempts:
                row = stored.get((attempt.question_id, attempt.epoch))
                if row is None or not is_whole(row) or attempt.question_id not in self._questions:
                    continue
                gold = self._golds[attempt.question_id]
                now = score_by(scorer, attempt, self._questions[attempt.question_id], gold)
                if _differs(now, row):
                    place = f"{self._run.id}, {attempt.question_id!r}, epoch {attempt.epoch}, {name}"
                    said = f"stored {row.value} {row.answer_status} {row.prediction!r}, today "
                    said += f"{now.value} {now.answer_status} {now.prediction!r}"
                    if not current:
                        said += "; other code made it, and opening the run scores it again"
                    self._findings.add("damage" if current else "note", "score that differs", place, said)

    def _stored(self, scorer: str, attempts: Sequence[Attempt]) -> dict[tuple[str, int], Any]:
        table = schema.scores
        wanted = sa.select(table).where(
            table.c.run == self._number,
            table.c.scorer == scorer,
            table.c.question_id.between(attempts[0].question_id, attempts[-1].question_id),
        )
        with autocommit(self._store.engine) as connection:
            return {(row.question_id, row.epoch): row for row in connection.execute(wanted)}


def _differs(now: Score, row: Any) -> bool:
    if now.value is None or row.value is None:
        same = now.value is row.value
    else:
        same = math.isclose(now.value, row.value, rel_tol=1e-9, abs_tol=1e-12)
    return not same or (now.answer_status, column_text(now.prediction)) != (row.answer_status, row.prediction)
