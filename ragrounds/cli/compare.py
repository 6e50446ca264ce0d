"""`ragrounds compare`: runs against each other, with intervals.
`ragrounds ledger`: what runs cost, judging included."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import partial
from typing import Annotated

import typer
from msgspec.structs import asdict, replace

from ragrounds.api.aliases import parse_names
from ragrounds.api.compare import CompareArguments, CompareResult, LedgerView, compare, ledger
from ragrounds.cli import options
from ragrounds.cli.options import FormOptions, PlotOptions, grouped
from ragrounds.cli.output import at_work, draw_picture, exit_by, print_json, say, say_next, tell
from ragrounds.ui.agent_names import agent_names
from ragrounds.ui.tables.claim_text import against_lines, claim_lines, claim_table
from ragrounds.ui.tables.comparison_csv import as_csv
from ragrounds.ui.tables.comparison_tables import comparison_tables, group_table
from ragrounds.ui.tables.paper_table import paper_table
from ragrounds.ui.tables.text_tables import latex, markdown, results_console

app = typer.Typer()


@app.command("compare")
@grouped
def compare_command(
    runs: options.Runs,
    arguments: CompareArguments,
    plot: PlotOptions,
    form: FormOptions,
    names: options.Names = None,
    full: options.Full = False,
) -> None:
    """Print what can be concluded, a line a run with accuracy, difference, cost, tokens and seconds, and the frontier;
    with --full every table and test.

    Runs whose questions, epochs or scorers differ are refused, or compared on what they share with --common.
    Files of other tools (Inspect, lm-eval, CSV, …) are compared like runs and not kept; `import` keeps them.
    All pairs are tested, up to 50 runs; of more, --baseline RUN says which. --picture is scores,
    differences, frontier, datasets or hops.

    Examples:

      ragrounds compare direct_cot 'vanilla_rag[top_k=8]' --group-by subject --plot scores.pdf

      ragrounds compare direct_cot search_o1 vanilla_rag --baseline direct_cot

      ragrounds compare a.eval b.eval

      ragrounds compare search_o1 vanilla_rag --assert 'accuracy(search_o1) - accuracy(vanilla_rag) > 0.02 @ 95%'
    """
    printed = form.selected()
    with at_work("comparing"):
        compared = compare(**asdict(replace(arguments, runs=runs, names=parse_names(names or ()))))
    for line in compared.imported:
        say(line)
    _print_comparison(compared, compared.scorers, printed, full)
    if compared.imported and not printed:
        say(f"next: ragrounds import {shlex.join(runs)} (keeps these runs for trace, report, judge)")
    elif not printed and not full:
        say_next()
    draw_picture(compared, plot)
    _report_claims(compared, quiet=form.as_json)


def _print_comparison(compared: CompareResult, scorers: Sequence[str], form: str, full: bool) -> None:
    comparison = compared.comparison
    if form == "--json":
        harm = {"harm": compared.harm} if compared.harm else {}
        print_json({**asdict(comparison), **({"claims": compared.claims} if compared.claims else {}), **harm})
    elif form == "--csv":
        typer.echo(as_csv(comparison, scorers), nl=False)
        for note in comparison.notes:  # a table of rows has no column for notes
            say(f"Note: {note}")
    elif form:
        tables = comparison_tables(comparison, scorers)
        if paper := form == "--latex" and not full:
            names, tables_shown = agent_names(comparison), comparison.headline_tables(scorers)
            groups = (
                group_table(table, grouped, names, with_costs=False)
                for table in tables_shown
                for grouped in table.groups
            )
            tables = [paper_table(comparison, scorers, names), *groups]
        tables = [claim_table(compared.claims), *tables] if compared.claims else tables
        write = partial(latex, narrow=paper) if form == "--latex" else markdown
        tell(write(tables, comparison.notes), nl=False)
    else:
        compared.draw(results_console(), full=full)


def _report_claims(compared: CompareResult, quiet: bool) -> None:
    """Print the decisions on the claims and the questions that speak against them, and exit with their code."""
    if not compared.claims:
        return
    for line in () if quiet else (*claim_lines(compared.claims), *against_lines(compared.claims)):
        say(line if line.startswith(" ") else f"\n{line}")
    exit_by(compared.decision)


@app.command("ledger")
def ledger_command(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Runs: ids, their beginnings, or agents' texts. [default: all runs, counterfactuals and arenas]"
        ),
    ] = None,
    by: Annotated[
        str, typer.Option(help="What costs are split by: run, role, node, model, with commas.")
    ] = "role,node,model",
    reprice: Annotated[
        bool, typer.Option("--reprice", help="Apply the prices of today to stored calls without a known price.")
    ] = False,
    price: Annotated[
        list[str] | None,
        typer.Option(help="A model with its price, for these: 'openai:NAME[price_input=0.1,price_output=0.4]'."),
    ] = None,
    full: options.Full = False,
    as_json: options.AsJson = False,
) -> None:
    """Show what runs cost, judging included: what was paid, and what it would cost with an empty journal.

    Roles are answering, reading, querying, searching and judging; nodes are the graph's. A sum with a call in it whose
    price is not known is unknown. Prices are those of the day of the call: the model's own, the ones in prices.toml,
    or genai-prices' list. --reprice applies those of today (--price, prices.toml, the list) to the tokens and busy
    seconds that are stored, and writes what comes of it; no call is made, and unknown tokens stay unknown.

    Examples:

      ragrounds ledger --reprice --price 'openai:my-llama[price_input=0.05,price_output=0.2]'

      ragrounds ledger direct_cot 'vanilla_rag[top_k=8]' --by run,role

      ragrounds ledger --by model --json
    """
    with at_work("adding calls up"):
        view = ledger(
            runs or (),
            [name.strip() for name in by.split(",") if name.strip()],
            reprice=reprice,
            prices=price or (),
        )
    if view.repriced is not None:
        priced, unknown = view.repriced.priced, view.repriced.unknown
        say(f"{priced:,} stored calls have a price now; {unknown:,} are still unknown.")
    if as_json:
        print_json({**asdict(view.ledger), **({"repriced": view.repriced} if view.repriced else {})})
    elif not view.ledger.lines:
        say("These runs have made no calls." if runs else f"No calls yet in {view.place}.")
    else:
        view.draw(results_console(), full=full)
    _report_unfinished(view)


def _report_unfinished(view: LedgerView) -> None:
    open_ = view.unfinished
    if open_.calls:
        usage = "tokens not known" if open_.tokens is None else f"{open_.tokens:,} tokens"
        say(
            f"Not in these sums: {open_.calls:,} recorded calls ({usage}) of interrupted attempts. The same command "
            "resumes them without repeating these calls, and then they count."
        )
