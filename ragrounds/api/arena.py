"""Which long answer is better: stored runs against each other, by judges and by people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from ragrounds.api.event_loop import finish
from ragrounds.api.workspace import JournalMode, closing, open_judges, open_store, user_settings
from ragrounds.errors import UserError

if TYPE_CHECKING:
    from ragrounds.contracts import Model
    from ragrounds.evals.arena.lineup import Lineup
    from ragrounds.evals.arena.play import FinishedMatch, PlayEstimate
    from ragrounds.evals.arena.report import ArenaReport
    from ragrounds.evals.store.arenas import Arena, ArenaStore
    from ragrounds.evals.store.store import Store
    from ragrounds.settings import Settings

Live = Callable[["Arena"], AbstractContextManager[Callable[["FinishedMatch"], None]]]
"""Opened when an arena begins to play: what it gives is told of every match that ends."""


class ArenaRequest(Struct, frozen=True, kw_only=True):
    """Who plays, before which judges, and by which rules."""

    runs: tuple[str, ...]
    """Ids, beginnings of ids, or agents' texts."""
    judges: tuple[str, ...]
    """Models as text; the majority of several decides."""
    base_url: str | None = None
    """The judges' server, where it is OpenAI-compatible."""
    reference: bool = False
    """The benchmark's own answers play too."""
    axes: tuple[str, ...] = ()
    """On what answers are compared; none: MRAG-Bench's four."""
    axes_file: Path | None = None
    """A TOML file with axes of the user's own."""
    calls: Literal["together", "apart"] = "together"
    """One call for all axes, or one for each."""
    orders: Literal["both", "one"] = "both"
    """Both orders of a pair, or one, drawn by `seed`."""
    part: Literal["whole", "final"] = "whole"
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


class PlayedArena(Struct, frozen=True):
    """What came of :func:`play`."""

    report: ArenaReport
    ended: str
    """Why it played no further."""
    made: int
    """Calls that were made."""
    reused: int
    """Calls that were answered from the journal."""


def play(
    request: ArenaRequest,
    *,
    concurrency: int | None = None,
    max_cost: float | None = None,
    max_total_tokens: int | None = None,
    max_seconds: float | None = None,
    journal: JournalMode = "reuse",
    resamples: int = 1000,
    live: Live = lambda arena: nullcontext(lambda finished: None),
    settings: Settings | None = None,
) -> PlayedArena:
    """Play stored runs against each other. Answers are never generated again; the same request resumes its arena.

    Args:
        request: who plays, and how.
        concurrency: judges' calls in flight; ``None``: the settings'.
        max_cost: dollars that the arena may cost in all.
        max_total_tokens: tokens that judges may use now.
        max_seconds: that playing may take.
        journal: what is done with recorded calls.
        resamples: of the bootstrap.
        live: opened when the arena begins to play.

    Raises:
        UserError: an unknown run, judge, axis or schedule; runs that cannot play.
    """
    from ragrounds.evals.arena.play import ArenaPlayer
    from ragrounds.evals.arena.report import arena_report
    from ragrounds.evals.arena.schedules import open_schedule
    from ragrounds.evals.store.arenas import ArenaStore
    from ragrounds.evals.store.journal import StoreJournal
    from ragrounds.prompts.loader import PromptFolder

    chosen = settings or user_settings()
    with open_store(chosen) as store:
        arena, lineup, judges = _arena(store, request, chosen)
        schedule = open_schedule(
            request.schedule,
            len(lineup.systems),
            len(lineup.questions),
            seed=request.seed,
            least=request.min_matches,
            confidence=request.confidence,
        )
        kept, recorded = ArenaStore(store), StoreJournal(store, journal)

        async def carry_out() -> str:
            async with closing(judges, recorded):
                with live(arena) as hear:
                    player = ArenaPlayer(
                        arena,
                        lineup,
                        judges,
                        kept,
                        recorded,
                        PromptFolder(),
                        concurrency=concurrency or chosen.concurrency,
                        max_cost=max_cost,
                        max_tokens=max_total_tokens,
                        max_seconds=max_seconds,
                        listener=hear,
                    )
                    return await player.play(schedule)

        ended = finish(carry_out())
        report = arena_report(kept, arena, lineup, replicates=resamples)
    return PlayedArena(report, ended, recorded.made, recorded.reused)


def estimate(request: ArenaRequest, settings: Settings | None = None) -> Sequence[PlayEstimate]:
    """How many calls an arena takes, and about what it costs. Nobody is asked.

    Raises:
        UserError: as :func:`play`.
    """
    from ragrounds.evals.arena.play import estimate_play

    chosen = settings or user_settings()
    with open_store(chosen) as store:
        arena, lineup, judges = _arena(store, request, chosen)
        return estimate_play(arena, lineup, judges)


def _arena(store: Store, request: ArenaRequest, settings: Settings) -> tuple[Arena, Lineup, list[Model]]:
    from ragrounds.evals.arena.lineup import gather_lineup, load_axes
    from ragrounds.evals.judges.pairs import PROMPT
    from ragrounds.evals.store.arenas import Arena
    from ragrounds.prompts.loader import PromptFolder

    lineup = gather_lineup(store, request.runs, reference=request.reference, epoch=request.epoch, part=request.part)
    judges = open_judges(request.judges, request.base_url, settings)
    arena = Arena(
        systems=lineup.systems,
        benchmark=lineup.benchmark,
        questions=lineup.version,
        count=len(lineup.questions),
        axes=load_axes(request.axes, request.axes_file),
        judges=tuple(model.spec for model in judges),
        prompts=PromptFolder().digest((PROMPT,)),
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


@contextmanager
def stored_arena(reference: str = "", settings: Settings | None = None) -> Iterator[StoredArena]:
    """An arena while the block lasts, by its id or the beginning of it; nothing named: the newest.

    Raises:
        UserError: no such arena, or its runs have other answers now than when it was played.
    """
    from ragrounds.evals.arena.lineup import REFERENCE, gather_lineup
    from ragrounds.evals.store.arenas import ArenaStore

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
        yield StoredArena(kept, arena, lineup)


def show_arena(reference: str = "", *, resamples: int = 1000, settings: Settings | None = None) -> ArenaReport:
    """An arena as it stands. No model is asked.

    Raises:
        UserError: as :func:`stored_arena`.
    """
    from ragrounds.evals.arena.report import arena_report

    with stored_arena(reference, settings) as found:
        return arena_report(found.kept, found.arena, found.lineup, replicates=resamples)


def list_arenas(settings: Settings | None = None) -> list[Arena]:
    """The arenas of the store."""
    from ragrounds.evals.store.arenas import ArenaStore

    with open_store(settings or user_settings()) as store:
        return ArenaStore(store).arenas()


def remove_arena(reference: str, settings: Settings | None = None) -> Arena:
    """Remove an arena with its judgements and votes; recorded calls stay.

    Raises:
        UserError: no such arena, or several.
    """
    from ragrounds.evals.store.arenas import ArenaStore

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
    from ragrounds.evals.arena.verdicts import read_votes

    with stored_arena(reference, settings) as found:
        votes = read_votes(file, found.arena, found.lineup)
        found.kept.add_votes(found.kept.add(found.arena), votes)
        return found.arena, len(votes), len({vote.voter for vote in votes})
