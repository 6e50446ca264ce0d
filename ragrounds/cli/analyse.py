"""`ragrounds analyse`: the figures and tables of the papers, over stored runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from ragrounds.evals.analyses.pictures import Picture


def analyse_command(
    name: str = typer.Argument(
        help="An analysis, such as passages or position (`list` shows all), or package.module:NAME of your own."
    ),
    runs: list[str] = typer.Argument(None, help="Runs: an id, the beginning of one, or an agent's text."),
    scorer: str = typer.Option("strict", help="The scorer whose scores are shown."),
    k: int = typer.Option(10, min=1, help="How many passages count (success, quality, sources)."),
    parameter: str = typer.Option("top_k", help="The agent's parameter that was varied (passages)."),
    size: list[str] = typer.Option([], help="MODEL=BILLIONS, where the name does not say it (size, repeatable)."),
    seed: int = typer.Option(0, help="Seed of the bootstrap."),
    svg: Path = typer.Option(None, help="Write the picture to this file as SVG."),
    as_json: bool = typer.Option(False, "--json", help="The analysis as JSON."),
) -> None:
    """Draw one analysis of stored runs, with its table. No model is asked and nothing is searched again.

    Examples:

      ragrounds analyse passages 'vanilla_rag[top_k=1]' 'vanilla_rag[top_k=8]' --svg passages.svg

      ragrounds analyse success vanilla_rag --k 5 --scorer mirage
    """
    from ragrounds.cli.common import open_store, print_json, settings
    from ragrounds.evals.analyses.analysis import AnalysisOptions, analyses, find_analysis
    from ragrounds.ui.analysis_tables import print_analysis

    if name == "list":
        for known in analyses().values():
            typer.echo(f"{known.name:10} {known.summary}; needs {known.needs}")
        return
    analysis = find_analysis(name)  # an unknown one is said before the runs are looked for
    options = AnalysisOptions(scorer=scorer, k=k, parameter=parameter, sizes=_sizes(size), seed=seed)
    with open_store(settings()) as store:
        analysed = analysis(store, [store.run(reference) for reference in runs or ()], options)
    if svg:
        _write(analysed.picture, svg)
    if as_json:
        print_json(analysed)
    else:
        print_analysis(analysed)


def _sizes(texts: list[str]) -> dict[str, float]:
    from ragrounds.errors import UserError

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


def _write(drawn: Picture, path: Path) -> None:
    from ragrounds.cli.common import say
    from ragrounds.errors import UserError
    from ragrounds.ui.chart_svg import svg

    try:
        path.write_text(svg(drawn), encoding="utf-8")
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror}.") from error
    say(f"{path}: {drawn.title}")
