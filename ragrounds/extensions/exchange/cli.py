"""`ragrounds export`: runs written for other tools. `ragrounds import`: outputs of other systems become runs.

Every export format is a file of ``extensions/exchange``, and its command is made from it. Nothing is sent without a
flag for it.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import msgspec
import typer
from msgspec.structs import asdict

from ragrounds.api.data import finding_line
from ragrounds.cli import options
from ragrounds.cli.commands import Command, Group
from ragrounds.cli.output import counting, print_json, say, tell
from ragrounds.extensions.exchange.functions import (
    export,
    export_runs,
    import_store,
    is_store,
    list_formats,
    transfer_lines,
    typed_format,
)
from ragrounds.extensions.exchange.imports import import_runs
from ragrounds.ui.tables.comparison_tables import print_comparison

TransferredRuns = Annotated[
    list[str] | None, typer.Argument(help="Runs: ids, beginnings of ids, or agents' texts. [default: all]")
]


class ExportCommands(Group):
    """Command group with one command per export format.

    A command is made when it is requested: formats import more than `ragrounds --help` should.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the formats, and of the other commands of the group."""
        return [*super().list_commands(ctx), *list_formats()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a format, or another command of the group."""
        command = super().get_command(ctx, cmd_name)
        if command is None:
            export_format = typed_format(cmd_name)
            command = _export_command(cmd_name, export_format) if export_format else None
        return command


app = typer.Typer()
exports = typer.Typer(
    name="export", cls=ExportCommands, help="Runs written for other tools, or into another store.", no_args_is_help=True
)
app.add_typer(exports)


def _export_command(name: str, export_format: Any) -> Any:
    """Make the command of a format, by the name that the user typed.

    Its parameters are the runs, the output, and one for each of the format's options.
    """
    needed = ... if export_format.send is None else None
    parameters: dict[str, tuple[Any, Any]] = {
        "runs": (options.Runs, ...),
        "out": (Path, typer.Option(needed, "--out", "-o", help=f"The {export_format.writes}.")),
        "force": (options.Force, False),
    }
    hints = get_type_hints(export_format.options, include_extras=True)
    for field in msgspec.structs.fields(export_format.options):
        kind, meta = get_args(hints[field.name])
        default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
        parameters[field.name] = (kind, typer.Option(default, f"--{field.name}", help=meta.description))

    def _command(**arguments: Any) -> None:
        references, out, force = arguments.pop("runs"), arguments.pop("out"), arguments.pop("force")
        with counting() as progress:
            for line in export(name, references, out, force=force, progress=progress, **arguments):
                say(line)

    parameter = inspect.Parameter
    _command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [parameter(key, parameter.KEYWORD_ONLY, default=default) for key, (_, default) in parameters.items()]
    )
    _command.__annotations__ = {key: kind for key, (kind, _) in parameters.items()}
    command_app = typer.Typer(rich_markup_mode=None, add_completion=False)
    command_app.command(name, help=export_format.help, cls=Command)(_command)
    return typer.main.get_command(command_app)


@exports.command("store")
def export_store(
    runs: TransferredRuns = None,
    out: Annotated[str, typer.Option("--out", "-o", help="A file (created if needed) or a PostgreSQL URL.")] = ...,  # type: ignore[assignment]
    as_json: options.AsJson = False,
) -> None:
    """Export runs with all their records into a portable file or another store.

    Attempts, scores, questions, recorded calls, judges' calls, and arenas in which only these runs played. There, a
    replay asks no model, and every table is the same. What is there already stays; doing it twice adds nothing.

    Examples:

      ragrounds export store --out runs.ragrounds

      ragrounds export store direct_cot search_o1 --out postgresql://me@server/runs
    """
    with counting() as progress:
        moved = export_runs(runs or (), out, progress=progress)
    for line in transfer_lines(moved):
        say(line)
    if as_json:
        print_json(moved)


@app.command("import")
def import_command(
    paths: Annotated[
        list[str],
        typer.Argument(help="Files, or folders of them; a file of `export store`, a store.sqlite or its URL."),
    ],
    benchmark: Annotated[
        str | None,
        typer.Option(help="Which they answer: mirage, jsonl:FILE. [default: the questions that the files hold]"),
    ] = None,
    agent: Annotated[
        str | None, typer.Option(help="What answered. [default: as the files say, else their names]")
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            help="table, medagentsbench, mirage-predictions, inspect, lm-eval, openinference, "
            "langsmith, promptfoo, deepeval, trec, store. [default: recognised]"
        ),
    ] = None,
    map: Annotated[
        list[str] | None, typer.Option(help="Of a table: field=column, where the guess is wrong (repeatable).")
    ] = None,
    runs: Annotated[list[str] | None, typer.Option("--run", help="Of a store: only this run (repeatable).")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Answers of other systems become runs, scored, audited, compared and traced like our own; runs of another store
    come with everything they depend on.

    The form is recognised. Rows that could not be read are named; what is not there is unknown.

    Examples:

      ragrounds import theirs.csv --benchmark jsonl:questions.jsonl --agent theirs

      ragrounds import logs/ --format inspect

      ragrounds import runs.ragrounds
    """
    if format == "store" or (format is None and is_store(paths[0])):
        _import_store(paths, runs, as_json)
        return
    fields = dict(entry.partition("=")[::2] for entry in map or ())
    with counting() as progress:
        imported = import_runs(paths, benchmark, agent=agent, format=format, fields=fields, progress=progress)
    for line in imported.lines():
        say(line)
    if as_json:
        fields_of_result = asdict(imported)
        del fields_of_result["settings"]  # of this process, not of the import
        print_json(fields_of_result)
        return
    for finding in imported.findings:
        tell(finding_line(finding))
    print_comparison(imported.comparison)


def _import_store(sources: list[str], runs: list[str] | None, as_json: bool) -> None:
    for source in sources:
        with counting() as progress:
            moved = import_store(source, runs or (), progress=progress)
        for line in transfer_lines(moved):
            say(line)
        if as_json:
            print_json(moved)
