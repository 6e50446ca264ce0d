"""`ragrounds list`: what there is: agents, graphs, profiles, prompts, retrievers, scorers, analyses.
`ragrounds trust`: say yes to the code that an agent's file names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Annotated

import msgspec
import typer
from rich.text import Text

from ragrounds.api import agents, choices
from ragrounds.base.errors import UserError, nearest, unknown
from ragrounds.cli import options
from ragrounds.cli.output import print_fields, print_json, say, tell
from ragrounds.ui.profiles import print_profile
from ragrounds.ui.tables.list_tables import grouped_lines, missing_lines, retriever_table
from ragrounds.ui.tables.text_tables import print_table, results_console
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
    if kind not in _LIST_FUNCTIONS:
        raise unknown("kind", kind, _LIST_FUNCTIONS, "ragrounds list --help")
    if name is None:
        _LIST_FUNCTIONS[kind](as_json)
    elif kind == "agents":
        _agent(name, profile, model, as_json)
    elif kind == "graphs":
        _graph(name, only, as_json)
    elif kind == "prompts":
        _show_prompt(name, language, as_json)
    else:
        _SHOW_FUNCTIONS[kind](name, as_json)


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
    groups = {
        name: f"from the package {packages[name]}" if packages[name] else card.group or "others"
        for name, card in cards.items()
    }
    by_group = sorted(cards.items(), key=lambda item: (bool(packages[item[0]]), item[1].searches, groups[item[0]]))
    _print_groups(
        (groups[name], name, card.summary + (f" After {card.source}." if card.source else ""))
        for name, card in by_group
    )
    say("next: ragrounds list agents NAME (all about it)")


def _print_groups(entries: Iterable[tuple[str, str, str]]) -> None:
    console = results_console()
    for line in grouped_lines(entries, console.width):
        console.print(line)


def _agent(agent: str, profile: str | None, model: str | None, as_json: bool) -> None:
    """Show graph, parameters, models, and the canonical text."""
    details = agents.describe_agent(agent, profile=profile, model=model)
    if as_json:
        print_json(details)
        return
    tell(f"{'agent':12} {safe(details.agent)}")
    if details.package:
        tell(f"{'package':12} {safe(details.package)}")
    print_fields(details.card)
    if details.published:
        tell(details.published.words())
    for key, setting in details.sources.items():
        tell(f"  {key}={safe(str(setting.value))}: {safe(setting.source)}")


def _profiles(name: str | None, as_json: bool) -> None:
    """Show the values of the switches in a paper's run, with their sources."""
    profiles = agents.list_profiles() if name is None else [agents.describe_profile(name)]
    if as_json:
        print_json(profiles, "profiles")
        return
    for profile in profiles:
        print_profile(profile, results_console(), with_values=name is not None)


def _graph(name: str, only: str | None, as_json: bool) -> None:
    """Print a state machine: its description, a tree for the terminal, and Mermaid for documents."""
    graph = agents.describe_graph(name)
    parts = {"about": graph.about, "tree": graph.tree, "mermaid": graph.mermaid}
    if only is not None and only not in parts:
        raise UserError(f"Unknown part {only!r}.{nearest(only, parts)} Known: {', '.join(parts)}.")
    if as_json:
        print_json({"graph": graph.graph, **(parts if only is None else {only: parts[only]})})
    else:
        tell("\n".join(part.rstrip() + "\n" for key, part in parts.items() if only in (None, key)), nl=False)


def _show_prompt(name: str, language: str, as_json: bool) -> None:
    """Print a prompt's text, with its placeholders."""
    text, form = agents.prompt_text(name, language), agents.prompt_form(name)
    if as_json:
        print_json({"name": name, "language": language, "text": text} | ({"form": form} if form else {}))
        return
    tell(safe(text))
    if form:
        say(f"$form is filled in as: {form}")


def _list_retrievers(as_json: bool) -> None:
    """List retrievers and rerankers: usable ones, and missing requirements of the others."""
    listing = choices.list_retrievers()
    if as_json:
        cards = [
            {**msgspec.to_builtins(card), "usable": not missing, "missing": missing} for card, missing in listing.cards
        ]
        described = [retriever.described() for retriever in listing.retrievers]
        names = [retriever.name for retriever in listing.retrievers]
        print_json({"built_in": names, "retrievers": described, "analysers": listing.analysers, "cards": cards})
        return
    console = results_console()
    lacking = [(retriever.name, retriever.missing()) for retriever in listing.retrievers]
    print_table(retriever_table(retriever for retriever in listing.retrievers if not retriever.missing()), console)
    for line in missing_lines(pair for pair in lacking if pair[1]):
        console.print(Text(line))
    console.print(Text(f"\nanalysers of bm25: {', '.join(listing.analysers)}\n"))
    for line in missing_lines((card.name, requirement) for card, requirement in listing.cards):
        console.print(Text(f"models {line}"))
    say("next: ragrounds list retrievers NAME (an example, what it builds, every parameter)")


def _retriever(name: str, as_json: bool) -> None:
    """Show a retriever, its parameters, and its missing requirements."""
    fields = choices.describe_retriever(name)
    if as_json:
        print_json(fields)
        return
    for key, value in fields.items():
        if isinstance(value, list):
            for parameter in value:
                default = "" if parameter.get("default") is None else f" (default {parameter['default']})"
                tell(f"{'parameter':12} {safe(parameter['name'])}: {safe(parameter['words'])}{safe(default)}")
        elif isinstance(value, dict):
            tell(f"{key:12} {safe(', '.join(f'{name}={part}' for name, part in value.items() if part not in ('', 0)))}")
        else:
            print_fields({key: value})


def _list_scorers(as_json: bool) -> None:
    """List the scorers: what each measures, what it needs, and its package."""
    scorers = choices.list_scorers()
    if as_json:
        print_json(scorers, "scorers")
        return
    _print_groups(
        (
            f"{', '.join(scorer.kinds)} questions" + (f", by {scorer.needs}" if scorer.needs else ""),
            scorer.name + (" ↓" if scorer.direction == "lower" else ""),
            scorer.summary + (f" (package {scorer.package})" if scorer.package else ""),
        )
        for scorer in sorted(scorers, key=lambda scorer: (bool(scorer.needs), scorer.kinds, scorer.needs))
    )
    say("↓: lower is better. next: ragrounds list scorers NAME")


def _list_lines(kind: str, as_json: bool) -> None:
    """List things that a line describes completely: graphs, prompts, analyses."""
    listed: object
    if kind == "graphs":
        listed = agents.list_graphs()
        lines = list(listed.values())
    elif kind == "prompts":
        listed = lines = agents.list_prompts()
    else:
        analyses = choices.list_analyses()
        listed = {
            analysis.name: {"summary": analysis.summary, "needs": analysis.needs, "package": analysis.package}
            for analysis in analyses
        }
        lines = [
            f"{analysis.name:10} {analysis.summary}; needs {analysis.needs}"
            + (f"; from the package {analysis.package}" if analysis.package else "")
            for analysis in analyses
        ]
    if as_json:
        print_json(listed, kind)
    else:
        tell("\n".join(safe(line) for line in lines))


def _show_fields(record: object, as_json: bool) -> None:
    if as_json:
        print_json(record)
    else:
        print_fields(record)


_LIST_FUNCTIONS: dict[str, Callable[[bool], None]] = {
    "agents": _list_agents,
    "graphs": partial(_list_lines, "graphs"),
    "profiles": lambda as_json: _profiles(None, as_json),
    "prompts": partial(_list_lines, "prompts"),
    "retrievers": _list_retrievers,
    "scorers": _list_scorers,
    "analyses": partial(_list_lines, "analyses"),
}
_SHOW_FUNCTIONS: dict[str, Callable[[str, bool], None]] = {
    "profiles": _profiles,
    "retrievers": _retriever,
    "scorers": lambda name, as_json: _show_fields(choices.describe_scorer(name), as_json),
    "analyses": lambda name, as_json: _show_fields(choices.describe_analysis(name), as_json),
}
