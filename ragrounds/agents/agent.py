"""An agent: graph, models, prompts, tools, parameters and limits under one name.

It is one TOML file in this folder. ``name[key=value,…]`` overrides what the file says; the canonical text of that is
the agent's identity in commands, tables and fingerprints. Installed packages add agents by entry points of the group
``ragrounds.agents``: the entry point's name is the agent's, its value a function that gives a graph, or a
:class:`Card`.
"""

from __future__ import annotations

import tomllib
from importlib.resources import files
from pathlib import Path

import msgspec
from msgspec import Struct, field

from ragrounds.agents.trust import announce
from ragrounds.errors import UserError, nearest, unknown
from ragrounds.files import read_text
from ragrounds.graphs import user_graph
from ragrounds.plugins import ExtensionPoint, say_once
from ragrounds.specs import Spec, Value, parse
from ragrounds.text import parse_toml

ROLES = ("model", "reader", "judge", "embedder")
"""`model` answers; `reader` reads documents, where an agent has such a node. Unset roles use `model`."""


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An attempt's caps. Reaching one ends the attempt as ``capped``, scored on what it had."""

    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None
    """Dollars, at uncached prices."""
    seconds: float | None = None

    def words(self) -> str:
        """The caps in words: ``300 calls, 2,000,000 tokens and 2 h``."""
        said = [] if self.calls is None else [f"{self.calls:,} calls"]
        said += [] if self.tokens is None else [f"{self.tokens:,} tokens"]
        said += [] if self.cost is None else [f"${self.cost:g}"]
        if self.seconds is not None:
            said.append(f"{self.seconds / 3600:g} h" if self.seconds % 3600 == 0 else f"{self.seconds:g} s")
        return " and ".join(filter(None, [", ".join(said[:-1]), said[-1] if said else ""]))


DEFAULT_CAPS = Limits(calls=300, tokens=2_000_000, seconds=7200.0)
"""What an attempt may use where its agent does not say. No strategy that ships makes 40 calls for a question by its
defaults: these are for loops that a model keeps up."""


class Card(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An agent's TOML file."""

    graph: str
    summary: str
    source: str = ""
    searches: bool = False
    question_only: bool = True
    """The options are hidden from everything that searches (MIRAGE, Section 3.1). ``false`` is a departure from it."""
    oracle: bool = False
    """This agent is given the gold documents. No other ever is."""
    parameters: dict[str, bool | int | float | str] = field(default_factory=dict)
    input: dict[str, str] = field(default_factory=dict)
    """For a user's own graph: key of its state → what it is given (see :mod:`ragrounds.graphs.user_graph`)."""
    output: str = ""
    """For a user's own graph: the key that holds the answer."""
    nests: bool = True
    """For a user's own graph: other graphs run inside its nodes."""
    models: dict[str, str] = field(default_factory=dict)
    retriever: str = "bm25"
    corpus: str | None = None
    prompts: str | None = None
    """A folder of the user's own prompts, read before the package's."""
    limits: Limits = Limits()


class Agent(Struct, frozen=True, kw_only=True):
    """What is compared."""

    spec: str
    """Canonical text, without what equals the card."""
    card: Card
    parameters: dict[str, Value]

    @property
    def caps(self) -> Limits:
        """What an attempt is held to: the card's limits, and `DEFAULT_CAPS` where it has none."""
        own = self.card.limits
        given = {cap: getattr(own, cap) for cap in Limits.__struct_fields__ if getattr(own, cap) is not None}
        return msgspec.structs.replace(DEFAULT_CAPS, **given)

    @property
    def name(self) -> str:
        """The agent's name without its parameters."""
        return parse(self.spec).name


def names() -> list[str]:
    """The agents that come with the package."""
    return sorted(
        file.name.removesuffix(".toml") for file in files(__package__).iterdir() if file.name.endswith(".toml")
    )


def _lacks(made: object) -> str:
    return "" if callable(made) or isinstance(made, Card) else f"it is {type(made).__name__}, expected {_EXPECTED}."


_EXPECTED = "a function that gives a graph, or a Card"
AGENTS: ExtensionPoint[object] = ExtensionPoint(
    group="ragrounds.agents",
    noun="agent",
    kinds=object,
    expected=_EXPECTED,
    listing="ragrounds agents ls",
    shipped=lambda: dict.fromkeys(names()),
    check=_lacks,
)
"""What ships, and what installed packages add."""


def installed_agents() -> dict[str, Card]:
    """The agents of installed packages by name, without what cannot be used: that is said on standard error."""
    cards = {}
    for name in AGENTS.installed():
        try:
            cards[name] = read_card(name)
        except UserError as problem:
            say_once(f"The agent {name!r} of the package {AGENTS.origin(name)} was left out: {problem}")
    return cards


def read_card(name: str) -> Card:
    """Read what the user names as an agent, which may run code.

    Args:
        name: of an agent that ships or that an installed package adds; a path to a TOML file; or ``PATH.py:FUNCTION``
            or ``package.module:FUNCTION`` for a graph whose decorator says what a file would, or for a :class:`Card`.

    Raises:
        UserError: there is none, or it does not have the form of :class:`Card`.
    """
    if user_graph.is_user_graph(name):
        made = user_graph.named_object(name)
        return made if isinstance(made, Card) else _graph_card(name)
    if not name.endswith(".toml") and name not in names() and (added := AGENTS.addition(name)) is not None:
        entry, value = added
        return value if isinstance(value, Card) else _graph_card(entry.value.partition("[")[0].replace(" ", ""))
    if name.endswith(".toml"):
        text = read_text(Path(name))
    elif name in names():
        text = files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    else:
        raise unknown("agent", name, [*names(), *AGENTS.installed()], AGENTS.listing)
    try:
        card = msgspec.convert(parse_toml(text), Card)
        if user_graph.is_user_graph(card.graph) and not user_graph.is_module(card.graph) and name.endswith(".toml"):
            # Beside the file that names it, wherever the command is given.
            card = msgspec.structs.replace(card, graph=str(Path(name).parent / card.graph))
        if name.endswith(".toml") and (code := code_named(card)):
            announce(name, code)
        return card
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UserError(f"The agent {name!r}: {error}") from error


def _graph_card(graph: str) -> Card:
    """The card of a user's graph, made of what its decorator says.

    Raises:
        UserError: there is no such function.
    """
    if not user_graph.is_user_graph(graph):
        raise UserError(f"{graph!r} names no function at the top of a module: expected package.module:FUNCTION.")
    return Card(graph=graph, **msgspec.structs.asdict(user_graph.about(graph)))


def code_named(card: Card) -> list[str]:
    """The import paths that an agent's file names: its graph, and what its retriever is made of."""
    from ragrounds.tools.retriever import code_in

    graph = [card.graph] if user_graph.is_user_graph(card.graph) else []
    return graph + code_in(parse(card.retriever))


def graph_name(name: str) -> str:
    """The graph that an agent's name, or a graph's own, stands for.

    Raises:
        UserError: there is neither an agent nor a graph of that name.
    """
    from ragrounds.graphs import catalogue

    if name in catalogue.names() or user_graph.is_user_graph(name):
        return name
    return read_card(parse(name).name).graph


def open_agent(text: str | Spec) -> Agent:
    """Read ``name[key=value,…]``.

    Keys are the parameters of the agent's file, `model` and the other roles, `retriever`, `corpus`, `prompts`, and
    ``limits.calls``, ``limits.tokens``, ``limits.cost``, ``limits.seconds``.

    Raises:
        UserError: unknown agent or key (the nearest known is offered), or a value of the wrong type.
    """
    spec = parse(text) if isinstance(text, str) else text
    card = read_card(spec.name)
    parameters: dict[str, Value] = dict(card.parameters)
    models, limits, fields = dict(card.models), msgspec.to_builtins(card.limits), {}
    kept: dict[str, Value] = {}
    for key, value in spec.parameters.items():
        before: object
        if key in card.parameters:
            before, parameters[key] = card.parameters[key], _like(card.parameters[key], value, key, spec)
        elif key in ROLES:
            before, models[key] = card.models.get(key), str(value)
        elif key in ("retriever", "corpus", "prompts"):
            before, fields[key] = getattr(card, key), str(value)
        elif key.startswith("limits.") and key[7:] in Limits.__struct_fields__:
            before, limits[key[7:]] = getattr(card.limits, key[7:]), value
        else:
            raise _unknown_key(key, spec.name, card)
        if value != before or isinstance(value, bool) != isinstance(before, bool):
            kept[key] = value
    try:
        settled = msgspec.convert(limits, Limits)
    except msgspec.ValidationError as error:
        raise UserError(f"{spec}: limits: {error}") from error
    changed = msgspec.structs.replace(card, models=models, limits=settled, **fields)
    return Agent(spec=str(Spec(spec.name, kept)), card=changed, parameters=parameters)


def subagent(agent: Agent) -> Agent | None:
    """The agent whose final answer is this one's query, as ``query_generation=answer[agent=NAME]`` says.

    Raises:
        UserError: there is no such agent, or it cannot run inside another.
    """
    given = parse(str(agent.parameters.get("query_generation", "none")))
    if given.name != "answer" or "agent" not in given.parameters:
        return None
    return check_subagent(open_agent(str(given.parameters["agent"])))


def check_subagent(agent: Agent) -> Agent:
    """The agent, if it can run inside another.

    Raises:
        UserError: it is an oracle or a graph of the user's own, or names models or a corpus.
    """
    if agent.card.oracle or agent.card.models or agent.card.corpus or user_graph.is_user_graph(agent.card.graph):
        raise UserError(
            f"The agent {agent.spec!r} cannot run inside another: it is an oracle or a graph of one's own, or names "
            "models or a corpus of its own. An inner agent uses those of the outer one."
        )
    return agent


def _like(example: bool | int | float | str, value: Value, key: str, spec: Spec) -> Value:
    wanted: type = type(example)
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if wanted is str and isinstance(value, Spec):
        return str(value)
    if type(value) is not wanted:
        raise UserError(f"{spec}: {key} must be a {_TYPES[wanted]} such as {example!r}, not {str(value)!r}.")
    return value


_TYPES = {bool: "switch (true or false)", int: "whole number", float: "number", str: "word"}


def _unknown_key(key: str, name: str, card: Card) -> UserError:
    limits = [f"limits.{limit}" for limit in Limits.__struct_fields__]
    known = [*card.parameters, *ROLES, "retriever", "corpus", "prompts", *limits]
    return UserError(f"The agent {name!r} has no parameter {key!r}.{nearest(key, known)} Known: {', '.join(known)}.")
