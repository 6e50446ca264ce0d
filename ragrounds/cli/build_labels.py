"""`ragrounds build consensus-labels`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace

from ragrounds.cli.building import Options, carried_out, with_options
from ragrounds.cli.building_retrieval import Corpus, Experts, License, Reranked, Retriever, Sample, Sheet


@with_options
def consensus_labels(
    queries: Annotated[
        str, typer.Argument(help="Queries: a JSON Lines file {id, text}, or a benchmark, such as pubmedqa or sample.")
    ],
    corpus: Corpus,
    labeller: Annotated[
        list[str], typer.Option(help="A model that labels (repeatable: two or more, the paper has three).")
    ],
    retriever: Retriever = None,
    synonyms: Annotated[
        Path | None, typer.Option(help="JSON Lines {term, synonym}: also make synonym triples, written by --model.")
    ] = None,
    relevant: Annotated[str, typer.Option(help="Which of the grades S, A, B, C, D are relevant.")] = "SA",
    top_k: Annotated[int, typer.Option(min=1, help="Passages that each retriever gives for a query.")] = 500,
    candidates: Annotated[int, typer.Option(min=1, help="Passages a query that are labelled.")] = 500,
    at_once: Annotated[int, typer.Option(min=1, max=100, help="Passages in one call.")] = 10,
    language: Annotated[str, typer.Option(help="Of a file of queries: en or zh.")] = "en",
    sample: Sample = 100,
    experts: Experts = 1,
    ratings: Sheet = None,
    reranked: Reranked = 0,
    license_: License = "not known",
    *,
    options: Options,
) -> None:
    """Label what retrievers find for queries, and keep what several models agree on, as CMedTEB was made (Section 3.1).

    Each model grades each passage from S to D; a passage that all find relevant is a positive, one that none does a
    negative, all else is dropped. Fleiss' kappa and the disagreements stand in the card and beside it; the same labels
    make a reranking and a similarity set, --synonyms another one.

    Example:

      ragrounds build consensus-labels queries.jsonl --corpus beir:FOLDER --retriever bm25 --retriever medcpt
      --labeller openai:gpt-4o --labeller anthropic:claude-sonnet-4-5 --labeller deepseek:deepseek-chat --out labelled
    """
    from ragrounds.build.intake import take_in
    from ragrounds.build.labels.consensus import check_relevant
    from ragrounds.build.labels.finish import Settings, finish
    from ragrounds.build.labels.item import items_of, open_queries
    from ragrounds.build.labels.pipeline import PIPELINE
    from ragrounds.build.labels.synonyms import read_synonyms
    from ragrounds.build.retrieval.publishing import Expert
    from ragrounds.cli.building_retrieval import distinct, opened, set_name
    from ragrounds.cli.common import one_of, say, settings
    from ragrounds.errors import UserError

    check_relevant(relevant)
    one_of("--language", language, ("en", "zh"))
    names = distinct("--labeller", labeller)
    if len(names) < 2:
        raise UserError(f"Consensus needs two or more models, got {', '.join(names)}: repeat --labeller.")
    if synonyms and not options.model:
        raise UserError("--synonyms needs --model, which writes the sentences.")
    home = settings().home
    pairs = read_synonyms(synonyms) if synonyms else ()
    asked = open_queries(queries, home, language)
    items, dropped = items_of(asked, pairs)
    searched, committee = opened(corpus, retriever, home)
    source = Path(queries).name.partition(".")[0] if Path(queries).is_file() else queries.partition(":")[0]
    name = f"consensus-labels/{source.replace('/', '-')}"
    intake = take_in(name, items, dropped, of=queries, limit=options.limit, seed=options.seed)
    say(f"{queries}: {intake.read:,} queries, {len(intake.items):,} are worked on; {len(searched):,} passages.")
    goes_by = Settings(
        name=set_name(options.out),
        license=license_,
        intake=intake,
        models=names,
        relevant=relevant,
        expert=Expert(out=options.out, sample=sample, experts=experts, sheet=ratings),
        reranked=reranked,
    )
    models = {f"labelling_{number}": text for number, text in enumerate(names, 1)}
    carried_out(
        PIPELINE,
        intake,
        lambda results: finish(results, searched, goes_by),
        replace(options, model=options.model or names[0]),
        parameters={
            "labellers": len(names),
            "top_k": top_k,
            "candidates": candidates,
            "at_once": at_once,
            "relevant": relevant,
        },
        models=models,
        searcher=committee,
    )
