"""Sources of the passages behind answers (MIRAGE Fig. 5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from ragrounds.base.records import Passage, Run
from ragrounds.evals.analyses.analysis import Analysis, AnalysisOptions, AnalysisTable
from ragrounds.evals.analyses.pictures import Mark, Picture
from ragrounds.evals.analyses.run_data import ScoredRun, first_searches, scored_runs
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import FoundPassages

_TITLE = "Sources of passages"
_CORPUS = "the corpus itself"


class Sources(Struct, frozen=True, kw_only=True):
    """Shares of sources in the top k passages."""

    run: str
    k: int
    shares: dict[str, dict[str, float]]
    """Dataset → source → share of the source in its passages."""
    corpus: dict[str, float]
    """Source → share of the corpus itself; empty if not given."""
    sizes: dict[str, int] = {}
    """Source → number of its passages; empty if one of them is not known."""


def sources(
    run: ScoredRun,
    searches: Mapping[str, FoundPassages],
    k: int,
    source: Callable[[Passage], str] = lambda passage: passage.corpus.partition("@")[0],
    sizes: Mapping[str, int] | None = None,
) -> Sources:
    """Return shares of sources among the first k passages of each question's first search, by dataset.

    Args:
        run: run of the questions.
        searches: first search of each question.
        k: number of passages of each search that count.
        source: function that returns the source of a passage; by default its corpus.
        sizes: number of passages of each source in the corpus, for the shares of the corpus.
    """
    counts: dict[str, Counter[str]] = {}
    for question in run.questions:
        if question.id in searches:
            source_counts = counts.setdefault(question.benchmark, Counter())
            source_counts.update(source(passage) for passage in searches[question.id].passages[:k])
    sizes = sizes or {}
    total = sum(sizes.values())
    if not total:
        sizes = {}
    return Sources(
        run=run.run.id,
        k=k,
        shares={
            name: {source: count / source_counts.total() for source, count in source_counts.most_common()}
            for name, source_counts in counts.items()
            if source_counts
        },
        corpus={name: size / total for name, size in sizes.items()},
        sizes=dict(sizes),
    )


def sizes_of(run: Run, known_sizes: Mapping[str, int], source_names: Iterable[str] = ()) -> dict[str, int]:
    """Return the number of passages of each source that a run searched; empty if one of the sizes is not known.

    Args:
        run: run whose identity says which corpora it searched.
        known_sizes: source with its version → number of passages.
        source_names: corpora of the retrieved passages, for a run whose identity names no corpus.
    """
    searched = [part for part in str(run.identity.get("corpus") or "").split("+") if part] or sorted(source_names)
    sizes = {part.partition("@")[0]: known_sizes.get(part, 0) for part in searched}
    return sizes if all(sizes.values()) else {}


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> tuple[Sources, ...]:
    records = []
    for run in scored_runs(store, runs, options.scorer):
        search_by_question = first_searches(store, run)
        corpora = {passage.corpus for search in search_by_question.values() for passage in search.passages}
        records.append(sources(run, search_by_question, options.k, sizes=sizes_of(run.run, options.corpus, corpora)))
    return tuple(records)


def _table(records: tuple[Sources, ...], options: AnalysisOptions) -> AnalysisTable:
    return AnalysisTable(
        title=_TITLE,
        columns=("run", "dataset", "source", f"share of the first {options.k}", "share of the corpus", "its passages"),
        rows=tuple(
            (record.run, dataset, source, shares.get(source, 0.0), record.corpus.get(source), record.sizes.get(source))
            for record in records
            for dataset, shares in record.shares.items()
            for source in {**shares, **record.corpus}  # also sources without any retrieved passage
        ),
        note="; ".join(
            f"{record.run}: not all that it searched is an index here" for record in records if not record.corpus
        ),
    )


def _picture(records: tuple[Sources, ...], options: AnalysisOptions) -> Picture:
    groups: list[tuple[str, dict[str, float]]] = []
    for record in records:
        # A corpus that several runs searched is shown once.
        if record.corpus and all(record.corpus != shares for _, shares in groups):
            groups.append((_CORPUS, record.corpus))
        groups += [(f"{record.run}, {dataset}", shares) for dataset, shares in record.shares.items()]
    marks = (Mark(name=source, value=share, group=name) for name, shares in groups for source, share in shares.items())
    return Picture(title=_TITLE, marks=tuple(marks), bars=True)


SOURCES = Analysis(
    name="sources",
    summary="share of sources among the passages (MIRAGE Fig. 5)",
    needs="scores and recorded searches",
    measure=_measure,
    table=_table,
    picture=_picture,
)
