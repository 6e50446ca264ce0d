"""Analyses of stored runs, one for each figure and table of the papers. Pure functions of the store."""

from ragrounds.evals.analyses.analysis import ANALYSES, AnalysisOptions, AnalysisResult, AnalysisTable, analyse
from ragrounds.evals.analyses.curves import Curves, against_parameter, against_size
from ragrounds.evals.analyses.inside import Refinement, SearchUses
from ragrounds.evals.analyses.retrieved import (
    Positions,
    Qualities,
    Sources,
    Success,
    against_ndcg,
    by_position,
    by_success,
    sources,
)
from ragrounds.evals.analyses.run_data import FoundPassages, ScoredRun, first_found, scored_run, searches
from ragrounds.evals.analyses.tables import Epochs, Grid, grid, over_epochs

__all__ = [
    "ANALYSES",
    "AnalysisOptions",
    "AnalysisResult",
    "AnalysisTable",
    "Curves",
    "Epochs",
    "FoundPassages",
    "Grid",
    "Positions",
    "Qualities",
    "Refinement",
    "ScoredRun",
    "SearchUses",
    "Sources",
    "Success",
    "against_ndcg",
    "against_parameter",
    "against_size",
    "analyse",
    "by_position",
    "by_success",
    "first_found",
    "grid",
    "over_epochs",
    "scored_run",
    "searches",
    "sources",
]
