"""The figure of one cell, from the values of its questions, so that averages and differences of cells have intervals.

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
    """Values of questions, each once, that a figure is a mean of."""

    ids: tuple[str, ...]
    values: tuple[float, ...]
    strata: tuple[str, ...]
    """The dataset of each; the figure is the mean over these."""
    clusters: tuple[str, ...]
    """Questions of one stratum with the same name are not independent; empty: alone."""
    attempts: int = 1
    """Epochs that each value is a mean over."""
    bounded: bool = True
    """Whether values lie between 0 and 1 by nature."""
    parts: tuple[Parts, ...] = ()
    """Of a ratio over the corpus (a micro-F1) each question's numerators and denominators, an epoch each: the figure is
    no mean of `values`. Empty: it is."""

    def mean(self, weights: Mapping[str, float] | None = None) -> Estimate | None:
        """The mean over strata, by `weights` where they are given, with its interval; ``None``: of a ratio nothing to
        count."""
        if self.parts:
            return _combined_ratios([self.parts], [1.0], self, weights)
        return _combined([self.values], [1.0], self, weights)

    def minus(self, other: Sample, weights: Mapping[str, float] | None = None) -> Estimate | None:
        """How much this one lies above another, on the questions that both have; ``None``: on none."""
        theirs = dict(zip(zip(other.strata, other.ids, strict=True), other.values, strict=True))
        kept = [place for place, key in enumerate(zip(self.strata, self.ids, strict=True)) if key in theirs]
        if not kept:
            return None
        both = self.only(kept)
        if self.parts or other.parts:
            known = dict(zip(zip(other.strata, other.ids, strict=True), other.ratios, strict=True))
            parts = tuple(known[key] for key in zip(both.strata, both.ids, strict=True))
            return _combined_ratios([parts, both.ratios], [-1.0, 1.0], both, weights)
        values = tuple(theirs[key] for key in zip(both.strata, both.ids, strict=True))
        return _combined([values, both.values], [-1.0, 1.0], both, weights)

    def only(self, places: Sequence[int]) -> Sample:
        """Some of its questions."""
        kept = {name: tuple(getattr(self, name)[place] for place in places) for name in _EACH if getattr(self, name)}
        return replace(self, **kept)

    @property
    def ratios(self) -> tuple[Parts, ...]:
        """The parts; a mean is a ratio whose denominators are 1."""
        return self.parts or tuple(((value, 1.0),) for value in self.values)


_EACH = ("ids", "values", "strata", "clusters", "parts")
"""What a sample has of each question."""


def _combined_ratios(
    columns: Sequence[Sequence[Parts]], factors: Sequence[float], of: Sample, weights: Mapping[str, float] | None
) -> Estimate | None:
    shares = None if weights is None else [weights[name] for name in dict.fromkeys(of.strata)]
    return combined_ratio(*ratio_columns(columns, factors), of.strata, of.clusters, weights=shares)


def _combined(
    columns: Sequence[Sequence[float]], factors: Sequence[float], of: Sample, weights: Mapping[str, float] | None
) -> Estimate:
    shares = None if weights is None else [weights[name] for name in dict.fromkeys(of.strata)]
    whole = None if shares is None else [share / sum(shares) for share in shares]
    return combined_mean(
        columns, factors, of.strata, of.clusters, attempts=of.attempts, bounded=of.bounded, weights=whole
    )


class CellFigure(Struct, frozen=True, kw_only=True):
    """What a cell came to. Shares are from 0 to 1, whatever the table prints."""

    value: float | None
    low: float | None = None
    high: float | None = None
    error: float | None = None
    """sqrt(p(1-p)/n), combined over datasets; ``None``: scores are not right-or-wrong."""
    n: int = 0
    """Questions or queries with a value."""
    missing: int = 0
    """Questions without one; they are in no mean."""
    failed: int = 0
    """Attempts that an error ended; they count as 0 but for `failed_right`."""
    failed_right: int = 0
    """Of these, those with a text that the scorer yet reads as right: MIRAGE reads an error as A."""
    imported: bool = False
    """The answers were made elsewhere: nobody can be asked again."""
    unit: str = "percent"
    """``percent``: shares, printed times 100. Any other: printed as they are."""
    direction: str = "higher"
    measure: str
    """The scorer, the measure, or the axis."""
    epochs: tuple[float, ...] = ()
    """The value of each epoch alone."""
    sample: Sample | None = None
    """``None``: the figure is not made of questions (a rating)."""

    @property
    def sd(self) -> float | None:
        """The sample standard deviation over epochs; ``None``: there is one epoch."""
        return stdev(self.epochs) if len(self.epochs) > 1 else None


def run_figure(store: Store, run: Run, scorer: str = "", where: Mapping[str, str] | None = None) -> CellFigure:
    """The figure of a run: by its headline, or by the scorer named; of all questions, or of those whose metadata has
    the values of `where`.

    Raises:
        UserError: the run has no scores under that scorer, or no question has these values.
    """
    name = scorer_name(scorer) if scorer else headline_scorer(store, [run])
    known, found = described(name), scored_run(store, run, name)
    kept = _chosen(found.questions, where or {})
    if not kept:
        wanted = " and ".join(f"{key} = {value!r}" for key, value in (where or {}).items())
        raise UserError(f"No question of {run.id} has {wanted}.")
    whole = figure(kept, found.values, {}, 0, known, run.epochs)
    epochs = []
    for epoch in range(run.epochs if run.epochs > 1 else 0):
        scores = [score for score in found.scores if score.epoch == epoch]
        part = figure(kept, scorer_values(kept, scores, 1, known, found.golds), {}, 0, known)
        epochs += [part.value] if part.value is not None else []
    ids = {question.id for question in kept}
    broken = {
        (one.question_id, one.epoch)
        for one in store.summaries(run)
        if one.status == "failed" and one.question_id in ids
    }
    return CellFigure(
        **{name: getattr(whole, name) for name in ("value", "low", "high", "error", "n", "missing")},
        failed=len(broken),
        failed_right=sum(bool(one.value) and (one.question_id, one.epoch) in broken for one in found.scores),
        imported=run.origin == "imported",
        unit=known.unit,
        direction=known.direction,
        measure=name,
        epochs=tuple(epochs),
        sample=_sample(kept, found.values, known, run.epochs),
    )


def _chosen(questions: Sequence[Question], where: Mapping[str, str]) -> list[Question]:
    reads = [(property_named(key, questions), value) for key, value in where.items()]
    return [question for question in questions if all(read(question) == value for read, value in reads)]


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
    """The figure of a retrieval: the mean over its queries, and a query without results counts 0.

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
    made = _combined([sample.values], [1.0], sample, None)
    return CellFigure(value=made.value, low=made.low, high=made.high, n=made.n, measure=measure, sample=sample)


def mean_of(figures: Mapping[str, CellFigure]) -> CellFigure:
    """The unweighted mean of some columns of one row, by their names: each column weighs the same, whatever datasets it
    has itself."""
    parts = list(figures.values())
    merged = _side_by_side(figures)
    made = merged.mean(column_weights(figures)) if merged else None
    return _combined_figure(parts, made, merged)


def column_weights(figures: Mapping[str, CellFigure]) -> dict[str, float]:
    """What each stratum of a mean of columns weighs: a column's share by the number of its datasets."""
    weights: dict[str, float] = {}
    for column, one in figures.items():
        strata = dict.fromkeys(one.sample.strata) if one.sample else {}
        weights |= {f"{column}\t{name}": 1 / len(figures) / len(strata) for name in strata}
    return weights


def _side_by_side(figures: Mapping[str, CellFigure]) -> Sample | None:
    samples = [(column, one.sample) for column, one in figures.items() if one.sample is not None]
    alike = {(sample.attempts, sample.bounded) for _, sample in samples}
    if len(samples) < len(figures) or len(alike) != 1:
        return None
    everything = {name: tuple(each for _, one in samples for each in getattr(one, name)) for name in _EACH}
    everything["strata"] = tuple(f"{column}\t{each}" for column, one in samples for each in one.strata)
    if everything["parts"]:
        # Means stand among ratios as these: a numerator for each attempt.
        everything["parts"] = tuple(
            each * (1 if one.parts else one.attempts) for _, one in samples for each in one.ratios
        )
    return replace(samples[0][1], **everything)


def cohort_of(parts: Sequence[CellFigure]) -> CellFigure:
    """The unweighted mean of several rows in one column. Where all have the same questions, each question counts with
    its mean over the rows, and the interval is that of these."""
    samples = [one.sample for one in parts if one.sample is not None]
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
    made: Estimate | None,
    sample: Sample | None,
    error: bool = True,
) -> CellFigure:
    values = [one.value for one in parts if one.value is not None]
    errors = [one.error for one in parts if one.error is not None]
    length = min((len(one.epochs) for one in parts), default=0)
    measures = dict.fromkeys(one.measure for one in parts)
    return CellFigure(
        value=fmean(values) if len(values) == len(parts) else None,
        low=made.low if made else None,
        high=made.high if made else None,
        error=macro_error(errors) if error and len(errors) == len(parts) else None,
        n=sum(one.n for one in parts),
        missing=sum(one.missing for one in parts),
        failed=sum(one.failed for one in parts),
        failed_right=sum(one.failed_right for one in parts),
        unit=parts[0].unit,
        direction=parts[0].direction,
        measure=", ".join(measures),
        epochs=tuple(fmean([one.epochs[place] for one in parts]) for place in range(length)),
        sample=sample,
    )
