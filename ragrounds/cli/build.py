"""`ragrounds build`: make a benchmark of one's own reports, queries and corpora."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Self

import typer

from ragrounds.api.build import BuildExecution, BuildRequest
from ragrounds.api.build import build as build_benchmark
from ragrounds.api.pipelines import CaseQuestions, ConsensusLabels, FalseNegatives, RelevanceMining
from ragrounds.cli import options as shared
from ragrounds.cli.options import GuardedBudget, Options, grouped, journal_mode, server_changed
from ragrounds.cli.output import counting, print_json, say
from ragrounds.cli.run import RunDisplay
from ragrounds.errors import UserError

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

Relevant = Annotated[str, typer.Option("--relevant", help="Which of the grades S, A, B, C, D are relevant.")]
SheetSize = Annotated[int, typer.Option("--sheet-size", min=0, help="Items in the experts' sheet; 0: no sheet.")]
BatchSize = Annotated[int, typer.Option("--batch-size", min=1, max=100, help="Documents in one call.")]


class BuildOptions(GuardedBudget, frozen=True, kw_only=True):
    """What every pipeline takes."""

    out: Annotated[
        Path, typer.Option("--out", "-o", help="The folder that the benchmark is written to: new, or made before.")
    ]
    model: shared.Model = None
    base_url: shared.BaseUrl = None
    alias: shared.Alias = None
    server_changed: shared.ServerChangedOption = "stop"
    limit: shared.Limit = None
    seed: shared.Seed = 0
    concurrency: shared.Concurrency = None
    journal: shared.Journal = "reuse"
    display: shared.Display = None
    new: shared.New = False
    as_json: shared.AsJson = False


class ExpertOptions(Options, frozen=True, kw_only=True):
    """What is asked of experts, and what they have said."""

    experts: Annotated[int, typer.Option("--experts", min=1, help="Columns for experts in that sheet.")] = 1
    ratings: Annotated[Path | None, typer.Option("--ratings", help="The sheet with the experts' decisions.")] = None


class SetOptions(Options, frozen=True, kw_only=True):
    """What retrieval sets are made of, and what stands in them."""

    corpus: Annotated[str, typer.Option("--corpus", help="What is searched: beir:FOLDER, an index by name, or sample.")]
    retriever: Annotated[
        list[str] | None,
        typer.Option("--retriever", help="A member of the committee, such as bm25 (repeatable). [default: bm25]"),
    ] = None
    sheet_size: SheetSize = 100
    reranked: Annotated[
        int, typer.Option("--reranked", min=0, help="Documents a side in the reranking set, drawn by --seed; 0: all.")
    ] = 0
    license: shared.License = "not known"


class CaseOptions(Options, frozen=True, kw_only=True):
    """What case questions are made of."""

    reports: Annotated[
        str, typer.Argument(help="Case reports: files:FOLDER (PMC NXML, text), beir:FOLDER, jsonl:FILE, or a path.")
    ]
    rewriter: Annotated[str | None, typer.Option(help="The model that rewrites. [default: --model]")] = None
    checker: Annotated[
        str | None, typer.Option(help="A second model, which checks the rewritten questions. [default: --model]")
    ] = None
    table: Annotated[
        Path | None,
        typer.Option(help="CSV or JSON Lines by id: year, citations, other_citations, type, specialty, language."),
    ] = None
    after: Annotated[int | None, typer.Option(help="Only reports published after this year (the paper: 2022).")] = None
    max_citations: Annotated[
        int | None, typer.Option(min=0, help="Only reports that no more articles cite (the paper: 3).")
    ] = None
    max_other_citations: Annotated[
        int | None, typer.Option(min=0, help="The same for articles that are no case reports (the paper: 1).")
    ] = None
    type: Annotated[
        list[str] | None, typer.Option("--type", help="Only articles of this type: case-report (repeatable).")
    ] = None
    min_words: Annotated[int, typer.Option(min=0, help="Only reports of at least so many words.")] = 0
    min_rating: Annotated[int, typer.Option(min=1, max=5, help="What every rating of a kept pair must reach.")] = 4
    license: shared.License = "not known"


class MiningOptions(Options, frozen=True, kw_only=True):
    """What relevance is mined from."""

    questions: Annotated[
        str, typer.Argument(help="Questions with answers: a benchmark, such as mirage/medqa, jsonl:FILE or sample.")
    ]
    panel: Annotated[
        list[str] | None,
        typer.Option(help="A small model (repeatable): a question that several of them answer is too easy."),
    ] = None
    rewriter: Annotated[str | None, typer.Option(help="Makes questions without options. [default: --model]")] = None
    reasoner: Annotated[str | None, typer.Option(help="Writes the reasoning paths. [default: --model]")] = None
    grader: Annotated[str | None, typer.Option(help="Grades the documents. [default: --model]")] = None
    top_k: Annotated[int, typer.Option(min=1, help="Documents that each retriever gives for each text.")] = 100
    candidates: Annotated[int, typer.Option(min=1, help="Documents a question that are graded.")] = 100
    max_right: Annotated[int, typer.Option(min=0, help="Of the panel may answer a question that is kept.")] = 1
    positive: Annotated[int, typer.Option(help="A positive has at least this on both axes.")] = 8
    negative: Annotated[int, typer.Option(help="A negative has at most this on both axes.")] = 4


class ConsensusOptions(Options, frozen=True, kw_only=True):
    """What is labelled, and by whom."""

    queries: Annotated[
        str, typer.Argument(help="Queries: a JSON Lines file {id, text}, or a benchmark, such as pubmedqa or sample.")
    ]
    labeller: Annotated[
        list[str], typer.Option(help="A model that labels (repeatable: two or more, the paper has three).")
    ]
    synonyms: Annotated[
        Path | None, typer.Option(help="JSON Lines {term, synonym}: also make synonym triples, written by --model.")
    ] = None
    relevant: Relevant = "SA"
    top_k: Annotated[int, typer.Option(min=1, help="Passages that each retriever gives for a query.")] = 500
    candidates: Annotated[int, typer.Option(min=1, help="Passages a query that are labelled.")] = 500
    batch_size: BatchSize = 10
    language: Annotated[str, typer.Option(help="Of a file of queries: en or zh.")] = "en"


class FalseNegativeOptions(Options, frozen=True, kw_only=True):
    """What missing labels are looked for in, and how."""

    benchmark: Annotated[
        str, typer.Argument(help="Queries and judgements: beir:FOLDER, beir/NAME, r2med:FOLDER, r2med/NAME.")
    ]
    retriever: Annotated[str, typer.Option(help="What finds the documents (the paper: a dense one).")] = "bm25"
    split: Annotated[str, typer.Option(help="Which judgements of a BEIR folder.")] = "test"
    top_k: Annotated[int, typer.Option(min=1, help="Documents that the retriever gives for a query.")] = 50
    sample: Annotated[
        int, typer.Option(min=0, help="How many of these are graded, drawn within bands of ranks; 0: all.")
    ] = 0
    bands: Annotated[str, typer.Option(help="Last ranks of all bands but the deepest.")] = "10,25"
    relevant: Relevant = "SA"
    batch_size: BatchSize = 10
    language: Annotated[str, typer.Option("--language", help="Of the prompts: en or zh.")] = "en"
    sheet_size: SheetSize = 500


@build.command("case-questions")
@grouped
def case_questions(what: CaseOptions, experts: ExpertOptions, options: BuildOptions) -> None:
    """Make long-form questions from case reports, as OGCaReBench was made (Section 3.1).

    Of each report: the contribution it was published for, a timeline, a question up to the decision point with a
    verbatim answer, checks, a version with distractors that a second model checks, and a sheet for experts. Give the
    filled sheet with --ratings and otherwise the same command to keep what is rated 4 or 5; no model is asked again.

    Examples:

      ragrounds build case-questions files:reports/ --out rare --after 2022 --type case-report --limit 100
      --model openai:gpt-4o --checker anthropic:claude-sonnet-4-5

      ragrounds build case-questions … --out rare --ratings rare/sheet.csv
    """
    _carry_out(CaseQuestions(**_given(what, experts, type="types")), options)


@build.command("relevance-mining")
@grouped
def relevance_mining(what: MiningOptions, sets: SetOptions, experts: ExpertOptions, options: BuildOptions) -> None:
    """Find the documents that questions' answers rest on, as R2MED was made (Section 3.3, Appendix A).

    A panel of small models takes out what is too easy; multiple-choice questions are rewritten without options; a
    committee of retrievers searches with question, answer and reasoning; what it finds most often is graded on two
    axes. --positive and --negative decide what becomes of it; changing them asks no model again.

    Example:

      ragrounds build relevance-mining mirage/medqa --corpus textbooks --retriever bm25 --retriever medcpt
      --retriever 'dense[model=BAAI/bge-large-en-v1.5]' --model openai:gpt-4o --out mined --limit 100
    """
    _carry_out(RelevanceMining(**_given(what, sets, experts, panel="panel", retriever="retrievers")), options)


@build.command("consensus-labels")
@grouped
def consensus_labels(what: ConsensusOptions, sets: SetOptions, experts: ExpertOptions, options: BuildOptions) -> None:
    """Label what retrievers find for queries, and keep what several models agree on, as CMedTEB was made (Section 3.1).

    Each model grades each passage from S to D; a passage that all find relevant is a positive, one that none does a
    negative, all else is dropped. Fleiss' kappa and the disagreements stand in the card and beside it; the same labels
    make a reranking and a similarity set, --synonyms another one.

    Example:

      ragrounds build consensus-labels queries.jsonl --corpus beir:FOLDER --retriever bm25 --retriever medcpt
      --labeller openai:gpt-4o --labeller anthropic:claude-sonnet-4-5 --labeller deepseek:deepseek-chat --out labelled
    """
    _carry_out(ConsensusLabels(**_given(what, sets, experts, retriever="retrievers", labeller="labellers")), options)


@build.command("false-negatives")
@grouped
def false_negatives(what: FalseNegativeOptions, experts: ExpertOptions, options: BuildOptions) -> None:
    """Estimate how many relevant documents a benchmark's labels miss, as CMedTEB did (Appendix E, Table 20).

    A retriever finds the best 50 documents of each query, a model grades them from S to D, and what is relevant but not
    labelled is counted, with an interval that draws whole queries. --limit grades a sample of the queries, --sample a
    part of each query's documents. The folder holds the benchmark with the labels that were found missing.

    Example: ragrounds build false-negatives beir:scifact/ --model openai:gpt-4o --limit 100 --out scifact-mended
    """
    _carry_out(FalseNegatives(**_given(what, experts)), options)


def _given(*groups: Options, **names: str) -> dict[str, Any]:
    """What was given, under the names that the library has for it; a list that was not given is empty."""
    given: dict[str, Any] = {name: getattr(group, name) for group in groups for name in group.__struct_fields__}
    for option, name in names.items():
        given[name] = given.pop(option) or ()
    return given


def _carry_out(request: BuildRequest, options: BuildOptions) -> None:
    """Make the benchmark, show what came of each stage, and exit with 3 where some items failed."""
    from ragrounds.ui.build_tables import print_built

    execution = BuildExecution(
        out=options.out,
        model=options.model,
        base_url=options.base_url,
        alias=options.alias,
        server_changed=server_changed(options.server_changed),
        limit=options.limit,
        seed=options.seed,
        concurrency=options.concurrency,
        max_cost=options.max_cost,
        max_total_tokens=options.max_total_tokens,
        max_time=options.max_time,
        fail_after=options.fail_after,
        journal=journal_mode(options.journal),
        new=options.new,
    )
    with BuildDisplay(options.display) as display:
        result = build_benchmark(request, execution, display)
    if options.as_json:
        print_json(result.card)
    else:
        print_built(result.card, options.out)
    if not result.card.benchmark.size:
        labels = ", ".join(str(path.relative_to(options.out)) for path in result.labels)
        raise UserError(
            f"Nothing was kept, so {options.out} holds no benchmark; {result.rejected.name} there says why"
            f"{f', and {labels} has every label that was given' if labels else ''}. What models said stays in the "
            "journal: with other thresholds the same command asks none of it again."
        )
    for command in result.following:
        say(f"  {command}")
    if result.failed:
        say("Some items failed; the same command tries them again.")
        raise typer.Exit(3)


class BuildDisplay(RunDisplay):
    """As a run's, with what is read counted before the first item is worked on."""

    def __init__(self, display: str | None) -> None:
        super().__init__(display)
        self._counting = ExitStack()
        self._count: Callable[[str, int], None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def message(self, text: str) -> None:
        """Say it, below what was counted."""
        self._close()
        super().message(text)

    def reading(self, what: str, count: int) -> None:
        """Count it."""
        if self._count is None:
            self._count = self._counting.enter_context(counting())
        self._count(what, count)

    def _close(self) -> None:
        self._counting.close()
        self._count = None
