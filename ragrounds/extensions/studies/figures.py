"""Figure of one cell, from the values of its questions, so that averages and differences of cells have intervals.

A run's cell shows what `ragrounds compare` shows of that run: the same function computes it. A retrieval's cell is the
mean over its queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.errors import UserError
from ragrounds.base.records import Question, Run
from ragrounds.evals.analyses.run_data import headline_scorer, scored_run
from ragrounds.evals.compare.figures import design, figure, outcomes_in, property_named, ratio_columns
from ragrounds.evals.compare.question_values import Parts, QuestionValues, scorer_values
from ragrounds.evals.scorers import described, scorer_name
from ragrounds.evals.scorers.base import ScorerRecord
from ragrounds.evals.stats import Estimate, combined_mean, combined_ratio, macro_error
from ragrounds.evals.store.store import Store


class Sample(Struct, frozen=True, kw_only=True):
    """Per-question values that a figure is the mean of; each question occurs once."""

    ids: tuple[str, ...]
    values: tuple[float, ...]
    strata: tuple[str, ...]
    """Dataset of each question; the figure is the mean over datasets."""
    clusters: tuple[str, ...]
    """Cluster of each question; questions of one stratum in the same cluster are not independent. Empty: independent.
    """
    attempts: int = 1
    """Number of epochs that each value is a mean over."""
    bounded: bool = True
    """True if values lie between 0 and 1 by nature."""
    parts: tuple[Parts, ...] = ()
    """Numerators and denominators of each question, one pair an epoch, for a ratio over the corpus (a micro-F1).

    The figure is then no mean of `values`. Empty for a mean.
    """

    def mean(self, weights: Mapping[str, float] | None = None) -> Estimate | None:
        """Return the mean over strata with its interval, by `weights` if given.

        ``None`` if a ratio has nothing to count.
        """
        if self.parts:
            return _combined_ratios([self.parts], [1.0], self, weights)
        return _combined([self.values], [1.0], self, weights)

    def minus(self, other: Sample, weights: Mapping[str, float] | None = None) -> Estimate | None:
        """Return the difference from another sample on the questions that both have.

        ``None`` if there is no such question.
        """
        other_values = dict(zip(zip(other.strata, other.ids, strict=True), other.values, strict=True))
        common = [index for index, key in enumerate(zip(self.strata, self.ids, strict=True)) if key in other_values]
        if not common:
            return None
        both = self.only(common)
        if self.parts or other.parts:
            other_ratios = dict(zip(zip(other.strata, other.ids, strict=True), other.ratios, strict=True))
            parts = tuple(other_ratios[key] for key in zip(both.strata, both.ids, strict=True))
            return _combined_ratios([parts, both.ratios], [-1.0, 1.0], both, weights)
        values = tuple(other_values[key] for key in zip(both.strata, both.ids, strict=True))
        return _combined([values, both.values], [-1.0, 1.0], both, weights)

    def only(self, indices: Sequence[int]) -> Sample:
        """Return the sample of the questions at some indices."""
        selected = {
            name: tuple(getattr(self, name)[index] for index in indices)
            for name in _PER_QUESTION
            if getattr(self, name)
        }
        return replace(self, **selected)

    @property
    def ratios(self) -> tuple[Parts, ...]:
        """Parts of each question; a mean is a ratio whose denominators are 1."""
        return self.parts or tuple(((value, 1.0),) for value in self.values)


_PER_QUESTION = ("ids", "values", "strata", "clusters", "parts")
"""Names of the fields with a value for each question."""


def _combined_ratios(
    columns: Sequence[Sequence[Parts]], factors: Sequence[float], sample: Sample, weights: Mapping[str, float] | None
) -> Estimate | None:
    shares = None if weights is None else [weights[name] for name in dict.fromkeys(sample.strata)]
    return combined_ratio(*ratio_columns(columns, factors), sample.strata, sample.clusters, weights=shares)


def _combined(
    columns: Sequence[Sequence[float]], factors: Sequence[float], sample: Sample, weights: Mapping[str, float] | None
) -> Estimate:
    shares = None if weights is None else [weights[name] for name in dict.fromkeys(sample.strata)]
    normalised = None if shares is None else [share / sum(shares) for share in shares]
    return combined_mean(
        columns,
        factors,
        sample.strata,
        sample.clusters,
        attempts=sample.attempts,
        bounded=sample.bounded,
        weights=normalised,
    )


class CellFigure(Struct, frozen=True, kw_only=True):
    """Figure of a cell. Shares are from 0 to 1, whatever unit the table prints."""

    value: float | None
    low: float | None = None
    high: float | None = None
    error: float | None = None
    """sqrt(p(1-p)/n), combined over datasets; ``None`` if scores are not right-or-wrong."""
    n: int = 0
    """Number of questions or queries with a value."""
    missing: int = 0
    """Number of questions without a value; they are in no mean."""
    failed: int = 0
    """Number of attempts that ended with an error; they count as 0 except `failed_right`."""
    failed_right: int = 0
    """Number of failed attempts with a text that the scorer still reads as right: MIRAGE reads an error as A."""
    imported: bool = False
    """True if the answers were made elsewhere and cannot be asked for again."""
    unit: str = "percent"
    """Unit of the values; ``percent``: shares, printed times 100. Others are printed as they are."""
    direction: str = "higher"
    measure: str
    """Name of the scorer, the measure, or the axis."""
    epochs: tuple[float, ...] = ()
    """Value of each epoch separately."""
    sample: Sample | None = None
    """Per-question values; ``None`` if the figure is not made of questions (a rating)."""
    order_sd: float | None = None
    """Standard deviation of an online rating over random orders of the matches."""

    @property
    def sd(self) -> float | None:
        """Sample standard deviation over epochs; ``None`` if there is one epoch."""
        return stdev(self.epochs) if len(self.epochs) > 1 else None


def run_figure(store: Store, run: Run, scorer: str = "", where: Mapping[str, str] | None = None) -> CellFigure:
    """Compute the figure of a run, by its headline scorer or by the named scorer.

    `where`: only questions whose metadata has these values are counted.

    Raises:
        UserError: the run has no scores under that scorer, or no question has these values.
    """
    name = scorer_name(scorer) if scorer else headline_scorer(store, [run])
    scorer_record, scored = described(name), scored_run(store, run, name)
    conditions = [(property_named(key, scored.questions), value) for key, value in (where or {}).items()]
    selected = [question for question in scored.questions if all(read(question) == value for read, value in conditions)]
    if not selected:
        condition = " and ".join(f"{key} = {value!r}" for key, value in (where or {}).items())
        raise UserError(f"No question of {run.id} has {condition}.")
    total = figure(selected, scored.values, {}, 0, scorer_record, run.epochs)
    epochs = []
    for epoch in range(run.epochs if run.epochs > 1 else 0):
        scores = [score for score in scored.scores if score.epoch == epoch]
        part = figure(selected, scorer_values(selected, scores, 1, scorer_record, scored.golds), {}, 0, scorer_record)
        epochs += [part.value] if part.value is not None else []
    ids = {question.id for question in selected}
    broken = {
        summary.key for summary in store.summaries(run) if summary.status == "failed" and summary.question_id in ids
    }
    return CellFigure(
        **{name: getattr(total, name) for name in ("value", "low", "high", "error", "n", "missing")},
        failed=len(broken),
        failed_right=sum(bool(score.value) and score.key in broken for score in scored.scores),
        imported=run.origin == "imported",
        unit=scorer_record.unit,
        direction=scorer_record.direction,
        measure=name,
        epochs=tuple(epochs),
        sample=_sample(selected, scored.values, scorer_record, run.epochs),
    )


def _sample(questions: Sequence[Question], values: QuestionValues, scorer: ScorerRecord, epochs: int) -> Sample:
    scored = [(question, value) for question in questions if (value := values.get(question.id)) is not None]
    strata, clusters = design([question for question, _ in scored])
    return Sample(
        ids=tuple(question.id for question, _ in scored),
        values=tuple(value for _, value in scored),
        strata=tuple(strata),
        clusters=tuple(clusters),
        attempts=epochs if scorer.ratio else outcomes_in(scorer, epochs),
        bounded=scorer.unit == "percent",
        parts=tuple(values.parts[question.id] for question, _ in scored) if scorer.ratio else (),
    )


def queries_figure(values: Mapping[str, float], measure: str, benchmark: str) -> CellFigure:
    """Compute the figure of a retrieval: the mean over its queries; a query without results counts 0.

    Args:
        values: query id → value of the measure.
        measure: its name.
        benchmark: the set of queries, for differences: equal ids of different sets are different queries.
    """
    if not values:
        return CellFigure(value=None, measure=measure)
    count = len(values)
    sample = Sample(
        ids=tuple(values), values=tuple(values.values()), strata=(benchmark,) * count, clusters=("",) * count
    )
    estimate = _combined([sample.values], [1.0], sample, None)
    return CellFigure(
        value=estimate.value, low=estimate.low, high=estimate.high, n=estimate.n, measure=measure, sample=sample
    )


def mean_of(figures: Mapping[str, CellFigure]) -> CellFigure:
    """Compute the unweighted mean of some columns of one row, by their names.

    Each column has the same weight, independent of the datasets that it is a mean of.
    """
    parts = list(figures.values())
    merged = _concatenate_samples(figures)
    estimate = merged.mean(column_weights(figures)) if merged else None
    return _combined_figure(parts, estimate, merged)


def column_weights(figures: Mapping[str, CellFigure]) -> dict[str, float]:
    """Return the weight of each stratum of a mean of columns: the column's share divided by its number of datasets."""
    weights: dict[str, float] = {}
    for column, cell_figure in figures.items():
        strata = dict.fromkeys(cell_figure.sample.strata) if cell_figure.sample else {}
        weights |= {f"{column}\t{name}": 1 / len(figures) / len(strata) for name in strata}
    return weights


def _concatenate_samples(figures: Mapping[str, CellFigure]) -> Sample | None:
    samples = [
        (column, cell_figure.sample) for column, cell_figure in figures.items() if cell_figure.sample is not None
    ]
    designs = {(sample.attempts, sample.bounded) for _, sample in samples}
    if len(samples) < len(figures) or len(designs) != 1:
        return None
    fields = {name: tuple(entry for _, sample in samples for entry in getattr(sample, name)) for name in _PER_QUESTION}
    fields["strata"] = tuple(f"{column}\t{stratum}" for column, sample in samples for stratum in sample.strata)
    if fields["parts"]:
        # Means are combined with ratios as ratios: a numerator for each attempt.
        fields["parts"] = tuple(
            question_parts * (1 if sample.parts else sample.attempts)
            for _, sample in samples
            for question_parts in sample.ratios
        )
    return replace(samples[0][1], **fields)


def cohort_of(parts: Sequence[CellFigure]) -> CellFigure:
    """Compute the unweighted mean of several rows in one column.

    If all have the same questions, each question counts with its mean over the rows, and the interval is computed from
    these means.
    """
    samples = [cell_figure.sample for cell_figure in parts if cell_figure.sample is not None]
    ids = {(sample.ids, sample.strata) for sample in samples}
    merged = None
    if len(samples) == len(parts) and len(ids) == 1:
        first = samples[0]
        values = tuple(fmean(column) for column in zip(*(sample.values for sample in samples), strict=True))
        attempts = sum(sample.attempts for sample in samples)
        # The epochs of all rows, one after the other: a ratio is the mean over these.
        ratios = tuple(sum(column, ()) for column in zip(*(sample.parts for sample in samples), strict=True))
        merged = replace(first, values=values, attempts=attempts, parts=ratios)
    return _combined_figure(parts, merged.mean() if merged else None, merged, error=False)


def _combined_figure(
    parts: Sequence[CellFigure],
    estimate: Estimate | None,
    sample: Sample | None,
    error: bool = True,
) -> CellFigure:
    values = [part.value for part in parts if part.value is not None]
    errors = [part.error for part in parts if part.error is not None]
    length = min((len(part.epochs) for part in parts), default=0)
    measures = dict.fromkeys(part.measure for part in parts)
    return CellFigure(
        value=fmean(values) if len(values) == len(parts) else None,
        low=estimate.low if estimate else None,
        high=estimate.high if estimate else None,
        error=macro_error(errors) if error and len(errors) == len(parts) else None,
        n=sum(part.n for part in parts),
        missing=sum(part.missing for part in parts),
        failed=sum(part.failed for part in parts),
        failed_right=sum(part.failed_right for part in parts),
        unit=parts[0].unit,
        direction=parts[0].direction,
        measure=", ".join(measures),
        epochs=tuple(fmean([part.epochs[epoch] for part in parts]) for epoch in range(length)),
        sample=sample,
    )
