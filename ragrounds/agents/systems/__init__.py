"""Systems that are not ours: where they stand, what they are made of, and how each is opened in the form it has
(:mod:`ragrounds.recorder.forms`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from ragrounds.agents.systems import place
from ragrounds.agents.systems.in_process import adapted, refusals
from ragrounds.agents.systems.opening import watched
from ragrounds.agents.systems.process_choice import hosted, reason_here, wiring_of
from ragrounds.agents.systems.reads import Heard, OwnSource, SystemReads
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
"""Systems that are open: what stands at the place (held, so that its id stays its own) and the card → the system."""


def is_foreign(card: Card) -> bool:
    """Whether an agent is a system of somebody's own, and no graph of ours."""
    return card.endpoint is not None or place.is_place(card.graph)


def code_of(card: Card) -> str:
    """The digest of what an agent does: of its graph, of its system's code, or of what its endpoint is sent and how its
    replies are read."""
    if card.endpoint is not None:
        return card.endpoint.digest()
    return reads_of_system(card).code if is_foreign(card) else catalogue.digest(card.graph)


def reads_of_system(card: Card) -> SystemReads:
    """What the system of an agent reads. It is opened for it.

    Raises:
        UserError: it cannot be opened.
    """
    return SystemReads(own_source(card), _heard(card) if card.endpoint is None else Heard())


def reads_of_systems(cards: Iterable[Card]) -> SystemReads | None:
    """What the systems among some agents read; ``None``: no agent is somebody's own system.

    Raises:
        UserError: one cannot be opened, or they stand in several places, whose files have the same names.
    """
    own = [card for card in cards if is_foreign(card)]
    if len(own) < 2:
        return reads_of_system(own[0]) if own else None
    heard = {id(one): one for one in (_heard(card) for card in own if card.endpoint is None)}
    if len(heard) > 1:
        raise UserError(f"{' and '.join(card.graph for card in own)} stand in several places: one agent holds one.")
    source = own_source(own[0])
    for card in own[1:]:
        source = source.joined(own_source(card))
    return SystemReads(source, next(iter(heard.values()), Heard()))


def _heard(card: Card) -> Heard:
    """What is heard of an agent's system: in its host, or here."""
    return getattr(open_system(card), "heard", None) or place.heard_at(card.graph)


def own_source(card: Card) -> OwnSource:
    """Where the source of an agent's system begins: its file or module, and the code that its card names.

    Raises:
        UserError: there is no such file.
    """
    headers = card.endpoint.headers.values() if card.endpoint is not None else ()
    source = OwnSource(variables=dict.fromkeys(headers, ""), data=tuple(map(Path, card.reads)))
    for name in (card.graph, card.on_interrupt):
        if place.is_place(name):
            source = source.joined(place.source_of(name))
    return source


def prompts_of(card: Card) -> tuple[str, ...]:
    """Name the prompts that an agent's graph may render through the context."""
    if card.endpoint is not None:
        return ()
    if is_foreign(card):  # through the context of this process alone
        return place.prompts(card.graph) if reason_here(card) else ()
    return catalogue.prompts_of(card.graph, tools=bool(card.tools))


def asks_our_models(card: Card) -> bool:
    """Whether an agent asks the models that `--model` names.

    Raises:
        UserError: the system cannot be opened.
    """
    return card.endpoint is None and takes_context(card)


def takes_context(card: Card) -> bool:
    """Whether everything that an agent asks goes through the attempt's context: of every built-in graph, and of a
    system of one's own that takes it.

    Raises:
        UserError: the system cannot be opened.
    """
    return not is_foreign(card) or open_system(card).takes_context


def is_sealed(card: Card) -> bool:
    """Whether the kernel lets nothing leave an agent's system where this is a replay.

    Raises:
        UserError: the system cannot be opened.
    """
    from ragrounds.agents.systems.hosts import HostedSystem

    system = open_system(card)
    if isinstance(system, HostedSystem) and not system.sealed:  # it was opened before, for a run that is none
        with watched(card.graph):
            system.open()
    return isinstance(system, HostedSystem) and system.sealed


def open_system(card: Card) -> System:
    """Open the system of an agent; once, as long as its code and its card are the same.

    Raises:
        UserError: it does not load, building it fails, it is of no known form, or what the card says does not fit it.
    """
    if card.endpoint is not None:
        from ragrounds.agents.systems.endpoint import EndpointSystem

        return EndpointSystem(card.endpoint)
    in_host = hosted(card)
    if in_host is not None:
        return in_host
    found = place.named_object(card.graph)
    person = place.named_object(card.on_interrupt) if is_import_path(card.on_interrupt) else None
    key = (id(found), id(person), msgspec.json.encode(card, order="deterministic"))
    if key not in _OPENED:
        wiring = Wiring(**wiring_of(card), person=cast("Callable[[object], object] | None", person))
        with watched(card.graph), place.heard_at(card.graph).listening():
            _OPENED[key] = ((found, person), adapted(found, wiring))
    return _OPENED[key][1]


def drawable(name: str) -> Graph:
    """The graph that stands at a place, to be drawn.

    Raises:
        UserError: it does not load, or what is there is no graph.
    """
    made = place.named_object(name)
    if not hasattr(made, "get_graph") and not hasattr(made, "compile") and makes_systems(made):
        maker = made_by(cast("Callable[..., object]", made), name)
        if maker.each_time:
            raise UserError(f"{name} builds its graph for each attempt, so there is none to draw yet.")
        with refusals():
            made = maker.now()
    if not hasattr(made, "get_graph") and not hasattr(made, "compile"):
        raise UserError(f"{name} gave {type(made).__name__}, which has no graph to draw.")
    return cast("Graph", made)
