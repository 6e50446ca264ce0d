"""`ragrounds counterfactual`: what removing or changing evidence does to stored runs."""

from __future__ import annotations

import typer
from msgspec.structs import asdict, replace

from ragrounds.cli import options
from ragrounds.cli.options import PlotOptions, grouped
from ragrounds.cli.output import draw_picture, print_json
from ragrounds.cli.run import RunDisplay
from ragrounds.extensions.counterfactual.functions import CounterfactualArguments, counterfactual
from ragrounds.ui.tables.analysis_tables import print_analysis

app = typer.Typer()


@app.command("counterfactual")
@grouped
def counterfactual_command(
    runs: options.Runs,
    arguments: CounterfactualArguments,
    plot: PlotOptions,
    as_json: options.AsJson = False,
    display: options.Display = None,
) -> None:
    """Make stored attempts again with one thing changed, and say what that did.

    Up to the change everything is answered from the journal; only what follows is asked anew. First the model is asked
    again with nothing changed: each effect is shown next to that noise floor. The same command resumes.

    Examples:

      ragrounds counterfactual vanilla_rag --change 'drop[passage=gold]' --change reverse

      ragrounds counterfactual ircot --change 'none[search=last]' --limit 200
    """
    analysis = counterfactual(**asdict(replace(arguments, listener=RunDisplay(display))))
    if as_json:
        print_json(analysis.result)
    else:
        print_analysis(analysis.named_result)
    draw_picture(analysis, plot)
