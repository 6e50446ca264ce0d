"""Rows of a list of runs: progress, headline figure and cost.

The figure is the one that :func:`ragrounds.evals.compare.comparison.compare` has for the run alone, but without the
interval, whose bootstrap takes most of a comparison's time. For an unfinished run it is the figure of the questions
whose attempts have all been made. The database computes the sums; questions of a set that several runs answered are
loaded once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.errors import UserError
from ragrounds.base.records import OPEN, Question, Run
from ragrounds.evals.compare.comparability import comparison_basis
from ragrounds.evals.compare.figures import design, figure
from ragrounds.evals.compare.stopped_runs import early_stops
from ragrounds.evals.engine.live_score import pooled_yet
from ragrounds.evals.scorers import described, headline_of, scores_by_default
from ragrounds.evals.store import schema
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.run_facts import attempt_totals
from ragrounds.evals.trace.run_rows import scorers_of


class RunOverview(Struct, frozen=True, kw_only=True):
    """Row of a run in a list."""

    run: Run
    statuses: Mapping[str, int]
    """Status → number of attempts."""
    name: str = ""
    """Name of the run in tables; if empty, the agent's text is shown."""
    models: tuple[str, ...] = ()
    """Models that the agent calls, each once, without parameters."""
    scorer: str = ""
    """Headline scorer; empty if nothing is scored yet."""
    score: float | None = None
    """Headline figure: a share if `unit` is ``percent``; ``None`` if not known."""
    so_far: bool = False
    """True if attempts are still to be made, so that the figure covers only finished questions."""
    unit: str = "percent"
    cost_paid: float | None = 0.0
    """Dollars actually paid; ``None`` if not known."""
    cost_uncached: float | None = 0.0
    seconds: float | None = None
    """Mean wall-clock seconds of an attempt."""

    @property
    def made(self) -> int:
        """Attempts that have been made, whatever their outcome."""
        return sum(count for status, count in self.statuses.items() if status != "not_run")

    @property
    def failed(self) -> int:
        """Number of open attempts: failed, capped, paused."""
        return sum(count for status, count in self.statuses.items() if status in OPEN and status != "not_run")


def run_overviews(store: Store, runs: Sequence[Run], names: Mapping[str, str]) -> list[RunOverview]:
    """Return an overview of each run.

    Args:
        store: store of the runs.
        runs: runs in the order of the list.
        names: run id → name of the run.
    """
    with store.engine.connect() as connection:
        reader = _Reader(store, connection)
        return [reader.overview(run, names.get(run.id, "")) for run in runs]


@dataclass
class _Reader:
    store: Store
    connection: sa.Connection
    _questions: dict[str, list[Question]] = field(default_factory=dict)
    _headlines: dict[tuple[str, ...], tuple[str, bool]] = field(default_factory=dict)

    def overview(self, run: Run, name: str) -> RunOverview:
        """Return the overview of a run."""
        number = self.store.number(run)
        totals = attempt_totals(self.store, run)
        attempt_count = sum(count for status, count in totals.statuses.items() if status != "not_run")
        stopped_early = bool(early_stops(self.store, [run]))
        so_far = attempt_count < run.count * run.epochs and not stopped_early
        scorer, score = self._score(run, number, stopped_early, so_far) if attempt_count else ("", None)
        models = run.identity.get("models")
        model_names = [str(model).partition("[")[0] for model in models.values()] if isinstance(models, Mapping) else []
        return RunOverview(
            run=run,
            statuses=totals.statuses,
            name=name,
            models=tuple(dict.fromkeys(model_names)),
            scorer=scorer,
            score=score,
            so_far=so_far,
            unit=described(scorer).unit if scorer else "percent",
            cost_paid=totals.cost_paid,
            cost_uncached=totals.cost_uncached,
            seconds=totals.seconds / attempt_count if attempt_count and run.timed else None,
        )

    def _score(self, run: Run, number: int, stopped_early: bool, so_far: bool) -> tuple[str, float | None]:
        present = [
            name
            for name in scorers_of(self.connection, number)
            if described(name).needs_judge or self._has_value(number, name)
        ]
        name, has_one_dataset = self._headline(run, present)
        if not name:
            return "", None
        scorer = described(name)
        if so_far or stopped_early or scorer.ratio:
            return name, self._compared_figure(run, name, stopped_early or so_far, so_far)
        if has_one_dataset and scorer.accuracy and run.epochs == 1:
            total, score_count, value_count = self._total(number, name)
            if score_count == value_count == run.count:
                return name, total / score_count
        questions = self._questions_of(run)
        sums, scored = self._sums(number, name)
        default_ids = (
            {question.id for question in questions if scores_by_default(scorer, question)}
            if not scorer.needs_judge
            else set()
        )
        if not scorer.needs_judge and not default_ids:
            default_ids = {question.id for question in questions if scorer.suits(question)}
        applicable = [question for question in questions if question.id in default_ids or question.id in sums]
        if scored < self._completed(
            number, [question.id for question in applicable], len(applicable) == len(questions)
        ):
            return name, self._compared_figure(run, name, stopped_early)
        counted = [
            question
            for question in applicable
            if (sum_and_complete := sums.get(question.id)) is None or sum_and_complete[1]
        ]
        if not counted:
            return name, None
        by_stratum: dict[str, list[float]] = defaultdict(list)
        for question, stratum in zip(counted, design(counted)[0], strict=True):
            by_stratum[stratum].append(sums.get(question.id, (0.0, True))[0] / run.epochs)
        return name, sum(sum(values) / len(values) for values in by_stratum.values()) / len(by_stratum)

    def _headline(self, run: Run, present: Sequence[str]) -> tuple[str, bool]:
        """Return the headline scorer of a run scored by these (empty if none), and True if its questions are of one
        dataset."""
        key = (run.questions, *present)
        if key not in self._headlines:
            questions = self._questions_of(run)
            headlines = [headline.scorer for headline in headline_of(questions, present)]
            self._headlines[key] = (
                headlines[0] if headlines else "",
                len({question.benchmark for question in questions}) == 1,
            )
        return self._headlines[key]

    def _total(self, number: int, name: str) -> tuple[float, int, int]:
        """Return the sum of a run's scores, the number of scores, and the number of scores with a value."""
        table = schema.scores
        totals = sa.select(sa.func.sum(table.c.value), sa.func.count(), sa.func.count(table.c.value))
        total, scored, valued = self.connection.execute(
            totals.where(table.c.run == number, table.c.scorer == name)
        ).one()
        return total or 0.0, scored, valued

    def _compared_figure(self, run: Run, name: str, answered: bool, so_far: bool = False) -> float | None:
        """Return the figure as a comparison computes it.

        With `answered` it covers the questions whose attempts have all been made; with `so_far` it is the figure on the
        run's screen.
        """
        try:
            basis = comparison_basis(self.store, [run], [], False, answered=answered)
        except UserError:  # no question is done in all its epochs
            return None
        questions = basis.questions_for(name)
        all_datasets = (question.benchmark for question in self._questions_of(run))
        if so_far and pooled_yet((question.benchmark for question in basis.questions), all_datasets):
            questions = [replace(question, benchmark="") for question in questions]
        return figure(questions, basis.values(name, run, questions)[0], {}, 0, described(name), basis.epochs).value

    def _sums(self, number: int, name: str) -> tuple[dict[str, tuple[float, bool]], int]:
        """Return question id → (sum of its scores, True if all have a value), and the number of scores."""
        table = schema.scores
        sums = sa.select(table.c.question_id, sa.func.sum(table.c.value), sa.func.count(), sa.func.count(table.c.value))
        query = sums.where(table.c.run == number, table.c.scorer == name).group_by(table.c.question_id)
        rows = self.connection.execute(query).all()
        return {id: (value or 0.0, count == value_count) for id, value, count, value_count in rows}, sum(
            row[2] for row in rows
        )

    def _completed(self, number: int, ids: Sequence[str], all_questions: bool) -> int:
        """Return the number of completed attempts at these questions."""
        table = schema.attempts
        query = sa.select(table.c.question_id, sa.func.count()).where(
            table.c.run == number, table.c.status == "completed"
        )
        if all_questions:
            return int(self.connection.execute(query.with_only_columns(sa.func.count())).scalar_one())
        rows = self.connection.execute(query.group_by(table.c.question_id)).all()
        counts = {row[0]: row[1] for row in rows}
        return sum(counts.get(id, 0) for id in ids)

    def _has_value(self, number: int, name: str) -> bool:
        table = schema.scores
        valued = sa.select(table.c.question_id).where(
            table.c.run == number, table.c.scorer == name, table.c.value.is_not(None)
        )
        return self.connection.execute(valued.limit(1)).first() is not None

    def _questions_of(self, run: Run) -> list[Question]:
        if run.questions not in self._questions:
            self._questions[run.questions] = self.store.questions(run)[0]
        return self._questions[run.questions]
