"""`ragrounds retrieve`: score retrieval alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import asdict, replace

from ragrounds.api.results import Result
from ragrounds.api.retrieval_bench import retrieval_bench
from ragrounds.api.retrieve import SEARCHED, RetrievalArguments, SearchArguments
from ragrounds.api.retrieve import retrieve as retrieve_all
from ragrounds.api.similarity import similarity
from ragrounds.cli import options
from ragrounds.cli.options import PlotOptions, grouped
from ragrounds.cli.output import draw_picture, print_json, say
from ragrounds.errors import UserError
from ragrounds.ui.tables import results_console

app = typer.Typer()


@app.command("retrieve")
@grouped
def retrieve(
    benchmark: Annotated[
        list[str] | None,
        typer.Option(
            help="Queries and judgements: beir:FOLDER or r2med:FOLDER, or a copy by its name, such as beir/scifact; "
            "rerank:FILE for pools to rerank, sts:FILE for pairs of sentences. Give several for one table of all.",
            show_default=False,
            rich_help_panel=SEARCHED,
        ),
    ] = None,
    *,
    given: RetrievalArguments,
    plot: PlotOptions,
    as_json: options.AsJson = False,
) -> None:
    """Score retrieval alone: TREC runs, trec_eval's measures, paired comparisons.

    nDCG@10 and the others are trec_eval's values over every judged query; a query without results counts 0. --model
    writes the queries of --query-generation.
    """
    sets = benchmark or []
    if sets and sets[0].startswith("sts:"):
        _similarity(plot, Path(sets[0][4:]).expanduser(), given, as_json)
        return
    if len(sets) > 1:
        alone = {"--corpus": given.corpus, "--qrels": given.qrels, "--query-generation": given.query_generation}
        for option, value in alone.items():
            if value:
                raise UserError(f"{option} goes with one --benchmark: of several, each is searched in its own corpus.")
        shared = {name: getattr(given, name) for name in SearchArguments.__struct_fields__}
        table = retrieval_bench(sets, given.retrievers, **(shared | {"message": say}))
        _show(table, table.fields(), plot, as_json)
        return
    found = retrieve_all(**asdict(replace(given, benchmark=sets[0] if sets else None, message=say)))
    _show(found, _plain(found.entries, found.comparisons), plot, as_json)


def _show(found: Result, plain: object, plot: PlotOptions, as_json: bool) -> None:
    """The result as JSON has it or as text, and its picture."""
    if as_json:
        print_json(plain)
    else:
        found.draw(results_console())
    draw_picture(found, plot)


def _similarity(plot: PlotOptions, path: Path, given: RetrievalArguments, as_json: bool) -> None:
    """How well embedders' cosines follow graded pairs of sentences."""
    options.no_picture(plot, "of graded pairs of sentences")
    found = similarity(path, given.retrievers, resamples=given.resamples, seed=given.seed)
    if as_json:
        print_json(_plain(found.entries, found.comparisons))
        return
    found.draw(results_console())
    say("Pairs with the same first sentence are drawn together; both sides are embedded as queries.")


def _plain(entries: Sequence[object], comparisons: Sequence[object]) -> object:
    return entries[0] if len(entries) == 1 else {"runs": entries, "comparisons": comparisons}
