"""httpx and its successor httpx2: their transports, so that every client of theirs is seen, with and without async."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .wire import Grown, WireRequest, WireResponse, answered, bounded, bounded_async, passing, watcher


def install(library: Any) -> Iterator[Callable[[], None]]:
    """Watch one of the two libraries, which have the same names. Gives what undoes it."""
    sync, asynchronous = library.HTTPTransport, library.AsyncHTTPTransport
    handle, handle_async = sync.handle_request, asynchronous.handle_async_request

    def watched(self: object, request: Any) -> Any:
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

    async def watched_async(self: object, request: Any) -> Any:
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

    sync.handle_request = watched
    asynchronous.handle_async_request = watched_async

    def undo() -> None:
        sync.handle_request = handle
        asynchronous.handle_async_request = handle_async

    yield undo


def _asked(request: Any, body: bytes) -> WireRequest:
    headers = {name.lower(): value for name, value in request.headers.items()}
    return WireRequest(request.method, str(request.url), headers, body)


def _response(library: Any, answer: WireResponse) -> Any:
    headers = {"content-type": answer.content_type, **answer.headers}
    return library.Response(answer.status, headers=headers, content=answer.body)
