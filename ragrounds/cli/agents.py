"""`ragrounds agents`: what answers questions. `ragrounds graph`: the strategies as state machines.
`ragrounds prompts`: what is sent."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich.text import Text

from ragrounds.api import agents as known
from ragrounds.cli import options
from ragrounds.cli.commands import ListGroup
from ragrounds.cli.output import print_fields, print_json, say, tell
from ragrounds.errors import UserError, nearest
from ragrounds.specs import Spec
from ragrounds.ui.profiles import print_profile
from ragrounds.ui.tables import results_console
from ragrounds.ui.text import safe

app = typer.Typer()
agents = typer.Typer(name="agents", cls=ListGroup, help="What answers questions: list and show agents.")
graph = typer.Typer(name="graph", cls=ListGroup, help="The strategies as state machines: list and draw them.")
prompts = typer.Typer(name="prompts", cls=ListGroup, help="The prompts that strategies and judges send.")
for noun in (agents, graph, prompts):
    app.add_typer(noun)


@agents.command("ls")
def list_agents(as_json: options.AsJson = False) -> None:
    """List the agents, with their parameters and what they follow."""
    cards = known.list_agents()
    packages = {name: known.agent_package(name) for name in cards}
    if as_json:
        listed = {name: {**msgspec.to_builtins(card), "package": packages[name]} for name, card in cards.items()}
        print_json(listed, "agents")
        return
    console = results_console()
    for name, card in cards.items():
        console.print(Text(name, style="bold"), Text(f"  {card.summary}"), sep="\n")
        if card.source:
            console.print(Text(f"  after {card.source}", style="dim"))
        if packages[name]:
            console.print(Text(f"  from the package {packages[name]}", style="dim"))
        where = {"retriever": card.retriever} if card.searches else {}
        console.print(Text(f"  {Spec(name, {**card.parameters, **card.switches, **where})}\n", style="cyan"))


@agents.command("show")
def show_agent(
    agent: Annotated[str, typer.Argument(help="An agent, name[key=value,…], as `ragrounds agents ls` lists it.")],
    profile: Annotated[str | None, typer.Option(help="As a paper's authors ran it: medrag, …")] = None,
    model: Annotated[str | None, typer.Option(help="The model it would ask: profiles set contexts by it.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Show what an agent is made of: graph, parameters, models, and the text that names it everywhere.

    Example: ragrounds agents show i_medrag --profile medrag --model openai:gpt-4
    """
    found = known.describe_agent(agent, profile=profile, model=model)
    if as_json:
        print_json(found)
        return
    tell(f"{'agent':12} {safe(found.agent)}")
    if found.package:
        tell(f"{'package':12} {safe(found.package)}")
    print_fields(found.card)
    if found.published:
        tell(found.published.words())
    for key, setting in found.sources.items():
        tell(f"  {key}={safe(str(setting.value))}: {safe(setting.source)}")


@agents.command("profiles")
def list_profiles(
    name: Annotated[str | None, typer.Argument(help="One of them: all that it sets, with the sources.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """List the papers' profiles: which values the switches have as their authors ran them, and where each stands.

    Example: ragrounds agents profiles medrag
    """
    found = known.list_profiles() if name is None else [known.describe_profile(name)]
    if as_json:
        print_json(found, "profiles")
        return
    for profile in found:
        print_profile(profile, results_console(), whole=name is not None)


@agents.command("trust")
def trust_agent(
    file: Annotated[str, typer.Argument(help="An agent's file that names code: PATH.toml.")],
    as_json: options.AsJson = False,
) -> None:
    """Say yes to the code that an agent's file names, as it is now. It is asked for where the file or the code is not
    your own; code that changes needs a new yes.

    Example: ragrounds agents trust theirs/agent.toml
    """
    code = known.trust_agent(file)
    if as_json:
        print_json({"trusted": code})
    else:
        say(f"Trusted: {', '.join(code)}" if code else f"{file} names no code.")


@graph.command("ls")
def list_graphs(as_json: options.AsJson = False) -> None:
    """List the built-in graphs."""
    first = known.list_graphs()
    if as_json:
        print_json(first, "graphs")
    else:
        tell("\n".join(first.values()))


@graph.command("show")
def show_graph(
    name: Annotated[str, typer.Argument(help="A graph's or an agent's name, or ./mine.py:build.")],
    only: Annotated[str | None, typer.Option("--only", help="Only one part: mermaid, tree or about.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Print a state machine: what it does, as a tree for the terminal, and in Mermaid for documents.

    Examples:

      ragrounds graph show search_o1

      ragrounds graph show cot_refine_rag --only mermaid
    """
    found = known.describe_graph(name)
    parts = {"about": found.about, "tree": found.tree, "mermaid": found.mermaid}
    if only is not None and only not in parts:
        raise UserError(f"Unknown part {only!r}.{nearest(only, parts)} Known: {', '.join(parts)}.")
    if as_json:
        print_json({"graph": found.graph, **(parts if only is None else {only: parts[only]})})
    else:
        tell("\n".join(part.rstrip() + "\n" for key, part in parts.items() if only in (None, key)), nl=False)


@prompts.command("ls")
def list_prompts(as_json: options.AsJson = False) -> None:
    """List the prompts by name."""
    names = known.list_prompts()
    if as_json:
        print_json(names, "prompts")
    else:
        tell("\n".join(names))


@prompts.command("show")
def show_prompt(
    name: Annotated[str, typer.Argument(help="A prompt, as `ragrounds prompts ls` lists it.")],
    language: Annotated[str, typer.Option(help="en or zh.")] = "en",
    as_json: options.AsJson = False,
) -> None:
    """Print a prompt's text, with its places to fill."""
    text, form = known.prompt_text(name, language), known.prompt_form(name)
    if as_json:
        print_json({"name": name, "language": language, "text": text} | ({"form": form} if form else {}))
        return
    tell(safe(text))
    if form:
        say(f"$form is filled in as: {form}")
