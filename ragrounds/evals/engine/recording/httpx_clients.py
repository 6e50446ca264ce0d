"""httpx and its successor httpx2: their transports, so that every client of theirs is seen, with and without async."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol, cast

from ragrounds.evals.engine.recording.wire import Grown, answered, bounded, bounded_async, passing, watcher
from ragrounds.models.wire_forms import WireRequest, WireResponse


class _Headers(Protocol):
    def items(self) -> Iterable[tuple[str, str]]:
        """Names and values."""


class _Request(Protocol):
    method: str
    url: object
    headers: _Headers

    def read(self) -> bytes:
        """The whole body."""

    async def aread(self) -> bytes:
        """The whole body."""


class _Response(Protocol):
    status_code: int
    headers: _Headers

    def iter_bytes(self) -> Iterable[bytes]:
        """The body, unpacked."""

    def aiter_bytes(self) -> AsyncIterable[bytes]:
        """The body, unpacked."""

    def close(self) -> None:
        """Give the connection back."""

    async def aclose(self) -> None:
        """Give the connection back."""


class _Library(Protocol):
    HTTPTransport: type[_Sync]
    AsyncHTTPTransport: type[_Async]

    def Response(self, status: int, *, headers: Mapping[str, str], content: bytes) -> _Response:  # noqa: N802
        """Make a response."""


class _Sync(Protocol):
    def handle_request(self, request: _Request) -> _Response:
        """Send."""


class _Async(Protocol):
    async def handle_async_request(self, request: _Request) -> _Response:
        """Send."""


def install(name: str) -> Iterator[Callable[[], None]]:
    """Watch one of the two libraries, where it is installed. Gives what undoes it."""
    if name not in sys.modules and find_spec(name) is None:
        return
    library = cast(_Library, import_module(name))
    sync, asynchronous = library.HTTPTransport, library.AsyncHTTPTransport
    handle, handle_async = sync.handle_request, asynchronous.handle_async_request

    def watched(self: _Sync, request: _Request) -> _Response:
        found = watcher()
        if found is None:
            return handle(self, request)
        asked = _asked(request, request.read())

        def send(grown: Grown) -> WireResponse:
            with passing():
                response = handle(self, request)
                try:
                    body = b"".join(bounded(response.iter_bytes(), grown))
                    return answered(response.status_code, response.headers.items(), body)
                finally:
                    response.close()

        answer = found.exchange_blocking(asked, send)
        if answer is None:
            with passing():
                return handle(self, request)
        return _response(library, answer)

    async def watched_async(self: _Async, request: _Request) -> _Response:
        found = watcher()
        if found is None:
            return await handle_async(self, request)
        asked = _asked(request, await request.aread())

        async def send(grown: Grown) -> WireResponse:
            with passing():
                response = await handle_async(self, request)
                try:
                    body = b"".join([part async for part in bounded_async(response.aiter_bytes(), grown)])
                    return answered(response.status_code, response.headers.items(), body)
                finally:
                    await response.aclose()

        answer = await found.exchange(asked, send)
        if answer is None:
            with passing():
                return await handle_async(self, request)
        return _response(library, answer)

    sync.handle_request = watched  # type: ignore[method-assign]
    asynchronous.handle_async_request = watched_async  # type: ignore[method-assign]

    def undo() -> None:
        sync.handle_request = handle  # type: ignore[method-assign]
        asynchronous.handle_async_request = handle_async  # type: ignore[method-assign]

    yield undo


def _asked(request: _Request, body: bytes) -> WireRequest:
    headers = {name.lower(): value for name, value in request.headers.items()}
    return WireRequest(request.method, str(request.url), headers, body)


def _response(library: _Library, answer: WireResponse) -> _Response:
    headers = {"content-type": answer.content_type, **answer.headers}
    return library.Response(answer.status, headers=headers, content=answer.body)
