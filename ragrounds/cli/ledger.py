"""`ragrounds ledger`: what runs cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import typer

from ragrounds.cli.common import one_of

if TYPE_CHECKING:
    from ragrounds.evals.store.ledger import LedgerKey


def ledger_command(
    run: list[str] = typer.Argument(
        None, help="Runs: ids, their beginnings, or agents' texts. [default: all runs and arenas]"
    ),
    by: str = typer.Option("role,node,model", help="What costs are split by: run, role, node, model, with commas."),
    as_json: bool = typer.Option(False, "--json", help="As JSON."),
) -> None:
    """Show what runs cost, judging included: what was paid, and what it would cost with an empty journal.

    Roles are answering, reading, querying, searching and judging; nodes are the graph's. A sum with a call in it whose
    price is not known is unknown. Prices are those of the day of the call: the model's own, the ones in prices.toml,
    or genai-prices' list.

    Examples:

      ragrounds ledger direct_cot 'vanilla_rag[top_k=8]' --by run,role

      ragrounds ledger --by model --json
    """
    from ragrounds.cli.common import open_store, print_json, say, settings
    from ragrounds.evals.store.ledger import LEDGER_KEYS, ledger, unfinished
    from ragrounds.ui.run_tables import ledger_table
    from ragrounds.ui.tables import print_table, results_console

    keys = [cast("LedgerKey", one_of("--by", name.strip(), LEDGER_KEYS)) for name in by.split(",") if name.strip()]
    with open_store(settings()) as store:
        runs = [store.run(name) for name in run] if run else store.runs()
        runs = list({one.id: one for one in runs}.values())
        found, open_ = ledger(store, runs, keys, arenas=not run), unfinished(store, runs)
        place = store.place
    if as_json:
        print_json(found)
    elif not found.total.calls:
        say(f"No calls yet in {place}." if not run else "These runs have made no calls.")
    else:
        print_table(ledger_table(found), results_console())
    if open_.calls:
        used = "tokens not known" if open_.usage is None else f"{open_.usage.input + open_.usage.output:,} tokens"
        say(
            f"Not in these sums: {open_.calls:,} recorded calls ({used}) of attempts that were broken off. The same "
            "command goes on without making them again, and then they are."
        )
