"""`ragrounds judge`: long answers of stored runs graded by judges, and judges set against people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from ragrounds.cli.labelling import agreement_command, sheet_command

if TYPE_CHECKING:
    from ragrounds.evals.judges import GradedRun, PanelGradedRun

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
    from ragrounds.cli.counting import counting
    from ragrounds.cli.judging import open_judges
    from ragrounds.evals.compare.comparison import compare
    from ragrounds.evals.engine.budget import Budget
    from ragrounds.evals.judges import INTERRUPTED, Grade, GradedRuns, Means, gradable, grade_runs
    from ragrounds.evals.judges import kind as find_kind
    from ragrounds.evals.store.journal import StoreJournal
    from ragrounds.models.prices import read_prices
    from ragrounds.prompts.loader import PromptFolder
    from ragrounds.tools.naming import named_embedder
    from ragrounds.ui.tables import print_comparison
    from ragrounds.ui.text import safe

    chosen, wanted = settings(), find_kind(kind)
    mode: Any = one_of("--journal", journal, ("reuse", "replay", "fresh"))
    with open_store(chosen) as store:
        found = [store.run(reference) for reference in runs]
        fitting = {run.id: gradable(store, run, wanted, epoch) for run in found}
        vectors = named_embedder(embedder) if embedder else None
        grader = wanted.grader(Means(store=store, embedder=vectors, prices=read_prices(chosen.home / "prices.toml")))
        judges = open_judges(judge, base_url, chosen)
        recorded, prompts = StoreJournal(store, mode), PromptFolder()
        seen = 0

        async def go() -> GradedRuns:
            nonlocal seen
            try:
                with counting() as tell:

                    def done(grade: Grade) -> None:
                        nonlocal seen
                        seen += 1
                        tell(f"{', '.join(run.id for run in found)}: answers judged", seen)

                    return await grade_runs(
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


def _tell(graded: GradedRun | PanelGradedRun) -> None:
    """What was judged, by whom, and what it took, on stderr."""
    from collections import Counter

    from ragrounds.cli.common import say
    from ragrounds.evals.judges import PanelGradedRun
    from ragrounds.ui.text import dollars, safe, tokens

    panel = isinstance(graded, PanelGradedRun)
    judges = graded.judges if isinstance(graded, PanelGradedRun) else (graded.judge,)
    say(
        f"{graded.run}: {graded.attempts:,} answers judged by {safe(', '.join(judges))}; "
        f"{graded.missing:,} scores missing" + (f"; {graded.left:,} answers not judged." if graded.left else ".")
    )
    if isinstance(graded, PanelGradedRun):
        kappa, alpha = (f"{value:.3f}" if value is not None else "-" for value in (graded.kappa, graded.alpha))
        say(
            f"{graded.graded:,} things judged, {graded.undecided:,} without a majority; Fleiss' kappa {kappa}, "
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
