"""Patches of lm15, the HTTP client that ships with DSPy since version 3.4: the sending methods of its two
transports.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from .unpacking import Unpacker
from .wire import SizeCheck, WireRequest, WireResponse, answered, bounded, bounded_async, passing, watcher

PLACE = "dspy._vendor.lm15.transports"
_MAX_BYTES = 128 << 20
"""Maximum number of bytes of an unpacked response."""


def install(module: Any) -> Iterator[Callable[[], None]]:
    """Patch the transports. Yield functions that undo the patches."""
    yield _install_blocking(module)
    yield _install_async(module)


def _install_blocking(module: Any) -> Callable[[], None]:
    kind, response_class = module.StdlibTransport, module.TransportResponse
    stream = kind.stream

    def watched(self: object, request: Any) -> Any:
        """Send a request, or answer it from the journal."""
        recorder = watcher()
        if recorder is None:
            return stream(self, request)

        def send(grown: SizeCheck) -> WireResponse:
            """Send the request, and read the whole response."""
            with passing():
                answer = stream(self, request)
                return _read(answer, list(bounded(answer, grown)))

        answer = recorder.exchange_blocking(_wire_request(request), send)
        if answer is None:
            with passing():
                return stream(self, request)
        return response_class(**_response_fields(answer), chunks=iter([answer.body]), release=lambda consumed: None)

    kind.stream = watched
    return lambda: setattr(kind, "stream", stream)


def _install_async(module: Any) -> Callable[[], None]:
    kind, response_class = module.StdlibAsyncTransport, module.AsyncTransportResponse
    stream = kind._do_stream

    async def watched(self: object, request: Any) -> Any:
        """Send a request, or answer it from the journal."""
        recorder = watcher()
        if recorder is None:
            return await stream(self, request)

        async def send(grown: SizeCheck) -> WireResponse:
            """Send the request, and read the whole response."""
            with passing():
                answer = await stream(self, request)
                return _read(answer, [part async for part in bounded_async(answer, grown)])

        answer = await recorder.exchange(_wire_request(request), send)
        if answer is None:
            with passing():
                return await stream(self, request)

        async def parts() -> AsyncIterator[bytes]:
            """Yield the body as one part."""
            yield answer.body

        async def release(consumed: bool) -> None:
            """Do nothing, because no connection is open."""

        return response_class(**_response_fields(answer), chunks=parts(), release=release)

    kind._do_stream = watched
    return lambda: setattr(kind, "_do_stream", stream)


def _wire_request(request: Any) -> WireRequest:
    headers = {name.lower(): value for name, value in request.headers}
    return WireRequest(request.method, request.url, headers, bytes(request.body))


def _read(answer: Any, parts: Sequence[bytes]) -> WireResponse:
    """Return a whole response, unpacked."""
    headers = {name.lower(): value for name, value in answer.headers}
    unpacker = Unpacker(headers.get("content-encoding", ""), _MAX_BYTES)
    body = b"".join(piece for part in parts for piece in unpacker.feed(part))
    return answered(answer.status, headers.items(), body)


def _response_fields(answer: WireResponse) -> dict[str, object]:
    headers = [*answer.headers.items(), ("content-type", answer.content_type)]
    return {"status": answer.status, "reason": "", "headers": headers, "http_version": "HTTP/1.1"}
