"""`ragrounds export store` and `ragrounds import store`: runs move between stores, losing nothing.

`ragrounds export`: runs for other tools. Every form is asked for by name; nothing is sent without its own flag.

`ragrounds import`: outputs of other systems become runs.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import msgspec
import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    import sqlalchemy as sa

    from ragrounds.evals.exchange.formats import ExportFormat


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
    from ragrounds.evals.store.database import open_target

    with open_store(settings()) as store, open_target(to) as engine:
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
    from ragrounds.evals.store.database import open_source

    with open_store(settings()) as store, open_source(place) as engine:
        _move(engine, store.engine, runs, as_json)


def _move(source: sa.Engine, target: sa.Engine, references: list[str] | None, as_json: bool) -> None:
    from ragrounds.cli.common import print_json, say
    from ragrounds.cli.progress import counting
    from ragrounds.errors import UserError
    from ragrounds.evals.store.database import shown
    from ragrounds.evals.store.store import find_run
    from ragrounds.evals.store.transfer import copy_runs, read_runs
    from ragrounds.records import FINAL
    from ragrounds.ui.text import safe

    known = read_runs(source)
    chosen = [find_run(known, reference, shown(source)) for reference in references or ()] or known
    chosen = list({run.id: run for run in chosen}.values())
    if not chosen:
        raise UserError(f"{shown(source)} holds no runs.")
    with counting() as tell:
        moved = copy_runs(source, target, chosen, FINAL, tell)
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


class ExportCommands(TyperGroup):
    """A command for each export format, made when asked for: formats import more than `ragrounds --help` should."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the formats, and of the other commands of the group."""
        from ragrounds.evals.exchange.formats import export_formats

        return [*super().list_commands(ctx), *export_formats()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a format, or another command of the group."""
        from ragrounds.evals.exchange.formats import export_formats

        found = super().get_command(ctx, cmd_name)
        return found or (_export_command(export_formats()[cmd_name]) if cmd_name in export_formats() else None)


export_app = typer.Typer(
    cls=ExportCommands, help="Runs written for other tools, or into another store.", no_args_is_help=True
)
export_app.command("store")(export_store)
_EXPORTED = typer.Argument(help="Runs: an id, the beginning of one, or an agent's text.")


def _export_command(export_format: ExportFormat[Any]) -> Any:
    """The command of a format: its runs, where they go, and a parameter for each of the format's options."""
    taken: dict[str, tuple[Any, Any]] = {"runs": (list[str], _EXPORTED)}
    if export_format.writes != "nothing":
        needed = ... if export_format.send is None else None
        taken["out"] = (Path, typer.Option(needed, "--out", "-o", help=f"The {export_format.writes}."))
        taken["force"] = (bool, typer.Option(False, "--force", help="Write over files that are there."))
    hints = get_type_hints(export_format.options, include_extras=True)
    for field in msgspec.structs.fields(export_format.options):
        kind, meta = get_args(hints[field.name])
        default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
        taken[field.name] = (kind, typer.Option(default, f"--{field.name}", help=meta.description))

    def _command(**given: Any) -> None:
        _export(export_format, given)

    parameter = inspect.Parameter
    _command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [parameter(name, parameter.KEYWORD_ONLY, default=default) for name, (_, default) in taken.items()]
    )
    _command.__annotations__ = {name: kind for name, (kind, _) in taken.items()}
    made = typer.Typer(rich_markup_mode=None, add_completion=False)
    made.command(export_format.name, help=export_format.help)(_command)
    return typer.main.get_command(made)


def _export(export_format: ExportFormat[Any], given: dict[str, Any]) -> None:
    """Write the files of an export, each whole or not at all, or send it where its options say so."""
    from ragrounds.api.files import made_beside
    from ragrounds.cli.common import open_store, say, settings
    from ragrounds.evals.exchange.formats import Export

    references, out, force = given.pop("runs"), given.pop("out", None), given.pop("force", False)
    options = export_format.options(**given)
    if export_format.check is not None:
        export_format.check(options, out is not None)
    with open_store(settings()) as store:
        runs = [store.run(reference) for reference in references]
        export = Export(store, runs, options)
        if out is None and export_format.send is not None:
            say(export_format.send(export))
        elif export_format.parts is not None:
            for part in export_format.parts(export):
                target = out / part.name if part.name else out
                if part.name:
                    _make_folder(out)
                with made_beside(target, force) as path:
                    written = part.write(path)
                say(f"{target}: {written}")


def _make_folder(path: Path) -> None:
    from ragrounds.errors import UserError

    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"Cannot make the folder {path}: {error.strerror}.") from error


import_app = typer.Typer(help="Outputs of other systems, and runs of other stores.", no_args_is_help=True)
import_app.command("store")(import_store)


@import_app.callback()
def _group() -> None:
    """Outputs of other systems become runs, scored, compared and traced like our own; runs of other stores come with
    all that they rest on."""


@import_app.command("mirage-predictions")
def import_mirage_predictions(
    paths: list[Path] = typer.Argument(help="The authors' folder of per-question files, or JSON lines (.gz too)."),
    benchmark: str = typer.Option("mirage", help="The benchmark they answer: mirage, or mirage:PATH/benchmark.json."),
    as_json: bool = typer.Option(False, "--json", help="The table as JSON."),
) -> None:
    """Import the MIRAGE authors' predictions, score them, print the table.

    Example: ragrounds import mirage-predictions MIRAGE/prediction --benchmark mirage:MIRAGE/benchmark.json
    """
    from ragrounds.cli.common import open_store, print_json, say, settings
    from ragrounds.evals.benchmarks import load
    from ragrounds.evals.compare.comparison import compare
    from ragrounds.evals.exchange.mirage_predictions import as_runs, read_predictions, store_run
    from ragrounds.ui.comparison_tables import print_comparison

    chosen = settings()
    loaded = load(benchmark, chosen.home)
    with open_store(chosen) as store:
        predictions = (prediction for path in paths for prediction in read_predictions(path))
        made = as_runs(predictions, loaded, [run.id for run in store.runs()])
        runs = [store_run(store, imported, loaded) for imported in made]
        for imported, run in zip(made, runs, strict=True):
            missing = f", {imported.missing:,} questions without a prediction" if imported.missing else ""
            say(f"{run.id}: {len(imported.attempts) - imported.missing:,} predictions{missing}")
        comparison = compare(store, runs)
    if as_json:
        print_json(comparison)
    else:
        print_comparison(comparison)
