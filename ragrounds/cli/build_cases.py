"""`ragrounds build case-questions`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ragrounds.cli.building import Options, carried_out, with_options


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
    from ragrounds.build.cases.finish import CaseFinish, Rating
    from ragrounds.build.cases.pipeline import PIPELINE
    from ragrounds.build.cases.reports import Filters, open_reports, report_items
    from ragrounds.cli.common import say, settings
    from ragrounds.cli.counting import counting
    from ragrounds.evals.judges import judges_itself
    from ragrounds.ui.text import safe

    found = open_reports(reports, table)
    filters = Filters(
        after=after,
        max_citations=max_citations,
        max_other_citations=max_other_citations,
        types=tuple(type_ or ()),
        least_words=least_words,
    )
    strangers: list[str] = []
    with counting() as told:
        intake = report_items(
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
    say(f"{found.name}: {intake.read:,} reports, {intake.passed:,} pass the filters, {len(intake.items):,} are drawn.")
    writer = options.model or settings().model or ""
    finish = CaseFinish(
        intake=intake,
        reports=found,
        out=options.out,
        rating=Rating(sheet=ratings, raters=raters, least=least_rating),
        license=license_,
        filters=filters,
        checks_itself=judges_itself(checker or writer, [rewriter or writer]),
    )
    models = {role: name for role, name in (("rewriting", rewriter), ("checking", checker)) if name}
    carried_out(
        PIPELINE,
        intake,
        finish,
        options,
        models=models,
    )
