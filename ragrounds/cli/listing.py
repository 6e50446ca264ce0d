"""`ragrounds agents`: what can be run."""

from __future__ import annotations

import typer


def agents_command(as_json: bool = typer.Option(False, "--json", help="As JSON.")) -> None:
    """List the agents, with their parameters and what they follow."""
    from rich.text import Text

    from ragrounds.agents.agent import names, read_card
    from ragrounds.cli.common import print_json
    from ragrounds.specs import Spec
    from ragrounds.ui.tables import results_console

    cards = {name: read_card(name) for name in names()}
    if as_json:
        print_json(cards)
        return
    console = results_console()
    for name, card in cards.items():
        spec = Spec(name, card.parameters)
        console.print(Text(name, style="bold"), Text(f"  {card.summary}"), sep="\n")
        if card.source:
            console.print(Text(f"  after {card.source}", style="dim"))
        console.print(Text(f"  {spec}\n", style="cyan"))
