"""What the commands of `ragrounds build` share: their options, the run, and what is shown of it.

What the commands that build benchmarks of retrieval share.

`ragrounds build case-questions`.

`ragrounds build relevance-mining`.

`ragrounds build consensus-labels`.

`ragrounds build false-negatives`.

`ragrounds build`: benchmarks made from one's own reports, queries and corpora.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import msgspec
import typer
from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from ragrounds.build.card import BuiltCard
    from ragrounds.build.committee import Committee
    from ragrounds.build.files import Finish
    from ragrounds.build.items import ItemSet
    from ragrounds.build.judged_sets import Corpus as OpenCorpus
    from ragrounds.build.pipeline import Pipeline
    from ragrounds.contracts import Searcher
    from ragrounds.specs import Value


Out = Annotated[Path, typer.Option("--out", help="The folder that the benchmark is written to: new, or made before.")]
ModelName = Annotated[str | None, typer.Option("--model", help="provider:model[temperature=0,…] for every stage.")]
BaseUrl = Annotated[str | None, typer.Option("--base-url", help="An OpenAI-compatible server.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Only so many items, drawn by --seed.")]
Seed = Annotated[int, typer.Option("--seed", help="Of every draw.")]
MaxCost = Annotated[float | None, typer.Option("--max-cost", min=0, help="Dollars to spend.")]
MaxTokens = Annotated[int | None, typer.Option("--max-tokens", min=0, help="Tokens to use, in and out.")]
MaxTime = Annotated[float | None, typer.Option("--max-time", min=0, help="Seconds that it may take.")]
Concurrency = Annotated[int | None, typer.Option("--concurrency", min=1, help="Items in flight. [default: 16]")]
JournalMode = Annotated[str, typer.Option("--journal", help="Recorded calls: reuse, replay or fresh.")]
Display = Annotated[str | None, typer.Option("--display", help="Progress: full, plain, json, none.")]
New = Annotated[bool, typer.Option("--new", help="Begin another run instead of going on with the same one.")]
AsJson = Annotated[bool, typer.Option("--json", help="The card as JSON on stdout.")]


class Options(Struct, frozen=True, kw_only=True):
    """The shared options of one command."""

    out: Out
    model: ModelName = None
    base_url: BaseUrl = None
    limit: Limit = None
    seed: Seed = 0
    max_cost: MaxCost = None
    max_tokens: MaxTokens = None
    max_time: MaxTime = None
    concurrency: Concurrency = None
    journal: JournalMode = "reuse"
    display: Display = None
    new: New = False
    as_json: AsJson = False


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameter `options` becomes the shared options, as Typer reads them from its signature."""
    fields = msgspec.structs.fields(Options)
    hints = get_type_hints(Options, include_extras=True)
    own = [each for each in inspect.signature(command, eval_str=True).parameters.values() if each.name != "options"]
    shared = [
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if each.required else each.default,
            annotation=hints[each.name],
        )
        for each in fields
    ]

    def with_them(**given: Any) -> None:
        options = Options(**{each.name: given.pop(each.name) for each in fields})
        command(**given, options=options)

    taken = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own] + shared
    with_them.__name__, with_them.__doc__ = command.__name__, command.__doc__
    with_them.__annotations__ = {each.name: each.annotation for each in taken}
    with_them.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
    return with_them


def carried_out(
    pipeline: Pipeline,
    item_set: ItemSet,
    finish: Finish,
    options: Options,
    *,
    parameters: Mapping[str, Value] = MappingProxyType({}),
    models: Mapping[str, str] = MappingProxyType({}),
    searcher: Searcher | None = None,
) -> None:
    """Run a pipeline over its items, write the benchmark with its card, and show what came of each stage.

    `models` are those of named roles; where one is not named, ``--model`` stands in for it.

    Raises:
        UserError: no model, a folder that is not ours, another process that is making the same, or nothing was kept.
        typer.Exit: 3 where some items failed; the same command tries them again.
    """
    import asyncio
    from contextlib import ExitStack

    from ragrounds.build.card import BuiltCard, count, provenance
    from ragrounds.build.files import FILE, check_folder, not_listed, write_built
    from ragrounds.build.pipeline import plan_build, results, run_build
    from ragrounds.cli.common import one_of, open_store, print_json, say, settings
    from ragrounds.errors import UserError
    from ragrounds.evals.engine.budget import Budget
    from ragrounds.evals.engine.progress import ReplayProgress
    from ragrounds.evals.store.journal import StoreJournal
    from ragrounds.evals.store.leases import Lease
    from ragrounds.models.prices import read_prices
    from ragrounds.ui.progress import open_progress
    from ragrounds.ui.text import safe

    mode: Any = one_of("--journal", options.journal, ("reuse", "replay", "fresh"))
    shown: Any = options.display and one_of("--display", options.display, ("full", "plain", "json", "none"))
    chosen = settings()
    check_folder(options.out, pipeline.name)
    with open_store(chosen) as store, ExitStack() as held:
        planned = plan_build(
            store,
            pipeline,
            item_set,
            parameters=parameters,
            model=options.model or chosen.model,
            models=models,
            searcher=searcher,
            prices=read_prices(chosen.home / "prices.toml"),
            defaults={"base_url": options.base_url or chosen.base_url},
            new=options.new,
        )
        named = ", ".join(sorted({model.spec for model in planned.models.values()}))
        say(f"{planned.run.id}: {len(item_set.items):,} items of {safe(item_set.items.name)}, {safe(named)}")
        lease = held.enter_context(Lease(store.engine, [planned.run.id], say))
        journal = StoreJournal(store, mode)

        async def go() -> str:
            try:
                with open_progress(shown or None, ReplayProgress(store, [planned])) as progress:
                    return await run_build(
                        store,
                        journal,
                        planned,
                        item_set,
                        concurrency=options.concurrency or chosen.concurrency,
                        budget=Budget(cost=options.max_cost, tokens=options.max_tokens, seconds=options.max_time),
                        stops=[lease],
                        listener=progress.hear,
                    )
            finally:
                for model in {id(each): each for each in planned.models.values()}.values():
                    await model.close()
                journal.close()

        ended = asyncio.run(go())
        say(f"{journal.made:,} calls made, {journal.reused:,} answered from the journal.")
        if ended:
            say(f"Ended early: {ended}. The same command goes on.")
        found = results(store, planned.run, item_set, ended)
        product = finish(found)
        made = provenance(
            store,
            planned.run,
            pipeline,
            item_set,
            [*count(pipeline.stages, item_set, found), *product.stages],
            figures=product.figures,
            notes=[*product.notes, *not_listed(item_set)],
        )
        card = write_built(options.out, product.files, BuiltCard(benchmark=product.benchmark, made=made), product.sets)
    if options.as_json:
        print_json(card)
    else:
        _show(card, options.out)
    if not card.benchmark.size:
        raise UserError(f"Nothing was kept, so {options.out} holds no benchmark; {FILE} there says why.")
    for command in product.following:
        say(f"  {command.replace('{out}', str(options.out))}")
    if any(result.status == "failed" for result in found):
        say("Some items failed; the same command tries them again.")
        raise typer.Exit(3)


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


Corpus = Annotated[str, typer.Option("--corpus", help="What is searched: beir:FOLDER, an index by name, or sample.")]
Retriever = Annotated[
    list[str] | None,
    typer.Option("--retriever", help="A member of the committee, such as bm25 (repeatable). [default: bm25]"),
]
Sample = Annotated[int, typer.Option("--sample", min=0, help="Labels in the experts' sheet; 0: no sheet.")]
Experts = Annotated[int, typer.Option("--experts", min=1, help="Columns for experts in that sheet.")]
Sheet = Annotated[
    Path | None, typer.Option("--ratings", help="The sheet with the experts' decisions: how far they agree.")
]
License = Annotated[str, typer.Option("--license", help="The corpus's and the queries' licence, for the card.")]
Reranked = Annotated[
    int, typer.Option("--reranked", min=0, help="Documents a side in the reranking set, drawn by --seed; 0: all.")
]


def opened(corpus: str, retrievers: Sequence[str] | None, home: Path) -> tuple[OpenCorpus, Committee]:
    """The corpus, and the committee that searches it.

    Raises:
        UserError: an unknown corpus or retriever, or one named twice.
    """
    from ragrounds.build.committee import open_committee
    from ragrounds.build.judged_sets import Corpus as OneCorpus
    from ragrounds.cli.progress import counting

    with counting() as told:
        searched = OneCorpus(corpus, home, progress=told)
        return searched, open_committee(list(retrievers or ["bm25"]), corpus, home, progress=told)


def set_name(out: Path) -> str:
    """A dataset's name from the folder's, as `ragrounds data add` takes it."""
    return re.sub(r"[^\w.-]+", "-", out.resolve().name).lstrip(".-") or "built"


def distinct(option: str, models: Sequence[str]) -> tuple[str, ...]:
    """Models in their order.

    Raises:
        UserError: one is named twice: it would agree with itself.
    """
    from ragrounds.errors import UserError
    from ragrounds.specs import parse

    texts = [str(parse(model)) for model in models]
    twice = next((text for text in texts if texts.count(text) > 1), None)
    if twice is not None:
        raise UserError(f"{option} {twice!r} is named twice: it would count twice.")
    return tuple(texts)


@with_options
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
    least_words: Annotated[int, typer.Option(min=0, help="Only reports of at least so many words.")] = 0,
    ratings: Annotated[
        Path | None, typer.Option(help="The sheet with the experts' ratings: keep what they rate well enough.")
    ] = None,
    raters: Annotated[int, typer.Option(min=1, help="Columns for ratings in the sheet that is written.")] = 1,
    least_rating: Annotated[int, typer.Option(min=1, max=5, help="What every rating of a kept pair must reach.")] = 4,
    license_: Annotated[str, typer.Option("--license", help="The reports' licence, for the card.")] = "not known",
    *,
    options: Options,
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
    from ragrounds.cli.common import say, settings
    from ragrounds.cli.progress import counting
    from ragrounds.evals.judges.attempts import judges_itself
    from ragrounds.ui.text import safe

    found = open_reports(reports, table)
    filters = ReportFilters(
        after=after,
        max_citations=max_citations,
        max_other_citations=max_other_citations,
        types=tuple(type_ or ()),
        least_words=least_words,
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
    writer = options.model or settings().model or ""
    finish = CaseBenchmark(
        item_set=item_set,
        reports=found,
        out=options.out,
        rating=ExpertRating(sheet=ratings, raters=raters, least=least_rating),
        license=license_,
        filters=filters,
        checks_itself=judges_itself(checker or writer, [rewriter or writer]),
    )
    models = {role: name for role, name in (("rewriting", rewriter), ("checking", checker)) if name}
    carried_out(
        PIPELINE,
        item_set,
        finish,
        options,
        models=models,
    )


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
    from ragrounds.build.items import draw_items
    from ragrounds.build.judged_sets import ExpertReview
    from ragrounds.build.mining_benchmark import MiningSettings, mining_product
    from ragrounds.build.relevance_mining import PIPELINE, GradeThresholds, question_items
    from ragrounds.cli.common import say, settings
    from ragrounds.evals.benchmarks import load

    thresholds = GradeThresholds(positive=positive, negative=negative)
    small = distinct("--panel", panel or [])
    home = settings().home
    loaded = load(questions, home)
    searched, committee = opened(corpus, retriever, home)
    items, dropped = question_items(loaded, searched)
    name = f"relevance-mining/{loaded.name.replace('/', '-')}"
    item_set = draw_items(name, items, dropped, of=questions, limit=options.limit, seed=options.seed)
    say(
        f"{questions}: {item_set.read:,} questions, {len(item_set.items):,} are worked on; {len(searched):,} documents."
    )
    expert = ExpertReview(out=options.out, sample=sample, experts=experts, sheet=ratings)
    goes_by = MiningSettings(
        name=set_name(options.out),
        license=license_,
        item_set=item_set,
        thresholds=thresholds,
        expert=expert,
        reranked=reranked,
    )
    roles = {"rewriting": rewriter, "reasoning": reasoner, "grading": grader}
    models = {role: text for role, text in roles.items() if text}
    models |= {f"panel_{number}": text for number, text in enumerate(small, 1)}
    carried_out(
        PIPELINE,
        item_set,
        lambda results: mining_product(results, searched, goes_by),
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
    from ragrounds.build.consensus_benchmark import ConsensusSettings, consensus_product
    from ragrounds.build.consensus_labels import PIPELINE, open_queries, query_items, read_synonyms
    from ragrounds.build.items import draw_items
    from ragrounds.build.judged_sets import ExpertReview
    from ragrounds.build.relevance_labels import check_relevant
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
    items, dropped = query_items(asked, pairs)
    searched, committee = opened(corpus, retriever, home)
    source = Path(queries).name.partition(".")[0] if Path(queries).is_file() else queries.partition(":")[0]
    name = f"consensus-labels/{source.replace('/', '-')}"
    item_set = draw_items(name, items, dropped, of=queries, limit=options.limit, seed=options.seed)
    say(f"{queries}: {item_set.read:,} queries, {len(item_set.items):,} are worked on; {len(searched):,} passages.")
    goes_by = ConsensusSettings(
        name=set_name(options.out),
        license=license_,
        item_set=item_set,
        models=names,
        relevant=relevant,
        expert=ExpertReview(out=options.out, sample=sample, experts=experts, sheet=ratings),
        reranked=reranked,
    )
    models = {f"labelling_{number}": text for number, text in enumerate(names, 1)}
    carried_out(
        PIPELINE,
        item_set,
        lambda results: consensus_product(results, searched, goes_by),
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
    from ragrounds.build.false_negative_benchmark import FalseNegativeBenchmark, check_documents
    from ragrounds.build.false_negative_estimate import read_bands
    from ragrounds.build.false_negatives import PIPELINE, judged_query_items
    from ragrounds.build.judged_sets import ExpertReview
    from ragrounds.build.relevance_labels import check_relevant
    from ragrounds.cli.common import one_of, say, settings
    from ragrounds.cli.progress import counting
    from ragrounds.evals.retrieval.query_sets import query_set
    from ragrounds.tools.retriever import open_searcher

    check_relevant(relevant)
    one_of("--language", language, ("en", "zh"))
    asked = query_set(benchmark, split=split)
    check_documents(asked, asked.corpus)
    item_set = judged_query_items(asked, language=language, limit=options.limit, seed=options.seed)
    say(f"{asked.name}: {item_set.read:,} judged queries, {len(item_set.items):,} are drawn.")
    with counting() as told:
        searcher = open_searcher(retriever, asked.corpus, settings().home, progress=told)
    finish = FalseNegativeBenchmark(
        name=options.out.resolve().name,
        asked=asked,
        benchmark=asked.corpus,
        item_set=item_set,
        bands=read_bands(bands, depth),
        relevant=relevant,
        expert=ExpertReview(out=options.out, sample=check, experts=experts, sheet=ratings),
    )
    carried_out(
        PIPELINE,
        item_set,
        finish,
        options,
        parameters={"depth": depth, "sample": sample, "bands": bands, "at_once": at_once, "seed": options.seed},
        searcher=searcher,
    )


build_app = typer.Typer(
    help="Make a benchmark: pipelines of the papers as LangGraph graphs, journaled, priced, resumable, traced.\n\n"
    "Each ends in a folder that `ragrounds data add` takes and `ragrounds run` or `ragrounds retrieve` replays, with "
    "card.json (how it was made) and rejected.jsonl (what was not kept, and why).",
    no_args_is_help=True,
    rich_markup_mode=None,
)

build_app.command("case-questions")(case_questions)
build_app.command("relevance-mining")(relevance_mining)
build_app.command("consensus-labels")(consensus_labels)
build_app.command("false-negatives")(false_negatives)
