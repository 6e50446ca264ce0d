"""Citations of a report: this tool in the version that made the runs, the benchmark, the strategies."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from msgspec import Struct

from ragrounds.agents.agent import names, read_card
from ragrounds.base.errors import UserError
from ragrounds.base.records import Run
from ragrounds.base.specs import parse
from ragrounds.evals.benchmarks.cards import card_of
from ragrounds.version import __version__


class Citation(Struct, frozen=True, kw_only=True):
    """Citation of one source."""

    what: str
    """Subject of the source: ``this tool``, a benchmark, an agent."""
    text: str
    bibtex: str = ""
    """BibTeX entry of the tool; empty for papers."""


def citations(runs: Sequence[Run], datasets: Sequence[str]) -> Iterator[Citation]:
    """Yield the tool, the papers of the benchmark and its datasets, and those of the strategies, without duplicates.

    Args:
        runs: runs of the report.
        datasets: canonical names of the datasets.
    """
    versions = sorted({run.version for run in runs} - {""}) or [__version__]
    year = time.strftime("%Y", time.gmtime(max(run.created for run in runs)))
    title = "ragrounds: evaluation of retrieval-augmented generation for medical question answering"
    version = " and ".join(versions)
    entry = f"@software{{ragrounds,\n  title = {{{title}}},\n  version = {{{version}}},\n  year = {{{year}}}\n}}"
    yield Citation(what="this tool", text=f"{title}. Version {version} ({year})", bibtex=entry)
    cited_papers: set[str] = set()
    cards = map(card_of, dict.fromkeys([*(run.benchmark.partition("/")[0] for run in runs), *datasets]))
    benchmarks = ((card.name, card.paper) for card in cards if card is not None)
    for subject, paper in (*benchmarks, *_strategies(runs)):
        if paper and paper not in cited_papers:
            cited_papers.add(paper)
            yield Citation(what=subject, text=paper)


def _strategies(runs: Sequence[Run]) -> Iterator[tuple[str, str]]:
    """Yield the papers of built-in agents; no file or code of a user is opened."""
    built_in = set(names())
    for run in runs:
        try:
            name = parse(run.agent).name
        except UserError:
            continue
        if run.origin != "imported" and name in built_in:
            yield name, read_card(name).paper
