"""Analyses of stored runs, one for each figure and table of the papers. Pure functions of the store."""

from ragrounds.evals.analyses.curves import Curves, against_parameter, against_size
from ragrounds.evals.analyses.inside import Refined, Uses
from ragrounds.evals.analyses.material import Answered, Found, answered, first_found, searches
from ragrounds.evals.analyses.naming import ANALYSES, Analysed, Choices, Table, analyse
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
from ragrounds.evals.analyses.tables import Epochs, Grid, grid, over_epochs

__all__ = [
    "ANALYSES",
    "Analysed",
    "Answered",
    "Choices",
    "Curves",
    "Epochs",
    "Found",
    "Grid",
    "Positions",
    "Qualities",
    "Refined",
    "Sources",
    "Success",
    "Table",
    "Uses",
    "against_ndcg",
    "against_parameter",
    "against_size",
    "analyse",
    "answered",
    "by_position",
    "by_success",
    "first_found",
    "grid",
    "over_epochs",
    "searches",
    "sources",
]
