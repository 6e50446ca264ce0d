"""An agent: graph, model, prompts, tools, parameters and limits under one name.

Each agent is one TOML file in this folder. ``name[key=value,…]`` overrides values of the file. Its canonical text is
the agent's identity in commands, tables and fingerprints. Installed packages add agents by entry points of the group
``ragrounds.agents``: the entry point's name is the agent's, its value a function that returns a graph, or a
:class:`Card`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

import msgspec
from msgspec import Struct

from ragrounds.agents.card import DEFAULT_CAPS as DEFAULT_CAPS
from ragrounds.agents.card import DEFAULT_RETRIEVER as DEFAULT_RETRIEVER
from ragrounds.agents.card import Card as Card
from ragrounds.agents.card import Limits as Limits
from ragrounds.agents.profile import Profile, read_profile, values
from ragrounds.agents.systems import place
from ragrounds.agents.systems.kinds import kind_of
from ragrounds.agents.systems.opening import REAL, module_named
from ragrounds.agents.systems.process_choice import reason_here
from ragrounds.agents.systems.settings import TABLES, is_setting, short_path, with_setting
from ragrounds.agents.trust import announce
from ragrounds.base import hooks
from ragrounds.base.errors import UserError, nearest, unknown
from ragrounds.base.files import read_text, toml_record
from ragrounds.base.plugins import ExtensionPoint, is_import_path, warn_once
from ragrounds.base.specs import Listed, Spec, Value, parse
from ragrounds.graphs import catalogue
from ragrounds.graphs.user_graph import SUMMARY
from ragrounds.prompts.layout import layout_parts
from ragrounds.tools.retriever import code_in

ROLES = ("model", "reader", "judge", "embedder")
"""Roles of models. `model` answers; `reader` reads documents, if an agent has such a node. Unset roles use `model`."""


class Agent(Struct, frozen=True, kw_only=True):
    """A configured agent."""

    spec: str
    """Canonical text, without values that equal the card's."""
    card: Card
    parameters: dict[str, Value]
    inner: dict[str, tuple[Agent, ...]] = {}
    """Agents that run inside this one, by the parameter that names them."""

    @property
    def with_inner(self) -> tuple[Agent, ...]:
        """Return this agent and all agents inside it."""
        return self, *(nested for agents in self.inner.values() for agent in agents for nested in agent.with_inner)

    @property
    def settled(self) -> dict[str, Value]:
        """Return the parameters that are part of a run's identity: all except switches with their defaults."""
        switches = self.card.switches
        return {key: value for key, value in self.parameters.items() if key not in switches or value != switches[key]}

    @property
    def layout(self) -> str:
        """Return the order of the parts of its prompts (:mod:`ragrounds.prompts.layout`). Empty for the written
        order.
        """
        return str(self.parameters.get("layout", ""))

    @property
    def caps(self) -> Limits:
        """Return the caps of an attempt: the card's limits, and `DEFAULT_CAPS` for those that are not set."""
        limits = self.card.limits
        set_limits = {cap: getattr(limits, cap) for cap in Limits.__struct_fields__ if getattr(limits, cap) is not None}
        return msgspec.structs.replace(DEFAULT_CAPS, **set_limits)

    @property
    def name(self) -> str:
        """Return the agent's name without its parameters."""
        return parse(self.spec).name


@cache
def names() -> tuple[str, ...]:
    """Return the names of the shipped agents, in order."""
    folder = files(__package__).iterdir()
    return tuple(sorted(file.name.removesuffix(".toml") for file in folder if file.name.endswith(".toml")))


AGENTS: ExtensionPoint[object] = ExtensionPoint(
    hooks.AGENT,
    object,
    lambda added: (
        ""
        if callable(added) or isinstance(added, Card)
        else f"it is {type(added).__name__}, expected {hooks.AGENT.expected}."
    ),
    lambda: dict.fromkeys(names()),
)
"""Agents that ship, and those that installed packages add."""


def installed_agents() -> dict[str, Card]:
    """Return the agents of installed packages by name. Unusable ones are left out and reported on standard error."""
    cards = {}
    for name in AGENTS.installed():
        try:
            cards[name] = read_card(name)
        except UserError as problem:
            warn_once(f"The agent {name!r} of the package {AGENTS.origin(name)} was skipped: {problem}")
    return cards


def read_card(name: str, *, in_this_process: bool = False) -> Card:
    """Read the agent that the user names. This may run code.

    Args:
        name: name of an agent that ships or that an installed package adds; a path to a TOML file; or
            ``PATH.py:FUNCTION`` or ``package.module:FUNCTION`` for a graph whose decorator replaces a file, or for a
            :class:`Card`.
        in_this_process: True to run a user's system in this process, whether it imports ragrounds or not.

    Raises:
        UserError: the agent does not exist, or does not have the form of :class:`Card`.
    """
    if place.is_place(name):
        plain = Card(graph=name, summary=SUMMARY, in_process=in_this_process)
        if not reason_here(plain):  # it does not import ragrounds, so it is not imported in this process
            return msgspec.structs.replace(plain, in_process=False)
        target = place.named_object(name)
        return target if isinstance(target, Card) else _graph_card(name)
    if not name.endswith(".toml") and name not in names() and (added := AGENTS.addition(name)) is not None:
        entry, value = added
        return value if isinstance(value, Card) else _graph_card(entry.value.partition("[")[0].replace(" ", ""))
    if name.endswith(".toml"):
        text = read_text(Path(name))
    elif name in names():
        text = files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    else:
        raise unknown("agent", name, [*names(), *AGENTS.installed()], AGENTS.hook.listing)
    card = _with_endpoint(toml_record(text, Card, f"The agent {name!r}"), name)
    if card.clock:
        REAL.add(module_named(place.path_beside(name, card.system or card.graph)))
    if card.system:
        if card.graph:
            raise UserError(f"The agent {name!r} has both graph and system, which mean the same: give one.")
        if not place.is_place(card.system):
            raise UserError(f"The agent {name!r}: system = {card.system!r}: expected ./FILE.py:NAME or module:NAME.")
        card = msgspec.structs.replace(card, graph=card.system)
    if not card.graph:
        raise UserError(f'The agent {name!r} has neither a graph nor a system: give system = "./FILE.py:NAME".')
    if name.endswith(".toml"):  # paths are relative to the file, not to the current folder
        graph = place.path_beside(name, card.graph) if place.is_place(card.graph) else card.graph
        person = place.path_beside(name, card.on_interrupt) if is_import_path(card.on_interrupt) else card.on_interrupt
        python = str(Path(name).parent / card.python) if "/" in card.python else card.python
        reads = tuple(str(Path(name).parent / path) for path in card.reads)
        card = msgspec.structs.replace(card, graph=graph, on_interrupt=person, python=python, reads=reads)
        inside = {
            key: _relative_to_file(name, str(card.parameters[key])) for key in _wraps(card) if key in card.parameters
        }
        near = {k: place.path_beside(name, str(v)) for k, v in card.parameters.items() if str(v).startswith("./")}
        card = msgspec.structs.replace(card, parameters={**card.parameters, **(near if inside else {}), **inside})
    if name.endswith(".toml") and (code := code_named(card)):
        announce(name, code)
    return card


def _with_endpoint(card: Card, name: str) -> Card:
    """Return the card with its endpoint's spec as graph, if it has an endpoint.

    Raises:
        UserError: the file sets both a graph and an endpoint, or the endpoint is invalid.
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
    """Return the card of a user's graph, with the values of its decorator.

    Raises:
        UserError: the function does not exist.
    """
    if not place.is_place(graph):
        raise UserError(f"{graph!r} is not a function at the top level of a module: expected package.module:FUNCTION.")
    return Card(graph=graph, **msgspec.structs.asdict(place.about_place(graph)))


def code_named(card: Card) -> list[str]:
    """Return the import paths that an agent's file names: its graph, and parts of its retriever."""
    import_paths = [place.resolve(card.graph)[1]] if place.is_place(card.graph) else []
    import_paths += [card.on_interrupt] if is_import_path(card.on_interrupt) else []
    inside = [spec.name for key in _wraps(card) for spec in _agents_in(card.parameters.get(key, ""))]
    return [*import_paths, *filter(place.is_place, inside), *code_in(parse(card.retriever))]


def named_inside(spec: Spec) -> list[Spec]:
    """Return the agents that an agent's text, or its file, names inside it. Nothing is opened."""
    return [inner for specs in _named_in(spec, read_card(spec.name)).values() for inner in specs]


def _named_in(spec: Spec, card: Card) -> dict[str, tuple[Spec, ...]]:
    """Return parameter → the agents that it names, in the text or else in the file."""
    return {key: _agents_in({**card.parameters, **spec.parameters}.get(key, "")) for key in _wraps(card)}


def _wraps(card: Card) -> tuple[str, ...]:
    """Return the parameters that name inner agents. A user's own graph has none."""
    return catalogue.agents_in(card.graph) if catalogue.has(card.graph) else ()


def _agents_in(value: Value) -> tuple[Spec, ...]:
    """Return the agents that a parameter names: one, or a list."""
    text = str(value)
    return (Listed(text) if text.startswith("[") else Listed(f"[{text}]")).specs if text else ()


def _relative_to_file(file: str, text: str) -> str:
    """Return the text of agents that a file names, with paths relative to the file's folder."""
    near = [
        Spec(place.path_beside(file, spec.name), spec.parameters)
        if place.is_place(spec.name) or spec.name.endswith(".toml")
        else spec
        for spec in _agents_in(text)
    ]
    return str(Listed.from_values(near)) if text.startswith("[") else str(near[0])


def graph_name(name: str) -> str:
    """Return the graph of an agent, or the graph itself.

    Raises:
        UserError: no agent and no graph has this name.
    """
    if catalogue.has(name) or place.is_place(name):
        return name
    return read_card(parse(name).name).graph


_SEARCH_SETTINGS = ("question_only", "guard", "guard_near")
"""Settings of every agent that searches, in addition to its parameters."""


_MAX_DEPTH = 4
"""Maximum nesting depth of agents inside agents."""


def open_agent(text: str | Spec, *, model: str | None = None, depth: int = 0) -> Agent:
    """Open an agent from its text, ``name[key=value,…]``.

    Keys are the parameters and switches of the agent's file, `model` and the other roles, `retriever`, `corpus`,
    `tools`, `prompts`, `question_only`, `guard`, `guard_near`, ``limits.calls``, ``limits.tokens``, ``limits.cost``,
    ``limits.seconds``, and `profile`, which the canonical text replaces by its values. A user's system also has
    `output`, `choice`, `on_interrupt`, ``input.KEY``, ``config.KEY`` and ``context.KEY``. Values in the text itself
    take precedence over a profile.

    Args:
        text: the agent's text.
        model: default model, if the text names none. Profiles set context sizes by the model.
        depth: number of enclosing agents.

    Raises:
        UserError: unknown agent, key or profile (the nearest known is suggested), or a value of the wrong type.
    """
    spec = parse(text) if isinstance(text, str) else text
    if depth > _MAX_DEPTH:
        raise UserError(f"{spec}: agents are nested more than {_MAX_DEPTH} deep.")
    if spec.parameters.get("clock") == "real":
        REAL.add(module_named(spec.name))
    card = read_card(spec.name, in_this_process=spec.parameters.get("in_process") is True)
    defaults: dict[str, Value] = {**card.parameters, **card.switches}
    kind = kind_of(card)
    refine = {"refine": "none"} if kind.has_refining() else {}
    settable = {**_sibling_parameters(spec.name, card), **defaults, **refine}
    parameters, models, limits = dict(defaults), dict(card.models), msgspec.to_builtins(card.limits)
    fields: dict[str, Value] = {}
    tools = card.tools
    overrides: dict[str, Value] = {}
    wraps = _wraps(card)
    inner: dict[str, tuple[Agent, ...]] = {}
    for key, specs in _named_in(spec, card).items():
        inner[key] = tuple(open_agent(inner_spec, model=model, depth=depth + 1) for inner_spec in specs)
        if not specs:
            raise UserError(f"{spec} runs another agent: give {spec.name}[{key}=AGENT].")
        if key in spec.parameters:
            listed = Listed.from_values([parse(opened.spec) for opened in inner[key]])
            single = len(specs) == 1 and not str(spec.parameters[key]).startswith("[")
            spec = spec.having(**{key: parse(inner[key][0].spec) if single else listed})
    for key, value in _with_profile_values(spec, card, settable, model).items():
        before: object
        if key in settable:
            before = defaults.get(key, "none" if key == "refine" else None)
            parameters[key] = _like(settable[key], value, key, spec)
            value = parse(str(value)) if key in wraps and not isinstance(value, Listed) else value
        elif key in ROLES:
            before, models[key] = card.models.get(key), str(value)
        elif wraps and key in ("tools", "retriever", "corpus", *_SEARCH_SETTINGS):
            raise UserError(f"{spec}: {key} is for the agent inside: {wraps[0]}=AGENT[{key}={value}].")
        elif key == "tools":
            before = Listed.from_values(map(parse, card.tools))
            tools = tuple(map(str, (value if isinstance(value, Listed) else Listed.from_values([value])).specs))
            value = Listed.from_values(map(parse, tools))
        elif key in ("retriever", "corpus", "prompts"):
            before, fields[key] = getattr(card, key), str(value)
        elif key in _SEARCH_SETTINGS:
            former: bool | float = getattr(card, key)
            before, fields[key] = former, _like(former, value, key, spec)
        elif kind.settings and is_setting(key):
            value = short_path(str(value)) if key == "python" else value
            before, card = with_setting(card, key, value)
        elif key.startswith("limits.") and key[7:] in Limits.__struct_fields__:
            before, limits[key[7:]] = getattr(card.limits, key[7:]), value
        else:
            caps_keys = [f"limits.{limit}" for limit in Limits.__struct_fields__]
            common_keys = [*ROLES, "retriever", "corpus", "tools", "prompts", *_SEARCH_SETTINGS, "profile", *caps_keys]
            known_keys = [*settable, *kind.settings, *common_keys]
            raise UserError(
                f"The agent {spec.name!r} has no parameter {key!r}.{nearest(key, known_keys)} "
                f"Known: {', '.join(known_keys)}."
            )
        if isinstance(value, Spec):
            value = value if value.parameters else value.name
        same = str(value) == before if isinstance(value, Spec) else value == before
        if not same or isinstance(value, bool) != isinstance(before, bool):
            overrides[key] = value
    if "refine" in parameters:
        catalogue.refining().read_way(str(parameters["refine"]))
        if parameters["refine"] == "none":  # the same as an unset value
            del parameters["refine"]
    try:
        caps = msgspec.convert(limits, Limits)
    except msgspec.ValidationError as error:
        raise UserError(f"{spec}: limits: {error}") from error
    changed = msgspec.structs.replace(card, models=models, limits=caps, tools=tools, **fields)
    if not 0.0 <= changed.guard_near <= 1.0:
        raise UserError(f"{spec}: guard_near is a share of the question's wording, from 0 to 1.")
    agent = _with_inner(Agent(spec=str(Spec(spec.name, overrides)), card=changed, parameters=parameters), inner)
    layout_parts(agent.layout)
    return agent


def _with_inner(agent: Agent, inner: dict[str, tuple[Agent, ...]]) -> Agent:
    """Return an agent with its inner agents, which use its models where they set none of their own.

    Raises:
        UserError: an inner agent has its own caps.
    """
    agents = [nested for group in inner.values() for nested in group]
    if any(key.startswith("limits.") for nested in agents for key in parse(nested.spec).parameters):
        raise UserError(f"{agent.spec}: an attempt's caps hold for all agents inside: give {agent.name}[limits.…=…].")
    models = {role: text for role, text in agent.card.models.items() if role != "judge"}

    def with_models(inner_agent: Agent) -> Agent:
        """Return an inner agent with these models."""
        card = msgspec.structs.replace(inner_agent.card, models=kind_of(inner_agent.card).models(models))
        return _with_inner(msgspec.structs.replace(inner_agent, card=card), inner_agent.inner)

    card = msgspec.structs.replace(agent.card, oracle=agent.card.oracle or any(nested.card.oracle for nested in agents))
    configured = {key: tuple(map(with_models, group)) for key, group in inner.items()}
    return msgspec.structs.replace(agent, card=card, inner=configured)


def with_retriever(text: str, retriever: str) -> str:
    """Return an agent's text with an explicit retriever: ``vanilla_rag`` and ``bm25[k1=1.2]`` give
    ``vanilla_rag[retriever=bm25[k1=1.2]]``.

    An agent that sets a retriever in its text or file, or does not search, is unchanged.

    Raises:
        UserError: an unknown agent, or a retriever that is not a spec.
    """
    spec = parse(text)
    card = read_card(spec.name)
    for key, specs in _named_in(spec, card).items():
        inside = [parse(with_retriever(str(inner_spec), retriever)) for inner_spec in specs]
        if inside != list(specs):
            spec = spec.having(**{key: Listed.from_values(inside) if len(inside) > 1 else inside[0]})
            text = str(spec)
    if "retriever" in spec.parameters or card.retriever != DEFAULT_RETRIEVER or not card.searches:
        return text
    return str(spec.having(retriever=parse(retriever)))


def profile_of(text: str | Spec, card: Card | None = None) -> Profile | None:
    """Return the profile that an agent's text, or its file, names. `card` is the content of the file, if it is already
    read.

    Raises:
        UserError: an unknown agent or profile.
    """
    spec = parse(text) if isinstance(text, str) else text
    name = spec.parameters.get("profile") or (card or read_card(spec.name)).profile
    return read_profile(str(name)) if name else None


def _with_profile_values(
    spec: Spec, card: Card, settable_keys: Mapping[str, Value], model: str | None
) -> dict[str, Value]:
    """Return the values that a text sets. A profile is replaced by its values."""
    explicit = {key: value for key, value in spec.parameters.items() if key != "profile"}
    profile = profile_of(spec, card)
    if profile is None:
        return explicit
    model_name = str(explicit.get("model") or card.models.get("model") or model or "")
    set_by_paper: dict[str, Value] = dict(values(profile.settings(card.graph, model_name)))
    # Values of a file take precedence over the profile that it names. Keys that an agent lacks are not set.
    set_by_file = {*card.parameters, *card.switches} if card.profile and "profile" not in spec.parameters else set()
    if card.profile and card.retriever != DEFAULT_RETRIEVER:
        set_by_file.add("retriever")
    settable = {*settable_keys, "prompts", *(("retriever", "question_only") if card.searches else ())} - set_by_file
    roles = {role: explicit.get(role, card.models.get(role, "")) for role in ROLES}
    sampled = {role: _with_sampling(str(text), profile) for role, text in roles.items() if text}
    if "retriever" in set_by_paper:  # parsed as if typed, so that the canonical text has no quotes
        set_by_paper["retriever"] = parse(str(set_by_paper["retriever"]))
    return {**{key: value for key, value in set_by_paper.items() if key in settable}, **explicit, **sampled}


def _with_sampling(model: str, profile: Profile) -> str:
    """Return a model's text with the profile's sampling parameters that it does not set itself."""
    spec = parse(model)
    open_ = {key: value for key, value in values(profile.sampling(model)).items() if key not in spec.parameters}
    return model if spec.name.startswith("baseline:") else str(spec.having(**open_))


def _sibling_parameters(name: str, card: Card) -> dict[str, Value]:
    """Return the parameters of shipped agents with the same graph, for a user's file that does not list all of them."""
    if name in names() or not catalogue.has(card.graph):
        return {}
    cards = [read_card(shipped) for shipped in names()]
    return {k: v for c in cards if c.graph == card.graph for k, v in {**c.parameters, **c.switches}.items()}


def subagent(agent: Agent) -> Agent | None:
    """Return the agent whose final answer is this one's query, as set by ``query_generation=answer[agent=NAME]``.

    Raises:
        UserError: the agent does not exist, or cannot run inside another.
    """
    generation = parse(str(agent.parameters.get("query_generation", "none")))
    if generation.name != "answer" or "agent" not in generation.parameters:
        return None
    return check_subagent(open_agent(str(generation.parameters["agent"])))


def check_subagent(agent: Agent) -> Agent:
    """Return the agent, if it can run inside another.

    Raises:
        UserError: it is an oracle or a user's own graph, or sets models or a corpus.
    """
    card = agent.card
    if card.oracle or card.models or card.corpus or agent.inner or kind_of(card).is_users_system:
        raise UserError(
            f"The agent {agent.spec!r} cannot run inside another: it is an oracle or your own graph, or has agents, "
            "models or a corpus of its own. An inner agent uses those of the outer one."
        )
    return agent


def _like(example: Value, value: Value, key: str, spec: Spec) -> Value:
    expected: type = str if isinstance(example, Spec) else type(example)
    if expected is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if expected is str and isinstance(value, Spec):
        return str(value)
    if type(value) is not expected:
        raise UserError(f"{spec}: {key} must be a {_TYPES[expected]} such as {example!r}, not {str(value)!r}.")
    return value


_TYPES = {bool: "switch (true or false)", int: "whole number", float: "number", str: "word"}
