"""Opening the models that judge.

`ragrounds judge agreement` and `judge sheet`: judges set against people, and the sheet that people fill in.

`ragrounds judge`: long answers of stored runs graded by judges, and judges set against people.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragrounds.contracts import Model
    from ragrounds.evals.judges.bill import JudgedRun
    from ragrounds.evals.judges.labels import LabelAgreement
    from ragrounds.evals.judges.panel import PanelJudgedRun
    from ragrounds.settings import Settings


def open_judges(named: Sequence[str], base_url: str | None, chosen: Settings) -> list[Model]:
    """The judges; where none is named, the model of the settings.

    Raises:
        UserError: none, one named twice, or one that cannot be opened.
    """
    from ragrounds.errors import UserError
    from ragrounds.models.prices import read_prices
    from ragrounds.models.providers import open_model, with_defaults

    names = list(named) or ([chosen.model] if chosen.model else [])
    if not names:
        raise UserError("No judge was named: --judge provider:model, such as openai:gpt-4o-mini.")
    prices = read_prices(chosen.home / "prices.toml")
    opened = [open_model(with_defaults(name, {"base_url": base_url or chosen.base_url}), prices) for name in names]
    if len({model.spec for model in opened}) < len(opened):
        raise UserError("A judge is named twice: its vote would count double.")
    return opened


def sheet_command(
    run: str = typer.Argument(help="A judged run: an id, the beginning of one, or an agent's text."),
    kind: str = typer.Option("equivalence", help="equivalence or statements: what was judged."),
    epoch: int = typer.Option(0, min=0, help="Which of the run's epochs."),
    limit: int = typer.Option(None, min=1, help="Draw so many items. [default: all]"),
    seed: int = typer.Option(0, help="Of the draw and of the order."),
    rater: list[str] = typer.Option([], help="A column for this rater (repeatable). [default: one, `label`]"),
    output: Path = typer.Option(Path("labels.csv"), "--output", "-o", help="The file to write."),
    force: bool = typer.Option(False, "--force", help="Write over a file that is there."),
    as_json: bool = typer.Option(False, "--json", help="Say what was written as JSON."),
) -> None:
    """Write judged answers to a CSV file for people to label, blind to the verdicts; `judge agreement` reads it back.

    Items are drawn and ordered by the seed, a smaller sample is a part of a larger one. No cell is a formula to a
    spreadsheet.

    Example: ragrounds judge sheet direct_cot --limit 50 --rater anna --rater ben
    """
    from ragrounds.api.files import replaced
    from ragrounds.cli.common import open_store, print_json, say, settings
    from ragrounds.evals.judges.labels import label_sheet
    from ragrounds.evals.judges.methods import label_method

    wanted = label_method(kind)
    with open_store(settings()) as store:
        sheet = label_sheet(
            store, store.run(run), wanted, epoch=epoch, limit=limit, seed=seed, raters=rater or ("label",)
        )
    with replaced(output, force) as file:
        file.write(sheet.csv())
    if as_json:
        print_json({"file": str(output), "items": len(sheet.rows), "of": sheet.of, "labels": wanted.labels})
    say(
        f"{output}: {len(sheet.rows):,} of {sheet.of:,} judged items, without the verdicts. Labels are "
        f"{', '.join(wanted.labels)}. Then: ragrounds judge agreement {run!r} --kind {kind} --human {output}"
        + (f" --epoch {epoch}" if epoch else "")
    )


def agreement_command(
    run: str = typer.Argument(help="A judged run: an id, the beginning of one, or an agent's text."),
    human: Path = typer.Option(..., "--human", help="CSV: a column `item`, and one column of labels a rater."),
    kind: str = typer.Option("equivalence", help="equivalence or statements: whose verdicts are compared."),
    epoch: int = typer.Option(0, min=0, help="Which of the run's epochs."),
    item: str = typer.Option("item", help="The column with the items."),
    rater: list[str] = typer.Option([], help="A rater's column (repeatable). [default: all others]"),
    as_json: bool = typer.Option(False, "--json", help="As JSON."),
) -> None:
    """Set the verdicts in the store against people's: Cohen's kappa, accuracy with its interval, confusion. No model is
    asked.

    An item is a question's id; for statements `#1`, `#2`, … follow it, in the benchmark's order, must-have first.

    Example: ragrounds judge agreement direct_cot --human labels.csv
    """
    from ragrounds.cli.common import open_store, print_json, settings
    from ragrounds.errors import UserError
    from ragrounds.evals.judges.labels import agreement, read_labels
    from ragrounds.evals.judges.methods import label_method, verdicts
    from ragrounds.ui.text import one_line

    wanted = label_method(kind)
    labels = read_labels(human, item=item, raters=rater)
    given = {label for row in labels.items.values() for label in row if label}
    unknown = sorted(given - set(wanted.labels))
    if unknown:
        raise UserError(
            f"{human}: the label {one_line(unknown[0])!r} is none of {', '.join(wanted.labels)}. Which columns hold "
            "labels is said with --rater."
        )
    with open_store(settings()) as store:
        said = verdicts(store, store.run(run), wanted, epoch)
    try:
        found = agreement(said, labels)
    except ValueError:
        first = next(iter(said))
        raise UserError(
            f"{human}: none of its items has both a majority of people and a verdict. Items look like {first!r}."
        ) from None
    if as_json:
        print_json(found)
    else:
        _print_agreement(found, len(labels.raters))


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


_DEFAULT = "run"


class _Group(TyperGroup):
    """`ragrounds judge RUN` is `ragrounds judge run RUN`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)


judge_app = typer.Typer(
    cls=_Group,
    help="Grade the long answers of a stored run by judges; set judges against people.\n\n"
    "`ragrounds judge RUN …` is short for `ragrounds judge run RUN …`.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@judge_app.command(_DEFAULT)
def judge_command(
    runs: list[str] = typer.Argument(help="Runs: an id, the beginning of one, or an agent's text."),
    kind: str = typer.Option(
        ...,
        help="equivalence (to a reference answer), statements (entailed, contradicted), ragas (its five figures) or "
        "one of them, such as ragas_faithfulness.",
    ),
    judge: list[str] = typer.Option(
        [], "--judge", "--model", help="The judge, provider:model[…] (repeatable: the majority of the panel counts)."
    ),
    base_url: str = typer.Option(None, help="The judges' server, where it is OpenAI-compatible."),
    embedder: str = typer.Option(None, help="For ragas' answer relevancy: 'dense[model=…]' or a retriever's card."),
    epoch: list[int] = typer.Option([], help="Only this epoch, from 0 (repeatable). [default: all]"),
    concurrency: int = typer.Option(None, min=1, help="Answers graded at once. [default: 16]"),
    max_cost: float | None = typer.Option(
        None, min=0, help="Dollars to spend on judging; questions that are begun are finished for all runs."
    ),
    max_tokens: int | None = typer.Option(None, min=0, help="Tokens that judges may use, in and out."),
    max_time: float | None = typer.Option(None, min=0, help="Seconds that judging may take."),
    journal: str = typer.Option("reuse", help="Recorded calls: reuse, replay (no network; a miss is an error), fresh."),
    as_json: bool = typer.Option(False, "--json", help="Figures, bill and every verdict as JSON."),
) -> None:
    """Grade stored runs' long answers by a judge or a panel of judges. Answers are never generated again.

    Scores stand in the store beside the others. The same command goes on, and pays only for what is new. Several runs
    are judged question by question, so that all have verdicts on the same questions where a budget or Ctrl-C ends it.
    A judge that gives no verdict at all replaces no score.

    Examples:

      ragrounds judge direct_cot --kind equivalence --judge openai:gpt-4o-mini

      ragrounds judge direct_cot --kind statements --judge openai:gpt-4o --judge anthropic:claude-sonnet-4-5

      ragrounds judge direct_cot vanilla_rag --kind equivalence --judge openai:gpt-4o --max-cost 5

      ragrounds judge vanilla_rag --kind ragas --judge openai:gpt-4o --embedder 'dense[model="openai:NAME"]'
    """
    import asyncio

    from ragrounds.cli.common import one_of, open_store, print_json, say, settings
    from ragrounds.cli.progress import counting
    from ragrounds.evals.compare.comparison import compare
    from ragrounds.evals.engine.budget import Budget
    from ragrounds.evals.judges.attempts import JudgedAnswer
    from ragrounds.evals.judges.methods import JudgeMeans, find_method, judgeable, open_method
    from ragrounds.evals.judges.runs import INTERRUPTED, JudgedRuns, judge_runs
    from ragrounds.evals.store.journal import StoreJournal
    from ragrounds.models.prices import read_prices
    from ragrounds.prompts.loader import PromptFolder
    from ragrounds.tools.cards import named_embedder
    from ragrounds.ui.comparison_tables import print_comparison
    from ragrounds.ui.text import safe

    chosen, wanted = settings(), find_method(kind)
    mode: Any = one_of("--journal", journal, ("reuse", "replay", "fresh"))
    with open_store(chosen) as store:
        found = [store.run(reference) for reference in runs]
        fitting = {run.id: judgeable(store, run, wanted, epoch) for run in found}
        vectors = named_embedder(embedder) if embedder else None
        grader = open_method(
            wanted, JudgeMeans(store=store, embedder=vectors, prices=read_prices(chosen.home / "prices.toml"))
        )
        judges = open_judges(judge, base_url, chosen)
        recorded, prompts = StoreJournal(store, mode), PromptFolder()
        seen = 0

        async def go() -> JudgedRuns:
            nonlocal seen
            try:
                with counting() as tell:

                    def done(answer: JudgedAnswer) -> None:
                        nonlocal seen
                        seen += 1
                        tell(f"{', '.join(run.id for run in found)}: answers judged", seen)

                    return await judge_runs(
                        store,
                        found,
                        grader,
                        judges,
                        recorded,
                        prompts,
                        budget=Budget(cost=max_cost, tokens=max_tokens, seconds=max_time),
                        at_once=concurrency or chosen.concurrency,
                        wanted=lambda attempt: fitting[attempt.run](attempt),
                        done=done,
                    )
            finally:
                for model in judges:
                    await model.close()
                recorded.close()

        made = asyncio.run(go())
        scorers = made.runs[0].scorers
        comparison = None if made.mute else compare(store, found, scorers=scorers, common=len(found) > 1)
    if as_json:
        print_json({"graded": made.runs[0] if len(found) == 1 else made.runs, "comparison": comparison})
    elif comparison is not None:
        print_comparison(comparison, scorers)
    for graded in made.runs:
        _tell(graded)
    if made.mute:
        say(f"No verdict at all came from {safe(', '.join(made.mute))}: no score was written, earlier ones stand.")
    if made.ended == INTERRUPTED:
        say("Interrupted. What was paid for is kept; the same command goes on from there.")
        raise typer.Exit(130)
    if made.ended:
        alike = "All runs have verdicts on the same questions; the" if len(found) > 1 and not made.mute else "The"
        say(f"Ended early: {made.ended}. {alike} same command goes on.")
    failed = any(graded.failed for graded in made.runs)
    if failed:
        say("Some calls gave no reply; the same command asks for what is missing.")
    if failed or made.mute:
        raise typer.Exit(3)


def _tell(graded: JudgedRun | PanelJudgedRun) -> None:
    """What was judged, by whom, and what it took, on stderr."""
    from collections import Counter

    from ragrounds.cli.common import say
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


judge_app.command("agreement")(agreement_command)
judge_app.command("sheet")(sheet_command)
