"""Arenas: stored runs' long answers compared in pairs by judges and by people."""

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
from ragrounds.api.execution import ServedExecution
from ragrounds.api.frames import MATCHES, RATINGS, Frame, Part, Row
from ragrounds.api.progress import NotebookCell, on_terminal
from ragrounds.api.results import Result
from ragrounds.api.servers import open_judges
from ragrounds.api.workspace import (
    closing,
    open_selected_runs,
    open_store,
    run_names,
    texts,
)
from ragrounds.base.contracts import Model
from ragrounds.base.errors import UserError, unknown
from ragrounds.base.records import Run
from ragrounds.base.settings import Settings, read_settings
from ragrounds.evals.store.arenas import Arena, ArenaStore
from ragrounds.evals.store.journal import Mode, StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.extensions.arena.lineup import Lineup, gather_lineup, lineup_of, load_axes, renamed
from ragrounds.extensions.arena.online_elo import BRADLEY_TERRY, parse_rating
from ragrounds.extensions.arena.pairs import PROMPT, pairs_code
from ragrounds.extensions.arena.play import ArenaPlayer, FinishedMatch, PlayEstimate, PlayOptions, estimate_play
from ragrounds.extensions.arena.progress import LiveArena
from ragrounds.extensions.arena.report import ArenaReport, AxisReport, arena_report
from ragrounds.extensions.arena.schedules import open_schedule
from ragrounds.extensions.arena.tables import print_report, rating_forest
from ragrounds.extensions.arena.verdicts import Ballot, ballots, combine_judgements
from ragrounds.prompts.loader import PromptFolder
from ragrounds.ui.pictures.plot import PictureMaker
from ragrounds.ui.tables.notebook import in_notebook

Calls = Literal["together", "apart"]
Orders = Literal["both", "one"]
AnswerPart = Literal["whole", "final"]


_RULES = "The rules of an arena"
Rating = Annotated[
    str, Arg("bradley-terry; elo[k=40] adds online Elo: its mean and spread over random orders of the matches.")
]


class ArenaArguments(ServedExecution, frozen=True):
    """Systems, judges and rules of an arena, and how it is played."""

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
    orders: Annotated[Orders, Arg("Both orders of a pair, or one, chosen at random by `seed`.", group=_RULES)] = "both"
    schedule: Annotated[str, Arg("Which pairs meet: published, full, or adaptive.", group=_RULES)] = "published"
    min_matches: Annotated[int, Arg("Matches a pair needs on every axis (published).", 1, group=_RULES)] = 80
    confidence: Annotated[float, Arg("Of intervals, ranks and the adaptive end.", 0.5, 0.999, group=_RULES)] = 0.95
    tries: Annotated[int, Arg("Tries when a judge's verdict is unreadable.", 1, group=_RULES)] = 3
    part: Annotated[
        AnswerPart, Arg("Judge the whole answer, or only the text after its line Answer: (final).", group=_RULES)
    ] = "whole"
    epoch: Annotated[int, Arg("Which of the runs' epochs, from 0.", 0, group=_RULES)] = 0
    seed: arguments.Seed = 0
    base_url: arguments.BaseUrl = None
    alias: arguments.Alias = None
    resamples: arguments.Resamples = 1000
    rating: Rating = BRADLEY_TERRY
    names: Annotated[
        Mapping[str, str],
        Arg("What a run is called in tables, and no part of the arena: its id or agent's text → a name.", option="-"),
    ] = MappingProxyType({})
    progress: arguments.Displayed = None


class ArenaStand(Result, frozen=True, kw_only=True):
    """Arena with its ratings, its judges and its costs."""

    report: ArenaReport
    settings: Settings
    """Settings that lead to the arena's store."""

    def draw(self, console: Console, *, full: bool = False) -> None:
        """Print the leaders, the ratings and the wins; with `full` also each axis, the judges, costs, and every
        note.
        """
        print_report(self.report, console, full=full)

    def own_pictures(self) -> Mapping[str, PictureMaker]:
        """Return the ratings on each axis, by its name."""
        return {
            axis.axis: PictureMaker(partial(rating_forest, self.report, axis), f"ratings are withheld: {axis.withheld}")
            for axis in self.report.axes
        }

    def own_frames(self) -> tuple[Frame, ...]:
        """Return the frames of ratings and of judgements."""
        return (RATINGS, MATCHES)

    @contextmanager
    def parts(self, frame: Frame) -> Iterator[Iterator[Part]]:
        """Yield a part for each axis; the matches are read from the store."""
        if frame is RATINGS:
            yield (list(_rating_rows(self.report, axis)) for axis in self.report.axes)
            return
        with open_store(self.settings) as store:
            arenas = ArenaStore(store)
            yield iter([list(_match_rows(arenas, self.report.arena))])


class PlayedArena(ArenaStand, frozen=True, kw_only=True):
    """Result of :func:`arena`."""

    ended: str
    """Reason why no more matches were played."""
    made: int
    """Number of model calls that were made."""
    reused: int
    """Number of model calls that were answered from the journal."""


def _rating_rows(report: ArenaReport, axis: AxisReport) -> Iterator[Row]:
    system = dict(zip(report.names, report.arena.names, strict=True))
    if axis.ratings is None:
        for name in report.names:
            why = axis.withheld or None
            yield (report.id, axis.axis, system[name], *(None,) * 5, axis.matches, why, name, None, None)
        return
    for row in axis.ratings.rows:
        figures = (row.rank, row.worst, row.rating, row.low, row.high)
        elo = axis.elo.by_system[row.system] if axis.elo else None
        online = (elo.rating, elo.sd) if elo else (None, None)
        yield (report.id, axis.axis, system[row.system], *figures, axis.matches, None, row.system, *online)


def _match_rows(arenas: ArenaStore, arena: Arena) -> Iterator[Row]:
    words = {"1": "first", "2": "second", "=": "tie"}
    for judgement in arenas.judgements(arenas.add(arena)):
        for axis, letter in zip(arena.parts[judgement.part], judgement.outcomes, strict=False):
            names = (
                arena.judges[judgement.judge],
                axis.name,
                arena.names[judgement.first],
                arena.names[judgement.second],
            )
            yield (arena.id, judgement.number, judgement.question_id, *names, words.get(letter), judgement.how)


@takes(ArenaArguments)
def arena(arguments: ArenaArguments) -> PlayedArena:
    """Play stored runs' long answers against each other. Answers are never generated again; the same call resumes.

    `max_cost` applies to the whole arena, `max_total_tokens` and `max_time` to this call.

        rr.arena(["direct", "vanilla_rag[top_k=8]"], judges="openai:gpt-4o-mini", max_cost=5).to_pandas("ratings")

    Raises:
        UserError: a run, judge, axis or schedule is unknown, or runs cannot play.
        Interrupted: Ctrl-C; finished judgements are stored.
    """
    settings, failure_limit = arguments.used_settings, arguments.failure_limit
    parse_rating(arguments.rating)  # a wrong name fails before any judge is asked
    with open_selected_runs(arguments.runs, settings) as (store, runs):
        arena, lineup, judges = _arena(store, arguments, [run.id for run in runs], settings, arguments.journal)
        names = names_of(store, runs, arguments.names)
        schedule = open_schedule(
            arguments.schedule,
            len(lineup.systems),
            len(lineup.questions),
            seed=arguments.seed,
            least=arguments.min_matches,
            confidence=arguments.confidence,
        )
        arenas, recorded = ArenaStore(store), StoreJournal(store, arguments.journal)

        async def carry_out() -> str:
            async with closing(judges, recorded):
                with _match_display(renamed(arena, names), arguments.progress) as listener:
                    player = ArenaPlayer(
                        arena,
                        lineup,
                        judges,
                        arenas,
                        recorded,
                        PlayOptions(
                            budget=arguments.budget,
                            fail_after=failure_limit,
                            at_once=arguments.in_flight,
                            listener=listener,
                        ),
                    )
                    return await player.play(schedule)

        ended = finish(carry_out())
        report = arena_report(
            arenas, arena, lineup, replicates=arguments.resamples, names=names, rating=arguments.rating
        )
    return PlayedArena(settings=settings, report=report, ended=ended, made=recorded.calls_made, reused=recorded.reused)


@contextmanager
def _match_display(arena: Arena, progress: bool | None) -> Iterator[Callable[[FinishedMatch], None]]:
    """Yield a function that shows every finished match: a live table on the terminal, or a line in a notebook's
    cell.
    """
    if progress is False or (progress is None and not (in_notebook() or on_terminal())):
        yield lambda finished: None
    elif in_notebook():
        cell, counts = NotebookCell(), LiveArena(arena)

        def show(finished: FinishedMatch) -> None:
            """Count a finished match and refresh the line if the last refresh is old enough."""
            counts.count(finished)
            cell.show([Text(counts.line())], counts.line())

        yield show
        cell.show([Text(counts.line())], counts.line(), at_once=True)
    else:
        with LiveArena.opened(arena) as observe:
            yield observe


@takes(ArenaArguments)
def estimate(arguments: ArenaArguments) -> Sequence[PlayEstimate]:
    """Estimate the number of calls of an arena and its cost. No model is asked.

    Raises:
        UserError: as :func:`arena`.
    """
    settings = arguments.used_settings
    with open_selected_runs(arguments.runs, settings) as (store, _):
        arena, lineup, opened = _arena(store, arguments, run_names(arguments.runs), settings, "replay")
        return estimate_play(arena, lineup, opened)


def _arena(
    store: Store, arguments: ArenaArguments, runs: Sequence[str], settings: Settings, journal: Mode
) -> tuple[Arena, Lineup, list[Model]]:
    lineup = gather_lineup(store, runs, reference=arguments.reference, epoch=arguments.epoch, part=arguments.part)
    judges = open_judges(
        store,
        texts(arguments.judges),
        settings,
        base_url=arguments.base_url,
        alias=arguments.alias,
        changed=arguments.server_changed,
        journal=journal,
    )
    arena = Arena(
        systems=lineup.systems,
        benchmark=lineup.benchmark,
        questions=lineup.version,
        count=len(lineup.questions),
        axes=load_axes(texts(arguments.axes), Path(arguments.axes_file) if arguments.axes_file else None),
        judges=tuple(model.spec for model in judges),
        prompts=PromptFolder().digest((PROMPT,)),
        code=pairs_code(),
        calls=arguments.calls,
        orders=arguments.orders,
        part=arguments.part,
        tries=arguments.tries,
        epoch=arguments.epoch,
        schedule=arguments.schedule,
        least=arguments.min_matches,
        confidence=arguments.confidence,
        seed=arguments.seed,
    )
    return arena, lineup, judges


class StoredArena(Struct, frozen=True):
    """Arena of the store with the answers that play in it."""

    arena_store: ArenaStore
    arena: Arena
    lineup: Lineup
    store: Store
    runs: Sequence[Run]
    """Runs that play."""


@contextmanager
def stored_arena(reference: str = "", settings: Settings | None = None) -> Iterator[StoredArena]:
    """Open an arena by its id or the beginning of it; by default the newest.

    Raises:
        UserError: the arena is unknown, or its runs have other answers now than when it was played.
    """
    with open_store(settings) as store:
        arenas = ArenaStore(store)
        arena = arenas.arena(reference)
        lineup = lineup_of(store, arena)
        if lineup is None:
            raise UserError(
                f"The runs of {arena.id} have different answers than when it was played. Play them again: `ragrounds "
                "arena play` starts a new arena; unchanged pairs come from the journal."
            )
        runs = store.select_runs([system.run for system in arena.systems if system.run])
        yield StoredArena(arenas, arena, lineup, store, runs)


class Voting(Struct, frozen=True, kw_only=True):
    """Votes of a person in an arena: the pairs to be shown, and the stored votes."""

    arena_store: ArenaStore
    arena: Arena
    lineup: Lineup
    voter: str
    axes: tuple[str, ...]
    """Axes to vote on, in this order."""

    def ballots(self) -> Iterator[Ballot]:
        """Yield pairs that judges have judged and this voter has not seen, in random order, without names."""
        number = self.arena_store.add(self.arena)
        played = combine_judgements(self.arena, self.arena_store.judgements(number))
        yield from ballots(self.arena, self.lineup, played, self.arena_store.votes(number), self.voter)

    def keep(self, ballot: Ballot, axis: str, outcome: str) -> None:
        """Write a vote; it is on the disk when this method returns.

        Args:
            ballot: the pair.
            axis: the compared axis.
            outcome: ``first`` (the left answer), ``second``, ``tie`` or ``skip``.
        """
        self.arena_store.add_votes(self.arena_store.add(self.arena), [ballot.vote(self.voter, axis, outcome)])


@contextmanager
def voting(
    reference: str = "", voter: str = "human", axes: Sequence[str] = (), settings: Settings | None = None
) -> Iterator[Voting]:
    """Open the votes of a person in an arena, by its id or the beginning of it; by default the newest.

    Args:
        reference: the arena.
        voter: name of the voter.
        axes: axes to vote on; if empty, all axes of the arena.

    Raises:
        UserError: the arena has no such axis, or as :func:`stored_arena`.
    """
    with stored_arena(reference, settings) as stored:
        names = [axis.name for axis in stored.arena.axes]
        for axis in axes:
            if axis not in names:
                raise unknown("axis", axis, names, f"ragrounds arena show {quote(stored.arena.id)}")
        axis_names = tuple(axes or names)
        yield Voting(
            arena_store=stored.arena_store, arena=stored.arena, lineup=stored.lineup, voter=voter, axes=axis_names
        )


def show_arena(
    reference: str = "",
    *,
    resamples: int = 1000,
    rating: str = BRADLEY_TERRY,
    names: Mapping[str, str] = MappingProxyType({}),
    settings: Settings | None = None,
) -> ArenaStand:
    """Return the report of an arena: ratings, judges, costs. No model is asked.

    Args:
        reference: the arena's id or the beginning of it; if empty, the newest.
        resamples: number of bootstrap resamples.
        rating: ``elo[k=40]`` adds online Elo, its mean and spread over random orders of the matches.
        names: as for :func:`arena`.
        settings: by default the user's.

    Raises:
        UserError: there is no such rating, or as :func:`stored_arena`.
    """
    used_settings = settings or read_settings()
    with stored_arena(reference, used_settings) as stored:
        names_by_run = names_of(stored.store, stored.runs, names)
        report = arena_report(
            stored.arena_store, stored.arena, stored.lineup, replicates=resamples, names=names_by_run, rating=rating
        )
        return ArenaStand(report=report, settings=used_settings)


def list_arenas(settings: Settings | None = None) -> list[Arena]:
    """Return the arenas of the store."""
    with open_store(settings) as store:
        return ArenaStore(store).arenas()


def remove_arena(reference: str, settings: Settings | None = None) -> Arena:
    """Remove an arena with its judgements and votes; recorded calls stay.

    Raises:
        UserError: the arena is unknown, or the reference matches several.
    """
    with open_store(settings) as store:
        arenas = ArenaStore(store)
        arena = arenas.arena(reference)
        arenas.remove(arena)
    return arena
