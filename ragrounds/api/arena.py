"""Which long answer is better: stored runs against each other, by judges and by people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import Annotated, Literal

from msgspec import Struct
from rich.console import Console
from rich.text import Text

from ragrounds.api import arguments
from ragrounds.api.aliases import names_of
from ragrounds.api.arguments import Arg, takes
from ragrounds.api.event_loop import finish
from ragrounds.api.frames import MATCHES, RATINGS, Frame, Part, Row
from ragrounds.api.progress import NotebookCell, on_terminal
from ragrounds.api.results import Result
from ragrounds.api.servers import open_judges
from ragrounds.api.workspace import (
    JournalMode,
    chosen_settings,
    closing,
    open_store,
    opened_runs,
    run_names,
    texts,
    user_settings,
)
from ragrounds.base.contracts import Model
from ragrounds.base.errors import UserError, unknown
from ragrounds.base.records import Run
from ragrounds.base.settings import Settings
from ragrounds.evals.arena.lineup import REFERENCE, Lineup, gather_lineup, load_axes, renamed
from ragrounds.evals.arena.play import ArenaPlayer, FinishedMatch, PlayEstimate, estimate_play
from ragrounds.evals.arena.report import ArenaReport, AxisReport, arena_report
from ragrounds.evals.arena.schedules import open_schedule
from ragrounds.evals.arena.verdicts import Ballot, ballots, combine_judgements
from ragrounds.evals.engine.circuit_breaker import failure_limit
from ragrounds.evals.judges.pairs import PROMPT, pairs_code
from ragrounds.evals.store.arenas import Arena, ArenaStore
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.prompts.loader import PromptFolder
from ragrounds.ui.pictures.plot import PictureMaker
from ragrounds.ui.progress.arena import LiveArena
from ragrounds.ui.tables.arena_tables import print_report, rating_forest
from ragrounds.ui.tables.notebook import in_notebook

Calls = Literal["together", "apart"]
Orders = Literal["both", "one"]
AnswerPart = Literal["whole", "final"]


_RULES = "The rules of an arena"


class ArenaArguments(Struct, frozen=True):
    """Who plays, before which judges, by which rules, and how it is carried out."""

    runs: arguments.Runs
    judges: arguments.Judges = ()
    reference: Annotated[bool, Arg("The benchmark's own answers play too.", group=_RULES)] = False
    axes: Annotated[
        str | Sequence[str],
        Arg("An axis (repeatable). [default: MRAG-Bench's four]", option="--axis", group=_RULES, many=True),
    ] = ()
    axes_file: Annotated[
        str | Path | None,
        Arg("A TOML file with axes of your own: [name] and en = what it means.", option="--axes", group=_RULES),
    ] = None
    calls: Annotated[Calls, Arg("One call for all axes: together; or one for each: apart.", group=_RULES)] = "together"
    orders: Annotated[Orders, Arg("Both orders of a pair, or one, drawn by `seed`.", group=_RULES)] = "both"
    schedule: Annotated[str, Arg("Which pairs meet: published, full, or adaptive.", group=_RULES)] = "published"
    min_matches: Annotated[int, Arg("Matches a pair needs on every axis (published).", 1, group=_RULES)] = 80
    confidence: Annotated[float, Arg("Of intervals, ranks and the adaptive end.", 0.5, 0.999, group=_RULES)] = 0.95
    tries: Annotated[int, Arg("Tries when a judge's verdict is unreadable.", 1, group=_RULES)] = 3
    part: Annotated[
        AnswerPart, Arg("Judge the whole answer, or only the text after its line Answer: (final).", group=_RULES)
    ] = "whole"
    epoch: Annotated[int, Arg("Which of the runs' epochs, from 0.", 0, group=_RULES)] = 0
    seed: arguments.Seed = 0
    max_cost: arguments.MaxCost = None
    max_total_tokens: arguments.MaxTotalTokens = None
    max_time: arguments.MaxTime = None
    fail_after: arguments.FailAfter = "50%"
    base_url: arguments.BaseUrl = None
    alias: arguments.Alias = None
    server_changed: arguments.ServerChanged = "stop"
    concurrency: arguments.Concurrency = None
    journal: arguments.Journal = "reuse"
    resamples: arguments.Resamples = 1000
    names: Annotated[
        Mapping[str, str],
        Arg("What a run is called in tables, and no part of the arena: its id or agent's text → a name.", option="-"),
    ] = MappingProxyType({})
    progress: arguments.Displayed = None
    home: arguments.Home = None
    settings: arguments.OwnSettings = None


class ArenaStand(Result, frozen=True, kw_only=True):
    """An arena: its ratings, its judges, its costs."""

    report: ArenaReport
    settings: Settings
    """Where it is."""

    def draw(self, console: Console, *, full: bool = False) -> None:
        """Print who is ahead, the ratings, who won; `full`: each axis, the judges, what it cost, every note."""
        print_report(self.report, console, full=full)

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
    """Model calls that were made."""
    reused: int
    """Model calls that were answered from the journal."""


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


@takes(ArenaArguments)
def arena(given: ArenaArguments) -> PlayedArena:
    """Play stored runs' long answers against each other. Answers are never generated again; the same call resumes.

    `max_cost` is for the arena in all, `max_total_tokens` and `max_time` for this call.

        rr.arena(["direct", "vanilla_rag[top_k=8]"], judges="openai:gpt-4o-mini", max_cost=5).to_pandas("ratings")

    Raises:
        UserError: an unknown run, judge, axis or schedule; runs that cannot play.
        Interrupted: Ctrl-C; what was judged is kept.
    """
    settings = chosen_settings(given.settings, given.home)
    failing = failure_limit(given.fail_after)
    with opened_runs(given.runs, settings) as (store, runs):
        arena, lineup, judges = _arena(store, given, [run.id for run in runs], settings, given.journal)
        names = names_of(store, runs, given.names)
        schedule = open_schedule(
            given.schedule,
            len(lineup.systems),
            len(lineup.questions),
            seed=given.seed,
            least=given.min_matches,
            confidence=given.confidence,
        )
        kept, recorded = ArenaStore(store), StoreJournal(store, given.journal)

        async def carry_out() -> str:
            async with closing(judges, recorded):
                with _shown(renamed(arena, names), given.progress) as hear:
                    player = ArenaPlayer(
                        arena,
                        lineup,
                        judges,
                        kept,
                        recorded,
                        PromptFolder(),
                        concurrency=given.concurrency or settings.concurrency,
                        max_cost=given.max_cost,
                        max_tokens=given.max_total_tokens,
                        max_seconds=given.max_time,
                        fail_after=failing,
                        listener=hear,
                    )
                    return await player.play(schedule)

        ended = finish(carry_out())
        report = arena_report(kept, arena, lineup, replicates=given.resamples, names=names)
    return PlayedArena(settings=settings, report=report, ended=ended, made=recorded.made, reused=recorded.reused)


@contextmanager
def _shown(arena: Arena, progress: bool | None) -> Iterator[Callable[[FinishedMatch], None]]:
    """What shows every match that ends: a table that is drawn anew on the terminal, a line in a notebook's cell."""
    if progress is False or (progress is None and not (in_notebook() or on_terminal())):
        yield lambda finished: None
    elif in_notebook():
        cell, counts = NotebookCell(), LiveArena(arena)

        def hear(finished: FinishedMatch) -> None:
            """Count a match that ended; say it anew where the last line is old enough."""
            counts.count(finished)
            cell.show([Text(counts.line())], counts.line())

        yield hear
        cell.show([Text(counts.line())], counts.line(), at_once=True)
    else:
        with LiveArena.opened(arena) as observe:
            yield observe


@takes(ArenaArguments)
def estimate(given: ArenaArguments) -> Sequence[PlayEstimate]:
    """How many calls an arena takes, and about what it costs. Nobody is asked.

    Raises:
        UserError: as :func:`arena`.
    """
    chosen = chosen_settings(given.settings, given.home)
    with opened_runs(given.runs, chosen) as (store, _):
        arena, lineup, opened = _arena(store, given, run_names(given.runs), chosen, "replay")
        return estimate_play(arena, lineup, opened)


def _arena(
    store: Store, given: ArenaArguments, runs: Sequence[str], settings: Settings, journal: JournalMode
) -> tuple[Arena, Lineup, list[Model]]:
    lineup = gather_lineup(store, runs, reference=given.reference, epoch=given.epoch, part=given.part)
    judges = open_judges(
        store,
        texts(given.judges),
        settings,
        base_url=given.base_url,
        alias=given.alias,
        changed=given.server_changed,
        journal=journal,
    )
    arena = Arena(
        systems=lineup.systems,
        benchmark=lineup.benchmark,
        questions=lineup.version,
        count=len(lineup.questions),
        axes=load_axes(texts(given.axes), Path(given.axes_file) if given.axes_file else None),
        judges=tuple(model.spec for model in judges),
        prompts=PromptFolder().digest((PROMPT,)),
        code=pairs_code(),
        calls=given.calls,
        orders=given.orders,
        part=given.part,
        tries=given.tries,
        epoch=given.epoch,
        schedule=given.schedule,
        least=given.min_matches,
        confidence=given.confidence,
        seed=given.seed,
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
                f"The runs of {arena.id} have different answers than when it was played. Play them again: `ragrounds "
                "arena play` starts a new arena; unchanged pairs come from the journal."
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
                raise unknown("axis", axis, names, f"ragrounds arena show {quote(found.arena.id)}")
        chosen = tuple(axes or names)
        yield Voting(kept=found.kept, arena=found.arena, lineup=found.lineup, voter=voter, axes=chosen)


def show_arena(
    reference: str = "",
    *,
    resamples: int = 1000,
    names: Mapping[str, str] = MappingProxyType({}),
    settings: Settings | None = None,
) -> ArenaStand:
    """An arena: ratings, judges, costs. No model is asked.

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
