"""Command `ragrounds build`: make a benchmark of a user's reports, queries and corpora."""

from __future__ import annotations

import typer

from ragrounds.base.errors import UserError
from ragrounds.cli import options as shared
from ragrounds.cli.options import grouped
from ragrounds.cli.output import print_json, say
from ragrounds.cli.run import RunDisplay
from ragrounds.extensions.construction.functions import BuildExecution, BuildRequest
from ragrounds.extensions.construction.functions import build as build_benchmark
from ragrounds.extensions.construction.requests import CaseQuestions, ConsensusLabels, FalseNegatives, RelevanceMining
from ragrounds.extensions.construction.tables import print_built

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


@build.command("case-questions")
@grouped
def case_questions(
    request: CaseQuestions, execution: BuildExecution, display: shared.Display = None, as_json: shared.AsJson = False
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
    _carry_out(request, execution, display, as_json)


@build.command("relevance-mining")
@grouped
def relevance_mining(
    request: RelevanceMining, execution: BuildExecution, display: shared.Display = None, as_json: shared.AsJson = False
) -> None:
    """Find the documents that support questions' answers, as R2MED was made (Section 3.3, Appendix A).

    A panel of small models takes out what is too easy; multiple-choice questions are rewritten without options; a
    committee of retrievers searches with question, answer and reasoning; what it finds most often is graded on two
    axes. --positive and --negative decide what becomes of it; changing them asks no model again.

    Example:

      ragrounds build relevance-mining mirage/medqa --corpus textbooks --retriever bm25 --retriever medcpt
      --retriever 'dense[model=BAAI/bge-large-en-v1.5]' --model openai:gpt-4o --out mined --limit 100
    """
    _carry_out(request, execution, display, as_json)


@build.command("consensus-labels")
@grouped
def consensus_labels(
    request: ConsensusLabels, execution: BuildExecution, display: shared.Display = None, as_json: shared.AsJson = False
) -> None:
    """Label what retrievers find for queries, and keep what several models agree on, as CMedTEB was made (Section 3.1).

    Each model grades each passage from S to D; a passage that all find relevant is a positive, one that none does a
    negative, all else is dropped. Fleiss' kappa is in the card, with the pairs in dispute; the same labels make a
    reranking and a similarity set.

    Example:

      ragrounds build consensus-labels queries.jsonl --corpus beir:FOLDER --retriever bm25 --retriever medcpt
      --labeller openai:gpt-4o --labeller anthropic:claude-sonnet-4-5 --labeller deepseek:deepseek-chat --out labelled
    """
    _carry_out(request, execution, display, as_json)


@build.command("false-negatives")
@grouped
def false_negatives(
    request: FalseNegatives, execution: BuildExecution, display: shared.Display = None, as_json: shared.AsJson = False
) -> None:
    """Estimate how many relevant documents a benchmark's labels miss, as CMedTEB did (Appendix E, Table 20).

    A retriever finds the best 50 documents of each query, a model grades them from S to D, and what is relevant but not
    labelled is counted, with an interval that draws whole queries. --limit grades a sample of the queries. The folder
    holds the benchmark with the labels that were found missing.

    Example: ragrounds build false-negatives beir:scifact/ --model openai:gpt-4o --limit 100 --out scifact-mended
    """
    _carry_out(request, execution, display, as_json)


def _carry_out(request: BuildRequest, execution: BuildExecution, display: str | None, as_json: bool) -> None:
    """Make the benchmark, show the results of each stage, and exit with status 3 if some items failed."""
    result = build_benchmark(request, execution, RunDisplay(display))
    if as_json:
        print_json(result.card)
    else:
        print_built(result.card, execution.out)
    if not result.card.benchmark.size:
        raise UserError(
            f"No item was kept, so {execution.out} contains no benchmark; {result.rejected.name} there says "
            f"why{f', and {result.grades.name} has every grade that was given' if result.grades else ''}. Model "
            "replies stay in the journal: with other thresholds the same command makes no new calls."
        )
    for command in result.following:
        say(f"  {command}")
    if result.failed:
        say("Some items failed; the same command retries them.")
        raise typer.Exit(3)
