"""`ragrounds runs gc`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from ragrounds.evals.store.sweeping import Heap, Swept


def gc_command(
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Only say what would be removed."),
    older_than: float = typer.Option(1.0, min=0, help="Hours: calls recorded later than that stay."),
    outside: bool = typer.Option(
        False, "--outside", help="Also calls that no run made: of retrieve, build, older versions."
    ),
    as_json: bool = typer.Option(False, "--json", help="What was removed, as JSON."),
) -> None:
    """Remove recorded calls and texts that no run, arena or judged score refers to.

    What an unfinished attempt or judging has paid for stays, so what was interrupted goes on without paying twice. All
    of it is one transaction. While a run is going nothing is removed. A SQLite file gets smaller afterwards.
    """
    import sys

    from ragrounds.cli.common import open_store, print_json, say, settings
    from ragrounds.cli.counting import counting
    from ragrounds.errors import UserError
    from ragrounds.evals.engine.strands import FINAL
    from ragrounds.evals.store.leasing import Lease
    from ragrounds.evals.store.sweeping import shrink, sweep

    with open_store(settings()) as store:
        with counting() as tell:
            found = sweep(store.engine, FINAL, hours=older_than, outside=outside, tell=tell)
        _tell(found)
        some = bool(found.calls.count or found.texts.count or found.questions.count)
        if some and not dry_run:
            if not yes:
                if not sys.stdin.isatty():
                    raise UserError("Nothing was removed: give --yes to remove without being asked.")
                typer.confirm("Remove them?", abort=True, err=True)
            ids = [run.id for run in store.runs()]
            with Lease(store.engine, ids, say), counting() as tell:
                found = sweep(store.engine, FINAL, hours=older_than, outside=outside, remove=True, runs=ids, tell=tell)
            refused = shrink(store.engine)
            say(f"Removed, but the space is not given back: {refused}." if refused else "Removed.")
    if as_json:
        print_json(found)


def _tell(found: Swept) -> None:
    from ragrounds.cli.common import say

    heaps = ((found.calls, "recorded calls"), (found.texts, "texts"), (found.questions, "questions"))
    some = [_said(heap, what) for heap, what in heaps if heap.count]
    say(f"Nothing refers to {', '.join(some)}." if some else "Nothing to remove.")
    if found.recent.count:
        say(f"Left, as too young: {_said(found.recent, 'recorded calls')} (--older-than HOURS).")
    if found.outside.count:
        say(f"Left, as no run made them: {_said(found.outside, 'recorded calls')} (--outside removes them too).")


def _said(heap: Heap, what: str) -> str:
    return f"{heap.count:,} {what} ({heap.bytes:,} bytes)"
