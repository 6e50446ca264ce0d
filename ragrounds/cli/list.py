"""`ragrounds list`: what there is: agents, graphs, profiles, prompts, retrievers, scorers, analyses.
`ragrounds trust`: say yes to the code that an agent's file names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated

import msgspec
import typer
from rich.text import Text

from ragrounds.api import agents, choices
from ragrounds.base.errors import UserError, nearest, unknown
from ragrounds.base.specs import Spec
from ragrounds.cli import options
from ragrounds.cli.output import print_fields, print_json, say, tell
from ragrounds.ui.profiles import print_profile
from ragrounds.ui.tables.list_tables import missing_lines, retriever_table
from ragrounds.ui.tables.text_tables import Column, TextTable, print_table, results_console
from ragrounds.ui.text import safe

app = typer.Typer()


@app.command("list")
def list_command(
    kind: Annotated[
        str, typer.Argument(help="agents, graphs, profiles, prompts, retrievers, scorers or analyses.", metavar="KIND")
    ],
    name: Annotated[str | None, typer.Argument(help="One of them, perhaps your own: all about it.")] = None,
    profile: Annotated[str | None, typer.Option(help="Of an agent: as a paper's authors ran it, medrag, …")] = None,
    model: Annotated[str | None, typer.Option(help="Of an agent: the model that it would ask.")] = None,
    only: Annotated[str | None, typer.Option("--only", help="Of a graph: one part, mermaid, tree or about.")] = None,
    language: Annotated[str, typer.Option(help="Of a prompt: en or zh.")] = "en",
    as_json: options.AsJson = False,
) -> None:
    """Say what there is to run, search and score with, and what one of it is made of.

    Examples:

      ragrounds list agents

      ragrounds list agents i_medrag --profile medrag --model openai:gpt-4

      ragrounds list graphs search_o1
    """
    if kind not in _LISTS:
        raise unknown("kind", kind, _LISTS, "ragrounds list --help")
    if name is None:
        _LISTS[kind](as_json)
    elif kind == "agents":
        _agent(name, profile, model, as_json)
    elif kind == "graphs":
        _graph(name, only, as_json)
    elif kind == "prompts":
        _prompt(name, language, as_json)
    else:
        _SHOWN[kind](name, as_json)


@app.command("trust")
def trust_command(
    file: Annotated[str, typer.Argument(help="An agent's file that contains code: PATH.toml.")],
    as_json: options.AsJson = False,
) -> None:
    """Say yes to the code that an agent's file names, as it is now. It is asked for where the file or the code is not
    your own; code that changes needs a new yes.

    Example: ragrounds trust theirs/agent.toml
    """
    code = agents.trust_agent(file)
    if as_json:
        print_json({"trusted": code})
    else:
        say(f"Trusted: {', '.join(code)}" if code else f"{file} contains no code.")


def _list_agents(as_json: bool) -> None:
    cards = agents.list_agents()
    packages = {name: agents.agent_package(name) for name in cards}
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


def _agent(agent: str, profile: str | None, model: str | None, as_json: bool) -> None:
    """Show graph, parameters, models, and the text that names it everywhere."""
    found = agents.describe_agent(agent, profile=profile, model=model)
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


def _profiles(name: str | None, as_json: bool) -> None:
    """Show which values the switches have as a paper's authors ran them, and where each stands."""
    found = agents.list_profiles() if name is None else [agents.describe_profile(name)]
    if as_json:
        print_json(found, "profiles")
        return
    for profile in found:
        print_profile(profile, results_console(), whole=name is not None)


def _graph(name: str, only: str | None, as_json: bool) -> None:
    """Print a state machine: what it does, as a tree for the terminal, and in Mermaid for documents."""
    found = agents.describe_graph(name)
    parts = {"about": found.about, "tree": found.tree, "mermaid": found.mermaid}
    if only is not None and only not in parts:
        raise UserError(f"Unknown part {only!r}.{nearest(only, parts)} Known: {', '.join(parts)}.")
    if as_json:
        print_json({"graph": found.graph, **(parts if only is None else {only: parts[only]})})
    else:
        tell("\n".join(part.rstrip() + "\n" for key, part in parts.items() if only in (None, key)), nl=False)


def _prompt(name: str, language: str, as_json: bool) -> None:
    """Print a prompt's text, with its places to fill."""
    text, form = agents.prompt_text(name, language), agents.prompt_form(name)
    if as_json:
        print_json({"name": name, "language": language, "text": text} | ({"form": form} if form else {}))
        return
    tell(safe(text))
    if form:
        say(f"$form is filled in as: {form}")


def _list_retrievers(as_json: bool) -> None:
    """List retrievers and rerankers: what can be used right now, and what is missing."""
    found = choices.list_retrievers()
    if as_json:
        cards = [
            {**msgspec.to_builtins(card), "usable": not missing, "missing": missing} for card, missing in found.cards
        ]
        described = [one.described() for one in found.retrievers]
        names = [one.name for one in found.retrievers]
        print_json({"built_in": names, "retrievers": described, "analysers": found.analysers, "cards": cards})
        return
    console = results_console()
    lacking = [(one.name, one.missing()) for one in found.retrievers]
    print_table(retriever_table(one for one in found.retrievers if not one.missing()), console)
    for line in missing_lines(pair for pair in lacking if pair[1]):
        console.print(Text(line))
    console.print(Text(f"\nanalysers of bm25: {', '.join(found.analysers)}\n"))
    for line in missing_lines((card.name, why) for card, why in found.cards):
        console.print(Text(f"models {line}"))
    say("next: ragrounds list retrievers NAME (an example, what it builds, every parameter)")


def _retriever(name: str, as_json: bool) -> None:
    """Show what a retriever is, what it takes, and what is missing for it here."""
    found = choices.describe_retriever(name)
    if as_json:
        print_json(found)
        return
    for key, value in found.items():
        if isinstance(value, list):
            for one in value:
                default = "" if one.get("default") is None else f" (default {one['default']})"
                tell(f"{'parameter':12} {safe(one['name'])}: {safe(one['words'])}{safe(default)}")
        elif isinstance(value, dict):
            tell(f"{key:12} {safe(', '.join(f'{name}={each}' for name, each in value.items() if each not in ('', 0)))}")
        else:
            print_fields({key: value})


def _list_scorers(as_json: bool) -> None:
    """List the scorers: what each measures, what it needs, and from which package it is."""
    found = choices.list_scorers()
    if as_json:
        print_json(found, "scorers")
        return
    columns = ("name", "what it says", "unit", "better", "questions", "needs", "package")
    rows = tuple(
        (one.name, one.summary, one.unit, one.direction, ", ".join(one.kinds), one.needs or "nothing", one.package)
        for one in found
    )
    headings = tuple(Column(name, right=False, whole=name == "name") for name in columns)
    print_table(TextTable(key="scorers", title="", columns=headings, rows=rows), results_console())


def _list_lines(kind: str, as_json: bool) -> None:
    """List what a line says all about: graphs, prompts, analyses."""
    found: object
    if kind == "graphs":
        found = agents.list_graphs()
        lines = list(found.values())
    elif kind == "prompts":
        found = lines = agents.list_prompts()
    else:
        known = choices.list_analyses()
        found = {one.name: {"summary": one.summary, "needs": one.needs, "package": one.package} for one in known}
        lines = [
            f"{one.name:10} {one.summary}; needs {one.needs}"
            + (f"; from the package {one.package}" if one.package else "")
            for one in known
        ]
    if as_json:
        print_json(found, kind)
    else:
        tell("\n".join(safe(line) for line in lines))


def _fields(found: object, as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        print_fields(found)


_LISTS: dict[str, Callable[[bool], None]] = {
    "agents": _list_agents,
    "graphs": partial(_list_lines, "graphs"),
    "profiles": lambda as_json: _profiles(None, as_json),
    "prompts": partial(_list_lines, "prompts"),
    "retrievers": _list_retrievers,
    "scorers": _list_scorers,
    "analyses": partial(_list_lines, "analyses"),
}
_SHOWN: dict[str, Callable[[str, bool], None]] = {
    "profiles": _profiles,
    "retrievers": _retriever,
    "scorers": lambda name, as_json: _fields(choices.describe_scorer(name), as_json),
    "analyses": lambda name, as_json: _fields(choices.describe_analysis(name), as_json),
}
