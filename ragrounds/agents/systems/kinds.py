"""Kinds of agents: a built-in graph, the code of a user's system, and an endpoint.

:func:`kind_of` chooses the kind from an agent's card. Every question whose answer depends on the kind is a method, so
that callers treat all agents alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from pathlib import Path
from typing import cast

import msgspec

from ragrounds.agents.card import Card
from ragrounds.agents.systems import place
from ragrounds.agents.systems.endpoint_card import EndpointCard
from ragrounds.agents.systems.in_process import InProcessSystem, adapted
from ragrounds.agents.systems.opening import watched
from ragrounds.agents.systems.process_choice import hosted, reason_here, wiring_of
from ragrounds.agents.systems.reads import JoinedDependencies, OwnSource, RecordedDependencies, SystemDependencies
from ragrounds.agents.systems.settings import SETTINGS, check_effects, is_setting
from ragrounds.base.contracts import System
from ragrounds.base.errors import UserError
from ragrounds.base.plugins import is_import_path
from ragrounds.base.specs import Spec
from ragrounds.graphs import catalogue
from ragrounds.recorder.answers import Wiring
from ragrounds.recorder.redaction import is_secret_name, redacted

_OPENED: dict[tuple[int, int, bytes], tuple[object, System]] = {}
"""Open systems: the object at an import path and the card → the system. The object is kept, so that its id is not
reused.
"""
_ELSEWHERE = frozenset(
    "graph summary as source searches question_only guard guard_near oracle parameters switches profile models "
    "retriever corpus prompts limits nests config context system endpoint clock in_process share_process python "
    "reads".split()
)
"""Settings of an agent's file that change no reply of a user's system, or are in its identity already."""


class AgentKind:
    """Base class of the kinds of agents, with the answers for an agent that has no system of a user.

    A method raises UserError if its answer needs a user's system that cannot be opened.
    """

    is_users_system = False
    settings: tuple[str, ...] = ()
    """Names of the settings that an agent's text may contain in addition to those of every agent."""

    def __init__(self, card: Card) -> None:
        self.card = card

    def code(self) -> str:
        """Return the digest of the agent's behaviour.

        It covers the graph, the system's code, or the requests to an endpoint and the reading of its replies.
        """
        raise NotImplementedError

    def prompts(self) -> tuple[str, ...]:
        """Return the names of the prompts that the agent may render through the context."""
        return ()

    def has_refining(self) -> bool:
        """Return True if the agent has a stage between search and prompt, which `refine` sets."""
        return False

    def open(self) -> System | None:
        """Open the agent's system; a user's code is opened once while it and the card are the same. ``None`` for a
        built-in graph.

        Raises:
            UserError: it does not load, building it fails, it has no known form, or the card does not fit it.
        """
        return None

    def takes_context(self) -> bool:
        """Return True if all calls of the agent go through the attempt's context."""
        return True

    def uses_our_models(self) -> bool:
        """Return True if the agent calls the models that `--model` sets."""
        return self.takes_context()

    def models(self, outer_models: Mapping[str, str]) -> dict[str, str]:
        """Return the models, by role, of the agent inside another that has `outer_models`."""
        return self.card.models

    def model_specs(self, opened_specs: dict[str, str]) -> dict[str, str]:
        """Return the models in the agent's identity, by role, from the specs of those that were opened for it."""
        return opened_specs

    def identity(self) -> dict[str, object]:
        """Return the parts of a user's system's identity that other agents do not have."""
        return {}

    def recorded_dependencies(self) -> RecordedDependencies | None:
        """Return the recorded dependencies of the agent's code, in its host or in this process."""
        return None

    def reason_in_process(self) -> str:
        """Return the reason why the agent has no separate process. Empty if it has one."""
        return "it is a built-in graph"

    def is_in_process(self) -> bool:
        """Return True if the agent's system is code that was opened in this process."""
        return False

    def records_randomness(self) -> bool:
        """Return True if clock and random values that the agent uses are recorded."""
        return False

    def is_sealed(self) -> bool:
        """Return True if the kernel refuses all traffic of the agent's system in a replay."""
        return False

    def check_effects(self, spec: Spec) -> None:
        """Check that all settings in the agent's text `spec` and in its file have an effect.

        Raises:
            UserError: a setting has none.
        """


class BuiltInGraph(AgentKind):
    """A graph of ragrounds."""

    def code(self) -> str:
        """Return the digest of the graph."""
        return catalogue.digest(self.card.graph)

    def prompts(self) -> tuple[str, ...]:
        """Return the names of the graph's prompts."""
        return catalogue.prompts_of(self.card.graph, tools=bool(self.card.tools))

    def has_refining(self) -> bool:
        """Return True if the graph searches. The oracle's gold documents are not refined."""
        return self.card.searches and not self.card.oracle

    def models(self, outer_models: Mapping[str, str]) -> dict[str, str]:
        """Return the agent's models, and those of the outer agent for the other roles."""
        return {**outer_models, **self.card.models}


class UsersSystem(AgentKind):
    """A user's system, whether its code is on this machine or not."""

    is_users_system = True
    settings = SETTINGS

    def open(self) -> System:
        """Open the system."""
        raise NotImplementedError

    def own_source(self) -> OwnSource:
        """Return the entry points of the system's source."""
        source = OwnSource(data=tuple(map(Path, self.card.reads)))
        for name in filter(place.is_place, (self.card.graph, self.card.on_interrupt)):
            source = source.joined(place.source_of(name))
        return source

    def dependencies(self) -> SystemDependencies:
        """Return the system's dependencies, which opens it."""
        source = self.own_source()
        return SystemDependencies(source, self.recorded_dependencies() or RecordedDependencies())

    def _identity(self, endpoint: Mapping[str, object], process: Mapping[str, object]) -> dict[str, object]:
        """Return the identity of a system with the settings of its endpoint and the kind of its process."""
        plain, defaults = map(msgspec.to_builtins, (self.card, Card()))
        changed = {key: value for key, value in plain.items() if key not in _ELSEWHERE and value != defaults[key]}
        return {
            "wiring": _without_secrets({**changed, **endpoint}),
            "config": _without_secrets(self.card.config),
            "context": _without_secrets(self.card.context),
            "system": self.open().kind,
            **process,
            "read": self.dependencies().digest,
        }


class UsersCode(UsersSystem):
    """The code of a user's system: a graph, a function, an engine."""

    def code(self) -> str:
        """Return the digest of the system's code, as far as it is loaded."""
        return self.dependencies().code

    def prompts(self) -> tuple[str, ...]:
        """Return the names that its file lists. The context exists only in this process."""
        return place.prompts(self.card.graph) if self.reason_in_process() else ()

    def open(self) -> System:
        """Open the system in a host, or in this process."""
        card = self.card
        in_host = hosted(card)
        if in_host is not None:
            return in_host
        target = place.named_object(card.graph)
        person = place.named_object(card.on_interrupt) if is_import_path(card.on_interrupt) else None
        key = (id(target), id(person), msgspec.json.encode(card, order="deterministic"))
        if key not in _OPENED:
            wiring = Wiring(**wiring_of(card), person=cast("Callable[[object], object] | None", person))
            with watched(card.graph), place.dependencies_at(card.graph).listening():
                _OPENED[key] = ((target, person), adapted(target, wiring))
        return _OPENED[key][1]

    def takes_context(self) -> bool:
        """Return True if the system calls models and searches only through the context."""
        return self.open().takes_context

    def identity(self) -> dict[str, object]:
        """Return the system's settings, form, process and dependencies."""
        its_own = "shared" if self.card.share_process else "its own"
        # The interpreter's path is no part of the identity: its version is, and its packages are dependencies.
        version = {"python": getattr(self.open(), "version", "")} if self.card.python else {}
        return self._identity(version, {"process": "ours" if self.is_in_process() else its_own})

    def recorded_dependencies(self) -> RecordedDependencies:
        """Return the dependencies that were recorded in the system's host, or in this process."""
        return getattr(self.open(), "heard", None) or place.dependencies_at(self.card.graph)

    def reason_in_process(self) -> str:
        """Return the reason why the system is opened in this process. Empty if it is opened in a host."""
        return reason_here(self.card)

    def is_in_process(self) -> bool:
        """Return True if the system was opened in this process."""
        return isinstance(self.open(), InProcessSystem)

    def records_randomness(self) -> bool:
        """Return True unless the agent's file asks for the real clock."""
        return not self.card.clock

    def is_sealed(self) -> bool:
        """Return True if the system's host is sealed. A host that was opened before the replay is opened again."""
        from ragrounds.agents.systems.hosts import HostedSystem

        system = self.open()
        if not isinstance(system, HostedSystem):
            return False
        if not system.sealed:
            with watched(self.card.graph):
                system.open()
        return system.sealed

    def check_effects(self, spec: Spec) -> None:
        """Check the settings, unless the system takes the context, and with it all of them."""
        if not self.takes_context():
            check_effects(spec, self.card, is_setting, SETTINGS)


class Endpoint(UsersSystem):
    """An endpoint that answers the questions: each question is one call by ragrounds' own transport."""

    def __init__(self, card: Card, endpoint: EndpointCard) -> None:
        super().__init__(card)
        self.endpoint = endpoint

    def code(self) -> str:
        """Return the digest of the requests and of the reading of replies."""
        return self.endpoint.digest()

    def open(self) -> System:
        """Return the endpoint as a system. Nothing is sent."""
        from ragrounds.agents.systems.endpoint import EndpointSystem

        return EndpointSystem(self.endpoint)

    def uses_our_models(self) -> bool:
        """Return False: an endpoint has its own models."""
        return False

    def model_specs(self, opened_specs: dict[str, str]) -> dict[str, str]:
        """Return the endpoint as the model."""
        return {"model": self.endpoint.spec}

    def identity(self) -> dict[str, object]:
        """Return the settings of the requests. There is no process."""
        return self._identity({f"endpoint.{key}": value for key, value in self.endpoint.settled.items()}, {})

    def own_source(self) -> OwnSource:
        """Return the entry points of the code that its card names, and the environment variables of its headers."""
        return super().own_source().joined(OwnSource(variables=dict.fromkeys(self.endpoint.headers.values(), "")))

    def reason_in_process(self) -> str:
        """Return the reason why there is no process: the endpoint is an address."""
        return "it is an address"

    def check_effects(self, spec: Spec) -> None:
        """Check that the text sets only parameters of the requests."""
        check_effects(spec, self.card, self.card.parameters.__contains__, tuple(self.card.parameters))


def kind_of(card: Card) -> AgentKind:
    """Return the kind of an agent."""
    if card.endpoint is not None:
        return Endpoint(card, card.endpoint)
    return UsersCode(card) if place.is_place(card.graph) else BuiltInGraph(card)


def reads_of_systems(cards: Iterable[Card]) -> SystemDependencies | None:
    """Return the dependencies of the users' systems among some agents, or ``None`` if there are no such systems.

    Raises:
        UserError: a system cannot be opened, or the systems are in several folders, whose files have the same names.
    """
    systems = [kind for kind in map(kind_of, cards) if isinstance(kind, UsersSystem)]
    if not systems:
        return None
    source = reduce(OwnSource.joined, [system.own_source() for system in systems])
    records = {id(record): record for system in systems if (record := system.recorded_dependencies())}
    if len({record.location for record in records.values()}) > 1:
        names = " and ".join(system.card.graph for system in systems)
        raise UserError(f"{names} are used together: an agent can use one of them.")
    if len(records) > 1:
        return SystemDependencies(source, JoinedDependencies(parts=tuple(records.values())))
    return SystemDependencies(source, next(iter(records.values()), RecordedDependencies()))


def _without_secrets(values: Mapping[str, object]) -> dict[str, object]:
    def public(value: object) -> object:
        if isinstance(value, Mapping):
            return _without_secrets(value)
        return redacted(value) if isinstance(value, str) else value

    return {key: public(value) for key, value in values.items() if not is_secret_name(key)}
