"""Patches of the transports of httpx and its successor httpx2, so that all their clients are observed, sync and
async.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from .wire import NotSent, SizeCheck, WireRequest, WireResponse, answered, bounded, bounded_async, passing, watcher

OUR_LOOPS: WeakSet[asyncio.AbstractEventLoop] = WeakSet()
"""Event loops of ragrounds.

A client that is used on one of them gets separate connections there. Its existing connections would fail on the user's
loop afterwards, and those of ragrounds' loop fail on the user's.
"""
_THERE: WeakKeyDictionary[Any, WeakKeyDictionary[Any, Any]] = WeakKeyDictionary()
"""Transports → ragrounds' loop (in a forked child any loop, or the class of a sync transport) → the transport with
separate connections.
"""
_forked = False


def forked() -> None:
    """Use new connections in a forked child. Its parent continues to use the kept ones, and may hold the locks of their
    pools.
    """
    global _forked
    _forked = True
    _THERE.clear()


def install(library: Any) -> Iterator[Callable[[], None]]:
    """Patch one of the two libraries, which have the same names. Yield a function that undoes the patch."""
    sync, asynchronous = library.HTTPTransport, library.AsyncHTTPTransport
    handle, handle_async, close = sync.handle_request, asynchronous.handle_async_request, asynchronous.aclose

    def watched(self: object, request: Any) -> Any:
        recorder = watcher()
        if recorder is None:
            return handle(self, request)
        wire_request = _wire_request(request, request.read())

        def send(grown: SizeCheck) -> WireResponse:
            with passing():
                response = handle(_transport_for(self, type(self)), request)
                try:
                    body = b"".join(bounded(response.iter_bytes(), grown))
                    return answered(response.status_code, response.headers.items(), body)
                finally:
                    response.close()

        try:
            answer = recorder.exchange_blocking(wire_request, send)
        except NotSent as error:
            raise library.ConnectError(str(error), request=request) from None
        if answer is None:
            with passing():
                return handle(_transport_for(self, type(self)), request)
        return _response(library, answer)

    async def watched_async(self: object, request: Any) -> Any:
        recorder = watcher()
        if recorder is None:
            return await handle_async(self, request)
        wire_request = _wire_request(request, await request.aread())

        async def send(grown: SizeCheck) -> WireResponse:
            with passing():
                response = await handle_async(_transport_for(self, asyncio.get_running_loop()), request)
                try:
                    body = b"".join([part async for part in bounded_async(response.aiter_bytes(), grown)])
                    return answered(response.status_code, response.headers.items(), body)
                finally:
                    await response.aclose()

        try:
            answer = await recorder.exchange(wire_request, send)
        except NotSent as error:
            raise library.ConnectError(str(error), request=request) from None
        if answer is None:
            with passing():
                return await handle_async(_transport_for(self, asyncio.get_running_loop()), request)
        return _response(library, answer)

    async def closed(self: Any) -> None:
        await close(self)
        if copies := _THERE.get(self):
            copied = copies.pop(asyncio.get_running_loop(), None)
            if copied is not None:
                await close(copied)

    sync.handle_request = watched
    asynchronous.handle_async_request, asynchronous.aclose = watched_async, closed

    def undo() -> None:
        sync.handle_request = handle
        asynchronous.handle_async_request, asynchronous.aclose = handle_async, close

    yield undo


def _transport_for(transport: Any, loop_or_class: Any) -> Any:
    """Return a transport, with separate connections on ragrounds' loops and in a forked child."""
    if not (_forked or loop_or_class in OUR_LOOPS) or not hasattr(transport, "_pool"):
        return transport
    copies = _THERE.setdefault(transport, WeakKeyDictionary())
    if loop_or_class not in copies:
        copies[loop_or_class] = copied = copy.copy(transport)
        copied._pool = copy.copy(transport._pool)
        copied._pool._connections, copied._pool._requests = [], []
        if (lock := getattr(copied._pool, "_optional_thread_lock", None)) is not None:
            copied._pool._optional_thread_lock = type(lock)()
    return copies[loop_or_class]


def _wire_request(request: Any, body: bytes) -> WireRequest:
    headers = {name.lower(): value for name, value in request.headers.items()}
    return WireRequest(request.method, str(request.url), headers, body)


def _response(library: Any, answer: WireResponse) -> Any:
    headers = {"content-type": answer.content_type, **answer.headers}
    return library.Response(answer.status, headers=headers, content=answer.body)
