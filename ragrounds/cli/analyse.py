"""`ragrounds analyse`: draw one analysis of stored runs. `ragrounds analyses`: those there are.
`ragrounds report`: write one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragrounds.api.aliases import parse_names
from ragrounds.api.analyses import AnalysisDetails, describe_analysis, list_analyses
from ragrounds.api.compare import analyse, report
from ragrounds.cli import options
from ragrounds.cli.commands import ListGroup
from ragrounds.cli.options import PlotOptions, grouped
from ragrounds.cli.output import draw_picture, print_json, say, tell
from ragrounds.errors import UserError
from ragrounds.ui.analysis_tables import print_analysis
from ragrounds.ui.text import safe

app = typer.Typer()
analyses = typer.Typer(name="analyses", cls=ListGroup, help="The analyses that `ragrounds analyse` knows.")
app.add_typer(analyses)


@app.command("analyse")
@grouped
def analyse_command(
    name: Annotated[
        str,
        typer.Argument(help="An analysis, as `ragrounds analyses ls` lists it, or package.module:NAME of your own."),
    ],
    runs: Annotated[
        list[str] | None, typer.Argument(help="Runs: an id, the beginning of one, or an agent's text.")
    ] = None,
    scorer: Annotated[
        str, typer.Option(help="The scorer whose scores are shown; by default the headline of the questions.")
    ] = "",
    k: Annotated[
        int, typer.Option("--k", "-k", min=1, help="How many passages count (success, quality, sources).")
    ] = 10,
    parameter: Annotated[str, typer.Option(help="The agent's parameter that was varied (passages).")] = "top_k",
    size: Annotated[
        list[str] | None, typer.Option(help="MODEL=BILLIONS, where the name does not say it (size, repeatable).")
    ] = None,
    corpus_size: Annotated[
        list[str] | None,
        typer.Option(help="SOURCE=PASSAGES, of a corpus that is no index here (sources, repeatable)."),
    ] = None,
    names: options.Names = None,
    seed: options.Seed = 0,
    *,
    plot: PlotOptions,
    as_json: options.AsJson = False,
) -> None:
    """Draw one analysis of stored runs, with its table. No model is asked and nothing is searched again.

    Examples:

      ragrounds analyse passages 'vanilla_rag[top_k=1]' 'vanilla_rag[top_k=8]' --plot passages.svg

      ragrounds analyse success vanilla_rag --k 5 --scorer mirage
    """
    found = analyse(
        name,
        runs or (),
        scorer=scorer,
        k=k,
        parameter=parameter,
        sizes=_sizes(size or []),
        corpus=_passages(corpus_size or []),
        names=parse_names(names or ()),
        seed=seed,
    )
    if as_json:
        print_json(found.result)
    else:
        print_analysis(found.shown)
    draw_picture(found, plot)


def _passages(texts: list[str]) -> dict[str, int]:
    counts = {}
    for text in texts:
        source, _, count = text.rpartition("=")
        if not source or not count.replace("_", "").isdecimal() or not int(count):
            raise UserError(
                f"--corpus-size {text!r} cannot be read; expected SOURCE=PASSAGES, such as pubmed=23900000."
            )
        counts[source] = int(count)
    return counts


def _sizes(texts: list[str]) -> dict[str, float]:
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


@analyses.command("ls")
def list_command(as_json: options.AsJson = False) -> None:
    """List the analyses."""
    found = list_analyses()
    if as_json:
        described = {one.name: {"summary": one.summary, "needs": one.needs, "package": one.package} for one in found}
        print_json(described, "analyses")
        return
    for one in found:
        tell(f"{one.name:10} {safe(_words(one))}")


@analyses.command("show")
def show_command(
    name: Annotated[str, typer.Argument(help="An analysis, as `ragrounds analyses ls` lists it.")],
    as_json: options.AsJson = False,
) -> None:
    """Say what an analysis shows, and what it needs."""
    found = describe_analysis(name)
    if as_json:
        print_json(found)
    else:
        tell(f"{found.name}: {safe(_words(found))}")


def _words(found: AnalysisDetails) -> str:
    package = f"; from the package {found.package}" if found.package else ""
    return f"{found.summary}; needs {found.needs}{package}"


@app.command("report")
def report_command(
    runs: options.Runs,
    out: options.OutFile = Path("report.html"),
    title: Annotated[str, typer.Option(help="Title of the page.")] = "",
    scorer: options.Scorers = None,
    common: options.Common = False,
    group_by: options.GroupBy = None,
    baseline: options.Baseline = None,
    top: options.Top = None,
    names: options.Names = None,
    cost: options.CostMeasure = "auto",
    seed: options.Seed = 0,
    attempts: Annotated[
        bool, typer.Option("--attempts/--no-attempts", help="Put every attempt with its steps into the file.")
    ] = True,
    analysis: Annotated[
        list[str] | None, typer.Option(help="Also this analysis, as in `ragrounds analyse` (repeatable).")
    ] = None,
    human: Annotated[
        Path | None, typer.Option(help="People's labels of judged answers (`ragrounds judge sheet`).")
    ] = None,
    force: options.Force = False,
) -> None:
    """Write one self-contained HTML file, laid out as a paper: what is missing, an abstract with what can be concluded,
    results with pictures, behaviour, judges, arenas, methods, what to cite, limitations, fingerprints, and a browser
    of all attempts. It asks nothing of any network.

    Example: ragrounds report direct_cot 'vanilla_rag[top_k=8]' --out report.html
    """
    report(
        runs,
        out,
        title=title,
        scorers=scorer or (),
        common=common,
        group_by=group_by or (),
        cost=cost,
        analyses=analysis or (),
        labels=human,
        baseline=baseline,
        top=top,
        names=parse_names(names or ()),
        attempts=attempts,
        seed=seed,
        force=force,
    )
    size = out.stat().st_size
    say(f"{out}: {size / 1e6:.1f} MB" if size >= 1e6 else f"{out}: {size / 1e3:.0f} kB")
