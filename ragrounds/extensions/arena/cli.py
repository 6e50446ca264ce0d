"""`ragrounds arena`: which long answer is better, by judges and by people."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from shlex import quote
from typing import Annotated

import typer
from msgspec.structs import asdict, replace
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ragrounds.api.aliases import parse_names
from ragrounds.cli import options
from ragrounds.cli.commands import Group
from ragrounds.cli.judge import STOP, pressed_key
from ragrounds.cli.options import PlotOptions, grouped
from ragrounds.cli.output import draw_picture, print_json, say, tell
from ragrounds.extensions.arena.functions import (
    ArenaArguments,
    ArenaStand,
    Voting,
    estimate,
    list_arenas,
    remove_arena,
    show_arena,
    voting,
)
from ragrounds.extensions.arena.functions import arena as play
from ragrounds.ui.console import SafeConsole
from ragrounds.ui.tables.text_tables import results_console
from ragrounds.ui.text import dollars, number_of, one_line, safe, tokens

app = typer.Typer()
arena = typer.Typer(
    name="arena",
    cls=Group,
    help="Which long answer is better: stored runs against each other, by judges and by people.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(arena)

ArenaName = Annotated[
    str, typer.Argument(metavar="ARENA", help="An arena's id or the beginning of it. [default: the newest]")
]


@arena.command("play")
@grouped
def play_command(
    runs: options.Runs,
    arguments: ArenaArguments,
    plot: PlotOptions,
    plan: Annotated[bool, typer.Option("--plan", help="Only print how many calls it takes; make none.")] = False,
    names: options.Names = None,
    yes: options.AskedNothing = False,
    as_json: options.AsJson = False,
) -> None:
    """Play stored runs against each other. Answers are never generated again; the same command resumes.

    --max-cost is for the arena in all, --max-total-tokens and --max-time for this command. The exit code is 3 where
    the judges gave no verdict at all, or verdicts that say nothing about the answers: there is no ranking then.

    Examples:

      ragrounds arena play direct 'vanilla_rag[top_k=8]' --judge openai:gpt-4o-mini

      ragrounds arena play direct cot_refine --reference --schedule adaptive --judge openai:gpt-4o --max-cost 5
    """
    if plan:
        _print_estimate(arguments, as_json)
        return
    played = play(**asdict(replace(arguments, names=parse_names(names or ()), progress=True)))
    say(
        f"Ended: {played.ended}. {number_of(played.made, 'model call')} made, "
        f"{played.reused:,} answered from the journal."
    )
    _print_stand(played, as_json)
    if any((axis.missing and not axis.matches) or axis.uninformed for axis in played.report.axes):
        raise typer.Exit(3)
    draw_picture(played, plot)


def _print_stand(stand: ArenaStand, as_json: bool, full: bool = False) -> None:
    if as_json:
        print_json(stand.report)
    else:
        stand.draw(results_console(), full=full)
        if not full:
            say(f"next: ragrounds arena show {quote(stand.report.id)} --full (each axis, its judges, what it cost)")


def _print_estimate(arguments: ArenaArguments, as_json: bool) -> None:
    estimates = estimate(**asdict(arguments))
    if as_json:
        print_json(estimates, "estimates")
        return
    for mode in estimates:
        prefix = "at most " if mode.at_most else ""
        tell(
            f"--calls {mode.calls}: {prefix}{mode.matches:,} matches, {mode.judge_calls:,} judge calls, about "
            f"{tokens(mode.input)} tokens in, {dollars(mode.cost_uncached)} with an empty journal"
        )


@arena.command("ls")
def list_command(as_json: options.AsJson = False) -> None:
    """List the arenas."""
    arenas = list_arenas()
    if as_json:
        print_json([{"id": entry.id, "arena": entry} for entry in arenas], "arenas")
        return
    for entry in arenas:
        names, judges = " / ".join(entry.names), ", ".join(entry.judges)
        tell(
            one_line(
                f"{entry.id}  {entry.count:,} questions  {entry.schedule}  {names}  judged by {judges}",
                200,
            )
        )


@arena.command("show")
@grouped
def show_command(
    plot: PlotOptions,
    name: ArenaName = "",
    resamples: options.Resamples = 1000,
    rating: Annotated[
        str, typer.Option(help="bradley-terry; elo[k=40] adds online Elo, over random orders.")
    ] = "bradley-terry",
    names: options.Names = None,
    full: options.Full = False,
    as_json: options.AsJson = False,
) -> None:
    """Show an arena: ratings, judges, costs. No model is asked. --picture is an axis, by its name."""
    stand = show_arena(name, resamples=resamples, rating=rating, names=parse_names(names or ()))
    _print_stand(stand, as_json, full)
    draw_picture(stand, plot)


@arena.command("rm")
def remove_command(
    name: Annotated[str, typer.Argument(metavar="ARENA", help="An arena's id or the beginning of it.")],
    yes: options.Yes = False,
) -> None:
    """Remove an arena with its judgements and people's votes. Recorded calls stay: playing it again is free."""
    if not yes:
        typer.confirm(f"Remove the arena {name!r} with people's votes?", abort=True, err=True)
    say(f"Removed {remove_arena(name).id}.")


@arena.command("vote")
def vote_command(
    name: ArenaName = "",
    voter: Annotated[str, typer.Option(help="Who votes.")] = "human",
    axis: Annotated[list[str] | None, typer.Option(help="Only this axis (repeatable).")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after this many pairs.")] = None,
) -> None:
    """Vote in the terminal: two answers side by side, blind. Keys: 1, 2, t (tie), s (skip), q (stop)."""
    with voting(name, voter, axis or ()) as opened:
        count = vote(opened, limit)
    say(f"{count:,} votes kept. See them next to the judges: ragrounds arena show {quote(opened.arena.id)}")


KEYS = {"1": "first", "2": "second", "t": "tie", "s": "skip"}
"""Key → outcome that it votes for."""


def vote(
    opened: Voting,
    limit: int | None = None,
    *,
    key: Callable[[], str] | None = None,
    console: Console | None = None,
) -> int:
    """Show pairs until the voter stops, and return the number of votes.

    Each vote is stored before the next pair is shown.
    """
    console = console or SafeConsole(stderr=True)
    count = 0
    for ballot in islice(opened.ballots(), limit):
        _show_pair(console, ballot.question, ballot.left, ballot.right)
        for axis in opened.axes:
            outcome = _ask(console, axis, key or pressed_key)
            if outcome is None:
                return count
            opened.keep(ballot, axis, outcome)
            count += 1
    return count


def _show_pair(console: Console, question: str, left: str, right: str) -> None:
    console.rule()
    console.print(Text(safe(question), style="bold"))
    table = Table(expand=True)
    for name in ("1", "2"):
        table.add_column(name, ratio=1, overflow="fold")
    # Rich's Text, never its markup: answers are foreign text.
    table.add_row(Text(safe(left)), Text(safe(right)))
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
