"""`ragrounds retrieve`: score retrieval alone."""

from __future__ import annotations

import typer
from msgspec.structs import asdict, replace

from ragrounds.cli import options
from ragrounds.cli.options import PlotOptions, grouped
from ragrounds.cli.output import draw_picture, print_json, say
from ragrounds.extensions.retrieval.functions import RetrievalArguments
from ragrounds.extensions.retrieval.functions import retrieve as retrieve_all
from ragrounds.ui.tables.text_tables import results_console

app = typer.Typer()


@app.command("retrieve")
@grouped
def retrieve(arguments: RetrievalArguments, plot: PlotOptions, as_json: options.AsJson = False) -> None:
    """Score retrieval alone: TREC runs, trec_eval's measures, paired comparisons.

    nDCG@10 and the others are trec_eval's values over every judged query; a query without results counts 0. --model
    writes the queries of --query-generation.
    """
    retrieved = retrieve_all(**asdict(replace(arguments, message=say)))
    if as_json:
        print_json(retrieved.facts())
    else:
        retrieved.draw(results_console())
    draw_picture(retrieved, plot)
