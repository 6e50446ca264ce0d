"""Which sources the passages that answers rest on come from (MIRAGE Fig. 5)."""

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
    """Which sources the top k passages come from."""

    run: str
    k: int
    shares: dict[str, dict[str, float]]
    """Dataset → source → share of its passages."""
    corpus: dict[str, float]
    """Source → share of the corpus itself; empty: not given."""
    sizes: dict[str, int] = {}
    """Source → its passages; empty: one of them is not known."""


def sources(
    run: ScoredRun,
    found: Mapping[str, FoundPassages],
    k: int,
    source: Callable[[Passage], str] = lambda passage: passage.corpus.partition("@")[0],
    sizes: Mapping[str, int] | None = None,
) -> Sources:
    """Shares of sources among the first k passages of each question's first search, by dataset.

    Args:
        run: whose questions are looked at.
        found: each question's first search.
        k: passages of each search.
        source: the source of a passage; by default its corpus.
        sizes: passages of each source in the corpus, for its own shares.
    """
    counts: dict[str, Counter[str]] = {}
    for question in run.questions:
        if question.id in found:
            counted = counts.setdefault(question.benchmark, Counter())
            counted.update(source(passage) for passage in found[question.id].passages[:k])
    total = sum((sizes or {}).values())
    if not total:
        sizes = {}
    return Sources(
        run=run.run.id,
        k=k,
        shares={name: _shares(counted) for name, counted in counts.items() if counted.total()},
        corpus={name: size / total for name, size in (sizes or {}).items()},
        sizes=dict(sizes or {}),
    )


def _shares(counted: Counter[str]) -> dict[str, float]:
    return {name: count / counted.total() for name, count in counted.most_common()}


def sizes_of(run: Run, known: Mapping[str, int], found: Iterable[str] = ()) -> dict[str, int]:
    """The passages of each source that a run searched; nothing where one of the sizes is not known.

    Args:
        run: its identity says which corpora it searched.
        known: source with its version → passages.
        found: corpora of what was found, for a run whose identity names none.
    """
    searched = [part for part in str(run.identity.get("corpus") or "").split("+") if part] or sorted(found)
    sizes = {part.partition("@")[0]: known.get(part, 0) for part in searched}
    return sizes if all(sizes.values()) else {}


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> tuple[Sources, ...]:
    made = []
    for run in scored_runs(store, runs, options.scorer):
        found = first_searches(store, run)
        corpora = {passage.corpus for one in found.values() for passage in one.passages}
        made.append(sources(run, found, options.k, sizes=sizes_of(run.run, options.corpus, corpora)))
    return tuple(made)


def _table(made: tuple[Sources, ...], options: AnalysisOptions) -> AnalysisTable:
    return AnalysisTable(
        title=_TITLE,
        columns=("run", "dataset", "source", f"share of the first {options.k}", "share of the corpus", "its passages"),
        rows=tuple(
            (one.run, dataset, source, shares.get(source, 0.0), one.corpus.get(source), one.sizes.get(source))
            for one in made
            for dataset, shares in one.shares.items()
            for source in {**shares, **one.corpus}  # also those that nothing was found in
        ),
        note="; ".join(f"{one.run}: not all that it searched is an index here" for one in made if not one.corpus),
    )


def _picture(made: tuple[Sources, ...], options: AnalysisOptions) -> Picture:
    groups: list[tuple[str, dict[str, float]]] = []
    for one in made:
        # A corpus that several runs searched is shown once.
        if one.corpus and all(one.corpus != shares for _, shares in groups):
            groups.append((_CORPUS, one.corpus))
        groups += [(f"{one.run}, {dataset}", shares) for dataset, shares in one.shares.items()]
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
