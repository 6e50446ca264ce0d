"""`ragrounds export store` and `ragrounds import store`: runs move between stores, losing nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    import sqlalchemy as sa

RUNS = typer.Argument(None, help="Runs: ids, beginnings of ids, or agents' texts. [default: all]")
JSON = typer.Option(False, "--json", help="What was moved, as JSON.")


def export_store(
    runs: list[str] = RUNS,
    to: str = typer.Option(..., "--to", "-o", help="A file (made where there is none) or a PostgreSQL URL."),
    as_json: bool = JSON,
) -> None:
    """Runs with all they rest on, into a portable file or another store.

    Attempts, scores, questions, recorded calls, judges' calls, and arenas in which only these runs played. There, a
    replay asks no model, and every table is the same. What is there already stays; moving twice adds nothing.

    Examples:

      ragrounds export store --to runs.ragrounds

      ragrounds export store direct_cot search_o1 --to postgresql://me@server/runs
    """
    from ragrounds.cli.common import open_store, settings
    from ragrounds.evals.store.elsewhere import target

    with open_store(settings()) as store, target(to) as engine:
        _move(store.engine, engine, runs, as_json)


def import_store(
    place: str = typer.Argument(metavar="FILE_OR_URL", help="A file of `export store`, a store.sqlite, or a URL."),
    runs: list[str] = RUNS,
    as_json: bool = JSON,
) -> None:
    """Runs of another store, with all they rest on. A file is checked whole before anything is written.

    Example: ragrounds import store runs.ragrounds
    """
    from ragrounds.cli.common import open_store, settings
    from ragrounds.evals.store.elsewhere import source

    with open_store(settings()) as store, source(place) as engine:
        _move(engine, store.engine, runs, as_json)


def _move(source: sa.Engine, target: sa.Engine, references: list[str] | None, as_json: bool) -> None:
    from ragrounds.cli.common import print_json, say
    from ragrounds.cli.counting import counting
    from ragrounds.errors import UserError
    from ragrounds.evals.engine.strands import FINAL
    from ragrounds.evals.store.checking import runs_in
    from ragrounds.evals.store.database import shown
    from ragrounds.evals.store.moving import move
    from ragrounds.evals.store.store import find_run
    from ragrounds.ui.text import safe

    known = runs_in(source)
    chosen = [find_run(known, reference, shown(source)) for reference in references or ()] or known
    chosen = list({run.id: run for run in chosen}.values())
    if not chosen:
        raise UserError(f"{shown(source)} holds no runs.")
    with counting() as tell:
        moved = move(source, target, chosen, FINAL, tell)
    for name in moved.runs:
        say(safe(name))
    for name in moved.present:
        say(f"{safe(name)} is there already, the same.")
    for name in moved.arenas:
        say(safe(name))
    say(f"{moved.calls:,} recorded calls and {moved.texts:,} texts are new there.")
    if moved.differing:
        say(
            f"{moved.differing:,} calls are recorded there with another reply, which was left: "
            "the moved runs' traces show that one, and their scores are as they were."
        )
    if as_json:
        print_json(moved)
