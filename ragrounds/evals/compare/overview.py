"""What a list of runs says of each: how far it is, its headline figure, what it cost.

The figure is the one that :func:`ragrounds.evals.compare.comparison.compare` has for the run alone, without the
interval, whose bootstrap takes most of a comparison's time. Of a run that is not finished it is that of the questions
whose attempts have all been made: there is nothing to say yet of the others. Sums are made by the database; questions
of a set that several runs answered are read once.
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
    """A run in a list."""

    run: Run
    statuses: Mapping[str, int]
    """How many attempts ended in which status."""
    name: str = ""
    """What it is called in tables; empty: by its agent's text."""
    models: tuple[str, ...] = ()
    """The models that its agent asks, each once, without parameters."""
    scorer: str = ""
    """The headline scorer; empty: nothing is scored yet."""
    score: float | None = None
    """Its figure: a share where `unit` is ``percent``; ``None``: not known."""
    so_far: bool = False
    """Whether attempts are still to be made, so that the figure is of the questions that are done."""
    unit: str = "percent"
    cost_paid: float | None = 0.0
    """Dollars really paid; ``None``: not known."""
    cost_uncached: float | None = 0.0
    seconds: float | None = None
    """Mean wall-clock seconds of an attempt."""

    @property
    def made(self) -> int:
        """Attempts that have been made, whatever came of them."""
        return sum(count for status, count in self.statuses.items() if status != "not_run")

    @property
    def failed(self) -> int:
        """Attempts that are open: failed, capped, paused."""
        return sum(count for status, count in self.statuses.items() if status in OPEN and status != "not_run")


def run_overviews(store: Store, runs: Sequence[Run], names: Mapping[str, str]) -> list[RunOverview]:
    """How each of these runs stands.

    Args:
        store: where they are.
        runs: in the order that is wanted.
        names: run id → what it is called.
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
        """How a run stands."""
        number = self.store.number(run)
        totals = attempt_totals(self.store, run)
        made = sum(count for status, count in totals.statuses.items() if status != "not_run")
        early = bool(early_stops(self.store, [run]))
        so_far = made < run.count * run.epochs and not early
        scorer, score = self._score(run, number, early, so_far) if made else ("", None)
        models = run.identity.get("models")
        asked = [str(model).partition("[")[0] for model in models.values()] if isinstance(models, Mapping) else []
        return RunOverview(
            run=run,
            statuses=totals.statuses,
            name=name,
            models=tuple(dict.fromkeys(asked)),
            scorer=scorer,
            score=score,
            so_far=so_far,
            unit=described(scorer).unit if scorer else "percent",
            cost_paid=totals.cost_paid,
            cost_uncached=totals.cost_uncached,
            seconds=totals.seconds / made if made and run.timed else None,
        )

    def _score(self, run: Run, number: int, early: bool, so_far: bool) -> tuple[str, float | None]:
        present = [
            name
            for name in scorers_of(self.connection, number)
            if described(name).needs_judge or self._valued(number, name)
        ]
        name, one_dataset = self._headline(run, present)
        if not name:
            return "", None
        scorer = described(name)
        if so_far or early or scorer.ratio:
            return name, self._whole(run, name, early or so_far, so_far)
        if one_dataset and scorer.accuracy and run.epochs == 1:
            total, made, known = self._total(number, name)
            if made == known == run.count:
                return name, total / made
        questions = self._set(run)
        sums, scored = self._sums(number, name)
        usual = {one.id for one in questions if scores_by_default(scorer, one)} if not scorer.needs_judge else set()
        if not scorer.needs_judge and not usual:
            usual = {one.id for one in questions if scorer.suits(one)}
        asked = [one for one in questions if one.id in usual or one.id in sums]
        if scored < self._completed(number, [one.id for one in asked], len(asked) == len(questions)):
            return name, self._whole(run, name, early)
        valued = [one for one in asked if (found := sums.get(one.id)) is None or found[1]]
        if not valued:
            return name, None
        by_stratum: dict[str, list[float]] = defaultdict(list)
        for question, stratum in zip(valued, design(valued)[0], strict=True):
            by_stratum[stratum].append(sums.get(question.id, (0.0, True))[0] / run.epochs)
        return name, sum(sum(values) / len(values) for values in by_stratum.values()) / len(by_stratum)

    def _headline(self, run: Run, present: Sequence[str]) -> tuple[str, bool]:
        """The headline of a run that these have scored (empty: none), and whether its questions are of one dataset."""
        key = (run.questions, *present)
        if key not in self._headlines:
            questions = self._set(run)
            named = [one.scorer for one in headline_of(questions, present)]
            self._headlines[key] = (named[0] if named else "", len({one.benchmark for one in questions}) == 1)
        return self._headlines[key]

    def _total(self, number: int, name: str) -> tuple[float, int, int]:
        """The sum of a run's scores, how many there are, and how many have a value."""
        table = schema.scores
        summed = sa.select(sa.func.sum(table.c.value), sa.func.count(), sa.func.count(table.c.value))
        total, scored, valued = self.connection.execute(
            summed.where(table.c.run == number, table.c.scorer == name)
        ).one()
        return total or 0.0, scored, valued

    def _whole(self, run: Run, name: str, answered: bool, so_far: bool = False) -> float | None:
        """The figure as a comparison makes it; with `answered` of the questions that all attempts were made at, and so
        far as the screen of the run has it."""
        try:
            basis = comparison_basis(self.store, [run], [], False, answered=answered)
        except UserError:  # no question is done in all its epochs
            return None
        asked = basis.asked(name)
        of_all = (one.benchmark for one in self._set(run))
        if so_far and pooled_yet((one.benchmark for one in basis.questions), of_all):
            asked = [replace(one, benchmark="") for one in asked]
        return figure(asked, basis.values(name, run, asked)[0], {}, 0, described(name), basis.epochs).value

    def _sums(self, number: int, name: str) -> tuple[dict[str, tuple[float, bool]], int]:
        """Question id → the sum of its scores, and whether all have a value; and how many scores there are."""
        table = schema.scores
        counted = sa.select(
            table.c.question_id, sa.func.sum(table.c.value), sa.func.count(), sa.func.count(table.c.value)
        )
        wanted = counted.where(table.c.run == number, table.c.scorer == name).group_by(table.c.question_id)
        rows = self.connection.execute(wanted).all()
        return {id: (value or 0.0, count == known) for id, value, count, known in rows}, sum(row[2] for row in rows)

    def _completed(self, number: int, ids: Sequence[str], every: bool) -> int:
        """Attempts that were completed at these questions."""
        table = schema.attempts
        wanted = sa.select(table.c.question_id, sa.func.count()).where(
            table.c.run == number, table.c.status == "completed"
        )
        if every:
            return int(self.connection.execute(wanted.with_only_columns(sa.func.count())).scalar_one())
        rows = self.connection.execute(wanted.group_by(table.c.question_id)).all()
        counts = {row[0]: row[1] for row in rows}
        return sum(counts.get(id, 0) for id in ids)

    def _valued(self, number: int, name: str) -> bool:
        table = schema.scores
        valued = sa.select(table.c.question_id).where(
            table.c.run == number, table.c.scorer == name, table.c.value.is_not(None)
        )
        return self.connection.execute(valued.limit(1)).first() is not None

    def _set(self, run: Run) -> list[Question]:
        if run.questions not in self._questions:
            self._questions[run.questions] = self.store.questions(run)[0]
        return self._questions[run.questions]
