"""Which sources the passages that answers rest on come from (MIRAGE Fig. 5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from ragrounds.evals.analyses.analysis import Analysis, AnalysisOptions, AnalysisTable
from ragrounds.evals.analyses.pictures import Bar, Bars
from ragrounds.evals.analyses.run_data import ScoredRun, first_searches, scored_runs
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.traces import FoundPassages
from ragrounds.records import Passage, Run

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
    return Sources(
        run=run.run.id,
        k=k,
        shares={name: _shares(counted) for name, counted in counts.items() if counted.total()},
        corpus={name: size / total for name, size in (sizes or {}).items()} if total else {},
    )


def _shares(counted: Counter[str]) -> dict[str, float]:
    return {name: count / counted.total() for name, count in counted.most_common()}


def sizes_of(run: Run, known: Mapping[str, int]) -> dict[str, int]:
    """The passages of each source that a run searched; empty where one of them is not known."""
    searched = [part for part in str(run.identity.get("corpus") or "").split("+") if part]
    if not searched:
        return {name: size for name, size in known.items() if "@" not in name}
    sizes = {part.partition("@")[0]: known.get(part.partition("@")[0], known.get(part, 0)) for part in searched}
    return sizes if all(sizes.values()) else {}


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> tuple[Sources, ...]:
    return tuple(
        sources(run, first_searches(store, run), options.k, sizes=sizes_of(run.run, options.corpus))
        for run in scored_runs(store, runs, options.scorer)
    )


def _table(made: tuple[Sources, ...], options: AnalysisOptions) -> AnalysisTable:
    return AnalysisTable(
        title=_TITLE,
        columns=("run", "dataset", "source", f"share of the first {options.k}", "share of the corpus"),
        rows=tuple(
            (one.run, dataset, source, shares.get(source, 0.0), one.corpus.get(source))
            for one in made
            for dataset, shares in one.shares.items()
            for source in {**shares, **one.corpus}  # also those that nothing was found in
        ),
        note="; ".join(f"{one.run}: the size of its corpus is not known" for one in made if not one.corpus),
    )


def _picture(made: tuple[Sources, ...], options: AnalysisOptions) -> Bars:
    groups = tuple(
        (f"{one.run}, {name}", tuple(Bar(name=source, value=share) for source, share in shares.items()))
        for one in made
        for name, shares in {**({_CORPUS: one.corpus} if one.corpus else {}), **one.shares}.items()
    )
    return Bars(title=_TITLE, groups=groups, spread="")


SOURCES = Analysis(
    name="sources",
    summary="share of sources among the passages (MIRAGE Fig. 5)",
    needs="scores and recorded searches",
    measure=_measure,
    table=_table,
    picture=_picture,
)
