"""Contents of a leaderboard."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ragrounds.evals.benchmarks.cards import TextLicence
from ragrounds.extensions.publishing.leaderboard import LeftOutRuns, Ranking
from ragrounds.extensions.publishing.published_traces import TextMode
from ragrounds.extensions.studies.paper_table import StudyTable
from ragrounds.ui.report.page import PageOptions

INDEX = "index.html"
BOARD_LINK = ("Leaderboard", INDEX)
_ATTEMPTS_PER_PAGE = 20_000
"""Approximate number of attempts on one page."""


class BoardRanking(Struct, frozen=True, kw_only=True):
    """Ranking with the files that its links lead to."""

    ranking: Ranking
    page: str
    """Page of its comparison."""
    attempts: Mapping[str, str]
    """Page with the attempts of each run, by run id; empty if they are not published."""
    free: frozenset[str]
    """Datasets whose texts are shown on these pages."""


class Board(Struct, frozen=True, kw_only=True):
    """All contents of a published leaderboard."""

    title: str
    published_at: float
    """Time of publication, in seconds since 1970."""
    mode: TextMode
    rankings: tuple[BoardRanking, ...]
    studies: tuple[StudyTable, ...]
    left_out: tuple[LeftOutRuns, ...] = ()

    @property
    def runs(self) -> int:
        """Number of runs in rankings."""
        return sum(len(entry.ranking.runs) for entry in self.rankings)


def comparison_page(ranking: Ranking) -> str:
    """Return the name of the page with the comparison of a ranking."""
    return f"{ranking.key}.html"


def comparison_options(attempts: Mapping[str, str], seed: int) -> PageOptions:
    """Return the contents of the page with the comparison; `attempts`: run id → page of its attempts."""
    return PageOptions(attempts=False, seed=seed, links=[BOARD_LINK, *attempt_links(attempts)])


def attempt_pages(ranking: Ranking) -> dict[str, str]:
    """Return the page of attempts of each run, by run id. A page has as many runs as fit."""
    pages, n_pages, n_attempts = dict[str, str](), 0, 0
    for row in ranking.comparison.rows:
        count = sum(row.statuses.values())
        if not pages or n_attempts + count > _ATTEMPTS_PER_PAGE:
            n_pages, n_attempts = n_pages + 1, 0
        n_attempts += count
        pages[row.run] = f"{ranking.key}-attempts{f'-{n_pages}' if n_pages > 1 else ''}.html"
    return pages


def attempt_links(pages: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return labels and addresses of pages of attempts, each once.

    Args:
        pages: run id → its page.
    """
    names = list(dict.fromkeys(pages.values()))
    return [(f"Attempts {number}" if len(names) > 1 else "Attempts", name) for number, name in enumerate(names, 1)]


def day(seconds: float) -> str:
    """Format a date, UTC."""
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))


def withheld_words(texts: Sequence[TextLicence], free: frozenset[str], mode: TextMode) -> str:
    """Return a sentence on the questions and answers that are not published, and why; empty if all are."""
    if mode == "never":
        return "Questions and answers are not published."
    withheld = [licence for licence in texts if licence.dataset not in free]
    if not withheld:
        return ""
    return f"Questions and answers are digests: not known to be free to pass on ({by_licence(withheld)})."


def by_licence(texts: Sequence[TextLicence]) -> str:
    """List datasets in a line, grouped by licence."""
    datasets_by_licence: dict[str, list[str]] = {}
    for entry in texts:
        datasets_by_licence.setdefault(entry.license, []).append(entry.dataset)
    return "; ".join(f"{', '.join(datasets)}: {licence}" for licence, datasets in datasets_by_licence.items())
