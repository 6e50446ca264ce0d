"""`ragrounds judge`: long answers of stored runs graded by judges, and judges set against people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragrounds.cli import options
from ragrounds.cli.commands import Group
from ragrounds.cli.options import BudgetOptions, grouped, journal_mode
from ragrounds.cli.output import print_json, say

if TYPE_CHECKING:
    from ragrounds.evals.judges.bill import JudgedRun
    from ragrounds.evals.judges.labels import LabelAgreement
    from ragrounds.evals.judges.panel import PanelJudgedRun
    from ragrounds.evals.judges.runs import JudgedRuns


class _JudgeGroup(Group):
    """`ragrounds judge RUN` is `ragrounds judge run RUN`."""

    default = "run"
    any_word = True


app = typer.Typer()
judge = typer.Typer(
    name="judge",
    cls=_JudgeGroup,
    help="Grade the long answers of a stored run by judges; set judges against people.\n\n"
    "`ragrounds judge RUN …` is short for `ragrounds judge run RUN …`.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(judge)


@judge.command("run")
@grouped
def judge_command(
    runs: options.Runs,
    kind: Annotated[
        str,
        typer.Option(
            help="equivalence (to a reference answer), statements (entailed, contradicted), ragas (its five figures) "
            "or one of them, such as ragas_faithfulness.",
        ),
    ],
    budget: BudgetOptions,
    judge: options.Judges = None,
    base_url: options.BaseUrl = None,
    embedder: options.Embedder = None,
    epoch: Annotated[
        list[int] | None, typer.Option(help="Only this epoch, from 0 (repeatable). [default: all]")
    ] = None,
    concurrency: options.Concurrency = None,
    journal: options.Journal = "reuse",
    as_json: options.AsJson = False,
) -> None:
    """Grade stored runs' long answers by a judge or a panel of judges. Answers are never generated again.

    Scores stand in the store beside the others. The same command resumes, and pays only for what is new. Several runs
    are judged question by question, so that all have verdicts on the same questions where a budget or Ctrl-C ends it.
    A judge that gives no verdict at all replaces no score.

    Examples:

      ragrounds judge direct_cot --kind equivalence --judge openai:gpt-4o-mini

      ragrounds judge direct_cot --kind statements --judge openai:gpt-4o --judge anthropic:claude-sonnet-4-5

      ragrounds judge direct_cot vanilla_rag --kind equivalence --judge openai:gpt-4o --max-cost 5

      ragrounds judge vanilla_rag --kind ragas --judge openai:gpt-4o --embedder 'dense[model="openai:NAME"]'
    """
    from ragrounds.api.score import judge as judge_runs
    from ragrounds.ui.tables import results_console

    result = judge_runs(
        runs,
        kind,
        judges=judge or (),
        base_url=base_url,
        embedder=embedder,
        epochs=epoch or (),
        concurrency=concurrency,
        max_cost=budget.max_cost,
        max_total_tokens=budget.max_total_tokens,
        max_time=budget.max_time,
        journal=journal_mode(journal),
    )
    found = result.judged.runs
    if as_json:
        print_json({"graded": found[0] if len(found) == 1 else found, "comparison": result.comparison})
    else:
        result.draw(results_console())
    for graded in found:
        _say_bill(graded)
    _say_end(result.judged)


def _say_end(judged: JudgedRuns) -> None:
    """Say why it ended, and exit by it."""
    from ragrounds.evals.judges.runs import INTERRUPTED
    from ragrounds.ui.text import safe

    if judged.mute:
        say(f"No verdict at all came from {safe(', '.join(judged.mute))}: no score was written, earlier ones stand.")
    if judged.ended == INTERRUPTED:
        say("Interrupted. What was paid for is kept; the same command resumes from there.")
        raise typer.Exit(130)
    if judged.ended:
        several = len(judged.runs) > 1 and not judged.mute
        alike = "All runs have verdicts on the same questions; the" if several else "The"
        say(f"Ended early: {judged.ended}. {alike} same command resumes.")
    failed = any(graded.failed for graded in judged.runs)
    if failed:
        say("Some calls gave no reply; the same command asks for what is missing.")
    if failed or judged.mute:
        raise typer.Exit(3)


def _say_bill(graded: JudgedRun | PanelJudgedRun) -> None:
    """What was judged, by whom, and what it took, on stderr."""
    from collections import Counter

    from ragrounds.evals.judges.panel import PanelJudgedRun
    from ragrounds.ui.text import dollars, safe, tokens

    panel = isinstance(graded, PanelJudgedRun)
    judges = graded.judges if isinstance(graded, PanelJudgedRun) else (graded.judge,)
    say(
        f"{graded.run}: {graded.attempts:,} answers judged by {safe(', '.join(judges))}; "
        f"{graded.missing:,} scores missing" + (f"; {graded.left:,} answers not judged." if graded.left else ".")
    )
    if isinstance(graded, PanelJudgedRun):
        kappa, alpha = (f"{value:.3f}" if value is not None else "-" for value in (graded.kappa, graded.alpha))
        say(
            f"{graded.judged:,} things judged, {graded.undecided:,} without a majority; Fleiss' kappa {kappa}, "
            f"Krippendorff's alpha {alpha}."
        )
    why = Counter(verdict.reason.partition(":")[0] for verdict in graded.verdicts if not verdict.outcome)
    if why:
        reasons = safe(", ".join(f"{reason} ({count:,})" for reason, count in why.most_common(3)))
        say(f"{why.total():,} of {len(graded.verdicts):,} verdicts are missing: {reasons}.")
    used = graded.usage
    tokened = f"{tokens(used.input)} tokens in, {tokens(used.output)} out" if used else "tokens not known"
    before = broken = ""
    if graded.earlier:
        before = f", {graded.earlier:,} of these paid for by an earlier judging that was broken off"
        broken = f" ({dollars(graded.cost_paid_earlier)} of it by the earlier judging)"
    say(
        f"{graded.calls:,} calls: {graded.calls - graded.reused:,} made now, {graded.reused:,} from the journal"
        f"{before}; {tokened}; paid {dollars(graded.cost_paid)}{broken}, {dollars(graded.cost_uncached)} uncached."
    )
    if graded.same_model:
        who = safe(", ".join(graded.same_model)) if panel and isinstance(graded.same_model, tuple) else "The judge"
        say(f"Note: {who} is also the model that wrote these answers; it may favour itself.")


@judge.command("sheet")
def sheet_command(
    run: options.RunName,
    kind: options.Kind = "equivalence",
    epoch: options.Epoch = 0,
    limit: options.Limit = None,
    seed: options.Seed = 0,
    rater: Annotated[
        list[str] | None, typer.Option(help="A column for this rater (repeatable). [default: one, `label`]")
    ] = None,
    out: options.OutFile = Path("labels.csv"),
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Write judged answers to a CSV file for people to label, blind to the verdicts; `judge agreement` reads it back.

    Items are drawn and ordered by the seed, a smaller sample is a part of a larger one. No cell is a formula to a
    spreadsheet.

    Example: ragrounds judge sheet direct_cot --limit 50 --rater anna --rater ben
    """
    from ragrounds.api.score import write_label_sheet

    sheet = write_label_sheet(
        run, out, kind=kind, epoch=epoch, limit=limit, seed=seed, raters=rater or ("label",), force=force
    )
    if as_json:
        print_json({"file": str(out), "items": sheet.items, "of": sheet.of, "labels": sheet.labels})
    say(
        f"{out}: {sheet.items:,} of {sheet.of:,} judged items, without the verdicts. Labels are "
        f"{', '.join(sheet.labels)}. Then: ragrounds judge agreement {run!r} --kind {kind} --human {out}"
        + (f" --epoch {epoch}" if epoch else "")
    )


@judge.command("agreement")
def agreement_command(
    run: options.RunName,
    human: Annotated[Path, typer.Option("--human", help="CSV: a column `item`, and one column of labels a rater.")],
    kind: options.Kind = "equivalence",
    epoch: options.Epoch = 0,
    item: Annotated[str, typer.Option(help="The column with the items.")] = "item",
    rater: Annotated[
        list[str] | None, typer.Option(help="A rater's column (repeatable). [default: all others]")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Set the verdicts in the store against people's: Cohen's kappa, accuracy with its interval, confusion. No model is
    asked.

    An item is a question's id; for statements `#1`, `#2`, … follow it, in the benchmark's order, must-have first.

    Example: ragrounds judge agreement direct_cot --human labels.csv
    """
    from ragrounds.api.score import judge_agreement

    found = judge_agreement(run, human, kind=kind, epoch=epoch, item=item, raters=rater or ())
    if as_json:
        print_json(found.agreement)
    else:
        _print_agreement(found.agreement, found.raters)


def _print_agreement(found: LabelAgreement, raters: int) -> None:
    from rich.table import Table
    from rich.text import Text

    from ragrounds.ui.tables import results_console
    from ragrounds.ui.text import percent

    judge = found.judge
    accuracy = judge.accuracy
    typer.echo(f"items with both labels: {judge.n:,}")
    typer.echo(f"accuracy: {percent(accuracy.value)} % (95 %: {percent(accuracy.low)} to {percent(accuracy.high)})")
    interval = (
        f" (95 %: {_number(judge.kappa_low)} to {_number(judge.kappa_high)})" if judge.kappa_low is not None else ""
    )
    typer.echo(f"Cohen's kappa: {_number(judge.kappa)}{interval}")
    if raters > 1:
        typer.echo(
            f"{raters} people among themselves: Fleiss' kappa {_number(found.human_kappa)}, "
            f"Krippendorff's alpha {_number(found.human_alpha)}"
        )
    left = {
        "the judge gave no verdict": judge.missing,
        "not judged": found.unmatched,
        "people without a majority": found.undecided,
    }
    for why, count in left.items():
        if count:
            typer.echo(f"left out, {why}: {count:,}")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("people \\ judge")
    for name in judge.confusion:
        table.add_column(Text(name), justify="right")
    for name, row in judge.confusion.items():
        table.add_row(Text(name), *(f"{row[other]:,}" for other in judge.confusion))
    results_console().print(table)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
