"""Detection of the server at an address: the facts that it reports about the model are compared with earlier ones.

The first known server at its address or alias leaves the identity of its models unchanged. Another one at the same
address stops the command, or, if the user requests it, adds a fingerprint to the identity: then no recorded reply of
one server is used as an answer of the other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Literal
from weakref import WeakKeyDictionary

from msgspec import Struct

from ragrounds.base.errors import UserError
from ragrounds.base.records import Run
from ragrounds.base.specs import Value, parse
from ragrounds.evals.store.servers import KnownServer, fingerprint_in, keep_server, known_servers
from ragrounds.evals.store.store import Store, now
from ragrounds.models.options import LOCAL, ModelOptions, read_options
from ragrounds.models.server_facts import (
    ask_server,
    ask_servers,
    described,
    differing,
    fingerprint,
    follows_schemas,
    same_server,
    window_of,
)

_ADDRESSES = "addresses"
"""Name of the fact that contains the addresses of an alias."""
ServerChanged = Literal["stop", "new"]
"""Action if another server answers at an address: stop, or store its answers separately, under a new identity."""


class ProbedServers(Struct, frozen=True):
    """Servers of some models."""

    texts: Mapping[str, str] = {}
    """Map from a model's text to the text by which it is opened, with what is known of its server: the window, the
    fingerprint of another server than the first, and whether replies follow schemas."""
    facts: Mapping[str, Mapping[str, str]] = {}
    """Map from model and server to the facts that the server reports: see :attr:`ragrounds.base.records.Run.servers`.
    """


async def probe_servers(
    store: Store,
    models: Iterable[str],
    *,
    changed: ServerChanged = "stop",
    replay: bool = False,
    resumed: Run | None = None,
) -> ProbedServers:
    """Ask the servers of some models for their facts, and compare them with those in the store.

    Models without an address are unchanged: a provider's names are its own, and a vLLM server that is started here runs
    what its command says. A local model is identified by its file.

    Args:
        store: has the facts of earlier servers; new facts are stored in it.
        models: their texts.
        changed: the action if another server answers.
        replay: no server is asked; the last known server is used, or that of the resumed run.
        resumed: the run to be resumed: its servers must be the present ones.

    Raises:
        UserError: another server answers, and `changed` says stop; servers that share calls differ.
        StopRun: the store cannot be written.
    """
    texts: dict[str, str] = {}
    facts: dict[str, Mapping[str, str]] = {}
    server_by_address: dict[tuple[str, str | None], KnownServer | None] = {}
    for text in dict.fromkeys(models):
        spec = parse(text)
        options = read_options(spec)
        if not options.has_server and options.provider != LOCAL:
            continue
        address = (options.server, options.serving.base_url)
        if address not in server_by_address:
            server_by_address[address] = await _identify_server(store, options, changed, replay, resumed)
        server = server_by_address[address]
        if server is not None:
            facts[server.server] = server.facts
            opened: dict[str, Value] = {"fingerprint": server.fingerprint} if server.fingerprint else {}
            # A resumed run keeps the window that its prompts were cut to.
            reported = resumed.servers.get(server.server, server.facts) if resumed is not None else server.facts
            if options.window is None and (window := window_of(reported)) is not None:
                opened["window"] = window
            if follows_schemas(server.facts):
                opened["schemas"] = True
            if opened:
                texts[text] = str(spec.having(**opened))
    return ProbedServers(texts, facts)


async def _identify_server(
    store: Store, options: ModelOptions, changed: ServerChanged, replay: bool, resumed: Run | None
) -> KnownServer | None:
    candidates, run_fingerprint = known_servers(store.engine, options.server), ""
    if resumed is not None:
        run_fingerprint = fingerprint_in(resumed, options.server)
        candidates = [candidate for candidate in candidates if candidate.fingerprint == run_fingerprint]
        if not candidates and (stored_facts := resumed.servers.get(options.server)):
            candidates = [_server(options.server, run_fingerprint, stored_facts, resumed.created)]
    last = candidates[0] if candidates else None
    if replay:
        return last
    facts = dict(await ask_servers(options))
    if options.serving.alias:
        facts[_ADDRESSES] = " ".join(sorted(options.serving.urls))
    if not facts:
        return last
    if (match := _matching_server(store, options.server, candidates, facts)) is not None:
        return match
    if last is None:
        return _keep(store, options.server, run_fingerprint, facts)
    if resumed is not None or changed == "stop":
        raise _changed(options, last, facts, resumed)
    return _keep(store, options.server, fingerprint(facts), facts)


def _matching_server(
    store: Store, server: str, candidates: Sequence[KnownServer], reported: Mapping[str, str]
) -> KnownServer | None:
    for candidate in candidates:
        if _same(candidate.facts, reported):
            # A fact that was not reported earlier is stored from now on.
            return _keep(store, server, candidate.fingerprint, {**candidate.facts, **reported})
    return None


_IDENTIFIED: WeakKeyDictionary[Store, dict[str, Future[KnownServer | None]]] = WeakKeyDictionary()
"""Servers that users' systems call, by store; each is asked only once for its facts."""


async def asked_server(store: Store, server: str, *, replay: bool = False) -> KnownServer | None:
    """Return the server that a user's system calls; ``None`` if it reports nothing.

    If it is not the first known server at its address, its fingerprint becomes a part of the keys of its calls. It is
    asked once, without a key.

    Args:
        store: has the facts of earlier servers; new facts are stored in it.
        server: a model and its server, ``openai:m[server=http://…]``.
        replay: no server is asked; the last known server is used.
    """
    pending = _IDENTIFIED.setdefault(store, {})
    if (earlier := pending.get(server)) is not None:
        return earlier.result() if earlier.done() else await asyncio.wrap_future(earlier)
    earlier = pending[server] = Future()
    identified: KnownServer | None = None
    try:
        spec, candidates = parse(server), known_servers(store.engine, server)
        address = str(spec.parameters.get("server", ""))
        asks = address.startswith("http") and not replay
        facts = await ask_server(address, spec.name.partition(":")[2], "") if asks else {}
        identified = candidates[0] if candidates else None
        if facts:
            server_fingerprint = fingerprint(facts) if candidates else ""
            identified = _matching_server(store, server, candidates, facts) or _keep(
                store, server, server_fingerprint, facts
            )
        return identified
    finally:
        earlier.set_result(identified)


def _same(before: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Return True if both facts may describe the same server.

    A server with an alias may change its address. If it reports nothing about its model (a program's version does not
    count), one of its addresses must be known.
    """
    parts = [{name: fact for name, fact in facts.items() if name != _ADDRESSES} for facts in (before, now)]
    earlier_addresses, present_addresses = (set(facts.get(_ADDRESSES, "").split()) for facts in (before, now))
    shares_address = bool(earlier_addresses & present_addresses) or not (earlier_addresses and present_addresses)
    is_same, reports_model = same_server(*parts), any(name in parts[1] for name in parts[0] if name != "version")
    return (is_same and reports_model) or (shares_address and (is_same or not all(parts)))


def _keep(store: Store, server: str, mark: str, facts: Mapping[str, str]) -> KnownServer:
    keep_server(store.engine, server, mark, facts)
    return _server(server, mark, facts, now())


def _server(server: str, mark: str, facts: Mapping[str, str], seen_at: float) -> KnownServer:
    return KnownServer(server=server, fingerprint=mark, facts=facts, first=seen_at, last=seen_at)


def _changed(options: ModelOptions, before: KnownServer, reported: Mapping[str, str], resumed: Run | None) -> UserError:
    names = differing(before.facts, reported) or sorted({*before.facts, *reported})
    was = described(before.facts, [name for name in names if name in before.facts])
    today = described(reported, [name for name in names if name in reported])
    seen = time.strftime("%Y-%m-%d %H:%M", time.localtime(before.last))
    urls = ", ".join(options.serving.urls) or "this machine"
    effect = "its answers are stored separately from earlier ones"
    if resumed is not None:
        fix = f"Start the earlier server to resume {resumed.id}, or begin a new run with --server-changed new: {effect}"
    else:
        fix = f"Start the earlier server, or give --server-changed new: {effect}"
    return UserError(
        f"Another server answers at {urls} for {options.server}: on {seen} it reported {was}, now {today}. {fix}."
    )
