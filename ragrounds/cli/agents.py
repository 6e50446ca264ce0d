"""`ragrounds agents`: what can be run.

`ragrounds graph`: the state machines, drawn.
"""

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


graph_app = typer.Typer(
    name="graph", help="The strategies as state machines: list and draw them.", no_args_is_help=True
)


@graph_app.command("show")
def show_command(
    name: str = typer.Argument(help="A graph's or an agent's name, or ./mine.py:build."),
    only: str = typer.Option(None, "--only", help="Only one part: mermaid, tree or about."),
    as_json: bool = typer.Option(False, "--json", help="As JSON."),
) -> None:
    """Print a state machine: what it does, as a tree for the terminal, and in Mermaid for documents.

    Examples:

      ragrounds graph show search_o1

      ragrounds graph show cot_refine_rag --only mermaid
    """
    from ragrounds.agents.agent import graph_name
    from ragrounds.cli.common import print_json
    from ragrounds.errors import UserError, nearest
    from ragrounds.graphs import catalogue
    from ragrounds.graphs import diagram as drawing

    graph = graph_name(name)
    built = catalogue.build(graph)
    parts = {"about": catalogue.about(graph), "tree": drawing.tree(built), "mermaid": drawing.mermaid(built)}
    if only is not None and only not in parts:
        raise UserError(f"Unknown part {only!r}.{nearest(only, parts)} Known: {', '.join(parts)}.")
    if as_json:
        print_json({"graph": graph, **(parts if only is None else {only: parts[only]})})
    else:
        typer.echo("\n".join(part.rstrip() + "\n" for key, part in parts.items() if only in (None, key)), nl=False)


@graph_app.command("list")
def list_command(as_json: bool = typer.Option(False, "--json", help="As JSON.")) -> None:
    """List the built-in graphs."""
    from ragrounds.cli.common import print_json
    from ragrounds.graphs import catalogue

    first = {name: catalogue.about(name).partition("\n")[0] for name in catalogue.names()}
    if as_json:
        print_json(first)
    else:
        typer.echo("\n".join(first.values()))
