"""`ragrounds runs`: what the store holds."""

from __future__ import annotations

import typer

from ragrounds.cli.resuming import resume_command
from ragrounds.cli.sweeping import gc_command

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
    from ragrounds.evals.compare.ledger import ledger
    from ragrounds.evals.store.leasing import worker
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
    from ragrounds.evals.store.leasing import Lease

    with open_store(settings()) as store:
        found = store.run(run)
        known = store.runs()
        begun = sum(one.id.startswith(run) for one in known)
        if found.id != run and begun != 1 and sum(one.agent == run for one in known) > 1:
            raise UserError(f"{run!r} has several runs: name the one to remove by its id, such as {found.id}.")
        with Lease(store.engine, [found.id], say):
            store.remove(found)
    say(f"Removed {found.id}.")
