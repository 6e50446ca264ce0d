"""Analyses by name, each as a table and as its own record: what `ragrounds analyse NAME RUN…` prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from ragrounds.errors import UserError, unknown
from ragrounds.evals.analyses.curves import Curves, against_parameter, against_size
from ragrounds.evals.analyses.inside import refinement, uses_of_searches
from ragrounds.evals.analyses.retrieved import against_ndcg, by_position, by_success, sources
from ragrounds.evals.analyses.run_data import FoundPassages, ScoredRun, first_found, scored_run, searches
from ragrounds.evals.analyses.tables import grid, over_epochs
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.scorers import find_scorer, suits
from ragrounds.evals.store.store import Store
from ragrounds.records import Run


class AnalysisTable(Struct, frozen=True, kw_only=True):
    """Rows under headings. A cell is a text, a number, a figure with its interval, or ``None`` for not known."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | int | Figure | None, ...], ...]
    note: str = ""


class AnalysisResult(Struct, frozen=True, kw_only=True):
    """An analysis: a table for people, a record for programs."""

    name: str
    table: AnalysisTable
    record: Struct | tuple[Struct, ...]


class AnalysisOptions(Struct, frozen=True, kw_only=True):
    """What may be set; each analysis takes what it needs."""

    scorer: str = "strict"
    k: int = 10
    parameter: str = "top_k"
    sizes: Mapping[str, float] = MappingProxyType({})
    """Model text → billions of parameters."""
    corpus: Mapping[str, int] = MappingProxyType({})
    """Source → its passages in the corpus."""
    seed: int = 0


def analyse(name: str, store: Store, runs: Sequence[Run], choices: AnalysisOptions) -> AnalysisResult:
    """Run one analysis over stored runs. No model is asked and nothing is searched again.

    Raises:
        UserError: an unknown analysis, no runs, or runs that lack what it needs.
    """
    if name not in ANALYSES:
        raise unknown("analysis", name, ANALYSES, "ragrounds analyse --help")
    if not runs:
        raise UserError(f"The analysis {name!r} needs a run; see `ragrounds runs ls`.")
    return ANALYSES[name][1](store, runs, choices)


def _passages(store: Store, runs: Sequence[ScoredRun], choices: AnalysisOptions) -> AnalysisResult:
    return _curves("passages", against_parameter(runs, choices.parameter, choices.seed))


def _size(store: Store, runs: Sequence[ScoredRun], choices: AnalysisOptions) -> AnalysisResult:
    return _curves("size", against_size(runs, choices.sizes, choices.seed))


def _curves(name: str, made: Curves) -> AnalysisResult:
    rows = [(curve.name, point.x, point.figure, point.run) for curve in made.curves for point in curve.points]
    note = f"Without {made.x}: {', '.join(made.without)}." if made.without else ""
    columns = ("agent", made.x, f"accuracy ({made.scorer})", "run")
    table = AnalysisTable(title=f"Accuracy against {made.x}", columns=columns, rows=tuple(rows), note=note)
    return AnalysisResult(name=name, table=table, record=made)


def _position(store: Store, runs: Sequence[ScoredRun], choices: AnalysisOptions) -> AnalysisResult:
    made = tuple(by_position(run, _first(store, run), seed=choices.seed) for run in runs)
    rows = [(one.run, found.ranks, found.questions, found.figure) for one in made for found in one.bins]
    note = "; ".join(f"{one.run}: {one.without_gold:,} questions without a gold document or a search" for one in made)
    columns = ("run", "rank of the gold passage", "questions", f"accuracy ({choices.scorer})")
    table = AnalysisTable(title="Accuracy by the gold passage's position", columns=columns, rows=tuple(rows), note=note)
    return AnalysisResult(name="position", table=table, record=made)


def _success(store: Store, runs: Sequence[ScoredRun], choices: AnalysisOptions) -> AnalysisResult:
    made = tuple(by_success(run, _first(store, run), choices.k) for run in runs)
    rows = []
    for one in made:
        found, missed = (one.found_right, one.found_wrong), (one.missed_right, one.missed_wrong)
        interval = (one.difference, one.low, one.high)
        rows.append((one.run, *found, *missed, one.accuracy_found, one.accuracy_missed, *interval))
    columns = (
        *("run", "found, right", "found, wrong", "missed, right", "missed, wrong"),
        *("accuracy if found", "accuracy if missed", "difference", "low", "high"),
    )
    title = f"Gold document among the first {choices.k} passages, and the answer ({choices.scorer})"
    return AnalysisResult(
        name="success", table=AnalysisTable(title=title, columns=columns, rows=tuple(rows)), record=made
    )


def _quality(store: Store, runs: Sequence[ScoredRun], choices: AnalysisOptions) -> AnalysisResult:
    made = against_ndcg([(run, _first(store, run)) for run in runs], choices.k, choices.seed)
    rows = [(point.run, point.ndcg, point.figure, point.questions) for point in made.runs]
    note = "" if made.correlation is None else f"Pearson's correlation over runs: {made.correlation:.2f}."
    columns = ("run", f"nDCG@{made.k}", f"accuracy ({made.scorer})", "questions")
    table = AnalysisTable(title=f"Accuracy against nDCG@{made.k}", columns=columns, rows=tuple(rows), note=note)
    return AnalysisResult(name="quality", table=table, record=made)


def _sources(store: Store, runs: Sequence[ScoredRun], choices: AnalysisOptions) -> AnalysisResult:
    made = tuple(sources(run, _first(store, run), choices.k, sizes=choices.corpus) for run in runs)
    rows = [
        (one.run, dataset, source, share, one.corpus.get(source))
        for one in made
        for dataset, shares in one.shares.items()
        for source, share in shares.items()
    ]
    columns = ("run", "dataset", "source", f"share of the first {choices.k}", "share of the corpus")
    return AnalysisResult(
        name="sources", table=AnalysisTable(title="Sources of passages", columns=columns, rows=tuple(rows)), record=made
    )


def _grid(store: Store, runs: Sequence[ScoredRun], choices: AnalysisOptions) -> AnalysisResult:
    made = grid(runs, choices.seed)
    datasets = tuple(dict.fromkeys(name for cell in made.cells for name in cell.datasets))
    rows = [
        (cell.corpus, cell.retriever, *(cell.datasets.get(name) for name in datasets), cell.overall)
        for cell in made.cells
    ]
    columns = ("corpus", "retriever", *datasets, "mean")
    title = f"Accuracy by corpus and retriever ({made.scorer})"
    return AnalysisResult(name="grid", table=AnalysisTable(title=title, columns=columns, rows=tuple(rows)), record=made)


def _epochs(store: Store, runs: Sequence[ScoredRun], choices: AnalysisOptions) -> AnalysisResult:
    made = over_epochs(runs)
    rows = [(one.name, len(one.values), one.mean, one.sd) for one in made]
    columns = ("agent", "epochs", f"mean accuracy ({choices.scorer})", "sd")
    return AnalysisResult(
        name="epochs",
        table=AnalysisTable(title="Mean and spread over epochs", columns=columns, rows=tuple(rows)),
        record=made,
    )


def _first(store: Store, run: ScoredRun) -> dict[str, FoundPassages]:
    return first_found(searches(store, run.run), run.questions)


def _searches(store: Store, runs: Sequence[Run], choices: AnalysisOptions) -> AnalysisResult:
    made = tuple(uses_of_searches(store, run, choices.seed) for run in runs)
    rows = [
        (one.run, use.which, use.searches, use.found, use.new_gold, use.new, use.repeated, use.kept, use.used)
        for one in made
        for use in one.uses
    ]
    columns = (
        *("run", "search", "searches", "found gold", "new gold", "new passages", "asked before"),
        *("kept gold", "used gold"),
    )
    note = "; ".join(
        f"{one.run}: {one.searching:,} of {one.attempts:,} attempts searched; {one.without_gold:,} name no gold"
        for one in made
    )
    table = AnalysisTable(title="What searches were good for", columns=columns, rows=tuple(rows), note=note)
    return AnalysisResult(name="searches", table=table, record=made)


def _flips(store: Store, runs: Sequence[Run], choices: AnalysisOptions) -> AnalysisResult:
    by = find_scorer(choices.scorer)
    made = []
    for run in runs:
        fitting = {question.id: question for question in store.questions(run)[0] if suits(by, question)}
        made.append(refinement(store, run, by, fitting, seed=choices.seed))
    rows = [
        (
            one.run,
            *(one.flips.right_right, one.flips.right_wrong, one.flips.wrong_right, one.flips.wrong_wrong),
            *(one.flips.changed, one.flips.without, one.net, one.low, one.high),
        )
        for one in made
    ]
    columns = (
        *("run", "stayed right", "right to wrong", "wrong to right", "stayed wrong"),
        *("other answer", "no first answer", "net", "low", "high"),
    )
    title = f"What a refinement turned ({choices.scorer})"
    return AnalysisResult(
        name="flips", table=AnalysisTable(title=title, columns=columns, rows=tuple(rows)), record=tuple(made)
    )


_Analysis = Callable[[Store, Sequence[Run], AnalysisOptions], AnalysisResult]


def _scored(made: Callable[[Store, Sequence[ScoredRun], AnalysisOptions], AnalysisResult]) -> _Analysis:
    """An analysis of scores under the scorer chosen."""
    return lambda store, runs, choices: made(store, [scored_run(store, run, choices.scorer) for run in runs], choices)


ANALYSES: Mapping[str, tuple[str, _Analysis]] = MappingProxyType(
    {
        "passages": ("accuracy against the number of passages (MIRAGE Fig. 3, MRAG Fig. 3)", _scored(_passages)),
        "size": ("accuracy against model size (MRAG Fig. 4)", _scored(_size)),
        "position": ("accuracy by the gold passage's position (MIRAGE Fig. 4)", _scored(_position)),
        "sources": ("share of sources among the passages (MIRAGE Fig. 5)", _scored(_sources)),
        "grid": ("corpus and retriever (MIRAGE Table 7)", _scored(_grid)),
        "success": ("retrieval success and right answers (OGCaReBench Table 14)", _scored(_success)),
        "quality": ("accuracy against nDCG (R2MED Fig. 5)", _scored(_quality)),
        "searches": ("what each search found, what was kept and used of it", _searches),
        "flips": ("what a refinement turned right and wrong (MRAG's CoT-Refine)", _flips),
        "epochs": ("mean and sd over epochs (MRAG)", _scored(_epochs)),
    }
)
"""Name → what it shows, and how it is made."""
