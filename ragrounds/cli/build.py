"""`ragrounds build`: benchmarks made from one's own reports, queries and corpora."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

import typer

from ragrounds.api.workspace import one_of, user_settings
from ragrounds.cli import options as shared
from ragrounds.cli.options import BudgetOptions, grouped, journal_mode
from ragrounds.cli.output import counting, print_json, say
from ragrounds.cli.run import RunDisplay
from ragrounds.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ragrounds.build.card import BuiltCard
    from ragrounds.build.files import Finish
    from ragrounds.build.items import ItemSet
    from ragrounds.build.pipeline import Pipeline
    from ragrounds.contracts import Searcher
    from ragrounds.specs import Value

app = typer.Typer()
build = typer.Typer(
    name="build",
    help="Make a benchmark: pipelines of the papers as LangGraph graphs, journaled, priced, resumable, traced.\n\n"
    "Each ends in a folder that `ragrounds data add` takes and `ragrounds run` or `ragrounds retrieve` replays, with "
    "card.json (how it was made) and rejected.jsonl (what was not kept, and why).",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(build)

Corpus = Annotated[str, typer.Option("--corpus", help="What is searched: beir:FOLDER, an index by name, or sample.")]
Retriever = Annotated[
    list[str] | None,
    typer.Option("--retriever", help="A member of the committee, such as bm25 (repeatable). [default: bm25]"),
]
SheetSize = Annotated[int, typer.Option("--sheet-size", min=0, help="Items in the experts' sheet; 0: no sheet.")]
Experts = Annotated[int, typer.Option("--experts", min=1, help="Columns for experts in that sheet.")]
Ratings = Annotated[Path | None, typer.Option("--ratings", help="The sheet with the experts' decisions.")]
Reranked = Annotated[
    int, typer.Option("--reranked", min=0, help="Documents a side in the reranking set, drawn by --seed; 0: all.")
]
Relevant = Annotated[str, typer.Option("--relevant", help="Which of the grades S, A, B, C, D are relevant.")]
BatchSize = Annotated[int, typer.Option("--batch-size", min=1, max=100, help="Documents in one call.")]
Language = Annotated[str, typer.Option("--language", help="Of the prompts: en or zh.")]


class BuildOptions(BudgetOptions, frozen=True, kw_only=True):
    """What every pipeline takes."""

    out: Annotated[
        Path, typer.Option("--out", "-o", help="The folder that the benchmark is written to: new, or made before.")
    ]
    model: shared.Model = None
    base_url: shared.BaseUrl = None
    limit: shared.Limit = None
    seed: shared.Seed = 0
    concurrency: shared.Concurrency = None
    journal: shared.Journal = "reuse"
    display: shared.Display = None
    new: shared.New = False
    as_json: shared.AsJson = False


def _carry_out(
    pipeline: Pipeline,
    item_set: ItemSet,
    finish: Finish,
    options: BuildOptions,
    *,
    model: str | None = None,
    parameters: Mapping[str, Value] = MappingProxyType({}),
    models: Mapping[str, str] = MappingProxyType({}),
    searcher: Searcher | None = None,
) -> None:
    """Make the benchmark, show what came of each stage, and exit with 3 where some items failed."""
    from ragrounds.api.build import BuildRequest
    from ragrounds.api.build import build as build_benchmark
    from ragrounds.build.files import FILE

    result = build_benchmark(
        BuildRequest(
            pipeline=pipeline,
            item_set=item_set,
            finish=finish,
            out=options.out,
            model=model or options.model,
            models=models,
            base_url=options.base_url,
            parameters=parameters,
            searcher=searcher,
        ),
        concurrency=options.concurrency,
        budget=options.budget(),
        journal=journal_mode(options.journal),
        new=options.new,
        listener=RunDisplay(options.display),
    )
    if options.as_json:
        print_json(result.card)
    else:
        _show(result.card, options.out)
    if not result.card.benchmark.size:
        raise UserError(f"Nothing was kept, so {options.out} holds no benchmark; {FILE} there says why.")
    for command in result.following:
        say(f"  {command.replace('{out}', str(options.out))}")
    if result.failed:
        say("Some items failed; the same command tries them again.")
        raise typer.Exit(3)


def _set_name(out: Path) -> str:
    """A dataset's name from the folder's, as `ragrounds data add` takes it."""
    return re.sub(r"[^\w.-]+", "-", out.resolve().name).lstrip(".-") or "built"


def _show(card: BuiltCard, out: Path) -> None:
    from rich.table import Table
    from rich.text import Text

    from ragrounds.ui.tables import results_console
    from ragrounds.ui.text import dollars, one_line, tokens

    made, console = card.made, results_console()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("stage", "entered", "kept", "dropped, and why"):
        table.add_column(name, justify="right" if name in ("entered", "kept") else "left", overflow="fold")
    for line in made.stages:
        why = ", ".join(f"{count:,} {one_line(reason)}" for reason, count in line.dropped.items())
        table.add_row(Text(line.stage), f"{line.entered:,}", f"{line.kept:,}", Text(why or "-"))
    console.print(table)
    for model, bill in made.by_model.items():
        used = f"{tokens(bill.usage.input)} tokens in, {tokens(bill.usage.output)} out" if bill.usage else "tokens -"
        console.print(
            Text(f"{one_line(model, 120)}: {bill.calls:,} calls, {used}, {dollars(bill.cost_uncached)} uncached")
        )
    for note in made.notes:
        console.print(Text(f"Note: {one_line(note, 400)}"), soft_wrap=True)
    console.print(Text(f"{card.benchmark.size:,} kept: {out}"), soft_wrap=True)


@build.command("case-questions")
@grouped
def case_questions(
    reports: Annotated[
        str, typer.Argument(help="Case reports: files:FOLDER (PMC NXML, text), beir:FOLDER, jsonl:FILE, or a path.")
    ],
    rewriter: Annotated[str | None, typer.Option(help="The model that rewrites. [default: --model]")] = None,
    checker: Annotated[
        str | None, typer.Option(help="A second model, which checks the rewritten questions. [default: --model]")
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(help="CSV or JSON Lines by id: year, citations, other_citations, type, specialty, language."),
    ] = None,
    after: Annotated[int | None, typer.Option(help="Only reports published after this year (the paper: 2022).")] = None,
    max_citations: Annotated[
        int | None, typer.Option(min=0, help="Only reports that no more articles cite (the paper: 3).")
    ] = None,
    max_other_citations: Annotated[
        int | None, typer.Option(min=0, help="The same for articles that are no case reports (the paper: 1).")
    ] = None,
    type_: Annotated[
        list[str] | None, typer.Option("--type", help="Only articles of this type: case-report (repeatable).")
    ] = None,
    min_words: Annotated[int, typer.Option(min=0, help="Only reports of at least so many words.")] = 0,
    ratings: Ratings = None,
    experts: Experts = 1,
    min_rating: Annotated[int, typer.Option(min=1, max=5, help="What every rating of a kept pair must reach.")] = 4,
    license_: shared.License = "not known",
    *,
    options: BuildOptions,
) -> None:
    """Make long-form questions from case reports, as OGCaReBench was made (Section 3.1).

    Of each report: the contribution it was published for, a timeline, a question up to the decision point with a
    verbatim answer, checks, a version with distractors that a second model checks, and a sheet for experts. Give the
    filled sheet with --ratings and otherwise the same command to keep what is rated 4 or 5; no model is asked again.

    Examples:

      ragrounds build case-questions files:reports/ --out rare --after 2022 --type case-report --limit 100
      --model openai:gpt-4o --checker anthropic:claude-sonnet-4-5

      ragrounds build case-questions … --out rare --ratings rare/sheet.csv
    """
    from ragrounds.build.case_benchmark import CaseBenchmark, ExpertRating
    from ragrounds.build.case_questions import PIPELINE
    from ragrounds.build.case_reports import ReportFilters, open_reports, report_items
    from ragrounds.evals.judges.attempts import judges_itself
    from ragrounds.ui.text import safe

    found = open_reports(reports, table)
    filters = ReportFilters(
        after=after,
        max_citations=max_citations,
        max_other_citations=max_other_citations,
        types=tuple(type_ or ()),
        least_words=min_words,
    )
    strangers: list[str] = []
    with counting() as told:
        item_set = report_items(
            found,
            filters,
            limit=options.limit,
            seed=options.seed,
            progress=partial(told, f"reading {found.name}"),
            strangers=strangers,
        )
    if strangers:
        such = ", ".join(safe(id, 40) for id in strangers[:3])
        say(f"{len(strangers):,} of {len(found.table):,} ids in {table} match no report, such as {such}.")
    say(
        f"{found.name}: {item_set.read:,} reports, {item_set.passed:,} pass the filters, "
        f"{len(item_set.items):,} are drawn."
    )
    writer = options.model or user_settings().model or ""
    finish = CaseBenchmark(
        item_set=item_set,
        reports=found,
        out=options.out,
        rating=ExpertRating(sheet=ratings, raters=experts, least=min_rating),
        license=license_,
        filters=filters,
        checks_itself=judges_itself(checker or writer, [rewriter or writer]),
    )
    models = {role: name for role, name in (("rewriting", rewriter), ("checking", checker)) if name}
    _carry_out(
        PIPELINE,
        item_set,
        finish,
        options,
        models=models,
    )


@build.command("relevance-mining")
@grouped
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
    max_right: Annotated[int, typer.Option(min=0, help="Of the panel may answer a question that is kept.")] = 1,
    positive: Annotated[int, typer.Option(help="A positive has at least this on both axes.")] = 8,
    negative: Annotated[int, typer.Option(help="A negative has at most this on both axes.")] = 4,
    sheet_size: SheetSize = 100,
    experts: Experts = 1,
    ratings: Ratings = None,
    reranked: Reranked = 0,
    license_: shared.License = "not known",
    *,
    options: BuildOptions,
) -> None:
    """Find the documents that questions' answers rest on, as R2MED was made (Section 3.3, Appendix A).

    A panel of small models takes out what is too easy; multiple-choice questions are rewritten without options; a
    committee of retrievers searches with question, answer and reasoning; what it finds most often is graded on two
    axes. --positive and --negative decide what becomes of it; changing them asks no model again.

    Example:

      ragrounds build relevance-mining mirage/medqa --corpus textbooks --retriever bm25 --retriever medcpt
      --retriever 'dense[model=BAAI/bge-large-en-v1.5]' --model openai:gpt-4o --out mined --limit 100
    """
    from ragrounds.api.build import distinct_models, open_corpus
    from ragrounds.build.items import draw_items
    from ragrounds.build.judged_sets import ExpertReview
    from ragrounds.build.mining_benchmark import MiningSettings, mining_product
    from ragrounds.build.relevance_mining import PIPELINE, GradeThresholds, question_items
    from ragrounds.evals.benchmarks import load

    thresholds = GradeThresholds(positive=positive, negative=negative)
    small = distinct_models("--panel", panel or [])
    loaded = load(questions, user_settings().home)
    with counting() as progress:
        searched, committee = open_corpus(corpus, retriever or (), progress=progress)
    items, dropped = question_items(loaded, searched)
    name = f"relevance-mining/{loaded.name.replace('/', '-')}"
    item_set = draw_items(name, items, dropped, of=questions, limit=options.limit, seed=options.seed)
    say(
        f"{questions}: {item_set.read:,} questions, {len(item_set.items):,} are worked on; {len(searched):,} documents."
    )
    expert = ExpertReview(out=options.out, sample=sheet_size, experts=experts, sheet=ratings)
    goes_by = MiningSettings(
        name=_set_name(options.out),
        license=license_,
        item_set=item_set,
        thresholds=thresholds,
        expert=expert,
        reranked=reranked,
    )
    roles = {"rewriting": rewriter, "reasoning": reasoner, "grading": grader}
    models = {role: text for role, text in roles.items() if text}
    models |= {f"panel_{number}": text for number, text in enumerate(small, 1)}
    _carry_out(
        PIPELINE,
        item_set,
        lambda results: mining_product(results, searched, goes_by),
        options,
        parameters={
            "panel": len(small),
            "most_right": max_right,
            "top_k": top_k,
            "candidates": candidates,
            "positive": positive,
            "negative": negative,
        },
        models=models,
        searcher=committee,
    )


@build.command("consensus-labels")
@grouped
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
    relevant: Relevant = "SA",
    top_k: Annotated[int, typer.Option(min=1, help="Passages that each retriever gives for a query.")] = 500,
    candidates: Annotated[int, typer.Option(min=1, help="Passages a query that are labelled.")] = 500,
    batch_size: BatchSize = 10,
    language: Annotated[str, typer.Option(help="Of a file of queries: en or zh.")] = "en",
    sheet_size: SheetSize = 100,
    experts: Experts = 1,
    ratings: Ratings = None,
    reranked: Reranked = 0,
    license_: shared.License = "not known",
    *,
    options: BuildOptions,
) -> None:
    """Label what retrievers find for queries, and keep what several models agree on, as CMedTEB was made (Section 3.1).

    Each model grades each passage from S to D; a passage that all find relevant is a positive, one that none does a
    negative, all else is dropped. Fleiss' kappa and the disagreements stand in the card and beside it; the same labels
    make a reranking and a similarity set, --synonyms another one.

    Example:

      ragrounds build consensus-labels queries.jsonl --corpus beir:FOLDER --retriever bm25 --retriever medcpt
      --labeller openai:gpt-4o --labeller anthropic:claude-sonnet-4-5 --labeller deepseek:deepseek-chat --out labelled
    """
    from ragrounds.api.build import distinct_models, open_corpus
    from ragrounds.build.consensus_benchmark import ConsensusSettings, consensus_product
    from ragrounds.build.consensus_labels import PIPELINE, open_queries, query_items, read_synonyms
    from ragrounds.build.items import draw_items
    from ragrounds.build.judged_sets import ExpertReview
    from ragrounds.build.relevance_labels import check_relevant

    check_relevant(relevant)
    one_of("--language", language, ("en", "zh"))
    names = distinct_models("--labeller", labeller)
    if len(names) < 2:
        raise UserError(f"Consensus needs two or more models, got {', '.join(names)}: repeat --labeller.")
    if synonyms and not options.model:
        raise UserError("--synonyms needs --model, which writes the sentences.")
    home = user_settings().home
    pairs = read_synonyms(synonyms) if synonyms else ()
    asked = open_queries(queries, home, language)
    items, dropped = query_items(asked, pairs)
    with counting() as progress:
        searched, committee = open_corpus(corpus, retriever or (), progress=progress)
    source = Path(queries).name.partition(".")[0] if Path(queries).is_file() else queries.partition(":")[0]
    name = f"consensus-labels/{source.replace('/', '-')}"
    item_set = draw_items(name, items, dropped, of=queries, limit=options.limit, seed=options.seed)
    say(f"{queries}: {item_set.read:,} queries, {len(item_set.items):,} are worked on; {len(searched):,} passages.")
    goes_by = ConsensusSettings(
        name=_set_name(options.out),
        license=license_,
        item_set=item_set,
        models=names,
        relevant=relevant,
        expert=ExpertReview(out=options.out, sample=sheet_size, experts=experts, sheet=ratings),
        reranked=reranked,
    )
    models = {f"labelling_{number}": text for number, text in enumerate(names, 1)}
    _carry_out(
        PIPELINE,
        item_set,
        lambda results: consensus_product(results, searched, goes_by),
        options,
        model=options.model or names[0],
        parameters={
            "labellers": len(names),
            "top_k": top_k,
            "candidates": candidates,
            "at_once": batch_size,
            "relevant": relevant,
        },
        models=models,
        searcher=committee,
    )


@build.command("false-negatives")
@grouped
def false_negatives(
    benchmark: Annotated[
        str, typer.Argument(help="Queries and judgements: beir:FOLDER, beir/NAME, r2med:FOLDER, r2med/NAME.")
    ],
    retriever: Annotated[str, typer.Option(help="What finds the documents (the paper: a dense one).")] = "bm25",
    split: Annotated[str, typer.Option(help="Which judgements of a BEIR folder.")] = "test",
    top_k: Annotated[int, typer.Option(min=1, help="Documents that the retriever gives for a query.")] = 50,
    sample: Annotated[
        int, typer.Option(min=0, help="How many of these are graded, drawn within bands of ranks; 0: all.")
    ] = 0,
    bands: Annotated[str, typer.Option(help="Last ranks of all bands but the deepest.")] = "10,25",
    relevant: Relevant = "SA",
    batch_size: BatchSize = 10,
    language: Language = "en",
    sheet_size: SheetSize = 500,
    experts: Experts = 1,
    ratings: Ratings = None,
    *,
    options: BuildOptions,
) -> None:
    """Estimate how many relevant documents a benchmark's labels miss, as CMedTEB did (Appendix E, Table 20).

    A retriever finds the best 50 documents of each query, a model grades them from S to D, and what is relevant but not
    labelled is counted, with an interval that draws whole queries. --limit grades a sample of the queries, --sample a
    part of each query's documents. The folder holds the benchmark with the labels that were found missing.

    Example: ragrounds build false-negatives beir:scifact/ --model openai:gpt-4o --limit 100 --out scifact-mended
    """
    from ragrounds.build.false_negative_benchmark import FalseNegativeBenchmark, check_documents
    from ragrounds.build.false_negative_estimate import read_bands
    from ragrounds.build.false_negatives import PIPELINE, judged_query_items
    from ragrounds.build.judged_sets import ExpertReview
    from ragrounds.build.relevance_labels import check_relevant
    from ragrounds.evals.retrieval.query_sets import query_set
    from ragrounds.tools.retriever import open_searcher

    check_relevant(relevant)
    one_of("--language", language, ("en", "zh"))
    asked = query_set(benchmark, split=split)
    check_documents(asked, asked.corpus)
    item_set = judged_query_items(asked, language=language, limit=options.limit, seed=options.seed)
    say(f"{asked.name}: {item_set.read:,} judged queries, {len(item_set.items):,} are drawn.")
    with counting() as told:
        searcher = open_searcher(retriever, asked.corpus, user_settings().home, progress=told)
    finish = FalseNegativeBenchmark(
        name=options.out.resolve().name,
        asked=asked,
        benchmark=asked.corpus,
        item_set=item_set,
        bands=read_bands(bands, top_k),
        relevant=relevant,
        expert=ExpertReview(out=options.out, sample=sheet_size, experts=experts, sheet=ratings),
    )
    _carry_out(
        PIPELINE,
        item_set,
        finish,
        options,
        parameters={"depth": top_k, "sample": sample, "bands": bands, "at_once": batch_size, "seed": options.seed},
        searcher=searcher,
    )
