"""Rows of a list of runs: progress, headline figure and cost.

The figure is the one that :func:`ragrounds.evals.compare.comparison.compare` has for the run alone, by the same
functions, but without the interval, whose bootstrap takes most of a comparison's time. For an unfinished run it is the
figure of the questions whose attempts have all been made, as on the run's screen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from ragrounds.base.errors import UserError
from ragrounds.base.records import OPEN, Attempt, Run
from ragrounds.evals.compare.comparability import comparison_basis, scorers_with_figures
from ragrounds.evals.compare.comparison import AttemptSums, attempt_sums
from ragrounds.evals.compare.figures import figure
from ragrounds.evals.compare.stopped_runs import early_stops
from ragrounds.evals.engine.live_score import pooled_yet
from ragrounds.evals.scorers import described, headline_of
from ragrounds.evals.store.store import Store


class RunOverview(AttemptSums, frozen=True, kw_only=True):
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


def run_overviews(store: Store, runs: Sequence[Run], names: Mapping[str, str]) -> list[RunOverview]:
    """Return an overview of each run.

    Args:
        store: store of the runs.
        runs: runs in the order of the list.
        names: run id → name of the run.
    """
    # The store remembers only the last questions that were read, so runs on the same questions follow each other.
    by_questions = sorted(runs, key=lambda run: run.questions)
    overviews = {run.id: _overview(store, run, names.get(run.id, "")) for run in by_questions}
    return [overviews[run.id] for run in runs]


def _overview(store: Store, run: Run, name: str) -> RunOverview:
    attempts = store.summaries(run)
    sums = attempt_sums(run, attempts, run.count * run.epochs)
    stopped_early = bool(early_stops(store, [run]))
    so_far = "not_run" in sums["statuses"] and not stopped_early
    has_attempts = any(status != "not_run" for status in sums["statuses"])
    scorer, score = _headline_figure(store, run, attempts, so_far, stopped_early) if has_attempts else ("", None)
    models = run.identity.get("models")
    model_names = [str(model).partition("[")[0] for model in models.values()] if isinstance(models, Mapping) else []
    return RunOverview(
        **sums,
        run=run,
        name=name,
        models=tuple(dict.fromkeys(model_names)),
        scorer=scorer,
        score=score,
        so_far=so_far,
        unit=described(scorer).unit if scorer else "percent",
    )


def _headline_figure(
    store: Store, run: Run, attempts: list[Attempt], so_far: bool, stopped_early: bool
) -> tuple[str, float | None]:
    """Return the headline scorer, empty if there is none, and the figure; ``None`` if no question is finished yet."""
    all_questions = store.questions(run)[0]
    headlines = headline_of(all_questions, scorers_with_figures(store, run))
    if not headlines:
        return "", None
    name = headlines[0].scorer
    try:
        loaded = {run.id: (attempts, store.scores(run, name))}
        basis = comparison_basis(store, [run], [name], False, answered=so_far or stopped_early, loaded=loaded)
        questions = basis.questions_for(name)
        if so_far and pooled_yet(
            (question.benchmark for question in basis.questions), (question.benchmark for question in all_questions)
        ):
            questions = [replace(question, benchmark="") for question in questions]
        values, _ = basis.values(name, run, questions)
    except UserError:
        return name, None
    return name, figure(questions, values, {}, 0, described(name), basis.epochs, resamples=0).value
