"""Base of all analyses: one object with a name, descriptions, a record, a table and a picture.

Every module of this folder that defines an :class:`Analysis` is discovered. Installed packages add theirs by entry
points of the group ``ragrounds.analyses``, and ``ragrounds analyse package.module:NAME`` takes an analysis by its
import path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
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
"""Result of an analysis for programs: one record, or one for each run."""
R = TypeVar("R", bound=AnalysisRecord)


class AnalysisOptions(Struct, frozen=True, kw_only=True):
    """Options of analyses; each analysis uses those that it needs."""

    scorer: str = ""
    """Name of the scorer; if empty, the headline of the runs' questions among the scorers that all runs have scores
    by."""
    k: int = 10
    """Number of passages of a search that count."""
    parameter: str = "top_k"
    """Agent's parameter that was varied between the runs, or the confidence of answers to use."""
    sizes: Mapping[str, float] = MappingProxyType({})
    """Model text → billions of parameters."""
    corpus: Mapping[str, int] = MappingProxyType({})
    """Index with its version, ``NAME@VERSION`` → number of its passages."""
    documents: str = ""
    """Path of a file of document ids, such as retracted papers."""
    severity: str = ""
    """Path of a file with the costs of wrong and missing answers."""
    budget: float | None = None
    """Highest cost: in US dollars for 100 questions, or in tokens or seconds for one; ``None`` for no limit."""
    seed: int = 0
    """Seed of the bootstraps: equal seeds give equal intervals."""


class AnalysisTable(Struct, frozen=True, kw_only=True):
    """Table of rows under headings. A cell is a text, a number, a figure with its interval, or ``None`` if not
    known."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | int | Figure | None, ...], ...]
    note: str = ""


class AnalysisResult(Struct, frozen=True, kw_only=True):
    """Result of an analysis of some runs: a table and a picture for people, a record for programs."""

    name: str
    table: AnalysisTable
    record: AnalysisRecord
    picture: Picture


@dataclass(frozen=True)
class Analysis(Generic[R]):
    """Analysis that makes one figure or table of the papers from stored runs. It asks no model and searches nothing."""

    name: str
    summary: str
    """Line of description, with the paper's figure or table that it follows."""
    needs: str
    """Requirements on the runs."""
    measure: Callable[[Store, Sequence[Run], AnalysisOptions], R]
    """Function that makes the record."""
    table: Callable[[R, AnalysisOptions], AnalysisTable]
    picture: Callable[[R, AnalysisOptions], Picture]
    save: Callable[[Store, Sequence[Run], AnalysisOptions, Path], dict[Path, str]] | None = None
    """Function that saves what was learned as an agent that is called by a file; it returns file → content."""
    scored: bool = True
    """True if it uses a scorer."""
    by_default: Callable[[Store, Sequence[Run]], bool] = lambda store, runs: False
    """Function that returns True if a report of these runs shows it by default."""

    def __call__(self, store: Store, runs: Sequence[Run], options: AnalysisOptions) -> AnalysisResult:
        """Analyse runs.

        Raises:
            UserError: there are no runs, or they lack what the analysis needs.
        """
        if not runs:
            raise UserError(f"The analysis {self.name!r} needs a run; see `ragrounds runs ls`.")
        if self.scored and not options.scorer:
            options = replace(options, scorer=headline_scorer(store, runs))
        with ANALYSES.used(self.name):
            record = self.measure(store, runs, options)
            table, picture = self.table(record, options), self.picture(record, options)
        return AnalysisResult(name=self.name, table=table, record=record, picture=picture)


ANALYSES: ExtensionPoint[Analysis[AnalysisRecord]] = ExtensionPoint(
    hooks.ANALYSIS,
    Analysis,
    partial(fields_amiss, texts=("summary", "needs"), functions=("measure", "table", "picture")),
)
"""Analyses that ship with the package, that installed packages add, and that users name by import path."""


def analyses() -> dict[str, Analysis[AnalysisRecord]]:
    """Return all analyses by name: those of this folder, and those that installed packages add."""
    return ANALYSES.all()


def find_analysis(name: str) -> Analysis[AnalysisRecord]:
    """Return the analysis that the user names, by its name or an import path, which runs that code.

    An import path has the form ``package.module:NAME``.

    Raises:
        UserError: there is no such analysis; the message names the nearest.
    """
    return ANALYSES.resolve(name)


def analyse(name: str, store: Store, runs: Sequence[Run], options: AnalysisOptions) -> AnalysisResult:
    """Run one analysis over stored runs. It asks no model and searches nothing again.

    Raises:
        UserError: the analysis is unknown; there are no runs; the runs lack what it needs.
    """
    return find_analysis(name)(store, runs, options)


def rename_runs(result: AnalysisResult, names: Mapping[str, str]) -> AnalysisResult:
    """Return the analysis with names in place of run ids in its table and its picture. Its record keeps the ids.

    Args:
        result: result of an analysis.
        names: run id → name of the run.
    """

    def rename(text: str) -> str:
        for run, name in names.items():
            text = text.replace(run, name)
        return text

    rows = tuple(tuple(rename(cell) if isinstance(cell, str) else cell for cell in row) for row in result.table.rows)
    table = replace(result.table, rows=rows, note=rename(result.table.note))
    return replace(result, table=table, picture=renamed(result.picture, rename))
