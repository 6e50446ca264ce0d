"""What answers questions: agents, the state machines behind them, and the prompts that they send."""

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
from ragrounds.agents.profile import Profile, Setting, read_profile
from ragrounds.agents.profiles import PublishedRun, all_profiles, published, settled, sources
from ragrounds.agents.systems import drawable, place
from ragrounds.agents.trust import trust
from ragrounds.base.errors import UserError
from ragrounds.base.plugins import guarded
from ragrounds.base.specs import Value
from ragrounds.evals.judges.methods import asked_form
from ragrounds.graphs import catalogue, diagram
from ragrounds.prompts.loader import PromptFolder


class AgentDetails(Struct, frozen=True, kw_only=True):
    """What an agent is made of."""

    agent: str
    """Its canonical text, without what equals the card: what names it in commands, tables and fingerprints."""
    parameters: Mapping[str, Value]
    """All of them, as they are set."""
    card: Card
    package: str = ""
    """The package, with its version, that adds it; empty: it ships, or is a file of the user's."""
    sources: Mapping[str, Setting] = {}
    """What a profile sets of it, each with its source."""
    published: PublishedRun | None = None
    """What the profile says beside it, for the model that was named: sampling and scorer."""


class GraphDetails(Struct, frozen=True, kw_only=True):
    """A state machine."""

    graph: str
    about: str
    """What it does, the paper it follows, and where it differs."""
    tree: str
    """As a tree for the terminal."""
    mermaid: str
    """In Mermaid, for documents."""


def list_agents() -> dict[str, Card]:
    """The agents by name, with what their files say: those that ship, then those of installed packages."""
    return {**{name: read_card(name) for name in names()}, **installed_agents()}


def agent_package(name: str) -> str:
    """The package, with its version, that adds an agent; empty: it ships, or is a file of the user's."""
    return AGENTS.origin(name)


def describe_agent(agent: str, *, profile: str | None = None, model: str | None = None) -> AgentDetails:
    """What ``name[key=value,…]`` is made of.

    Args:
        agent: the agent.
        profile: a paper's profile; its values become part of the agent's text.
        model: the model that it would be asked with: profiles set contexts by the model.

    Raises:
        UserError: an unknown agent, parameter or profile; names the nearest.
    """
    found, named = open_agent(settled(agent, profile, model)), profile_of(agent)
    chosen = named.name if named else profile
    return AgentDetails(
        agent=found.spec,
        parameters=dict(found.parameters),
        card=found.card,
        package=agent_package(found.name),
        sources=sources(agent, chosen, model),
        published=published(chosen, model or "") if chosen else None,
    )


def list_profiles() -> list[Profile]:
    """The papers' profiles, by name: what each sets, with its sources."""
    return all_profiles()


def describe_profile(name: str) -> Profile:
    """A paper's profile.

    Raises:
        UserError: there is none of that name; names the nearest.
    """
    return read_profile(name)


def trust_agent(file: str) -> list[str]:
    """Say yes to the code that an agent's file names, as it is now: it is run without a question from then on.

    Returns:
        The import paths of that code; none: the file names no code.

    Raises:
        UserError: no such file, or not an agent's; or the yes cannot be written down.
    """
    if not file.endswith(".toml"):
        raise UserError(f"{file!r} is not an agent's file: expected PATH.toml.")
    code = code_named(read_card(file))
    if code:
        trust(file, code)
    return code


def list_graphs() -> dict[str, str]:
    """The built-in graphs by name, each with the first line of what its file says."""
    return {name: catalogue.about(name).partition("\n")[0] for name in catalogue.names()}


def describe_graph(name: str) -> GraphDetails:
    """The state machine of a graph, of an agent, or of ``./mine.py:build``.

    Raises:
        UserError: there is none of that name, or it cannot be built.
    """
    found = graph_name(name)
    if place.is_place(found):
        built, about = drawable(found), place.about_place(found).summary
    else:
        built, about = catalogue.build(found), catalogue.about(found)
    with guarded(f"Drawing {found}"):
        return GraphDetails(graph=found, about=about, tree=diagram.tree(built), mermaid=diagram.mermaid(built))


def list_prompts() -> list[str]:
    """The names of the prompts."""
    return PromptFolder().names()


def prompt_text(name: str, language: str = "en") -> str:
    """A prompt's text in a language (``en`` or ``zh``), with its places to fill.

    Raises:
        UserError: there is no such prompt; names the nearest.
    """
    return PromptFolder().source(name, language)


def prompt_form(name: str) -> str:
    """What replaces ``$form`` in a judge's prompt: the verdict that is asked for; empty: it has none."""
    return asked_form(name)
