"""The analyses that there are: the papers' figures and tables over stored runs."""

from __future__ import annotations

from msgspec import Struct

from ragrounds.evals.analyses.analysis import ANALYSES, Analysis, AnalysisRecord, analyses, find_analysis


class AnalysisDetails(Struct, frozen=True, kw_only=True):
    """What an analysis shows."""

    name: str
    summary: str
    """One line, with the paper's figure or table that it follows."""
    needs: str
    """What the runs must have."""
    package: str = ""
    """The package, with its version, that adds it; empty: it ships, or the user named it by import path."""


def list_analyses() -> list[AnalysisDetails]:
    """The analyses by name, those of installed packages too."""
    return [_details(one) for one in analyses().values()]


def describe_analysis(name: str) -> AnalysisDetails:
    """What an analysis shows, by its name or its import path.

    Raises:
        UserError: there is none; names the nearest.
    """
    return _details(find_analysis(name))


def _details(one: Analysis[AnalysisRecord]) -> AnalysisDetails:
    return AnalysisDetails(name=one.name, summary=one.summary, needs=one.needs, package=ANALYSES.origin(one.name))
