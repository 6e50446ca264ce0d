"""Which server stands behind an address: what it says of the model is compared with what was told before.

A server that was met first under its address or alias leaves the identity of its models as it is. Another one at the
same place stops what was begun, or, where the user says so, gets a fingerprint into the identity: then no recorded
reply of the one is an answer of the other.
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
from ragrounds.base.specs import parse
from ragrounds.evals.store.servers import KnownServer, fingerprint_in, keep_server, known_servers
from ragrounds.evals.store.store import Store, now
from ragrounds.models.options import VLLM, ModelOptions, read_options
from ragrounds.models.server_facts import ask_server, ask_servers, described, differing, fingerprint, same_server

_ADDRESSES = "addresses"
"""The fact that holds where the servers of an alias are."""
ServerChanged = Literal["stop", "new"]
"""What is done where another server answers at an address: stop, or keep what it answers apart, as a new identity."""


class MetServers(Struct, frozen=True):
    """The servers of some models."""

    texts: Mapping[str, str] = {}
    """A model's text → the text it is opened by, with the server's fingerprint where it has one."""
    facts: Mapping[str, Mapping[str, str]] = {}
    """Model and server → what it says of itself: see :attr:`ragrounds.base.records.Run.servers`."""


async def meet_servers(
    store: Store,
    models: Iterable[str],
    *,
    changed: ServerChanged = "stop",
    replay: bool = False,
    resumed: Run | None = None,
) -> MetServers:
    """Ask the servers of some models what they are, and compare it with what the store knows.

    Models without an address of their own are left as they are: a provider's names are its own, and a server that is
    started here runs what its command says.

    Args:
        store: what servers told before; what they tell now is kept in it.
        models: their texts.
        changed: what is done where another server answers.
        replay: nobody is asked; the server of the last time is meant, or that of the resumed run.
        resumed: the run that is to go on: its servers must be those of now.

    Raises:
        UserError: another server answers, and `changed` says stop; servers that share calls differ.
        StopRun: the store cannot be written.
    """
    texts: dict[str, str] = {}
    facts: dict[str, Mapping[str, str]] = {}
    met: dict[tuple[str, str | None], KnownServer | None] = {}
    for text in dict.fromkeys(models):
        spec = parse(text)
        options = read_options(spec)
        if options.provider not in ("openai", VLLM) or not options.serving.urls:
            continue
        place = (options.server, options.serving.base_url)
        if place not in met:
            met[place] = await _meet(store, options, changed, replay, resumed)
        server = met[place]
        if server is not None:
            facts[server.server] = server.facts
            if server.fingerprint:
                texts[text] = str(spec.having(fingerprint=server.fingerprint))
    return MetServers(texts, facts)


async def _meet(
    store: Store, options: ModelOptions, changed: ServerChanged, replay: bool, resumed: Run | None
) -> KnownServer | None:
    known, mark = known_servers(store.engine, options.server), ""
    if resumed is not None:
        mark = fingerprint_in(resumed, options.server)
        known = [one for one in known if one.fingerprint == mark]
        if not known and (kept := resumed.servers.get(options.server)):
            known = [_server(options.server, mark, kept, resumed.created)]
    last = known[0] if known else None
    if replay:
        return last
    told = dict(await ask_servers(options))
    if options.serving.alias:
        told[_ADDRESSES] = " ".join(sorted(options.serving.urls))
    if not told:
        return last
    if (met := _met_before(store, options.server, known, told)) is not None:
        return met
    if last is None:
        return _keep(store, options.server, mark, told)
    if resumed is not None or changed == "stop":
        raise _changed(options, last, told, resumed)
    return _keep(store, options.server, fingerprint(told), told)


def _met_before(store: Store, server: str, known: Sequence[KnownServer], told: Mapping[str, str]) -> KnownServer | None:
    for one in known:
        if _same(one.facts, told):
            # A fact that was not told the other time is known from now on.
            return _keep(store, server, one.fingerprint, {**one.facts, **told})
    return None


_ASKED: WeakKeyDictionary[Store, dict[str, Future[KnownServer | None]]] = WeakKeyDictionary()
"""Store → the servers that systems of somebody's own ask, each asked once what it is."""


async def asked_server(store: Store, server: str, *, replay: bool = False) -> KnownServer | None:
    """The server that somebody's own system asks: of another than was met first at the address the fingerprint goes
    into the keys of its calls. It is asked once, without a key. ``None``: it tells nothing.

    Args:
        store: what servers told before; what it tells now is kept in it.
        server: a model and its server, ``openai:m[server=http://…]``.
        replay: nobody is asked; the server of the last time is meant.
    """
    asked = _ASKED.setdefault(store, {})
    if (met := asked.get(server)) is not None:
        return met.result() if met.done() else await asyncio.wrap_future(met)
    met = asked[server] = Future()
    found: KnownServer | None = None
    try:
        spec, known = parse(server), known_servers(store.engine, server)
        place = str(spec.parameters.get("server", ""))
        asks = place.startswith("http") and not replay
        told = await ask_server(place, spec.name.partition(":")[2], "") if asks else {}
        found = known[0] if known else None
        if told:
            mark = fingerprint(told) if known else ""
            found = _met_before(store, server, known, told) or _keep(store, server, mark, told)
        return found
    finally:
        met.set_result(found)


def _same(before: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Whether both may be told of the same server. One with an alias may move. A group has its alias because it must,
    and where it says nothing of its model (a program's version is no such thing) one of its addresses must be known."""
    parts = [{name: fact for name, fact in facts.items() if name != _ADDRESSES} for facts in (before, now)]
    then, today = (set(facts.get(_ADDRESSES, "").split()) for facts in (before, now))
    placed = bool(then & today) or max(len(then), len(today)) <= 1
    told, named = same_server(*parts), any(name in parts[1] for name in parts[0] if name != "version")
    return (told and named) or (placed and (told or not all(parts)))


def _keep(store: Store, server: str, mark: str, facts: Mapping[str, str]) -> KnownServer:
    keep_server(store.engine, server, mark, facts)
    return _server(server, mark, facts, now())


def _server(server: str, mark: str, facts: Mapping[str, str], at: float) -> KnownServer:
    return KnownServer(server=server, fingerprint=mark, facts=facts, first=at, last=at)


def _changed(options: ModelOptions, before: KnownServer, told: Mapping[str, str], resumed: Run | None) -> UserError:
    names = differing(before.facts, told) or sorted({*before.facts, *told})
    then = described(before.facts, [name for name in names if name in before.facts])
    today = described(told, [name for name in names if name in told])
    seen = time.strftime("%Y-%m-%d %H:%M", time.localtime(before.last))
    where = ", ".join(options.serving.urls)
    apart = "its answers are stored separately from earlier ones"
    if resumed is not None:
        on = f"Start the earlier server to resume {resumed.id}, or begin a new run with --server-changed new: {apart}"
    else:
        on = f"Start the earlier server, or give --server-changed new: {apart}"
    return UserError(
        f"Another server answers at {where} for {options.server}: on {seen} it reported {then}, now {today}. {on}."
    )
