"""Voting in the terminal: two answers side by side, blind."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ragrounds.errors import unknown
from ragrounds.evals.arena.arena import Arena
from ragrounds.evals.arena.field import Field
from ragrounds.evals.arena.keeping import ArenaKeeper
from ragrounds.evals.arena.outcomes import combine
from ragrounds.evals.arena.votes import Ballot, ballots
from ragrounds.ui.text import safe

KEYS = {"1": "first", "2": "second", "t": "tie", "s": "skip"}
STOP = ("q", "\x03", "\x04", "\x1b", "")


def vote(
    keeper: ArenaKeeper,
    arena: Arena,
    field: Field,
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
    played = combine(arena, keeper.judgements(number))
    console = console or Console(stderr=True)
    read = key or _key
    count = 0
    for shown, ballot in enumerate(ballots(arena, field, played, keeper.votes(number), voter)):
        if limit is not None and shown >= limit:
            break
        _show(console, ballot)
        for axis in axes or names:
            outcome = _ask(console, axis, read)
            if outcome is None:
                return count
            keeper.add_votes(number, [ballot.vote(voter, axis, outcome)])
            count += 1
    return count


def _show(console: Console, ballot: Ballot) -> None:
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
