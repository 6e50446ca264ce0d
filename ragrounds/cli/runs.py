"""`ragrounds runs resume`: a run goes on without its command being typed again.

`ragrounds runs gc`.

`ragrounds runs`: what the store holds.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from ragrounds.evals.store.garbage import Garbage, RowVolume
    from ragrounds.records import Asked, Run


_KEPT = {
    "benchmark": "--benchmark",
    "model": "--model",
    "base_url": "--base-url",
    "corpus": "--corpus",
    "limit": "--limit",
    "per_dataset": "--per-dataset",
    "seed": "--seed",
    "epochs": "--epochs",
    "temperature": "--temperature",
    "top_p": "--top-p",
    "answer_tokens": "--answer-tokens",
    "timeout": "--timeout",
    "concurrency": "--concurrency",
}
"""Options that say what a run is, and how its server is spoken to. Not those of one evening: budgets, displays, where
workers are, when to stop."""
_LOGIN = re.compile(r"(?<=://)[^/@\s]*@")


def asked_again(given: Mapping[str, Any]) -> Asked:
    """What is kept of a command's options, so that it can be given again. Nothing that looks like a key is."""
    from ragrounds.models.faults import redacted
    from ragrounds.records import Asked

    options: list[str] = []
    for name, option in _KEPT.items():
        values = given[name]
        for value in values if isinstance(values, list) else [values]:
            if value is not None:
                options += [option, redacted(_LOGIN.sub("", str(value)))]
    return Asked(str(Path.cwd()), tuple(options))


def resume_command(
    context: typer.Context,
    run: str = typer.Argument(help="A run: an id, the beginning of one, or an agent's text."),
) -> None:
    """Go on with exactly this run, as it was asked for. Options of `ragrounds run` may follow: --concurrency 64.

    Keys come from the environment, as ever. Where anything that the run's results depend on has changed, it does not go
    on, and the differences are named.
    """
    from ragrounds.cli import app
    from ragrounds.cli.common import open_store, say, settings

    with open_store(settings()) as store:
        found = store.run(run)
    asked = _asked(found)
    if Path(asked.folder).is_dir():
        os.chdir(asked.folder)
    else:
        say(f"{asked.folder}, where this run was begun, is gone: paths are taken from here.")
    options = _merged(asked.options, context.args)
    say(f"ragrounds run {' '.join(map(_quoted, options))}")
    app(["run", *options, "--only-run", found.id])


def _asked(run: Run) -> Asked:
    from ragrounds.errors import UserError

    if run.origin == "imported":
        raise UserError(f"The run {run.id} was imported: there is nothing to go on with.")
    if run.asked is None:
        raise UserError(
            f"The run {run.id} does not say how it was asked for: an older version made it, or another command. Give "
            "its command again, which goes on with it."
        )
    return run.asked


def _merged(kept: tuple[str, ...], given: list[str]) -> list[str]:
    """The kept options, without those that are given anew."""
    named = {word.partition("=")[0] for word in given if word.startswith("--")}
    pairs = zip(kept[::2], kept[1::2], strict=True)
    return [word for name, value in pairs if name not in named for word in (name, value)] + given


def _quoted(word: str) -> str:
    import shlex

    from ragrounds.ui.text import one_line

    return shlex.quote(one_line(word, 200))


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
    from ragrounds.cli.progress import counting
    from ragrounds.errors import UserError
    from ragrounds.evals.store.database import reclaim_space
    from ragrounds.evals.store.garbage import collect_garbage
    from ragrounds.evals.store.leases import Lease
    from ragrounds.records import FINAL

    with open_store(settings()) as store:
        with counting() as tell:
            found = collect_garbage(store.engine, FINAL, hours=older_than, outside=outside, report=tell)
        _tell(found)
        some = bool(found.calls.count or found.texts.count or found.questions.count)
        if some and not dry_run:
            if not yes:
                if not sys.stdin.isatty():
                    raise UserError("Nothing was removed: give --yes to remove without being asked.")
                typer.confirm("Remove them?", abort=True, err=True)
            ids = [run.id for run in store.runs()]
            with Lease(store.engine, ids, say), counting() as tell:
                found = collect_garbage(
                    store.engine, FINAL, hours=older_than, outside=outside, remove=True, runs=ids, report=tell
                )
            refused = reclaim_space(store.engine)
            say(f"Removed, but the space is not given back: {refused}." if refused else "Removed.")
    if as_json:
        print_json(found)


def _tell(found: Garbage) -> None:
    from ragrounds.cli.common import say

    heaps = ((found.calls, "recorded calls"), (found.texts, "texts"), (found.questions, "questions"))
    some = [_said(heap, what) for heap, what in heaps if heap.count]
    say(f"Nothing refers to {', '.join(some)}." if some else "Nothing to remove.")
    if found.recent.count:
        say(f"Left, as too young: {_said(found.recent, 'recorded calls')} (--older-than HOURS).")
    if found.outside.count:
        say(f"Left, as no run made them: {_said(found.outside, 'recorded calls')} (--outside removes them too).")


def _said(heap: RowVolume, what: str) -> str:
    return f"{heap.count:,} {what} ({heap.bytes:,} bytes)"


runs_app = typer.Typer(help="What the store holds: list, show, go on with, remove.", no_args_is_help=True)
runs_app.command("resume", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(resume_command)
runs_app.command("gc")(gc_command)


@runs_app.command("ls")
def list_runs(as_json: bool = typer.Option(False, "--json", help="As JSON.")) -> None:
    """List the runs, oldest first."""
    from collections import Counter

    from ragrounds.cli.common import open_store, print_json, settings
    from ragrounds.ui.run_tables import runs_table
    from ragrounds.ui.tables import print_table, results_console

    with open_store(settings()) as store:
        runs = store.runs()
        done = {run.id: Counter(store.done(run).values()) for run in runs}
        place = store.place
    if as_json:
        print_json([{"run": run, "statuses": done[run.id]} for run in runs])
        return
    if not runs:
        typer.echo(f"No runs yet in {place}. `ragrounds run` makes some.", err=True)
        return
    print_table(runs_table(runs, {run: sum(statuses.values()) for run, statuses in done.items()}), results_console())


@runs_app.command("show")
def show_run(
    run: str = typer.Argument(help="A run: an id, the beginning of one, or an agent's text."),
    as_json: bool = typer.Option(False, "--json", help="As JSON."),
) -> None:
    """Show what a run is (all that its fingerprint covers), how far it is, what it read, and what it cost."""
    from ragrounds.cli.common import open_store, print_json, settings
    from ragrounds.evals.compare.comparison import compare
    from ragrounds.evals.store.leases import worker
    from ragrounds.evals.store.ledger import ledger
    from ragrounds.ui.run_tables import print_run

    with open_store(settings()) as store:
        found = store.run(run)
        comparison = compare(store, [found]) if store.done(found) else None
        at_work = worker(store.engine, found.id)
        costs = ledger(store, [found])
    if as_json:
        print_json({"run": found, "at_work": at_work, "comparison": comparison, "ledger": costs})
    else:
        print_run(found, at_work, comparison, costs)


@runs_app.command("rm")
def remove_run(
    run: str = typer.Argument(help="A run's id, or the beginning of it; an agent's text where it has one run."),
) -> None:
    """Remove a run with its attempts and scores. Recorded calls stay, so running it again costs nothing."""
    from ragrounds.cli.common import open_store, say, settings
    from ragrounds.errors import UserError
    from ragrounds.evals.store.leases import Lease

    with open_store(settings()) as store:
        found = store.run(run)
        known = store.runs()
        begun = sum(one.id.startswith(run) for one in known)
        if found.id != run and begun != 1 and sum(one.agent == run for one in known) > 1:
            raise UserError(f"{run!r} has several runs: name the one to remove by its id, such as {found.id}.")
        with Lease(store.engine, [found.id], say):
            store.remove(found)
    say(f"Removed {found.id}.")
