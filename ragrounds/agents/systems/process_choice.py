"""Choice of the process in which a user's system is opened: in a host, its own process, or in this one."""

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
from ragrounds.base.plugins import check_before, is_import_path, warn_once

if TYPE_CHECKING:
    from ragrounds.agents.card import Card
    from ragrounds.agents.systems.hosts import HostConfig, HostedSystem

_WITH_HOSTS = ("linux", "darwin")
"""Platforms that support hosts (:data:`sys.platform`)."""
_IMPORTS = re.compile(rb"^[ \t]*(?:from[ \t]+ragrounds\b|import[ \t][^#\n]*\bragrounds\b)", re.MULTILINE)
_OBJECT = "it is a Python object of this process"
_hosted: dict[tuple[HostConfig, str], HostedSystem] = {}
"""Systems that are open in hosts: the host's configuration, and target and settings as JSON → the system."""
_users = 0
"""Number of commands of this process that may use hosts now."""


@contextmanager
def hosts_held() -> Iterator[None]:
    """Keep the hosts that are started in the block alive until it ends; for nested blocks, until the outermost ends.

    Systems that were opened before are opened again, because they may have changed.
    """
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
    """Return the reason why the code of a user's system is opened in this process. Empty if it is opened in a host.

    Raises:
        UserError: the file does not exist.
    """
    if place.was_given(card.graph):
        return _OBJECT
    if card.in_process:
        return "in_process=true"
    if sys.platform not in _WITH_HOSTS:
        return f"separate processes are not supported on {sys.platform}"
    names = [name for name in (card.graph, card.on_interrupt) if place.is_place(name)]
    return "its file imports ragrounds" if any(map(_imports_ragrounds, names)) else ""


def hosted(card: Card) -> HostedSystem | None:
    """Return the agent's system, opened in a host, or ``None`` if it must be opened in this process.

    The latter is reported if a user may not expect it.

    Raises:
        UserError: it cannot be opened, or an interpreter is set for a system that is opened in this process.
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
        warn_once(f"{card.graph} runs in this process, not in its own: {reason}.")
    return None


def _imports_ragrounds(name: str) -> bool:
    """Return True if the file of an import path, or a file of its folder that it imports, imports ragrounds.

    It then uses the context or the decorator, which exist only in this process. Nothing is imported.
    """
    _, target = place.resolve(name)
    if not place.is_module(target):
        place.file_of(target)  # raises an error if the file does not exist
    return any(_names_ragrounds(path, file_mark(path)) for path in code_files(target))


@lru_cache(maxsize=10_000)
def _names_ragrounds(path: Path, mark: tuple[int, int]) -> bool:
    return _IMPORTS.search(path.read_bytes()) is not None


def _system(card: Card) -> HostedSystem:
    """Return the system of an agent, ready to be opened in a host."""
    # Imported here, because runs of shipped agents need none of them.
    from ragrounds.agents.systems.hosts import HostConfig, HostedSystem, environment

    app, target_path = place.resolve(card.graph)
    say_whose(card.graph, target_path)
    for name in (target_path, card.on_interrupt):
        check_before(name.rpartition(":")[0])
    target = _absolute(target_path)
    file_folder = "" if place.is_module(target) else str(Path(target.rpartition(":")[0]).parent)
    working = app.folders[0] if app else str(Path.cwd())
    # Links are not resolved: Python locates its virtual environment by them.
    given_python = str(Path(card.python).expanduser().absolute()) if "/" in card.python else card.python
    person = _absolute(card.on_interrupt) if is_import_path(card.on_interrupt) else ""
    wiring = msgspec.to_builtins(wiring_of(card))
    system = msgspec.json.encode((target, wiring, person), order="deterministic").decode()
    host_place = HostConfig(
        python=given_python or sys.executable,
        folder=(app.folders[0] if app else file_folder) or working,
        working=working,
        environment=environment(app.variables if app else {}),
        agent="" if card.share_process else system,
    )
    key = (host_place, system)
    if key not in _hosted:
        folders = app.folders if app else (working,)
        if not card.python:  # same search path as in this process: pytest and notebooks add folders
            folders = (*folders, *filter(None, sys.path))
        _hosted[key] = HostedSystem(card.graph, target, host_place, folders=folders, wiring=wiring, person=person)
    return _hosted[key]


def _absolute(name: str) -> str:
    """Return an import path that is valid in any folder."""
    if place.is_module(name):
        return name
    file = place.file_of(name)
    return f"{file}:{name.rpartition(':')[2] if not name.endswith('.py') else ''}"


def wiring_of(card: Card) -> dict[str, Any]:
    """Return the fields of the wiring of an agent's system (:class:`ragrounds.recorder.answers.Wiring`)."""
    names = ("input", "output", "choice", "nests", "config", "context", "on_interrupt")
    fields = {name: getattr(card, name) for name in names}
    return {"name": card.graph, **fields, "served": place.app_of(card.graph) is not None}
