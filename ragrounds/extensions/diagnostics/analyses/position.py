"""Accuracy by the rank of the first passage from a gold document (MIRAGE Fig. 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from ragrounds.evals.analyses.analysis import Analysis, AnalysisOptions, AnalysisTable
from ragrounds.evals.analyses.pictures import Picture, figure_mark
from ragrounds.evals.analyses.run_data import ScoredRun, first_searches, gold_ranks, scored_runs
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.scorers import figure_word
from ragrounds.evals.trace.traces import FoundPassages

EDGES = (1, 2, 3, 5, 9, 17, 33)
"""First ranks of the bins of positions: 1, 2, 3–4, 5–8, 9–16, 17–32, 33 and more."""
NOT_FOUND = "not found"
_TITLE = "Accuracy by the gold passage's position"


class PositionBin(Struct, frozen=True, kw_only=True):
    """Questions whose gold passage had one of these ranks."""

    ranks: str
    questions: int
    figure: Figure


class Positions(Struct, frozen=True, kw_only=True):
    """Accuracy by the gold passage's rank in an attempt's first search."""

    run: str
    scorer: str
    bins: tuple[PositionBin, ...]
    without_gold: int
    """Number of questions that name no gold document, or were not searched for; they are in no bin."""


def by_position(
    run: ScoredRun, searches: Mapping[str, FoundPassages], edges: Sequence[int] = EDGES, seed: int = 0
) -> Positions:
    """Return the accuracy in bins of the gold passage's rank; `searches` is each question's first search."""
    names = [str(start) if end == start + 1 else f"{start}–{end - 1}" for start, end in pairwise(edges)]
    names += [f"{edges[-1]} and more", NOT_FOUND]
    members: dict[str, list[str]] = {name: [] for name in names}
    for question, rank in gold_ranks(run, searches).items():
        bin_index = len(edges) if rank is None else sum(rank >= edge for edge in edges) - 1
        members[names[bin_index]].append(question)
    counted = sum(len(ids) for ids in members.values())
    return Positions(
        run=run.run.id,
        scorer=run.scorer,
        bins=tuple(
            PositionBin(ranks=name, questions=len(ids), figure=run.figure(ids, seed))
            for name, ids in members.items()
            if ids
        ),
        without_gold=len(run.questions) - counted,
    )


def _table(records: tuple[Positions, ...], options: AnalysisOptions) -> AnalysisTable:
    return AnalysisTable(
        title=_TITLE,
        columns=("run", "rank of the gold passage", "questions", f"{figure_word(options.scorer)} ({options.scorer})"),
        rows=tuple(
            (record.run, position_bin.ranks, position_bin.questions, position_bin.figure)
            for record in records
            for position_bin in record.bins
        ),
        note="; ".join(
            f"{record.run}: {record.without_gold:,} questions without a gold document or a search" for record in records
        ),
    )


def _picture(records: tuple[Positions, ...], options: AnalysisOptions) -> Picture:
    marks = tuple(
        figure_mark(
            NOT_FOUND if position_bin.ranks == NOT_FOUND else f"rank {position_bin.ranks}",
            position_bin.figure,
            record.run,
        )
        for record in records
        for position_bin in record.bins
    )
    return Picture(title=f"{_TITLE} ({options.scorer})", marks=marks, bars=True)


POSITION = Analysis(
    name="position",
    summary="accuracy by the gold passage's position (MIRAGE Fig. 4)",
    needs="scores, recorded searches, and questions that name gold documents",
    measure=lambda store, runs, options: tuple(
        by_position(run, first_searches(store, run), seed=options.seed)
        for run in scored_runs(store, runs, options.scorer)
    ),
    table=_table,
    picture=_picture,
)
