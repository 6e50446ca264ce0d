"""In which process a system of the user's own is opened: in a host, a process of its own, or in this one."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ragrounds.agents.systems import place
from ragrounds.agents.systems.opening import watched
from ragrounds.agents.trust import code_files, say_whose
from ragrounds.base.digests import file_mark
from ragrounds.base.errors import UserError
from ragrounds.base.plugins import check_before, is_import_path, say_once

if TYPE_CHECKING:
    from ragrounds.agents.card import Card
    from ragrounds.agents.systems.hosts import HostedSystem, HostPlace

_WITH_HOSTS = ("linux", "darwin")
"""Platforms that have hosts (:data:`sys.platform`)."""
_IMPORTS = re.compile(rb"^[ \t]*(?:from[ \t]+ragrounds\b|import[ \t][^#\n]*\bragrounds\b)", re.MULTILINE)
_OBJECT = "it is a Python object of this process"
_hosted: dict[tuple[HostPlace, bytes], HostedSystem] = {}
"""Systems that are open in hosts: the host's place and the card → the system."""
_users = 0
"""Commands of this process that may use hosts now."""


@contextmanager
def hosts_held() -> Iterator[None]:
    """Have the hosts that are started in the block live until it ends; of several blocks, until the last one ends. What
    was opened before the first one is opened anew: it may be another now."""
    global _users
    if not _users:
        _end_hosts()
    _users += 1
    try:
        yield
    finally:
        _users -= 1
        if not _users:
            _end_hosts()


def _end_hosts() -> None:
    if (started := sys.modules.get("ragrounds.agents.systems.hosts")) is not None:
        started.end_hosts()


def reason_here(card: Card) -> str:
    """Why the system of an agent is opened in this process; empty: it is opened in a host.

    Raises:
        UserError: there is no such file.
    """
    if card.endpoint is not None:
        return "it is an address"
    if place.was_given(card.graph):
        return _OBJECT
    if card.in_process:
        return "in_process=true"
    if sys.platform not in _WITH_HOSTS:
        return f"separate processes are not supported on {sys.platform}"
    names = [name for name in (card.graph, card.on_interrupt) if place.is_place(name)]
    return "its file imports ragrounds" if any(map(_imports_ragrounds, names)) else ""


def hosted(card: Card) -> HostedSystem | None:
    """The system of an agent, opened in a host; ``None``: it is to be opened in this process. That is said where a user
    may expect something else.

    Raises:
        UserError: it cannot be opened, or an interpreter is named for a system that is opened here.
    """
    reason = reason_here(card)
    if not reason:
        system = _system(card)
        with watched(card.graph):
            system.open()
        if system.kind:
            return system
        reason = "what it imports imports ragrounds"
    if card.python:
        raise UserError(
            f"{card.graph} is opened in this process, because {reason}: python = {card.python!r} has no effect."
        )
    if reason != _OBJECT and not reason.startswith("its file"):
        say_once(f"{card.graph} runs in this process, not in its own: {reason}.")
    return None


def _imports_ragrounds(name: str) -> bool:
    """Whether the file of a place, or one beside it that it imports, imports ragrounds: it takes our context, or the
    decorator, which are of this process. Nothing is imported for that."""
    app = place.app_of(name)
    target = app.target if app else name
    if not place.is_module(target):
        place.file_of(target)  # says that there is none
    return any(_names_ragrounds(path, file_mark(path)) for path in code_files(target))


@lru_cache(maxsize=10_000)
def _names_ragrounds(path: Path, mark: tuple[int, int]) -> bool:
    return _IMPORTS.search(path.read_bytes()) is not None


def _system(card: Card) -> HostedSystem:
    """The system of an agent, ready to be opened in a host."""
    # Here: who runs what ships needs none of them.
    from ragrounds.agents.systems.hosts import HostedSystem, HostPlace, environment

    app = place.app_of(card.graph)
    named = app.target if app else card.graph
    say_whose(card.graph, named)
    for name in (named, card.on_interrupt):
        check_before(name.rpartition(":")[0])
    target = _absolute(named)
    beside = "" if place.is_module(target) else str(Path(target.rpartition(":")[0]).parent)
    working = app.folders[0] if app else str(Path.cwd())
    at = HostPlace(
        python=_interpreter(card.python),
        folder=(app.folders[0] if app else beside) or working,
        working=working,
        environment=environment(app.variables if app else {}),
    )
    key = (at, msgspec.json.encode(card, order="deterministic"))
    if key not in _hosted:
        folders = app.folders if app else (working,)
        if not card.python:  # what this process finds, ours does too: pytest and notebooks add folders
            folders = (*folders, *filter(None, sys.path))
        person = _absolute(card.on_interrupt) if is_import_path(card.on_interrupt) else ""
        wiring = msgspec.to_builtins(wiring_of(card))
        _hosted[key] = HostedSystem(card.graph, target, at, folders=folders, wiring=wiring, person=person)
    return _hosted[key]


def _interpreter(python: str) -> str:
    """The interpreter that is named, or ours. A link stays one: by it Python knows its virtual environment."""
    return str(Path(python).expanduser().absolute()) if "/" in python else python or sys.executable


def _absolute(name: str) -> str:
    """A place as it is named in whatever folder."""
    if place.is_module(name):
        return name
    file = place.file_of(name)
    return f"{file}:{name.rpartition(':')[2] if not name.endswith('.py') else ''}"


def wiring_of(card: Card) -> dict[str, Any]:
    """The fields of the wiring of an agent's system (:class:`ragrounds.recorder.answers.Wiring`)."""
    names = ("input", "output", "choice", "nests", "config", "context", "on_interrupt")
    said = {name: getattr(card, name) for name in names}
    return {"name": card.graph, **said, "served": place.app_of(card.graph) is not None}
