"""`ragrounds build relevance-mining`."""

from __future__ import annotations

from typing import Annotated

import typer

from ragrounds.cli.building import Options, carried_out, with_options
from ragrounds.cli.building_retrieval import Corpus, Experts, License, Reranked, Retriever, Sample, Sheet


@with_options
def relevance_mining(
    questions: Annotated[
        str, typer.Argument(help="Questions with answers: a benchmark, such as mirage/medqa, jsonl:FILE or sample.")
    ],
    corpus: Corpus,
    retriever: Retriever = None,
    panel: Annotated[
        list[str] | None,
        typer.Option(help="A small model (repeatable): a question that several of them answer is too easy."),
    ] = None,
    rewriter: Annotated[str | None, typer.Option(help="Makes questions without options. [default: --model]")] = None,
    reasoner: Annotated[str | None, typer.Option(help="Writes the reasoning paths. [default: --model]")] = None,
    grader: Annotated[str | None, typer.Option(help="Grades the documents. [default: --model]")] = None,
    top_k: Annotated[int, typer.Option(min=1, help="Documents that each retriever gives for each text.")] = 100,
    candidates: Annotated[int, typer.Option(min=1, help="Documents a question that are graded.")] = 100,
    most_right: Annotated[int, typer.Option(min=0, help="Of the panel may answer a question that is kept.")] = 1,
    positive: Annotated[int, typer.Option(help="A positive has at least this on both axes.")] = 8,
    negative: Annotated[int, typer.Option(help="A negative has at most this on both axes.")] = 4,
    sample: Sample = 100,
    experts: Experts = 1,
    ratings: Sheet = None,
    reranked: Reranked = 0,
    license_: License = "not known",
    *,
    options: Options,
) -> None:
    """Find the documents that questions' answers rest on, as R2MED was made (Section 3.3, Appendix A).

    A panel of small models takes out what is too easy; multiple-choice questions are rewritten without options; a
    committee of retrievers searches with question, answer and reasoning; what it finds most often is graded on two
    axes. --positive and --negative decide what becomes of it; changing them asks no model again.

    Example:

      ragrounds build relevance-mining mirage/medqa --corpus textbooks --retriever bm25 --retriever medcpt
      --retriever 'dense[model=BAAI/bge-large-en-v1.5]' --model openai:gpt-4o --out mined --limit 100
    """
    from ragrounds.build.intake import take_in
    from ragrounds.build.mining.finish import Settings, finish
    from ragrounds.build.mining.grades import Thresholds
    from ragrounds.build.mining.item import items_of
    from ragrounds.build.mining.pipeline import PIPELINE
    from ragrounds.build.retrieval.publishing import Expert
    from ragrounds.cli.building_retrieval import distinct, opened, set_name
    from ragrounds.cli.common import say, settings
    from ragrounds.evals.benchmarks import load

    thresholds = Thresholds(positive=positive, negative=negative)
    small = distinct("--panel", panel or [])
    home = settings().home
    loaded = load(questions, home)
    searched, committee = opened(corpus, retriever, home)
    items, dropped = items_of(loaded, searched)
    name = f"relevance-mining/{loaded.name.replace('/', '-')}"
    intake = take_in(name, items, dropped, of=questions, limit=options.limit, seed=options.seed)
    say(f"{questions}: {intake.read:,} questions, {len(intake.items):,} are worked on; {len(searched):,} documents.")
    expert = Expert(out=options.out, sample=sample, experts=experts, sheet=ratings)
    goes_by = Settings(
        name=set_name(options.out),
        license=license_,
        intake=intake,
        thresholds=thresholds,
        expert=expert,
        reranked=reranked,
    )
    roles = {"rewriting": rewriter, "reasoning": reasoner, "grading": grader}
    models = {role: text for role, text in roles.items() if text}
    models |= {f"panel_{number}": text for number, text in enumerate(small, 1)}
    carried_out(
        PIPELINE,
        intake,
        lambda results: finish(results, searched, goes_by),
        options,
        parameters={
            "panel": len(small),
            "most_right": most_right,
            "top_k": top_k,
            "candidates": candidates,
            "positive": positive,
            "negative": negative,
        },
        models=models,
        searcher=committee,
    )
