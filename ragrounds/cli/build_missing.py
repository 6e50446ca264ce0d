"""`ragrounds build false-negatives`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragrounds.cli.building import Options, carried_out, with_options


@with_options
def false_negatives(
    benchmark: Annotated[
        str, typer.Argument(help="Queries and judgements: beir:FOLDER, beir/NAME, r2med:FOLDER, r2med/NAME.")
    ],
    retriever: Annotated[str, typer.Option(help="What finds the documents (the paper: a dense one).")] = "bm25",
    split: Annotated[str, typer.Option(help="Which judgements of a BEIR folder.")] = "test",
    depth: Annotated[int, typer.Option(min=1, help="Documents of a query that are looked at.")] = 50,
    sample: Annotated[
        int, typer.Option(min=0, help="How many of these are graded, drawn within bands of ranks; 0: all.")
    ] = 0,
    bands: Annotated[str, typer.Option(help="Last ranks of all bands but the deepest.")] = "10,25",
    relevant: Annotated[str, typer.Option(help="Which of the grades S, A, B, C, D are relevant.")] = "SA",
    at_once: Annotated[int, typer.Option(min=1, max=100, help="Documents in one call.")] = 10,
    language: Annotated[str, typer.Option(help="Of the prompts: en or zh.")] = "en",
    check: Annotated[int, typer.Option(min=0, help="False negatives in the experts' sheet; 0: no sheet.")] = 500,
    experts: Annotated[int, typer.Option(min=1, help="Columns for experts in that sheet.")] = 1,
    ratings: Annotated[Path | None, typer.Option(help="The sheet with the experts' decisions.")] = None,
    *,
    options: Options,
) -> None:
    """Estimate how many relevant documents a benchmark's labels miss, as CMedTEB did (Appendix E, Table 20).

    A retriever finds the best 50 documents of each query, a model grades them from S to D, and what is relevant but not
    labelled is counted, with an interval that draws whole queries. --limit grades a sample of the queries, --sample a
    part of each query's documents. The folder holds the benchmark with the labels that were found missing.

    Example: ragrounds build false-negatives beir:scifact/ --model openai:gpt-4o --limit 100 --out scifact-mended
    """
    from ragrounds.build.labels.consensus import check_relevant
    from ragrounds.build.missing.drawing import read_bands
    from ragrounds.build.missing.finish import MissingFinish, check_documents
    from ragrounds.build.missing.item import query_items
    from ragrounds.build.missing.pipeline import PIPELINE
    from ragrounds.build.retrieval.publishing import Expert
    from ragrounds.cli.common import one_of, say, settings
    from ragrounds.cli.counting import counting
    from ragrounds.evals.retrieval.sets import query_set
    from ragrounds.tools.opening import open_searcher

    check_relevant(relevant)
    one_of("--language", language, ("en", "zh"))
    asked = query_set(benchmark, split=split)
    check_documents(asked, asked.corpus)
    intake = query_items(asked, language=language, limit=options.limit, seed=options.seed)
    say(f"{asked.name}: {intake.read:,} judged queries, {len(intake.items):,} are drawn.")
    with counting() as told:
        searcher = open_searcher(retriever, asked.corpus, settings().home, progress=told)
    finish = MissingFinish(
        name=options.out.resolve().name,
        asked=asked,
        benchmark=asked.corpus,
        intake=intake,
        bands=read_bands(bands, depth),
        relevant=relevant,
        expert=Expert(out=options.out, sample=check, experts=experts, sheet=ratings),
    )
    carried_out(
        PIPELINE,
        intake,
        finish,
        options,
        parameters={"depth": depth, "sample": sample, "bands": bands, "at_once": at_once, "seed": options.seed},
        searcher=searcher,
    )
