"""What a leaderboard shows, and the same as JSON for other tools."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from ragrounds.evals.benchmarks.cards import TextLicence
from ragrounds.evals.compare.comparison import RunTotals
from ragrounds.evals.compare.leaderboard import LeftOutRuns, Ranking
from ragrounds.evals.exchange.published_traces import TextMode
from ragrounds.evals.studies.table import StudyTable
from ragrounds.records import Run
from ragrounds.ui.comparison_tables import agent_names
from ragrounds.version import __version__

DATA = "leaderboard.json"
DATA_VERSION = 1
"""Of the form of ``leaderboard.json``."""


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

    @property
    def incomplete(self) -> int:
        """Runs that lack attempts, or some of whose attempts are open."""
        return len({lack.run for one in self.rankings for lack in one.ranking.abstract.lacks})


def strategy(run: Run) -> str:
    """What a run's agent does: its name without parameters."""
    return run.agent.partition("[")[0]


def attempt_links(pages: Mapping[str, str]) -> list[tuple[str, str]]:
    """Labels and addresses of pages of attempts, each once.

    Args:
        pages: run id → its page.
    """
    names = list(dict.fromkeys(pages.values()))
    return [(f"Attempts {number}" if len(names) > 1 else "Attempts", name) for number, name in enumerate(names, 1)]


def asked_models(ranking: Ranking) -> dict[str, tuple[str, ...]]:
    """Run id → the models that it asked, each once, without parameters."""
    return {one.run: one.models for one in ranking.abstract.systems}


def lacks_of(ranking: Ranking) -> dict[str, str]:
    """Run id → what is missing of it, in words."""
    found: dict[str, list[str]] = {}
    for one in ranking.abstract.lacks:
        under = f" under {one.scorer}" if one.scorer else ""
        said = f"{one.count:,} of {one.of:,} {_LACKS[one.kind]}{under}"
        found.setdefault(one.run, []).append(said)
    return {run: "; ".join(said) for run, said in found.items()}


_LACKS = {
    "not_run": "attempts not made",
    "failed": "attempts failed",
    "paused": "attempts wait for a person",
    "unjudged": "questions without a verdict",
    "unscored": "questions without a score",
}


def day(seconds: float) -> str:
    """A date, UTC."""
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))


def moment(seconds: float) -> str:
    """A date and a time, UTC, as ISO 8601."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


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


def board_json(board: Board) -> bytes:
    """The leaderboard as one JSON document. Shares are from 0 to 1, money is US dollars, ``null`` is not known."""
    document = {
        "version": DATA_VERSION,
        "made": moment(board.made),
        "ragrounds": __version__,
        "title": board.title,
        "rankings": [_ranking(one) for one in board.rankings],
        "studies": [_study(one) for one in board.studies],
        "left_out": board.left_out,
    }
    return msgspec.json.format(msgspec.json.encode(msgspec.to_builtins(document, str_keys=True)), indent=1) + b"\n"


def _ranking(one: BoardRanking) -> dict[str, object]:
    ranking = one.ranking
    comparison = ranking.comparison
    rows, names = {row.run: row for row in comparison.rows}, agent_names(comparison)
    findings, lacks = ranking.abstract.findings, lacks_of(ranking)
    tables = {table.scorer: table for headline, beside in comparison.shown() for table in (headline, *beside)}
    return {
        "id": ranking.key,
        "benchmark": ranking.benchmark,
        "questions": ranking.count,
        "question_hash": ranking.questions,
        "epochs": ranking.epochs,
        "selection": ranking.selection,
        "claim": ranking.claim,
        "apart": ranking.apart,
        "licences": ranking.licences,
        "texts": sorted(one.free),
        "page": one.page,
        "headlines": [headline.scorer for headline in comparison.headlines],
        "scorers": [{"name": name, "unit": table.unit, "direction": table.direction} for name, table in tables.items()],
        "findings": [{"scorer": found.scorer, "kind": found.kind, "best": found.best.run} for found in findings],
        "notes": comparison.notes,
        "runs": [
            _run(run, rows[run.id], names[run.id], one, lacks.get(run.id, ""))
            | {
                "figures": {
                    name: _figure(next(line for line in table.lines if line.run == run.id).overall)
                    for name, table in tables.items()
                },
            }
            for run in ranking.runs
        ],
    }


def _run(run: Run, row: RunTotals, name: str, one: BoardRanking, lacks: str) -> dict[str, object]:
    return {
        "run": run.id,
        "name": name,
        "agent": run.agent,
        "strategy": strategy(run),
        "models": row.models or {"": ", ".join(asked_models(one.ranking)[run.id])},
        "created": moment(run.created),
        "origin": run.origin,
        "fingerprint": run.fingerprint,
        "statuses": row.statuses,
        "incomplete": lacks,
        "places": {scorer: found[run.id] for scorer, found in one.ranking.places.items() if run.id in found},
        "cost_paid": row.cost_paid,
        "cost_uncached": row.cost_uncached,
        "cost_judging": row.cost_judging,
        "tokens": row.usage,
        "calls": row.calls,
        "seconds": row.seconds,
        "attempts": one.attempts.get(run.id),
    }


def _figure(figure: Struct) -> dict[str, object]:
    kept = ("value", "low", "high", "best", "n", "missing")
    return {name: getattr(figure, name) for name in kept}


def _study(one: BoardStudy) -> dict[str, object]:
    table = one.table
    return {
        "study": table.study,
        "title": table.title,
        "source": table.source,
        "page": one.page,
        "updated": None if one.updated is None else moment(one.updated),
        "columns": table.columns,
        "cells": table.cells,
        "notes": table.notes,
    }
