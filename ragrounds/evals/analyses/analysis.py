"""What an analysis is: one object with its name, its words, its record, its table and its picture.

Every module of this folder that holds an :class:`Analysis` is found by itself; installed packages add theirs by entry
points of the group ``ragrounds.analyses``, and ``ragrounds analyse package.module:NAME`` takes one by its import path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base import hooks
from ragrounds.base.errors import UserError
from ragrounds.base.plugins import ExtensionPoint, fields_amiss
from ragrounds.base.records import Run
from ragrounds.evals.analyses.pictures import Picture, renamed
from ragrounds.evals.analyses.run_data import headline_scorer
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.store.store import Store

AnalysisRecord = Struct | tuple[Struct, ...]
"""What an analysis found, for programs: one record, or one for each run."""
R = TypeVar("R", bound=AnalysisRecord)


class AnalysisOptions(Struct, frozen=True, kw_only=True):
    """What may be set; each analysis takes what it needs."""

    scorer: str = ""
    """Empty: the headline of the runs' questions, among the scorers that all runs have scores by."""
    k: int = 10
    """How many passages of a search count."""
    parameter: str = "top_k"
    """The agent's parameter that was varied between the runs; or which confidence of answers counts."""
    sizes: Mapping[str, float] = MappingProxyType({})
    """Model text → billions of parameters."""
    corpus: Mapping[str, int] = MappingProxyType({})
    """Index with its version, ``NAME@VERSION`` → its passages."""
    documents: str = ""
    """A file of document ids: retracted papers, for instance."""
    severity: str = ""
    """A file of what wrong and missing answers cost."""
    seed: int = 0
    """Of the bootstraps: equal seeds give equal intervals."""


class AnalysisTable(Struct, frozen=True, kw_only=True):
    """Rows under headings. A cell is a text, a number, a figure with its interval, or ``None`` for not known."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | int | Figure | None, ...], ...]
    note: str = ""


class AnalysisResult(Struct, frozen=True, kw_only=True):
    """An analysis of some runs: a table and a picture for people, a record for programs."""

    name: str
    table: AnalysisTable
    record: AnalysisRecord
    picture: Picture


@dataclass(frozen=True)
class Analysis(Generic[R]):
    """One figure or table of the papers, made of stored runs. It asks no model and searches nothing."""

    name: str
    summary: str
    """One line, with the paper's figure or table that it follows."""
    needs: str
    """What the runs must have."""
    measure: Callable[[Store, Sequence[Run], AnalysisOptions], R]
    """Makes the record."""
    table: Callable[[R, AnalysisOptions], AnalysisTable]
    picture: Callable[[R, AnalysisOptions], Picture]
    save: Callable[[Store, Sequence[Run], AnalysisOptions, Path], dict[Path, str]] | None = None
    """What was learned as an agent that is called by this file: files → what stands in them."""
    scored: bool = True
    """Whether it goes by a scorer."""
    by_default: Callable[[Store, Sequence[Run]], bool] = lambda store, runs: False
    """Whether a report of these runs shows it without being asked for."""

    def __call__(self, store: Store, runs: Sequence[Run], options: AnalysisOptions) -> AnalysisResult:
        """Analyse runs.

        Raises:
            UserError: no runs, or runs that lack what the analysis needs.
        """
        if not runs:
            raise UserError(f"The analysis {self.name!r} needs a run; see `ragrounds runs ls`.")
        if self.scored and not options.scorer:
            options = replace(options, scorer=headline_scorer(store, runs))
        with ANALYSES.used(self.name):
            record = self.measure(store, runs, options)
            table, picture = self.table(record, options), self.picture(record, options)
        return AnalysisResult(name=self.name, table=table, record=record, picture=picture)


def _lacks(made: Analysis[AnalysisRecord]) -> str:
    return fields_amiss(made, texts=("summary", "needs"), functions=("measure", "table", "picture"))


ANALYSES: ExtensionPoint[Analysis[AnalysisRecord]] = ExtensionPoint(hooks.ANALYSIS, Analysis, _lacks)
"""What ships, what installed packages add, and what users name by import path."""


def analyses() -> dict[str, Analysis[AnalysisRecord]]:
    """All analyses by name: those of this folder, and those that installed packages add."""
    return ANALYSES.all()


def find_analysis(name: str) -> Analysis[AnalysisRecord]:
    """The analysis that the user names, by its name or an import path (``package.module:NAME``), which runs that code.

    Raises:
        UserError: there is none; names the nearest.
    """
    return ANALYSES.named(name)


def analyse(name: str, store: Store, runs: Sequence[Run], options: AnalysisOptions) -> AnalysisResult:
    """Run one analysis over stored runs. No model is asked and nothing is searched again.

    Raises:
        UserError: an unknown analysis, no runs, or runs that lack what it needs.
    """
    return find_analysis(name)(store, runs, options)


def with_names(result: AnalysisResult, names: Mapping[str, str]) -> AnalysisResult:
    """The same analysis with names in the place of runs' ids, in its table and its picture; its record keeps the ids.

    Args:
        result: of an analysis.
        names: id of a run → what it is called.
    """

    def named(text: str) -> str:
        for run, name in names.items():
            text = text.replace(run, name)
        return text

    rows = tuple(tuple(named(cell) if isinstance(cell, str) else cell for cell in row) for row in result.table.rows)
    table = replace(result.table, rows=rows, note=named(result.table.note))
    return replace(result, table=table, picture=renamed(result.picture, named))
