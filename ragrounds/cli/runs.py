"""`ragrounds runs`: what the store holds."""

from __future__ import annotations

import os
import shlex
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from ragrounds.api.resume import kept_options
from ragrounds.api.runs import collect_garbage, diff_runs, load, remove_run
from ragrounds.api.runs import runs as stored_runs
from ragrounds.base.errors import UserError
from ragrounds.cli import options
from ragrounds.cli.commands import ListGroup
from ragrounds.cli.output import at_work, counting, print_json, say
from ragrounds.ui.tables.run_tables import differences_table, garbage_lines, runs_table
from ragrounds.ui.tables.text_tables import print_table, results_console
from ragrounds.ui.text import one_line

_DEFAULT_LIMIT = 40
"""Maximum number of runs that are listed by default."""
app = typer.Typer()
runs = typer.Typer(name="runs", cls=ListGroup, help="What the store holds: list, show, resume, remove.")
app.add_typer(runs)


@runs.command("ls")
def list_command(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WORD]...", help="Only runs with these in id, agent, name, benchmark or model."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=1, metavar="N", help="At most this many. [default: 40; with --json all]"),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """List the runs, the latest first: how far each is, its headline figure, what it cost, what failed.

    Examples:

      ragrounds runs ls pubmedqa

      ragrounds runs ls gpt-4o-mini --json
    """
    with at_work("looking at runs"):
        listing = stored_runs(words or (), limit=limit or (None if as_json else _DEFAULT_LIMIT))
        overviews = listing.overviews()
    if as_json:
        print_json(overviews, "runs")
        return
    if overviews:
        print_table(runs_table(overviews, time.time()), results_console())
    if listing.left:
        say(listing.left)


@runs.command("show")
def show_command(run: options.RunName, full: options.Full = False, as_json: options.AsJson = False) -> None:
    """Show what a run is, how far it is, its score, and what it cost; with --full, all that its fingerprint covers."""
    loaded = load(run)
    if as_json:
        print_json(loaded.details())
    else:
        loaded.draw(results_console(), full=full)


@runs.command("diff")
def diff_command(first: options.RunName, second: options.RunName, as_json: options.AsJson = False) -> None:
    """Say in what two runs differ: agent, models, parameters, questions; files, code, variables and packages that a
    system of your own has read.

    Examples:

      ragrounds runs diff mine.py-answer-375c5d mine.py-answer-8af6f0
    """
    run_differences = diff_runs(first, second)
    if as_json:
        print_json(run_differences, "differences")
    elif run_differences:
        print_table(differences_table(run_differences, first, second), results_console())
    else:
        say("Everything that they depend on is the same.")


@runs.command("rm")
def remove_command(run: options.RunName) -> None:
    """Remove a run with its attempts and scores. Recorded calls stay, so running it again costs nothing."""
    say(f"Removed {remove_run(run, message=say).id}.")


@runs.command("resume", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def resume_command(context: typer.Context, run: options.RunName) -> None:
    """Resume exactly this run, as it was asked for. Options of `ragrounds run` may follow: --concurrency 64.

    Keys come from the environment, as ever. Where anything that the run's results depend on has changed, it is not
    resumed, and the differences are named.
    """
    stored_run, request = kept_options(run)
    if Path(request.folder).is_dir():
        os.chdir(request.folder)
    else:
        say(f"{request.folder}, where this run began, no longer exists: paths start here.")
    words = _merged(request.options, context.args)
    say(f"ragrounds run {' '.join(shlex.quote(one_line(word, 200)) for word in words)}")
    context.find_root().command.main(["run", *words, "--only-run", stored_run.id], prog_name="ragrounds")


def _merged(stored: tuple[str, ...], added: list[str]) -> list[str]:
    """Return the stored options without those that are given again, followed by the given ones."""
    replaced = {options.SHORT.get(word[:2], word.partition("=")[0]) for word in added if word.startswith("-")}
    pairs = zip(stored[::2], stored[1::2], strict=True)
    return [word for pair in pairs if pair[0] not in replaced for word in pair] + added


@runs.command("gc")
def garbage_command(
    yes: options.Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be removed.")] = False,
    older_than: Annotated[
        float,
        typer.Option(parser=options.age, metavar="DURATION", help="Keep calls recorded within this time: 30m, 2h, 2d."),
    ] = "1h",  # type: ignore[assignment]
    outside: Annotated[
        bool, typer.Option("--outside", help="Also calls that no run made: of retrieve, build.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Remove recorded calls and texts that no run, arena or judged score refers to.

    What an unfinished attempt or judging has paid for stays, so what was interrupted resumes without paying twice. All
    of it is one transaction. While a run is in progress nothing is removed. A SQLite file gets smaller afterwards.
    """
    with counting() as progress:
        garbage, _ = collect_garbage(seconds=older_than, outside=outside, progress=progress)
    for line in garbage_lines(garbage):
        say(line)
    counts = (garbage.calls.count, garbage.texts.count, garbage.questions.count)
    if any(counts) and not dry_run:
        if not yes:
            if not sys.stdin.isatty():
                raise UserError("Nothing was removed: give --yes to confirm.")
            typer.confirm("Remove them?", abort=True, err=True)
        with counting() as progress:
            garbage, reason = collect_garbage(
                seconds=older_than, outside=outside, remove=True, progress=progress, message=say
            )
        say(f"Removed, but the disk space is not freed: {reason}." if reason else "Removed.")
    if as_json:
        print_json(garbage)
