"""`ragrounds study`: a paper's table, rerun."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import asdict, replace

from ragrounds.cli import options
from ragrounds.cli.commands import ListGroup
from ragrounds.cli.options import FormOptions, PlotOptions, grouped
from ragrounds.cli.output import draw_picture, print_json, say, tell
from ragrounds.extensions.studies.functions import StudyArguments, StudyResult, copy_study, list_studies, show_study
from ragrounds.extensions.studies.functions import study as carry_out
from ragrounds.extensions.studies.tables import list_table, paper_notes, study_csv, study_notes, study_tables
from ragrounds.ui.tables.text_tables import latex, markdown, print_table, results_console
from ragrounds.ui.text import number_of

app = typer.Typer()
study = typer.Typer(name="study", cls=ListGroup, help="A paper's table, rerun: run, show, copy, list.")
app.add_typer(study)

StudyFile = Annotated[
    str, typer.Argument(metavar="FILE.toml|NAME", help="A study: a file, or one of `ragrounds study ls`.")
]


@study.command("run")
@grouped
def run_study(
    arguments: StudyArguments,
    form: FormOptions,
    plot: PlotOptions,
    file: StudyFile,
    display: Annotated[str | None, typer.Option(help="none: no progress is shown.")] = None,
) -> None:
    """Carry out a study and print the paper's table with ours: figures, published ones, deviations, differences.

    The same command resumes. A cell without its data, weights or server says so and how to get them; the rest runs.

    Examples:

      ragrounds study run mirage-table6 --base-url http://127.0.0.1:8000/v1 --limit 50 --max-cost 20

      ragrounds study run mine.toml --latex > table.tex
    """
    output_form = form.selected()
    result = carry_out(**asdict(replace(arguments, file=file, progress=display != "none")))
    _print(result, output_form, file)
    draw_picture(result, plot)
    cells_done = f"{result.done:,} of {number_of(result.asked, 'cell')} {'is' if result.asked == 1 else 'are'} done"
    ended = f"; ended early: {result.ended}, the same command resumes" if result.ended else ""
    say(f"{cells_done}{ended}. {result.made:,} model calls made, {result.reused:,} answered from the journal.")


@study.command("show")
@grouped
def show_study_command(form: FormOptions, plot: PlotOptions, file: StudyFile, full: options.Full = False) -> None:
    """Print a study from what is kept of it, as its last call said. Nothing is asked, searched or judged."""
    result = show_study(file)
    _print(result, form.selected(), file, full)
    draw_picture(result, plot)


@study.command("copy")
def copy_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A study that ships: `ragrounds study ls`.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The file; by default NAME.toml here.")] = None,
) -> None:
    """Copy a shipped study's file here, to be changed: other models, rows, prompts.

    Example: ragrounds study copy mirage-table6 --out six.toml
    """
    path = copy_study(name, out)
    say(f"Written: {path}. Change it, then: ragrounds study run {shlex.quote(str(path))}")


@study.command("ls")
def list_command(as_json: options.AsJson = False) -> None:
    """List the studies that are shipped, and those that were carried out here."""
    studies = list_studies()
    if as_json:
        print_json(studies, "studies")
        return
    rows = [(listed.name, listed.title, listed.cells, listed.kept, listed.file) for listed in studies]
    print_table(list_table(rows), results_console())


def _print(result: StudyResult, form: str, file: str, full: bool = False) -> None:
    if form == "--json":
        print_json({"study": result.table.study, "table": result.table, "findings": result.findings})
    elif form == "--csv":
        typer.echo(study_csv(result.table), nl=False)
    elif form:
        write, notes = (latex, paper_notes) if form == "--latex" else (markdown, study_notes)
        tell(write(study_tables(result.table), notes(result.table)), nl=False)
    else:
        result.draw(results_console(), full=full, reference=file)
