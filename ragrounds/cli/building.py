"""What the commands of `ragrounds build` share: their options, the run, and what is shown of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import msgspec
import typer
from msgspec import Struct

if TYPE_CHECKING:
    from ragrounds.build.card import BuiltCard
    from ragrounds.build.intake import Intake
    from ragrounds.build.pipeline import Pipeline
    from ragrounds.build.product import Finish
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
    intake: Intake,
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

    from ragrounds.build.card import BuiltCard, made_by
    from ragrounds.build.counting import count
    from ragrounds.build.rejections import FILE, not_listed
    from ragrounds.build.running import carry_out, plan_build, results
    from ragrounds.build.writing import check_folder, write_built
    from ragrounds.cli.common import one_of, open_store, print_json, say, settings
    from ragrounds.errors import UserError
    from ragrounds.evals.engine.budget import Budget
    from ragrounds.evals.engine.strands import FINAL
    from ragrounds.evals.engine.tally import Tally
    from ragrounds.evals.store.journal import StoreJournal
    from ragrounds.evals.store.leasing import Lease
    from ragrounds.models.prices import read_prices
    from ragrounds.ui.progress import open_progress
    from ragrounds.ui.text import safe

    mode: Any = one_of("--journal", options.journal, ("reuse", "replay", "fresh"))
    shown: Any = options.display and one_of("--display", options.display, ("full", "plain", "json", "none"))
    chosen = settings()
    check_folder(options.out, pipeline.name)
    with open_store(chosen) as store, ExitStack() as held:
        strand = plan_build(
            store,
            pipeline,
            intake,
            parameters=parameters,
            model=options.model or chosen.model,
            models=models,
            searcher=searcher,
            prices=read_prices(chosen.home / "prices.toml"),
            defaults={"base_url": options.base_url or chosen.base_url},
            new=options.new,
        )
        named = ", ".join(sorted({model.spec for model in strand.models.values()}))
        say(f"{strand.run.id}: {len(intake.items):,} items of {safe(intake.items.name)}, {safe(named)}")
        lease = held.enter_context(Lease(store.engine, [strand.run.id], say))
        journal = StoreJournal(store, mode)

        async def go() -> str:
            try:
                with open_progress(shown or None, Tally(store, [strand], FINAL)) as progress:
                    return await carry_out(
                        store,
                        journal,
                        strand,
                        intake,
                        concurrency=options.concurrency or chosen.concurrency,
                        budget=Budget(cost=options.max_cost, tokens=options.max_tokens, seconds=options.max_time),
                        stops=[lease],
                        listener=progress.hear,
                    )
            finally:
                for model in {id(each): each for each in strand.models.values()}.values():
                    await model.close()
                journal.close()

        ended = asyncio.run(go())
        say(f"{journal.made:,} calls made, {journal.reused:,} answered from the journal.")
        if ended:
            say(f"Ended early: {ended}. The same command goes on.")
        found = results(store, strand.run, intake, ended)
        product = finish(found)
        made = made_by(
            store,
            strand.run,
            pipeline,
            intake,
            [*count(pipeline.stages, intake, found), *product.stages],
            figures=product.figures,
            notes=[*product.notes, *not_listed(intake)],
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
