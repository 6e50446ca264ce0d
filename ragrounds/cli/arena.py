"""`ragrounds arena`: which long answer is better, by judges and by people.

Voting in the terminal: two answers side by side, blind.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ragrounds.cli.common import one_of
from ragrounds.errors import unknown
from ragrounds.evals.arena.lineup import Lineup
from ragrounds.evals.arena.verdicts import Ballot, ballots, combine_judgements
from ragrounds.evals.store.arenas import Arena, ArenaStore
from ragrounds.ui.text import safe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragrounds.contracts import Model
    from ragrounds.evals.arena.lineup import Lineup
    from ragrounds.evals.store.arenas import Arena, ArenaStore
    from ragrounds.evals.store.store import Store


arena_app = typer.Typer(
    help="Which long answer is better: stored runs against each other, by judges and by people.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@arena_app.command("play")
def play_command(
    runs: list[str] = typer.Argument(help="Runs: an id, the beginning of one, or an agent's text."),
    judge: list[str] = typer.Option(..., help="A judge, provider:model[…] (repeatable: the majority decides)."),
    base_url: str = typer.Option(None, help="The judges' server, where it is OpenAI-compatible."),
    reference: bool = typer.Option(False, "--reference", help="The benchmark's own answers play too."),
    axis: list[str] = typer.Option([], help="An axis (repeatable). [default: MRAG-Bench's four]"),
    axes: Path = typer.Option(None, help="A TOML file with axes of your own: [name] and en = what it means."),
    calls: str = typer.Option("together", help="One call for all axes (together), or one for each (apart)."),
    orders: str = typer.Option("both", help="Both orders of a pair, or one, drawn by --seed."),
    schedule: str = typer.Option("published", help="published, full, or adaptive."),
    least: int = typer.Option(80, min=1, help="Matches a pair needs on every axis (published)."),
    confidence: float = typer.Option(0.95, min=0.5, max=0.999, help="Of intervals, ranks and the adaptive end."),
    tries: int = typer.Option(3, min=1, help="How often a judge is asked where its verdict cannot be read."),
    part: str = typer.Option(
        "whole", help="Judge the whole answer, or only what stands after its line Answer: (final)."
    ),
    epoch: int = typer.Option(0, min=0, help="Which of the runs' epochs."),
    seed: int = typer.Option(0, help="Of pairs, questions, orders and labels."),
    max_cost: float = typer.Option(
        None, min=0.0, help="Dollars that this arena may cost in all; calls in flight finish."
    ),
    max_tokens: int = typer.Option(None, min=0, help="Tokens that judges may use now, in and out."),
    max_time: float = typer.Option(None, min=0, help="Seconds that playing may take."),
    concurrency: int = typer.Option(None, min=1, help="Judge calls in flight. [default: 16]"),
    journal: str = typer.Option("reuse", help="Recorded calls: reuse, replay (no network; a miss is an error), fresh."),
    plan: bool = typer.Option(False, "--plan", help="Only say how many calls it takes; ask nobody."),
    replicates: int = typer.Option(1000, min=100, help="Bootstrap samples."),
    as_json: bool = typer.Option(False, "--json", help="The report as JSON on stdout."),
) -> None:
    """Play stored runs against each other. Answers are never generated again; the same command goes on.

    Examples:

      ragrounds arena play direct 'vanilla_rag[top_k=8]' --judge openai:gpt-4o-mini

      ragrounds arena play direct cot_refine --reference --schedule adaptive --judge openai:gpt-4o --max-cost 5
    """
    import asyncio

    from ragrounds.cli.common import open_store, say, settings
    from ragrounds.evals.arena.lineup import gather_lineup, load_axes
    from ragrounds.evals.arena.play import ArenaPlayer
    from ragrounds.evals.arena.schedules import open_schedule
    from ragrounds.evals.judges.pairs import PROMPT
    from ragrounds.evals.store.arenas import Arena, ArenaStore
    from ragrounds.evals.store.journal import StoreJournal
    from ragrounds.prompts.loader import PromptFolder
    from ragrounds.ui.arena_tables import LiveArena

    chosen = settings()
    words: dict[str, Any] = {
        "calls": one_of("--calls", calls, ("together", "apart")),
        "orders": one_of("--orders", orders, ("both", "one")),
        "part": one_of("--part", part, ("whole", "final")),
    }
    mode: Any = one_of("--journal", journal, ("reuse", "replay", "fresh"))
    with open_store(chosen) as store:
        field = gather_lineup(store, runs, reference=reference, epoch=epoch, part=words["part"])
        judges = _open(judge, base_url or chosen.base_url, chosen.home)
        prompts = PromptFolder()
        arena = Arena(
            systems=field.systems,
            benchmark=field.benchmark,
            questions=field.version,
            count=len(field.questions),
            axes=load_axes(axis, axes),
            judges=tuple(model.spec for model in judges),
            prompts=prompts.digest((PROMPT,)),
            tries=tries,
            epoch=epoch,
            schedule=schedule,
            least=least,
            confidence=confidence,
            seed=seed,
            **words,
        )
        plays = open_schedule(
            schedule, len(field.systems), len(field.questions), seed=seed, least=least, confidence=confidence
        )
        if plan:
            _plan(arena, field, judges, as_json)
            return
        say(f"{arena.id}: {', '.join(arena.names)}; {arena.count:,} questions; judged by {', '.join(arena.judges)}")
        keeper, recorded = ArenaStore(store), StoreJournal(store, mode)

        async def go() -> str:
            try:
                with LiveArena(arena) as live:
                    player = ArenaPlayer(
                        arena,
                        field,
                        judges,
                        keeper,
                        recorded,
                        prompts,
                        concurrency=concurrency or chosen.concurrency,
                        max_cost=max_cost,
                        max_tokens=max_tokens,
                        max_seconds=max_time,
                        listener=live.hear,
                    )
                    return await player.play(plays)
            finally:
                for model in judges:
                    await model.close()
                recorded.close()

        reason = asyncio.run(go())
        say(f"Ended: {reason}. {recorded.made:,} calls made, {recorded.reused:,} answered from the journal.")
        _show(store, keeper, arena, field, replicates, as_json)


@arena_app.command("show")
def show_command(
    arena: str = typer.Argument("", help="An arena's id or the beginning of it. [default: the newest]"),
    replicates: int = typer.Option(1000, min=100, help="Bootstrap samples."),
    as_json: bool = typer.Option(False, "--json", help="The report as JSON on stdout."),
) -> None:
    """Show an arena as it stands. No model is asked."""
    from ragrounds.cli.common import open_store, settings

    with open_store(settings()) as store:
        keeper, found, field = _stored(store, arena)
        _show(store, keeper, found, field, replicates, as_json)


@arena_app.command("ls")
def list_command(as_json: bool = typer.Option(False, "--json", help="As JSON.")) -> None:
    """List the arenas."""
    from ragrounds.cli.common import open_store, print_json, settings
    from ragrounds.evals.store.arenas import ArenaStore
    from ragrounds.ui.text import one_line

    with open_store(settings()) as store:
        arenas = ArenaStore(store).arenas()
    if as_json:
        print_json([{"id": arena.id, "arena": arena} for arena in arenas])
        return
    for arena in arenas:
        judges = ", ".join(arena.judges)
        names = " / ".join(arena.names)
        typer.echo(
            one_line(f"{arena.id}  {arena.count:,} questions  {arena.schedule}  {names}  judged by {judges}", 200)
        )


@arena_app.command("votes")
def votes_command(
    file: Path = typer.Argument(help="CSV with question_id, first, second, outcome, and perhaps axis, voter."),
    arena: str = typer.Option("", help="An arena's id or the beginning of it. [default: the newest]"),
) -> None:
    """Read human votes from a CSV file into an arena. They stand beside the judges and correct them."""
    from ragrounds.cli.common import open_store, say, settings
    from ragrounds.evals.arena.verdicts import read_votes

    with open_store(settings()) as store:
        keeper, found, field = _stored(store, arena)
        votes = read_votes(file, found, field)
        keeper.add_votes(keeper.add(found), votes)
        say(f"{found.id}: {len(votes):,} votes of {len({vote.voter for vote in votes}):,} voters")


@arena_app.command("vote")
def vote_command(
    arena: str = typer.Argument("", help="An arena's id or the beginning of it. [default: the newest]"),
    voter: str = typer.Option("human", help="Who votes."),
    axis: list[str] = typer.Option([], help="Only these axes (repeatable)."),
    limit: int = typer.Option(None, min=1, help="Stop after so many pairs."),
) -> None:
    """Vote in the terminal: two answers side by side, blind. Keys: 1, 2, t (tie), s (skip), q (stop)."""
    from ragrounds.cli.common import open_store, say, settings

    with open_store(settings()) as store:
        keeper, found, field = _stored(store, arena)
        count = vote(keeper, found, field, voter, axis, limit)
    say(f"{count:,} votes kept. See them beside the judges: ragrounds arena show {found.id}")


def _open(judges: list[str], base_url: str | None, home: Path) -> list[Model]:
    from ragrounds.errors import UserError
    from ragrounds.models.prices import read_prices
    from ragrounds.models.providers import open_model, with_defaults

    prices = read_prices(home / "prices.toml")
    opened = [open_model(with_defaults(text, {"base_url": base_url}), prices) for text in judges]
    names = [model.spec for model in opened]
    if len(set(names)) < len(names):
        raise UserError("A judge is named twice: its vote would count double.")
    return opened


def _stored(store: Store, reference: str) -> tuple[ArenaStore, Arena, Lineup]:
    """An arena with its field, which must be as it was when the arena was played."""
    from ragrounds.errors import UserError
    from ragrounds.evals.arena.lineup import REFERENCE, gather_lineup
    from ragrounds.evals.store.arenas import ArenaStore

    keeper = ArenaStore(store)
    arena = keeper.arena(reference)
    runs = [system.run for system in arena.systems if system.run]
    has_reference = any(system.name == REFERENCE and not system.run for system in arena.systems)
    field = gather_lineup(store, runs, reference=has_reference, epoch=arena.epoch, part=arena.part)
    if field.version != arena.questions:
        raise UserError(
            f"The runs of {arena.id} have other answers now than when it was played. Play them again: "
            "`ragrounds arena play` starts a new arena; equal pairs come from the journal."
        )
    return keeper, arena, field


def _show(store: Store, keeper: ArenaStore, arena: Arena, field: Lineup, replicates: int, as_json: bool) -> None:
    from ragrounds.cli.common import print_json
    from ragrounds.evals.arena.report import arena_report
    from ragrounds.ui.arena_tables import print_report
    from ragrounds.ui.tables import results_console

    found = arena_report(keeper, arena, field, replicates=replicates)
    if as_json:
        print_json(found)
    else:
        print_report(found, results_console())


def _plan(arena: Arena, field: Lineup, judges: Sequence[Model], as_json: bool) -> None:
    from ragrounds.cli.common import print_json
    from ragrounds.evals.arena.play import estimate_play
    from ragrounds.ui.text import dollars, tokens

    found = estimate_play(arena, field, judges)
    if as_json:
        print_json(found)
        return
    for one in found:
        most = "at most " if one.at_most else ""
        typer.echo(
            f"--calls {one.calls}: {most}{one.matches:,} matches, {one.judge_calls:,} judge calls, about "
            f"{tokens(one.input)} tokens in, {dollars(one.cost_uncached)} with an empty journal"
        )


KEYS = {"1": "first", "2": "second", "t": "tie", "s": "skip"}
STOP = ("q", "\x03", "\x04", "\x1b", "")


def vote(
    keeper: ArenaStore,
    arena: Arena,
    field: Lineup,
    voter: str,
    axes: Sequence[str] = (),
    limit: int | None = None,
    *,
    key: Callable[[], str] | None = None,
    console: Console | None = None,
) -> int:
    """Show pairs until the voter stops; says how many votes were kept. Each is on the disk before the next is shown.

    Raises:
        UserError: an axis that the arena does not have.
    """
    names = [axis.name for axis in arena.axes]
    for axis in axes:
        if axis not in names:
            raise unknown("axis", axis, names, f"ragrounds arena show {arena.id}")
    number = keeper.add(arena)
    played = combine_judgements(arena, keeper.judgements(number))
    console = console or Console(stderr=True)
    read = key or _key
    count = 0
    for shown, ballot in enumerate(ballots(arena, field, played, keeper.votes(number), voter)):
        if limit is not None and shown >= limit:
            break
        _show_arena_voting(console, ballot)
        for axis in axes or names:
            outcome = _ask(console, axis, read)
            if outcome is None:
                return count
            keeper.add_votes(number, [ballot.vote(voter, axis, outcome)])
            count += 1
    return count


def _show_arena_voting(console: Console, ballot: Ballot) -> None:
    console.rule()
    console.print(Text(safe(ballot.question), style="bold"))
    table = Table(expand=True)
    for name in ("1", "2"):
        table.add_column(name, ratio=1, overflow="fold")
    # Rich's Text, never its markup: answers are somebody else's words.
    table.add_row(Text(safe(ballot.left)), Text(safe(ballot.right)))
    console.print(table)


def _ask(console: Console, axis: str, read: Callable[[], str]) -> str | None:
    while True:
        console.print(Text(f"{axis}: 1 left, 2 right, t tie, s skip, q stop? "), end="")
        pressed = read().casefold()
        console.print(Text(pressed if pressed.isprintable() else ""))
        if pressed in STOP:
            return None
        if pressed in KEYS:
            return KEYS[pressed]


def _key() -> str:
    if sys.stdin.isatty():
        import click

        return click.getchar()
    return sys.stdin.readline().strip()[:1]
