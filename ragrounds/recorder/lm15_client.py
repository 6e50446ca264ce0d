"""lm15, the HTTP client that DSPy brings with it since its version 3.4: the methods of its two transports that send."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from .unpacking import Unpacker
from .wire import Grown, WireRequest, WireResponse, answered, bounded, bounded_async, passing, watcher

PLACE = "dspy._vendor.lm15.transports"
_LONGEST = 128 << 20
"""Bytes that an answer may have once it is unpacked."""


def install(module: Any) -> Iterator[Callable[[], None]]:
    """Watch the transports. Gives what undoes it."""
    yield _install_blocking(module)
    yield _install_async(module)


def _install_blocking(module: Any) -> Callable[[], None]:
    kind, told = module.StdlibTransport, module.TransportResponse
    stream = kind.stream

    def watched(self: object, request: Any) -> Any:
        """Send a request, or answer it from the journal."""
        found = watcher()
        if found is None:
            return stream(self, request)

        def send(grown: Grown) -> WireResponse:
            """Send it, and read the whole answer."""
            with passing():
                answer = stream(self, request)
                return _read(answer, list(bounded(answer, grown)))

        answer = found.exchange_blocking(_asked(request), send)
        if answer is None:
            with passing():
                return stream(self, request)
        return told(**_given(answer), chunks=iter([answer.body]), release=lambda consumed: None)

    kind.stream = watched
    return lambda: setattr(kind, "stream", stream)


def _install_async(module: Any) -> Callable[[], None]:
    kind, told = module.StdlibAsyncTransport, module.AsyncTransportResponse
    stream = kind._do_stream

    async def watched(self: object, request: Any) -> Any:
        """Send a request, or answer it from the journal."""
        found = watcher()
        if found is None:
            return await stream(self, request)

        async def send(grown: Grown) -> WireResponse:
            """Send it, and read the whole answer."""
            with passing():
                answer = await stream(self, request)
                return _read(answer, [part async for part in bounded_async(answer, grown)])

        answer = await found.exchange(_asked(request), send)
        if answer is None:
            with passing():
                return await stream(self, request)

        async def parts() -> AsyncIterator[bytes]:
            """The body, as it is given back."""
            yield answer.body

        async def release(consumed: bool) -> None:
            """Nothing is held."""

        return told(**_given(answer), chunks=parts(), release=release)

    kind._do_stream = watched
    return lambda: setattr(kind, "_do_stream", stream)


def _asked(request: Any) -> WireRequest:
    headers = {name.lower(): value for name, value in request.headers}
    return WireRequest(request.method, request.url, headers, bytes(request.body))


def _read(answer: Any, parts: Sequence[bytes]) -> WireResponse:
    """A whole answer, unpacked."""
    headers = {name.lower(): value for name, value in answer.headers}
    unpacker = Unpacker(headers.get("content-encoding", ""), _LONGEST)
    body = b"".join(piece for part in parts for piece in unpacker.feed(part))
    return answered(answer.status, headers.items(), body)


def _given(answer: WireResponse) -> dict[str, object]:
    headers = [*answer.headers.items(), ("content-type", answer.content_type)]
    return {"status": answer.status, "reason": "", "headers": headers, "http_version": "HTTP/1.1"}
