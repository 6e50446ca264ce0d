"""Agents that answer questions, their state machines, and the prompts that they send."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ragrounds.agents.agent import (
    AGENTS,
    Card,
    code_named,
    graph_name,
    installed_agents,
    names,
    open_agent,
    profile_of,
    read_card,
)
from ragrounds.agents.profile import Profile, Setting, profile_names, read_profile
from ragrounds.agents.profiles import PublishedRun, published, settled, sources
from ragrounds.agents.systems import place
from ragrounds.agents.trust import trust
from ragrounds.base.errors import UserError
from ragrounds.base.plugins import guarded
from ragrounds.base.specs import Value
from ragrounds.evals.judges.methods import asked_form
from ragrounds.graphs import catalogue, diagram
from ragrounds.prompts.loader import PromptFolder


class AgentDetails(Struct, frozen=True, kw_only=True):
    """Parts of an agent."""

    agent: str
    """Canonical text, without values that equal the card's: the name in commands, tables and fingerprints."""
    parameters: Mapping[str, Value]
    """All parameters, with their values."""
    card: Card
    package: str = ""
    """Package, with its version, that adds the agent; empty if the agent is built in or is a user's file."""
    sources: Mapping[str, Setting] = {}
    """Values that a profile sets, each with its source."""
    published: PublishedRun | None = None
    """Further settings of the profile for the given model: sampling and scorer."""


class GraphDetails(Struct, frozen=True, kw_only=True):
    """State machine."""

    graph: str
    about: str
    """Description of what it does, the paper it follows, and its deviations."""
    tree: str
    """Tree for the terminal."""
    mermaid: str
    """Mermaid source, for documents."""


def list_agents() -> dict[str, Card]:
    """Return the cards of all agents by name: built-in agents first, then those of installed packages."""
    return {**{name: read_card(name) for name in names()}, **installed_agents()}


def agent_package(name: str) -> str:
    """Return the package, with its version, that adds an agent; empty if the agent is built in or is a user's file."""
    return AGENTS.origin(name)


def describe_agent(agent: str, *, profile: str | None = None, model: str | None = None) -> AgentDetails:
    """Return the parts of the agent ``name[key=value,…]``.

    Args:
        agent: the agent.
        profile: a paper's profile; its values become part of the agent's text.
        model: the model that the agent would use: profiles set context sizes by the model.

    Raises:
        UserError: the agent, a parameter or the profile is unknown; the message names the nearest.
    """
    opened, own_profile = open_agent(settled(agent, profile, model)), profile_of(agent)
    profile_name = own_profile.name if own_profile else profile
    return AgentDetails(
        agent=opened.spec,
        parameters=dict(opened.parameters),
        card=opened.card,
        package=agent_package(opened.name),
        sources=sources(agent, profile_name, model),
        published=published(profile_name, model or "") if profile_name else None,
    )


def list_profiles() -> list[Profile]:
    """Return the papers' profiles, by name: the values that each sets, with their sources."""
    return [read_profile(name) for name in profile_names()]


def describe_profile(name: str) -> Profile:
    """Return a paper's profile.

    Raises:
        UserError: the profile is unknown; the message names the nearest.
    """
    return read_profile(name)


def trust_agent(file: str) -> list[str]:
    """Trust the current code that an agent's file names: it is run without a question from then on.

    Returns:
        The import paths of that code; empty if the file names no code.

    Raises:
        UserError: the file does not exist or is not an agent's, or the trust cannot be recorded.
    """
    if not file.endswith(".toml"):
        raise UserError(f"{file!r} is not an agent's file: expected PATH.toml.")
    code = code_named(read_card(file))
    if code:
        trust(file, code)
    return code


def list_graphs() -> dict[str, str]:
    """Return the built-in graphs by name, each with the first line of its description."""
    return {name: catalogue.about(name).partition("\n")[0] for name in catalogue.names()}


def describe_graph(name: str) -> GraphDetails:
    """Return the state machine of a graph, of an agent, or of ``./mine.py:build``.

    Raises:
        UserError: the name is unknown, or the graph cannot be built.
    """
    graph = graph_name(name)
    if place.is_place(graph):
        built, about = place.drawable(graph), place.about_place(graph).summary
    else:
        built, about = catalogue.build(graph), catalogue.about(graph)
    with guarded(f"Drawing {graph}"):
        return GraphDetails(graph=graph, about=about, tree=diagram.tree(built), mermaid=diagram.mermaid(built))


def list_prompts() -> list[str]:
    """Return the names of the prompts."""
    return PromptFolder().names()


def prompt_text(name: str, language: str = "en") -> str:
    """Return a prompt's text in a language (``en`` or ``zh``), with its placeholders.

    Raises:
        UserError: the prompt is unknown; the message names the nearest.
    """
    return PromptFolder().source(name, language)


def prompt_form(name: str) -> str:
    """Return the text that replaces ``$form`` in a judge's prompt: the format of its verdict; empty if it has none."""
    return asked_form(name)
