"""Which long answer is better: stored runs against each other, by judges and by people."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

from msgspec import Struct
from msgspec.structs import fields, replace
from rich.console import Console
from rich.text import Text

from ragrounds.api.aliases import names_of
from ragrounds.api.event_loop import finish
from ragrounds.api.frames import MATCHES, RATINGS, Frame, Part, Row
from ragrounds.api.progress import NotebookCell
from ragrounds.api.results import Result, agents_text
from ragrounds.api.servers import ServerChanged, open_judges
from ragrounds.api.workspace import (
    JournalMode,
    RunsGiven,
    chosen_settings,
    closing,
    one_of,
    open_store,
    opened_runs,
    run_names,
    texts,
    user_settings,
)
from ragrounds.contracts import Model
from ragrounds.errors import UserError, unknown
from ragrounds.evals.arena.lineup import REFERENCE, Lineup, gather_lineup, load_axes, renamed
from ragrounds.evals.arena.play import ArenaPlayer, FinishedMatch, PlayEstimate, estimate_play
from ragrounds.evals.arena.report import ArenaReport, AxisReport, arena_report
from ragrounds.evals.arena.schedules import open_schedule
from ragrounds.evals.arena.verdicts import Ballot, ballots, combine_judgements, read_votes
from ragrounds.evals.engine.circuit_breaker import failure_limit
from ragrounds.evals.judges.pairs import PROMPT, pairs_code
from ragrounds.evals.store.arenas import Arena, ArenaStore
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.prompts.loader import PromptFolder
from ragrounds.records import Run
from ragrounds.settings import Settings
from ragrounds.ui.arena_tables import print_report
from ragrounds.ui.notebook import in_notebook
from ragrounds.ui.plot import PictureMaker
from ragrounds.ui.progress.arena import ArenaCounts, LiveArena
from ragrounds.ui.result_pictures import rating_forest

Live = Callable[["Arena"], AbstractContextManager[Callable[["FinishedMatch"], None]]]
"""Opened when an arena begins to play: what it gives is told of every match that ends."""
Calls = Literal["together", "apart"]
Orders = Literal["both", "one"]
AnswerPart = Literal["whole", "final"]


class ArenaRequest(Struct, frozen=True, kw_only=True):
    """Who plays, before which judges, and by which rules."""

    runs: tuple[str, ...]
    """Ids, beginnings of ids, or agents' texts."""
    judges: tuple[str, ...]
    """Models as text; the majority of several decides."""
    base_url: str | None = None
    """The judges' server, where it is OpenAI-compatible."""
    alias: str | None = None
    """A name for it; several addresses need one."""
    server_changed: ServerChanged = "stop"
    """What is done where another server answers there than the last time."""
    reference: bool = False
    """The benchmark's own answers play too."""
    axes: tuple[str, ...] = ()
    """On what answers are compared; none: MRAG-Bench's four."""
    axes_file: Path | None = None
    """A TOML file with axes of the user's own."""
    calls: Calls = "together"
    """One call for all axes, or one for each."""
    orders: Orders = "both"
    """Both orders of a pair, or one, drawn by `seed`."""
    part: AnswerPart = "whole"
    """The whole answer, or what stands after its line ``Answer:``."""
    schedule: str = "published"
    """Which pairs meet: published, full or adaptive."""
    min_matches: int = 80
    """Matches that a pair needs on every axis (published)."""
    confidence: float = 0.95
    """Of intervals, ranks and the adaptive end."""
    tries: int = 3
    """How often a judge is asked where its verdict cannot be read."""
    epoch: int = 0
    """Of the runs."""
    seed: int = 0
    """Of pairs, questions, orders and labels."""


class ArenaStand(Result, frozen=True, kw_only=True):
    """An arena as it stands: its ratings, its judges, its costs."""

    report: ArenaReport
    settings: Settings
    """Where it is."""

    def draw(self, console: Console) -> None:
        """Print each axis, the judges, what it cost, what to know."""
        print_report(self.report, console)

    def brief(self) -> str:
        """Its id, and who plays."""
        return f"{self.report.id}: {agents_text(self.report.names)}"

    def own_pictures(self) -> Mapping[str, PictureMaker]:
        """The ratings on each axis, by its name."""
        return {
            axis.axis: PictureMaker(partial(rating_forest, self.report, axis), f"ratings are withheld: {axis.withheld}")
            for axis in self.report.axes
        }

    def own_frames(self) -> tuple[Frame, ...]:
        """The ratings, and what the judges said."""
        return (RATINGS, MATCHES)

    @contextmanager
    def parts(self, frame: Frame) -> Iterator[Iterator[Part]]:
        """A part for each axis; the matches come from the store."""
        if frame is RATINGS:
            yield (list(_rating_rows(self.report, axis)) for axis in self.report.axes)
            return
        with open_store(self.settings) as store:
            kept = ArenaStore(store)
            yield iter([list(_match_rows(kept, self.report.arena))])


class PlayedArena(ArenaStand, frozen=True, kw_only=True):
    """What came of :func:`arena`."""

    ended: str
    """Why it played no further."""
    made: int
    """Calls that were made."""
    reused: int
    """Calls that were answered from the journal."""


def _rating_rows(report: ArenaReport, axis: AxisReport) -> Iterator[Row]:
    system = dict(zip(report.names, report.arena.names, strict=True))
    if axis.ratings is None:
        for name in report.names:
            yield (report.id, axis.axis, system[name], *(None,) * 5, axis.matches, axis.withheld or None, name)
        return
    for row in axis.ratings.rows:
        figures = (row.rank, row.worst, row.rating, row.low, row.high)
        yield (report.id, axis.axis, system[row.system], *figures, axis.matches, None, row.system)


def _match_rows(kept: ArenaStore, arena: Arena) -> Iterator[Row]:
    words = {"1": "first", "2": "second", "=": "tie"}
    for one in kept.judgements(kept.add(arena)):
        for axis, letter in zip(arena.parts[one.part], one.outcomes, strict=False):
            names = (arena.judges[one.judge], axis.name, arena.names[one.first], arena.names[one.second])
            yield (arena.id, one.number, one.question_id, *names, words.get(letter), one.how)


def arena(
    runs: RunsGiven,
    judges: str | Sequence[str] = (),
    *,
    base_url: str | None = None,
    alias: str | None = None,
    server_changed: ServerChanged = "stop",
    reference: bool = False,
    axes: str | Sequence[str] = (),
    axes_file: str | Path | None = None,
    calls: Calls = "together",
    orders: Orders = "both",
    part: AnswerPart = "whole",
    schedule: str = "published",
    min_matches: int = 80,
    confidence: float = 0.95,
    tries: int = 3,
    epoch: int = 0,
    seed: int = 0,
    concurrency: int | None = None,
    max_cost: float | None = None,
    max_total_tokens: int | None = None,
    max_time: float | None = None,
    fail_after: str | int = "50%",
    journal: JournalMode = "reuse",
    resamples: int = 1000,
    names: Mapping[str, str] = MappingProxyType({}),
    live: Live | None = None,
    progress: bool | None = None,
    home: str | Path | None = None,
    settings: Settings | None = None,
) -> PlayedArena:
    """Play stored runs' long answers against each other. Answers are never generated again; the same call resumes.

        rr.arena(["direct", "vanilla_rag[top_k=8]"], judges="openai:gpt-4o-mini", max_cost=5).to_pandas("ratings")

    Args:
        runs: ids, beginnings of ids, agents' texts, results or loaded runs.
        judges: models as text; none: the settings' model. The majority of several decides.
        base_url, alias: the judges' server, where it is OpenAI-compatible, and a name for it (several need one).
        server_changed: where another server answers there than the last time: ``stop``, or another arena (``new``).
        reference: the benchmark's own answers play too.
        axes, axes_file: on what answers are compared, and a TOML file with axes of one's own; none: MRAG-Bench's four.
        calls: one call for all axes, or one for each.
        orders: both orders of a pair, or one, drawn by `seed`.
        part: the whole answer, or what stands after its line ``Answer:``.
        schedule: which pairs meet: published, full or adaptive.
        min_matches: matches that a pair needs on every axis (published).
        confidence: of intervals, ranks and the adaptive end.
        tries: how often a judge is asked where its verdict cannot be read.
        epoch: of the runs.
        seed: of pairs, questions, orders and labels.
        concurrency: judges' calls in flight; ``None``: the settings'.
        max_cost, max_total_tokens, max_time: dollars of the arena in all, tokens and seconds of this call.
        fail_after: what ends it when so many judgements of one judge failed: a share of its last 100 (20 at least), a
            number, or ``never``. The same call resumes.
        journal: recorded calls are answered from (``reuse``), demanded (``replay``), or made anew (``fresh``).
        resamples: of the bootstrap.
        names: what a run is called in tables: its id, the beginning of it, or its agent's text → a name. It is no part
            of the arena. Others are called as the store keeps it, or by their agents.
        live: opened when it begins to play; ``None``: a display in a terminal.
        progress: False: no display.
        home, settings: the folder of the store, and all settings; ``None``: the user's.

    Raises:
        UserError: an unknown run, judge, axis or schedule; runs that cannot play.
        Interrupted: Ctrl-C; what was judged is kept.
    """
    given = locals()
    one_of("--journal", journal, get_args(JournalMode))
    chosen = chosen_settings(settings, home)
    shown = live or (_shown if progress is not False else lambda arena: nullcontext(lambda finished: None))
    return _play(_request(given), given, shown, chosen)


def _request(given: Mapping[str, Any]) -> ArenaRequest:
    """The arguments of :func:`arena` that say what is played.

    Raises:
        UserError: an unknown word.
    """
    one_of("--calls", given["calls"], get_args(Calls))
    one_of("--orders", given["orders"], get_args(Orders))
    one_of("--part", given["part"], get_args(AnswerPart))
    several = {"runs": tuple(run_names(given["runs"])), "judges": texts(given["judges"]), "axes": texts(given["axes"])}
    file = Path(given["axes_file"]) if given["axes_file"] else None
    named = {**given, **several, "axes_file": file}
    return ArenaRequest(**{name: named[name] for name in ArenaRequest.__struct_fields__})


def _play(request: ArenaRequest, given: Mapping[str, Any], live: Live, settings: Settings) -> PlayedArena:
    failing = failure_limit(given["fail_after"])
    with opened_runs(request.runs, settings) as (store, runs):
        arena, lineup, judges = _arena(
            store, replace(request, runs=tuple(run.id for run in runs)), settings, given["journal"]
        )
        names = names_of(store, runs, given["names"])
        schedule = open_schedule(
            request.schedule,
            len(lineup.systems),
            len(lineup.questions),
            seed=request.seed,
            least=request.min_matches,
            confidence=request.confidence,
        )
        kept, recorded = ArenaStore(store), StoreJournal(store, given["journal"])

        async def carry_out() -> str:
            async with closing(judges, recorded):
                with live(renamed(arena, names)) as hear:
                    player = ArenaPlayer(
                        arena,
                        lineup,
                        judges,
                        kept,
                        recorded,
                        PromptFolder(),
                        concurrency=given["concurrency"] or settings.concurrency,
                        max_cost=given["max_cost"],
                        max_tokens=given["max_total_tokens"],
                        max_seconds=given["max_time"],
                        fail_after=failing,
                        listener=hear,
                    )
                    return await player.play(schedule)

        ended = finish(carry_out())
        report = arena_report(kept, arena, lineup, replicates=given["resamples"], names=names)
    return PlayedArena(settings=settings, report=report, ended=ended, made=recorded.made, reused=recorded.reused)


@contextmanager
def _shown(arena: Arena) -> Iterator[Callable[[FinishedMatch], None]]:
    """A table that is drawn anew, in a notebook's cell or on the terminal; elsewhere nothing is shown."""
    if not in_notebook():
        if sys.stderr is None or not sys.stderr.isatty():
            yield lambda finished: None
            return
        with LiveArena(arena) as shown:
            yield shown.observe
        return
    cell, counts = NotebookCell(), ArenaCounts(arena)

    def hear(finished: FinishedMatch) -> None:
        """Count a match that ended; draw anew where the last picture is old enough."""
        counts.observe(finished)
        cell.show([Text(counts.line()), counts.table()], counts.line())

    try:
        yield hear
    finally:
        cell.show([Text(counts.line()), counts.table()], counts.line(), at_once=True)


def estimate(
    runs: RunsGiven, judges: str | Sequence[str] = (), *, settings: Settings | None = None, **rules: Any
) -> Sequence[PlayEstimate]:
    """How many calls an arena takes, and about what it costs. Nobody is asked.

    Args:
        runs, judges: as for :func:`arena`.
        settings: ``None``: the user's.
        rules: the other arguments of :func:`arena` that say what is played.

    Raises:
        UserError: as :func:`arena`.
    """
    chosen = settings or user_settings()
    defaults = {field.name: field.default for field in fields(ArenaRequest)}
    request = _request({**defaults, **rules, "runs": runs, "judges": judges})
    with opened_runs(request.runs, chosen) as (store, _):
        arena, lineup, opened = _arena(store, request, chosen, "replay")
        return estimate_play(arena, lineup, opened)


def _arena(
    store: Store, request: ArenaRequest, settings: Settings, journal: JournalMode
) -> tuple[Arena, Lineup, list[Model]]:
    lineup = gather_lineup(store, request.runs, reference=request.reference, epoch=request.epoch, part=request.part)
    judges = open_judges(
        store,
        request.judges,
        settings,
        base_url=request.base_url,
        alias=request.alias,
        changed=request.server_changed,
        journal=journal,
    )
    arena = Arena(
        systems=lineup.systems,
        benchmark=lineup.benchmark,
        questions=lineup.version,
        count=len(lineup.questions),
        axes=load_axes(request.axes, request.axes_file),
        judges=tuple(model.spec for model in judges),
        prompts=PromptFolder().digest((PROMPT,)),
        code=pairs_code(),
        calls=request.calls,
        orders=request.orders,
        part=request.part,
        tries=request.tries,
        epoch=request.epoch,
        schedule=request.schedule,
        least=request.min_matches,
        confidence=request.confidence,
        seed=request.seed,
    )
    return arena, lineup, judges


class StoredArena(Struct, frozen=True):
    """An arena of the store with the answers that play in it."""

    kept: ArenaStore
    arena: Arena
    lineup: Lineup
    store: Store
    runs: Sequence[Run]
    """Those that play."""


@contextmanager
def stored_arena(reference: str = "", settings: Settings | None = None) -> Iterator[StoredArena]:
    """An arena while the block lasts, by its id or the beginning of it; nothing named: the newest.

    Raises:
        UserError: no such arena, or its runs have other answers now than when it was played.
    """
    with open_store(settings or user_settings()) as store:
        kept = ArenaStore(store)
        arena = kept.arena(reference)
        runs = [system.run for system in arena.systems if system.run]
        has_reference = any(system.name == REFERENCE and not system.run for system in arena.systems)
        lineup = gather_lineup(store, runs, reference=has_reference, epoch=arena.epoch, part=arena.part)
        if lineup.version != arena.questions:
            raise UserError(
                f"The runs of {arena.id} have other answers now than when it was played. Play them again: "
                "`ragrounds arena play` starts a new arena; equal pairs come from the journal."
            )
        yield StoredArena(kept, arena, lineup, store, store.named(runs))


class Voting(Struct, frozen=True, kw_only=True):
    """A person's votes in an arena: the pairs to be shown, and what is kept of them."""

    kept: ArenaStore
    arena: Arena
    lineup: Lineup
    voter: str
    axes: tuple[str, ...]
    """That are asked for, in this order."""

    def ballots(self) -> Iterator[Ballot]:
        """Pairs that judges have judged and this voter has not seen, in random order, without names."""
        number = self.kept.add(self.arena)
        played = combine_judgements(self.arena, self.kept.judgements(number))
        yield from ballots(self.arena, self.lineup, played, self.kept.votes(number), self.voter)

    def keep(self, ballot: Ballot, axis: str, outcome: str) -> None:
        """Write a vote; it is on the disk when this returns.

        Args:
            ballot: the pair.
            axis: what was compared.
            outcome: ``first`` (the left answer), ``second``, ``tie`` or ``skip``.
        """
        self.kept.add_votes(self.kept.add(self.arena), [ballot.vote(self.voter, axis, outcome)])


@contextmanager
def voting(
    reference: str = "", voter: str = "human", axes: Sequence[str] = (), settings: Settings | None = None
) -> Iterator[Voting]:
    """Vote in an arena while the block lasts, by its id or the beginning of it; nothing named: the newest.

    Args:
        reference: the arena.
        voter: who votes.
        axes: only these; none: all of the arena.

    Raises:
        UserError: an axis that the arena does not have, or as :func:`stored_arena`.
    """
    with stored_arena(reference, settings) as found:
        names = [axis.name for axis in found.arena.axes]
        for axis in axes:
            if axis not in names:
                raise unknown("axis", axis, names, f"ragrounds arena show {found.arena.id}")
        chosen = tuple(axes or names)
        yield Voting(kept=found.kept, arena=found.arena, lineup=found.lineup, voter=voter, axes=chosen)


def show_arena(
    reference: str = "",
    *,
    resamples: int = 1000,
    names: Mapping[str, str] = MappingProxyType({}),
    settings: Settings | None = None,
) -> ArenaStand:
    """An arena as it stands. No model is asked.

    Args:
        reference: the arena's id or the beginning of it; empty: the newest.
        resamples: of the bootstrap.
        names: as for :func:`arena`.
        settings: ``None``: the user's.

    Raises:
        UserError: as :func:`stored_arena`.
    """
    chosen = settings or user_settings()
    with stored_arena(reference, chosen) as found:
        called = names_of(found.store, found.runs, names)
        report = arena_report(found.kept, found.arena, found.lineup, replicates=resamples, names=called)
        return ArenaStand(report=report, settings=chosen)


def list_arenas(settings: Settings | None = None) -> list[Arena]:
    """The arenas of the store."""
    with open_store(settings or user_settings()) as store:
        return ArenaStore(store).arenas()


def remove_arena(reference: str, settings: Settings | None = None) -> Arena:
    """Remove an arena with its judgements and votes; recorded calls stay.

    Raises:
        UserError: no such arena, or several.
    """
    with open_store(settings or user_settings()) as store:
        kept = ArenaStore(store)
        arena = kept.arena(reference)
        kept.remove(arena)
    return arena


def add_votes(file: Path, reference: str = "", settings: Settings | None = None) -> tuple[Arena, int, int]:
    """Read people's votes from a CSV file into an arena; gives it, how many votes they are, and of how many voters.

    Raises:
        UserError: as :func:`stored_arena`, or a file that cannot be read.
    """
    with stored_arena(reference, settings) as found:
        votes = read_votes(file, found.arena, found.lineup)
        found.kept.add_votes(found.kept.add(found.arena), votes)
        return found.arena, len(votes), len({vote.voter for vote in votes})
