"""The analyses that there are: the papers' figures and tables over stored runs."""

from __future__ import annotations

from msgspec import Struct


class AnalysisDetails(Struct, frozen=True, kw_only=True):
    """What an analysis shows."""

    name: str
    summary: str
    """One line, with the paper's figure or table that it follows."""
    needs: str
    """What the runs must have."""


def list_analyses() -> list[AnalysisDetails]:
    """The analyses by name, those of installed packages too."""
    from ragrounds.evals.analyses.analysis import analyses

    return [AnalysisDetails(name=one.name, summary=one.summary, needs=one.needs) for one in analyses().values()]


def describe_analysis(name: str) -> AnalysisDetails:
    """What an analysis shows, by its name or its import path.

    Raises:
        UserError: there is none; names the nearest.
    """
    from ragrounds.evals.analyses.analysis import find_analysis

    found = find_analysis(name)
    return AnalysisDetails(name=found.name, summary=found.summary, needs=found.needs)
