"""Rows of a list of runs: progress, headline figure and cost.

The figure is the one that :func:`ragrounds.evals.compare.comparison.compare` has for the run alone, by the same
functions, but without the interval, whose bootstrap takes most of a comparison's time. Only for an unfinished run it is
another: the figure of the questions whose attempts have all been made, as on the run's screen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from ragrounds.base.errors import UserError
from ragrounds.base.records import OPEN, Attempt, Run
from ragrounds.evals.compare.comparability import comparison_basis, scorers_with_figures
from ragrounds.evals.compare.comparison import BilledSums, attempt_sums
from ragrounds.evals.compare.figures import figure
from ragrounds.evals.compare.stopped_runs import early_stops
from ragrounds.evals.engine.live_score import pooled_yet
from ragrounds.evals.scorers import described, headline_of
from ragrounds.evals.store.ledger import LedgerLine, judging_of
from ragrounds.evals.store.store import Store


class RunOverview(BilledSums, frozen=True, kw_only=True):
    """Row of a run in a list."""

    run: Run
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

    @property
    def failed(self) -> int:
        """Number of open attempts: failed, capped, paused."""
        return sum(count for status, count in self.statuses.items() if status in OPEN and status != "not_run")


def run_overviews(store: Store, runs: Sequence[Run], names: Mapping[str, str], scorer: str = "") -> list[RunOverview]:
    """Return an overview of each run.

    Args:
        store: store of the runs.
        runs: runs in the order of the list.
        names: run id → name of the run.
        scorer: scorer of the figures of the runs that it has scored, in place of their headline scorer.
    """
    # The store remembers only the last questions that were read, so runs on the same questions follow each other.
    by_questions = sorted(runs, key=lambda run: run.questions)
    scorers, judging = scorers_with_figures(store, runs), judging_of(store, runs)
    overviews = {
        run.id: _overview(
            store,
            run,
            names.get(run.id, ""),
            [scorer] if scorer in scorers[run.id] else scorers[run.id],
            judging.get(run.id, LedgerLine()),
        )
        for run in by_questions
    }
    return [overviews[run.id] for run in runs]


def _overview(store: Store, run: Run, name: str, scorers: Sequence[str], judging: LedgerLine) -> RunOverview:
    attempts = store.summaries(run)
    sums = attempt_sums(run, attempts, run.count * run.epochs)
    stopped_early = bool(early_stops(store, [run]))
    so_far = "not_run" in sums["statuses"] and not stopped_early
    headlines = headline_of(store.questions(run)[0], scorers)
    scorer = headlines[0].scorer if headlines and any(status != "not_run" for status in sums["statuses"]) else ""
    models = run.identity.get("models")
    model_names = [str(model).partition("[")[0] for model in models.values()] if isinstance(models, Mapping) else []
    return RunOverview(
        **sums,
        judging_calls=judging.model_calls,
        cost_judging=judging.cost_paid,
        run=run,
        name=name,
        models=tuple(dict.fromkeys(model_names)),
        scorer=scorer,
        score=_figure(store, run, scorer, attempts, so_far, stopped_early) if scorer else None,
        so_far=so_far,
        unit=described(scorer).unit if scorer else "percent",
    )


def _figure(
    store: Store, run: Run, scorer: str, attempts: list[Attempt], so_far: bool, stopped_early: bool
) -> float | None:
    """Return the figure of a run under a scorer; ``None`` if no question is finished yet or its scores are damaged."""
    try:
        loaded = {run.id: (attempts, store.scores(run, scorer))}
        basis = comparison_basis(store, [run], [scorer], False, answered=so_far or stopped_early, loaded=loaded)
        questions = basis.questions_for(scorer)
        all_datasets = (question.benchmark for question in store.questions(run)[0])
        if so_far and pooled_yet((question.benchmark for question in basis.questions), all_datasets):
            questions = [replace(question, benchmark="") for question in questions]
        values, _ = basis.values(scorer, run, questions)
    except UserError:
        return None
    return figure(questions, values, {}, 0, described(scorer), basis.epochs, resamples=0).value
