"""httpx and its successor httpx2: their transports, so that every client of theirs is seen, with and without async."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from .wire import Grown, NotThere, WireRequest, WireResponse, answered, bounded, bounded_async, passing, watcher

OUR_LOOPS: WeakSet[asyncio.AbstractEventLoop] = WeakSet()
"""Loops that no user has: a client that is used on one of them has connections of its own there, since those that it
keeps would fail on its user's loop afterwards, and those on ours."""
_THERE: WeakKeyDictionary[Any, WeakKeyDictionary[Any, Any]] = WeakKeyDictionary()
"""Transports → loops of ours, and in a forked child any, or the class of one without async → the transport with
connections of its own."""
_forked = False


def forked() -> None:
    """Be a forked child: its parent goes on with the connections that clients keep, and may hold the locks of their
    pools."""
    global _forked
    _forked = True
    _THERE.clear()


def install(library: Any) -> Iterator[Callable[[], None]]:
    """Watch one of the two libraries, which have the same names. Gives what undoes it."""
    sync, asynchronous = library.HTTPTransport, library.AsyncHTTPTransport
    handle, handle_async, close = sync.handle_request, asynchronous.handle_async_request, asynchronous.aclose

    def watched(self: object, request: Any) -> Any:
        found = watcher()
        if found is None:
            return handle(self, request)
        asked = _asked(request, request.read())

        def send(grown: Grown) -> WireResponse:
            with passing():
                response = handle(_here(self, type(self)), request)
                try:
                    body = b"".join(bounded(response.iter_bytes(), grown))
                    return answered(response.status_code, response.headers.items(), body)
                finally:
                    response.close()

        try:
            answer = found.exchange_blocking(asked, send)
        except NotThere as error:
            raise library.ConnectError(str(error), request=request) from None
        if answer is None:
            with passing():
                return handle(_here(self, type(self)), request)
        return _response(library, answer)

    async def watched_async(self: object, request: Any) -> Any:
        found = watcher()
        if found is None:
            return await handle_async(self, request)
        asked = _asked(request, await request.aread())

        async def send(grown: Grown) -> WireResponse:
            with passing():
                response = await handle_async(_here(self, asyncio.get_running_loop()), request)
                try:
                    body = b"".join([part async for part in bounded_async(response.aiter_bytes(), grown)])
                    return answered(response.status_code, response.headers.items(), body)
                finally:
                    await response.aclose()

        try:
            answer = await found.exchange(asked, send)
        except NotThere as error:
            raise library.ConnectError(str(error), request=request) from None
        if answer is None:
            with passing():
                return await handle_async(_here(self, asyncio.get_running_loop()), request)
        return _response(library, answer)

    async def closed(self: Any) -> None:
        await close(self)
        if there := _THERE.get(self):
            made = there.pop(asyncio.get_running_loop(), None)
            if made is not None:
                await close(made)

    sync.handle_request = watched
    asynchronous.handle_async_request, asynchronous.aclose = watched_async, closed

    def undo() -> None:
        sync.handle_request = handle
        asynchronous.handle_async_request, asynchronous.aclose = handle_async, close

    yield undo


def _here(transport: Any, place: Any) -> Any:
    """A transport, with connections of its own on a loop of ours, and in a forked child."""
    if not (_forked or place in OUR_LOOPS) or not hasattr(transport, "_pool"):
        return transport
    there = _THERE.setdefault(transport, WeakKeyDictionary())
    if place not in there:
        there[place] = made = copy.copy(transport)
        made._pool = copy.copy(transport._pool)
        made._pool._connections, made._pool._requests = [], []
        if (lock := getattr(made._pool, "_optional_thread_lock", None)) is not None:
            made._pool._optional_thread_lock = type(lock)()
    return there[place]


def _asked(request: Any, body: bytes) -> WireRequest:
    headers = {name.lower(): value for name, value in request.headers.items()}
    return WireRequest(request.method, str(request.url), headers, body)


def _response(library: Any, answer: WireResponse) -> Any:
    headers = {"content-type": answer.content_type, **answer.headers}
    return library.Response(answer.status, headers=headers, content=answer.body)
