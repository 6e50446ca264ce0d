"""`ragrounds analyse`: draw one analysis of stored runs.
`ragrounds report`: write one HTML file."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from msgspec.structs import asdict, replace

from ragrounds.api.aliases import parse_names
from ragrounds.api.compare import AnalyseArguments, ReportArguments, analyse, report, with_attempts
from ragrounds.base.errors import UserError
from ragrounds.cli import options
from ragrounds.cli.options import PlotOptions, grouped
from ragrounds.cli.output import at_work, draw_picture, print_json, say
from ragrounds.ui.tables.analysis_tables import print_analysis

app = typer.Typer()


@app.command("analyse")
@grouped
def analyse_command(
    name: Annotated[
        str,
        typer.Argument(help="An analysis, as `ragrounds list analyses` lists it, or package.module:NAME of your own."),
    ],
    runs: Annotated[
        list[str] | None, typer.Argument(help="Runs: an id, the beginning of one, or an agent's text.")
    ] = None,
    size: Annotated[
        list[str] | None, typer.Option(help="MODEL=BILLIONS, where the name does not say it (size, repeatable).")
    ] = None,
    names: options.Names = None,
    *,
    arguments: AnalyseArguments,
    plot: PlotOptions,
    as_json: options.AsJson = False,
) -> None:
    """Draw one analysis of stored runs, with its table. No model is asked and nothing is searched again.

    Examples:

      ragrounds analyse passages 'vanilla_rag[top_k=1]' 'vanilla_rag[top_k=8]' --plot passages.svg

      ragrounds analyse success vanilla_rag --k 5 --scorer mirage
    """
    sizes = _parse_sizes(size or [])
    with at_work(name):
        analysed = analyse(**asdict(replace(arguments, runs=runs or (), names=parse_names(names or ()), sizes=sizes)))
    if as_json:
        print_json(analysed.result)
    else:
        print_analysis(analysed.named_result)
    draw_picture(analysed, plot)


def _parse_sizes(texts: list[str]) -> dict[str, float]:
    sizes = {}
    for text in texts:
        model, _, billions = text.rpartition("=")
        try:
            sizes[model] = float(billions)
        except ValueError:
            sizes[model] = 0.0
        if not model or not 0 < sizes[model] < float("inf"):
            raise UserError(f"--size {text!r} cannot be read; expected MODEL=BILLIONS, such as openai:my-model=70.")
    return sizes


@app.command("report")
@grouped
def report_command(
    runs: options.Runs,
    arguments: ReportArguments,
    names: options.Names = None,
) -> None:
    """Write one self-contained HTML file, laid out as a paper: what can be concluded with its table and the frontier,
    results with pictures, behaviour, judges, arenas, methods, what to cite, limitations, fingerprints, and a browser
    of all attempts. --brief: the first sheet alone. It asks nothing of any network.

    Example: ragrounds report direct_cot 'vanilla_rag[top_k=8]' --out report.html
    """
    began = time.time()
    out = report(**asdict(replace(arguments, names=parse_names(names or ()))))
    for path, suffix in ((out, ""), (with_attempts(out), ", with every attempt")):
        if not suffix or (path.is_file() and path.stat().st_mtime >= began):
            size = path.stat().st_size
            say(f"{path}: {f'{size / 1e6:.1f} MB' if size >= 1e6 else f'{size / 1e3:.0f} kB'}{suffix}")
