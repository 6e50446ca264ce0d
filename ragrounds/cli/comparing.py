"""`ragrounds compare`: runs against each other."""

from __future__ import annotations

import typer


def compare_command(
    runs: list[str] = typer.Argument(help="Runs: an id, the beginning of one, or an agent's text."),
    protocol: list[str] = typer.Option([], help="A protocol (repeatable). [default: mirage, strict, facts]"),
    common: bool = typer.Option(False, "--common", help="Compare on the questions that all runs have."),
    seed: int = typer.Option(0, help="Seed of the bootstrap."),
    as_json: bool = typer.Option(False, "--json", help="Everything as JSON, under every protocol."),
) -> None:
    """Accuracy with intervals, outcomes, tokens, spent and cold cost, seconds; paired differences with their tests.

    Example: ragrounds compare direct_cot 'vanilla_rag[top_k=8]' --json
    """
    from ragrounds.cli.common import open_store, print_json, settings
    from ragrounds.evals.comparison import compare
    from ragrounds.ui.tables import print_comparison

    with open_store(settings()) as store:
        found = [store.run(reference) for reference in runs]
        comparison = compare(store, found, protocols=protocol, common=common, seed=seed)
    if as_json:
        print_json(comparison)
    else:
        print_comparison(comparison, protocol)
