"""Mean and spread of a score over epochs (MRAG: mean ± sd of five runs)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

from msgspec import Struct

from ragrounds.evals.analyses.analysis import Analysis, AnalysisOptions, AnalysisTable
from ragrounds.evals.analyses.pictures import Mark, Picture
from ragrounds.evals.analyses.run_data import ScoredRun, scored_runs
from ragrounds.evals.compare.figures import figure
from ragrounds.evals.compare.question_values import scorer_values
from ragrounds.evals.scorers import described, figure_word

_TITLE = "Mean and spread over epochs"


class Epochs(Struct, frozen=True, kw_only=True):
    """Mean and spread of an agent's score over epochs or over equal runs."""

    name: str
    scorer: str
    values: tuple[float, ...]
    """Unweighted means over datasets, one for each epoch."""
    mean: float
    sd: float | None
    """Sample standard deviation; ``None`` for a single epoch."""


def over_epochs(runs: Sequence[ScoredRun]) -> tuple[Epochs, ...]:
    """Return every agent's mean ± sd over the epochs of its runs.

    Five epochs of one run and five runs of one epoch count alike.
    """
    values: dict[str, list[float]] = {}
    for run in runs:
        for epoch in range(run.run.epochs):
            scores = [score for score in run.scores if score.epoch == epoch]
            if not scores:
                continue
            scorer = described(run.scorer)
            question_values = scorer_values(run.questions, scores, 1, scorer, run.golds)
            epoch_figure = figure(run.questions, question_values, {}, 0, scorer)
            if epoch_figure.value is not None:
                values.setdefault(run.run.agent, []).append(epoch_figure.value)
    return tuple(
        Epochs(
            name=name,
            scorer=runs[0].scorer,
            values=tuple(epoch_values),
            mean=fmean(epoch_values),
            sd=stdev(epoch_values) if len(epoch_values) > 1 else None,
        )
        for name, epoch_values in values.items()
    )


def _picture(records: tuple[Epochs, ...], options: AnalysisOptions) -> Picture:
    marks = tuple(
        Mark(
            name=record.name,
            value=record.mean,
            low=None if record.sd is None else max(0.0, record.mean - record.sd),
            high=None if record.sd is None else min(1.0, record.mean + record.sd),
            note=f"n = {len(record.values):,}",
        )
        for record in records
    )
    return Picture(title=f"{_TITLE} ({options.scorer})", marks=marks, bars=True, spread="mean ± sd")


EPOCHS = Analysis(
    name="epochs",
    summary="mean and sd over epochs (MRAG)",
    needs="scores of runs of several epochs, or of equal runs",
    measure=lambda store, runs, options: over_epochs(scored_runs(store, runs, options.scorer)),
    table=lambda records, options: AnalysisTable(
        title=_TITLE,
        columns=("agent", "epochs", f"mean {figure_word(options.scorer)} ({options.scorer})", "sd"),
        rows=tuple((record.name, len(record.values), record.mean, record.sd) for record in records),
    ),
    picture=_picture,
)
