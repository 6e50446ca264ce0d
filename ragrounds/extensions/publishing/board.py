"""What a leaderboard shows."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ragrounds.evals.benchmarks.cards import TextLicence
from ragrounds.extensions.publishing.leaderboard import LeftOutRuns, Ranking
from ragrounds.extensions.publishing.published_traces import TextMode
from ragrounds.extensions.studies.paper_table import StudyTable


class BoardRanking(Struct, frozen=True, kw_only=True):
    """A ranking, and the files that its links lead to."""

    ranking: Ranking
    page: str
    """Its comparison."""
    attempts: Mapping[str, str]
    """Run id → the page with its attempts; none where these are not published."""
    free: frozenset[str]
    """The datasets whose texts are shown there."""


class BoardStudy(Struct, frozen=True, kw_only=True):
    """A study, and its page."""

    table: StudyTable
    page: str
    updated: float | None
    """Seconds since 1970."""


class Board(Struct, frozen=True, kw_only=True):
    """All that is published."""

    title: str
    made: float
    """Seconds since 1970."""
    mode: TextMode
    rankings: tuple[BoardRanking, ...]
    studies: tuple[BoardStudy, ...]
    left_out: tuple[LeftOutRuns, ...] = ()

    @property
    def runs(self) -> int:
        """Runs in rankings."""
        return sum(len(one.ranking.runs) for one in self.rankings)


def attempt_links(pages: Mapping[str, str]) -> list[tuple[str, str]]:
    """Labels and addresses of pages of attempts, each once.

    Args:
        pages: run id → its page.
    """
    names = list(dict.fromkeys(pages.values()))
    return [(f"Attempts {number}" if len(names) > 1 else "Attempts", name) for number, name in enumerate(names, 1)]


def day(seconds: float) -> str:
    """A date, UTC."""
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))


def withheld_words(texts: Sequence[TextLicence], free: frozenset[str], mode: TextMode) -> str:
    """What of the questions and answers is not published, and why; empty: all is."""
    if mode == "never":
        return "Questions and answers are not published."
    kept = [one for one in texts if one.dataset not in free]
    if not kept:
        return ""
    return f"Questions and answers are digests: the licence does not let anybody give them on ({by_licence(kept)})."


def by_licence(texts: Sequence[TextLicence]) -> str:
    """Datasets in a line, those of one licence together."""
    found: dict[str, list[str]] = {}
    for one in texts:
        found.setdefault(one.license, []).append(one.dataset)
    return "; ".join(f"{', '.join(datasets)}: {said}" for said, datasets in found.items())
