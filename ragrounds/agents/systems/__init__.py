"""Systems of users: their import paths, their source code, and how each is opened in its form
(:mod:`ragrounds.recorder.forms`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from ragrounds.agents.systems import place
from ragrounds.agents.systems.in_process import adapted, refusals
from ragrounds.agents.systems.opening import watched
from ragrounds.agents.systems.process_choice import hosted, reason_here, wiring_of
from ragrounds.agents.systems.reads import OwnSource, RecordedDependencies, SystemDependencies
from ragrounds.base.contracts import System
from ragrounds.base.errors import UserError
from ragrounds.base.plugins import is_import_path
from ragrounds.graphs import catalogue
from ragrounds.recorder.answers import Wiring
from ragrounds.recorder.factory import made_by, makes_systems

if TYPE_CHECKING:
    from ragrounds.agents.card import Card
    from ragrounds.graphs.catalogue import Graph

_OPENED: dict[tuple[int, int, bytes], tuple[object, System]] = {}
"""Open systems: the object at an import path and the card → the system. The object is kept, so that its id is not
reused.
"""


def is_foreign(card: Card) -> bool:
    """Return True if an agent is a user's system, not a built-in graph."""
    return card.endpoint is not None or place.is_place(card.graph)


def code_of(card: Card) -> str:
    """Return the digest of an agent's behaviour.

    It covers the graph, the system's code, or the requests to an endpoint and the reading of its replies.
    """
    if card.endpoint is not None:
        return card.endpoint.digest()
    return reads_of_system(card).code if is_foreign(card) else catalogue.digest(card.graph)


def reads_of_system(card: Card) -> SystemDependencies:
    """Open an agent's system, and return its dependencies.

    Raises:
        UserError: it cannot be opened.
    """
    return SystemDependencies(own_source(card), _heard(card) if card.endpoint is None else RecordedDependencies())


def reads_of_systems(cards: Iterable[Card]) -> SystemDependencies | None:
    """Return the dependencies of the users' systems among some agents, or ``None`` if there are no such systems.

    Raises:
        UserError: a system cannot be opened, or the systems are in several folders, whose files have the same names.
    """
    foreign = [card for card in cards if is_foreign(card)]
    if len(foreign) < 2:
        return reads_of_system(foreign[0]) if foreign else None
    records = {id(record): record for record in (_heard(card) for card in foreign if card.endpoint is None)}
    if len(records) > 1:
        raise UserError(
            f"{' and '.join(card.graph for card in foreign)} are used together: an agent can use one of them."
        )
    source = own_source(foreign[0])
    for card in foreign[1:]:
        source = source.joined(own_source(card))
    return SystemDependencies(source, next(iter(records.values()), RecordedDependencies()))


def _heard(card: Card) -> RecordedDependencies:
    """Return the recorded dependencies of an agent's system, in its host or in this process."""
    return getattr(open_system(card), "heard", None) or place.dependencies_at(card.graph)


def own_source(card: Card) -> OwnSource:
    """Return the entry points of an agent's source: its file or module, and the code that its card names.

    Raises:
        UserError: a file does not exist.
    """
    headers = card.endpoint.headers.values() if card.endpoint is not None else ()
    source = OwnSource(variables=dict.fromkeys(headers, ""), data=tuple(map(Path, card.reads)))
    for name in (card.graph, card.on_interrupt):
        if place.is_place(name):
            source = source.joined(place.source_of(name))
    return source


def prompts_of(card: Card) -> tuple[str, ...]:
    """Return the names of the prompts that an agent's graph may render through the context."""
    if card.endpoint is not None:
        return ()
    if is_foreign(card):  # the context exists only in this process
        return place.prompts(card.graph) if reason_here(card) else ()
    return catalogue.prompts_of(card.graph, tools=bool(card.tools))


def uses_our_models(card: Card) -> bool:
    """Return True if an agent calls the models that `--model` sets.

    Raises:
        UserError: the system cannot be opened.
    """
    return card.endpoint is None and takes_context(card)


def takes_context(card: Card) -> bool:
    """Return True if all calls of an agent go through the attempt's context.

    This holds for every built-in graph, and for a user's system that takes the context.

    Raises:
        UserError: the system cannot be opened.
    """
    return not is_foreign(card) or open_system(card).takes_context


def is_sealed(card: Card) -> bool:
    """Return True if the kernel refuses all traffic of an agent's system in a replay.

    Raises:
        UserError: the system cannot be opened.
    """
    from ragrounds.agents.systems.hosts import HostedSystem

    system = open_system(card)
    if isinstance(system, HostedSystem) and not system.sealed:  # it was opened before, outside of a replay
        with watched(card.graph):
            system.open()
    return isinstance(system, HostedSystem) and system.sealed


def open_system(card: Card) -> System:
    """Open the system of an agent. It is opened once, while its code and its card are the same.

    Raises:
        UserError: it does not load, building it fails, it has no known form, or the card does not fit it.
    """
    if card.endpoint is not None:
        from ragrounds.agents.systems.endpoint import EndpointSystem

        return EndpointSystem(card.endpoint)
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


def drawable(name: str) -> Graph:
    """Return the graph at an import path, for a diagram.

    Raises:
        UserError: it does not load, or the object is not a graph.
    """
    graph = place.named_object(name)
    if not hasattr(graph, "get_graph") and not hasattr(graph, "compile") and makes_systems(graph):
        maker = made_by(cast("Callable[..., object]", graph), name)
        if maker.each_time:
            raise UserError(f"{name} builds its graph for each attempt, so it cannot be drawn before an attempt.")
        with refusals():
            graph = maker.now()
    if not hasattr(graph, "get_graph") and not hasattr(graph, "compile"):
        raise UserError(f"{name} gave {type(graph).__name__}, which has no graph to draw.")
    return cast("Graph", graph)
