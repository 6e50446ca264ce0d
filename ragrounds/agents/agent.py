"""An agent: graph, models, prompts, tools, parameters and limits under one name.

It is one TOML file in this folder. ``name[key=value,…]`` overrides what the file says; the canonical text of that is
the agent's identity in commands, tables and fingerprints. Installed packages add agents by entry points of the group
``ragrounds.agents``: the entry point's name is the agent's, its value a function that gives a graph, or a
:class:`Card`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path

import msgspec
from msgspec import Struct

from ragrounds.agents.card import DEFAULT_CAPS as DEFAULT_CAPS
from ragrounds.agents.card import DEFAULT_RETRIEVER as DEFAULT_RETRIEVER
from ragrounds.agents.card import Card as Card
from ragrounds.agents.card import Limits as Limits
from ragrounds.agents.profile import Profile, read_profile, values
from ragrounds.agents.systems import is_foreign, place
from ragrounds.agents.systems.opening import REAL, module_named
from ragrounds.agents.systems.process_choice import reason_here
from ragrounds.agents.systems.settings import SETTINGS, TABLES, is_setting, with_setting
from ragrounds.agents.trust import announce
from ragrounds.base import hooks
from ragrounds.base.errors import UserError, nearest, unknown
from ragrounds.base.files import read_text
from ragrounds.base.plugins import ExtensionPoint, is_import_path, say_once
from ragrounds.base.specs import Listed, Spec, Value, parse
from ragrounds.base.text import parse_toml
from ragrounds.graphs import catalogue
from ragrounds.graphs.user_graph import SUMMARY
from ragrounds.prompts.layout import layout_parts
from ragrounds.tools.retriever import code_in

ROLES = ("model", "reader", "judge", "embedder")
"""`model` answers; `reader` reads documents, where an agent has such a node. Unset roles use `model`."""


class Agent(Struct, frozen=True, kw_only=True):
    """What is compared."""

    spec: str
    """Canonical text, without what equals the card."""
    card: Card
    parameters: dict[str, Value]
    inner: dict[str, tuple[Agent, ...]] = {}
    """The agents that run inside this one, by the parameter that names them."""

    @property
    def whole(self) -> tuple[Agent, ...]:
        """This agent and all inside it."""
        return self, *(one for agents in self.inner.values() for agent in agents for one in agent.whole)

    @property
    def settled(self) -> dict[str, Value]:
        """The parameters that are a part of a run's identity: all but switches that have their defaults."""
        switches = self.card.switches
        return {key: value for key, value in self.parameters.items() if key not in switches or value != switches[key]}

    @property
    def layout(self) -> str:
        """The order of the parts of its prompts (:mod:`ragrounds.prompts.layout`); empty: as they stand."""
        return str(self.parameters.get("layout", ""))

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
    return (
        ""
        if callable(made) or isinstance(made, Card)
        else f"it is {type(made).__name__}, expected {hooks.AGENT.expected}."
    )


AGENTS: ExtensionPoint[object] = ExtensionPoint(hooks.AGENT, object, _lacks, lambda: dict.fromkeys(names()))
"""What ships, and what installed packages add."""


def installed_agents() -> dict[str, Card]:
    """The agents of installed packages by name, without what cannot be used: that is said on standard error."""
    cards = {}
    for name in AGENTS.installed():
        try:
            cards[name] = read_card(name)
        except UserError as problem:
            say_once(f"The agent {name!r} of the package {AGENTS.origin(name)} was skipped: {problem}")
    return cards


def read_card(name: str, *, here: bool = False) -> Card:
    """Read what the user names as an agent, which may run code.

    Args:
        name: of an agent that ships or that an installed package adds; a path to a TOML file; or ``PATH.py:FUNCTION``
            or ``package.module:FUNCTION`` for a graph whose decorator says what a file would, or for a :class:`Card`.
        here: a system of one's own runs in this process, whether it imports ragrounds or not.

    Raises:
        UserError: there is none, or it does not have the form of :class:`Card`.
    """
    if place.is_place(name):
        plain = Card(graph=name, summary=SUMMARY, in_process=here)
        if not reason_here(plain):  # it knows nothing of ragrounds, and is not imported here
            return msgspec.structs.replace(plain, in_process=False)
        made = place.named_object(name)
        return made if isinstance(made, Card) else _graph_card(name)
    if not name.endswith(".toml") and name not in names() and (added := AGENTS.addition(name)) is not None:
        entry, value = added
        return value if isinstance(value, Card) else _graph_card(entry.value.partition("[")[0].replace(" ", ""))
    if name.endswith(".toml"):
        text = read_text(Path(name))
    elif name in names():
        text = files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    else:
        raise unknown("agent", name, [*names(), *AGENTS.installed()], AGENTS.hook.listing)
    try:
        card = _with_endpoint(msgspec.convert(parse_toml(text), Card), name)
        if card.clock:
            REAL.add(module_named(place.beside(name, card.system or card.graph)))
        if card.system:
            if card.graph:
                raise UserError(f"The agent {name!r} has both graph and system, which mean the same: give one.")
            if not place.is_place(card.system):
                raise UserError(
                    f"The agent {name!r}: system = {card.system!r}: expected ./FILE.py:NAME or module:NAME."
                )
            card = msgspec.structs.replace(card, graph=card.system)
        if not card.graph and not is_foreign(card):
            raise UserError(f'The agent {name!r} has neither a graph nor a system: give system = "./FILE.py:NAME".')
        if name.endswith(".toml"):  # beside the file that names it, wherever the command is given
            graph = place.beside(name, card.graph) if place.is_place(card.graph) else card.graph
            person = place.beside(name, card.on_interrupt) if is_import_path(card.on_interrupt) else card.on_interrupt
            python = str(Path(name).parent / card.python) if "/" in card.python else card.python
            reads = tuple(str(Path(name).parent / each) for each in card.reads)
            card = msgspec.structs.replace(card, graph=graph, on_interrupt=person, python=python, reads=reads)
            inside = {key: _beside(name, str(card.parameters[key])) for key in _wraps(card) if key in card.parameters}
            near = {k: place.beside(name, str(v)) for k, v in card.parameters.items() if str(v).startswith("./")}
            card = msgspec.structs.replace(card, parameters={**card.parameters, **(near if inside else {}), **inside})
        if name.endswith(".toml") and (code := code_named(card)):
            announce(name, code)
        return card
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UserError(f"The agent {name!r}: {error}") from error


def _with_endpoint(card: Card, name: str) -> Card:
    """The card, in whose place for a graph stands what its endpoint asks.

    Raises:
        UserError: it names a graph beside the endpoint, or the endpoint is not in order.
    """
    if card.endpoint is None:
        return card
    if card.graph or card.system:
        raise UserError(f"The agent {name!r} has both a graph and a table [endpoint]: give one.")
    if card.searches or card.models or card.corpus:
        raise UserError(f"The agent {name!r} is an endpoint with its own models and search: ours have no effect.")
    if idle := [field for field in (*TABLES, "output", "choice", "on_interrupt") if getattr(card, field)]:
        raise UserError(f"The agent {name!r} is an endpoint: {idle[0]} of its file has no effect; see [endpoint].")
    card.endpoint.check(f"The agent {name!r}", card.parameters)
    return msgspec.structs.replace(card, graph=card.endpoint.spec)


def _graph_card(graph: str) -> Card:
    """The card of a user's graph, made of what its decorator says.

    Raises:
        UserError: there is no such function.
    """
    if not place.is_place(graph):
        raise UserError(f"{graph!r} is not a function at the top level of a module: expected package.module:FUNCTION.")
    return Card(graph=graph, **msgspec.structs.asdict(place.about_place(graph)))


def code_named(card: Card) -> list[str]:
    """The import paths that an agent's file names: its graph, and what its retriever is made of."""

    app = place.app_of(card.graph) if place.is_place(card.graph) else None
    named = [app.target if app else card.graph] if place.is_place(card.graph) else []
    named += [card.on_interrupt] if is_import_path(card.on_interrupt) else []
    inside = [spec.name for key in _wraps(card) for spec in _agents_in(card.parameters.get(key, ""))]
    return [*named, *filter(place.is_place, inside), *code_in(parse(card.retriever))]


def named_inside(spec: Spec) -> list[Spec]:
    """The agents that an agent's text, or its file, names inside it. Nothing is opened."""
    return [one for named in _named_in(spec, read_card(spec.name)).values() for one in named]


def _named_in(spec: Spec, card: Card) -> dict[str, tuple[Spec, ...]]:
    """Parameter → the agents that it names, in the text or else in the file."""
    return {key: _agents_in({**card.parameters, **spec.parameters}.get(key, "")) for key in _wraps(card)}


def _wraps(card: Card) -> tuple[str, ...]:
    """The parameters that name agents inside this one; a graph of the user's own has none."""
    return catalogue.agents_in(card.graph) if not is_foreign(card) and catalogue.has(card.graph) else ()


def _agents_in(value: Value) -> tuple[Spec, ...]:
    """The agents that a parameter names: one, or a list."""
    text = str(value)
    return (Listed(text) if text.startswith("[") else Listed(f"[{text}]")).specs if text else ()


def _beside(file: str, text: str) -> str:
    """The agents that a file names, whose places begin at its folder."""
    near = [
        Spec(place.beside(file, one.name), one.parameters)
        if place.is_place(one.name) or one.name.endswith(".toml")
        else one
        for one in _agents_in(text)
    ]
    return str(Listed.of(near)) if text.startswith("[") else str(near[0])


def graph_name(name: str) -> str:
    """The graph that an agent's name, or a graph's own, stands for.

    Raises:
        UserError: there is neither an agent nor a graph of that name.
    """
    if catalogue.has(name) or place.is_place(name):
        return name
    return read_card(parse(name).name).graph


_OF_SEARCHES = ("question_only", "guard", "guard_near")
"""What every agent that searches can be set to, beside its parameters."""


_DEEPEST = 4
"""Agents inside agents."""


def open_agent(text: str | Spec, *, model: str | None = None, depth: int = 0) -> Agent:
    """Read ``name[key=value,…]``.

    Keys are the parameters and switches of the agent's file, `model` and the other roles, `retriever`, `corpus`,
    `tools`, `prompts`, `question_only`, `guard`, `guard_near`, ``limits.calls``, ``limits.tokens``, ``limits.cost``,
    ``limits.seconds``, and `profile`, in whose place its values stand in the canonical text; of a system of one's own
    also `output`, `choice`, `on_interrupt`, ``input.KEY``, ``config.KEY`` and ``context.KEY``. What the text says
    itself comes before a profile.

    Args:
        text: what is read.
        model: the model that it is asked with where it names none: profiles set contexts by the model.
        depth: how many agents it is inside of.

    Raises:
        UserError: unknown agent, key or profile (the nearest known is offered), or a value of the wrong type.
    """
    spec = parse(text) if isinstance(text, str) else text
    if depth > _DEEPEST:
        raise UserError(f"{spec}: agents stand inside agents more than {_DEEPEST} deep.")
    if spec.parameters.get("clock") == "real":
        REAL.add(module_named(spec.name))
    card = read_card(spec.name, here=spec.parameters.get("in_process") is True)
    own: dict[str, Value] = {**card.parameters, **card.switches}
    refines = card.searches and not card.oracle and not is_foreign(card)
    known = {**_siblings(spec.name, card), **own, **({"refine": "none"} if refines else {})}
    parameters, models, limits = dict(own), dict(card.models), msgspec.to_builtins(card.limits)
    fields: dict[str, Value] = {}
    tools = card.tools
    kept: dict[str, Value] = {}
    wraps = _wraps(card)
    inner: dict[str, tuple[Agent, ...]] = {}
    for key, named in _named_in(spec, card).items():
        inner[key] = tuple(open_agent(one, model=model, depth=depth + 1) for one in named)
        if not named:
            raise UserError(f"{spec} runs another agent: give {spec.name}[{key}=AGENT].")
        if key in spec.parameters:
            listed = Listed.of([parse(one.spec) for one in inner[key]])
            single = len(named) == 1 and not str(spec.parameters[key]).startswith("[")
            spec = spec.having(**{key: parse(inner[key][0].spec) if single else listed})
    for key, value in _expanded(spec, card, known, model).items():
        before: object
        if key in known:
            before = own.get(key, "none" if key == "refine" else None)
            parameters[key] = _like(known[key], value, key, spec)
            value = parse(str(value)) if key in wraps and not isinstance(value, Listed) else value
        elif key in ROLES:
            before, models[key] = card.models.get(key), str(value)
        elif wraps and key in ("tools", "retriever", "corpus", *_OF_SEARCHES):
            raise UserError(f"{spec}: {key} is for the agent inside: {wraps[0]}=AGENT[{key}={value}].")
        elif key == "tools":
            before, tools = Listed.of(map(parse, card.tools)), _tools_in(value)
            value = Listed.of(map(parse, tools))
        elif key in ("retriever", "corpus", "prompts"):
            before, fields[key] = getattr(card, key), str(value)
        elif key in _OF_SEARCHES:
            former: bool | float = getattr(card, key)
            before, fields[key] = former, _like(former, value, key, spec)
        elif is_foreign(card) and is_setting(key):
            before, card = with_setting(card, key, value)
        elif key.startswith("limits.") and key[7:] in Limits.__struct_fields__:
            before, limits[key[7:]] = getattr(card.limits, key[7:]), value
        else:
            raise _unknown_key(key, spec.name, [*known, *(SETTINGS if is_foreign(card) else ())])
        if isinstance(value, Spec):
            value = value if value.parameters else value.name
        same = str(value) == before if isinstance(value, Spec) else value == before
        if not same or isinstance(value, bool) != isinstance(before, bool):
            kept[key] = value
    if "refine" in parameters:
        catalogue.refining().read_way(str(parameters["refine"]))
        if parameters["refine"] == "none":  # as without it
            del parameters["refine"]
    try:
        settled = msgspec.convert(limits, Limits)
    except msgspec.ValidationError as error:
        raise UserError(f"{spec}: limits: {error}") from error
    changed = msgspec.structs.replace(card, models=models, limits=settled, tools=tools, **fields)
    if not 0.0 <= changed.guard_near <= 1.0:
        raise UserError(f"{spec}: guard_near is a share of the question's wording, from 0 to 1.")
    agent = _with_inner(Agent(spec=str(Spec(spec.name, kept)), card=changed, parameters=parameters), inner)
    layout_parts(agent.layout)
    return agent


def _with_inner(agent: Agent, inner: dict[str, tuple[Agent, ...]]) -> Agent:
    """An agent with those inside it, which ask its models where they name none of their own.

    Raises:
        UserError: one has caps of its own.
    """
    agents = [one for some in inner.values() for one in some]
    if any(key.startswith("limits.") for one in agents for key in parse(one.spec).parameters):
        raise UserError(f"{agent.spec}: an attempt's caps hold for all agents inside: give {agent.name}[limits.…=…].")
    models = {role: text for role, text in agent.card.models.items() if role != "judge"}

    def asking(one: Agent) -> Agent:
        """With these models."""
        merged = one.card.models if is_foreign(one.card) else {**models, **one.card.models}
        card = msgspec.structs.replace(one.card, models=merged)
        return _with_inner(msgspec.structs.replace(one, card=card), one.inner)

    card = msgspec.structs.replace(agent.card, oracle=agent.card.oracle or any(one.card.oracle for one in agents))
    made = {key: tuple(map(asking, some)) for key, some in inner.items()}
    return msgspec.structs.replace(agent, card=card, inner=made)


def with_retriever(text: str, retriever: str) -> str:
    """An agent's text that says what it searches with: ``vanilla_rag`` and ``bm25[k1=1.2]`` give
    ``vanilla_rag[retriever=bm25[k1=1.2]]``. What names a retriever itself, in its text or its file, or does not search,
    stays as it is.

    Raises:
        UserError: an unknown agent, or a retriever that is no spec.
    """
    spec = parse(text)
    card = read_card(spec.name)
    for key, named in _named_in(spec, card).items():
        inside = [parse(with_retriever(str(one), retriever)) for one in named]
        if inside != list(named):
            spec = spec.having(**{key: Listed.of(inside) if len(inside) > 1 else inside[0]})
            text = str(spec)
    if "retriever" in spec.parameters or card.retriever != DEFAULT_RETRIEVER or not card.searches:
        return text
    return str(spec.having(retriever=parse(retriever)))


def profile_of(text: str | Spec, card: Card | None = None) -> Profile | None:
    """The profile that an agent's text, or its file, names; `card`: what the file says, where it was read before.

    Raises:
        UserError: an unknown agent or profile.
    """
    spec = parse(text) if isinstance(text, str) else text
    name = spec.parameters.get("profile") or (card or read_card(spec.name)).profile
    return read_profile(str(name)) if name else None


def _expanded(spec: Spec, card: Card, known: Mapping[str, Value], model: str | None) -> dict[str, Value]:
    """What a text sets, with the values of its profile in the profile's place."""
    given = {key: value for key, value in spec.parameters.items() if key != "profile"}
    profile = profile_of(spec, card)
    if profile is None:
        return given
    named = str(given.get("model") or card.models.get("model") or model or "")
    set_by_paper: dict[str, Value] = dict(values(profile.settings(card.graph, named)))
    # What a file says itself comes before the profile that it names; what an agent does not have is not set.
    said = {*card.parameters, *card.switches} if card.profile and "profile" not in spec.parameters else set()
    if card.profile and card.retriever != DEFAULT_RETRIEVER:
        said.add("retriever")
    settable = {*known, "prompts", *(("retriever", "question_only") if card.searches else ())} - said
    roles = {role: given.get(role, card.models.get(role, "")) for role in ROLES}
    sampled = {role: _sampled(str(text), profile) for role, text in roles.items() if text}
    if "retriever" in set_by_paper:  # as it is read where it is typed: without quotes
        set_by_paper["retriever"] = parse(str(set_by_paper["retriever"]))
    return {**{key: value for key, value in set_by_paper.items() if key in settable}, **given, **sampled}


def _sampled(model: str, profile: Profile) -> str:
    """A model's text with what it leaves open of a profile's sampling."""
    spec = parse(model)
    open_ = {key: value for key, value in values(profile.sampling(model)).items() if key not in spec.parameters}
    return model if spec.name.startswith("baseline:") else str(spec.having(**open_))


def _siblings(name: str, card: Card) -> dict[str, Value]:
    """What shipped agents of the same graph can be set to, for a file of the user's that does not say all of it."""
    if name in names() or is_foreign(card):
        return {}
    cards = [read_card(shipped) for shipped in names()]
    return {k: v for one in cards if one.graph == card.graph for k, v in {**one.parameters, **one.switches}.items()}


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
    if agent.card.oracle or agent.card.models or agent.card.corpus or is_foreign(agent.card) or agent.inner:
        raise UserError(
            f"The agent {agent.spec!r} cannot run inside another: it is an oracle or your own graph, or has agents, "
            "models or a corpus of its own. An inner agent uses those of the outer one."
        )
    return agent


def _tools_in(value: Value) -> tuple[str, ...]:
    """The tools that ``tools=[…]`` names, or the one of ``tools=NAME``."""
    listed = value if isinstance(value, Listed) else Listed.of([value])
    return tuple(map(str, listed.specs))


def _like(example: Value, value: Value, key: str, spec: Spec) -> Value:
    wanted: type = str if isinstance(example, Spec) else type(example)
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if wanted is str and isinstance(value, Spec):
        return str(value)
    if type(value) is not wanted:
        raise UserError(f"{spec}: {key} must be a {_TYPES[wanted]} such as {example!r}, not {str(value)!r}.")
    return value


_TYPES = {bool: "switch (true or false)", int: "whole number", float: "number", str: "word"}


def _unknown_key(key: str, name: str, parameters: Iterable[str]) -> UserError:
    limits = [f"limits.{limit}" for limit in Limits.__struct_fields__]
    known = [*parameters, *ROLES, "retriever", "corpus", "tools", "prompts", *_OF_SEARCHES, "profile", *limits]
    return UserError(f"The agent {name!r} has no parameter {key!r}.{nearest(key, known)} Known: {', '.join(known)}.")
