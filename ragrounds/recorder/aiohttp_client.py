"""Patch of the aiohttp method through which every request of its sessions goes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

from .wire import NotSent, SizeCheck, WireRequest, WireResponse, answered, bounded_async, passing, watcher

if TYPE_CHECKING:
    import aiohttp
    from multidict import CIMultiDictProxy
    from yarl import URL


def install(library: Any) -> Iterator[Callable[[], None]]:
    """Patch aiohttp's sessions. Yield a function that undoes the patch."""
    import aiohttp
    from multidict import CIMultiDict, CIMultiDictProxy

    request = aiohttp.ClientSession._request

    async def watched(
        self: aiohttp.ClientSession, method: str, str_or_url: str | URL, **arguments: object
    ) -> aiohttp.ClientResponse:
        recorder = watcher()
        if recorder is None:
            return await request(self, method, str_or_url, **arguments)  # type: ignore[arg-type]
        url = self._build_url(str_or_url)
        if arguments.get("params"):
            url = url.extend_query(cast("Mapping[str, str]", arguments["params"]))
        headers = CIMultiDict(self.headers)
        headers.update(arguments.get("headers") or {})  # type: ignore[arg-type]

        async def send(grown: SizeCheck) -> WireResponse:
            with passing():
                response = await request(self, method, str_or_url, **arguments)  # type: ignore[arg-type]
                async with response:
                    body = b"".join([part async for part in bounded_async(response.content.iter_any(), grown)])
                return answered(response.status, response.headers.items(), body)

        wire_request = WireRequest(
            method, str(url), {name.lower(): value for name, value in headers.items()}, _body(self, arguments)
        )
        try:
            answer = await recorder.exchange(wire_request, send)
        except NotSent as error:
            raise aiohttp.ClientConnectionError(str(error)) from None
        if answer is None:
            with passing():
                return await request(self, method, str_or_url, **arguments)  # type: ignore[arg-type]
        response_object: aiohttp.ClientResponse = _kind()(method, url, answer, self, CIMultiDictProxy(headers))
        strict = arguments.get("raise_for_status")
        if strict is True or (strict is None and self._raise_for_status is True):
            response_object.raise_for_status()
        return response_object

    aiohttp.ClientSession._request = watched  # type: ignore[method-assign]

    def undo() -> None:
        aiohttp.ClientSession._request = request  # type: ignore[method-assign]

    yield undo


def _body(session: aiohttp.ClientSession, arguments: dict[str, object]) -> bytes:
    if (plain := arguments.get("json")) is not None:
        return session._json_serialize(plain).encode()
    data = arguments.get("data")
    return data.encode() if isinstance(data, str) else data if isinstance(data, bytes) else b""


@cache
def _kind() -> Any:
    """Return the class of ragrounds' responses. It inherits from aiohttp's, which is imported only if a system has
    it.
    """
    import aiohttp
    from aiohttp.base_protocol import BaseProtocol
    from aiohttp.streams import StreamReader
    from multidict import CIMultiDict, CIMultiDictProxy

    class AnsweredResponse(aiohttp.ClientResponse):
        """A response whose body is already complete. It has no connection."""

        def __init__(
            self,
            method: str,
            url: URL,
            answer: WireResponse,
            session: aiohttp.ClientSession,
            request_headers: CIMultiDictProxy[str],
        ) -> None:
            # The parent's __init__ is not called: it needs a connection, and changes from version to version.
            loop = asyncio.get_running_loop()
            self.method = method
            self._real_url = self._url = url
            self._request_info = aiohttp.RequestInfo(url, method, request_headers, url)
            self._cache = {}
            self._traces = []
            self._loop = loop
            self._session = session
            self._resolve_charset = session._resolve_charset
            self.status = answer.status
            self.reason = HTTPStatus(answer.status).phrase if answer.status in HTTPStatus._value2member_map_ else ""
            self._headers = CIMultiDictProxy(CIMultiDict({**answer.headers, "content-type": answer.content_type}))
            self._raw_headers = tuple((name.encode(), value.encode()) for name, value in self._headers.items())
            self._body = answer.body
            self.content = StreamReader(BaseProtocol(loop), len(answer.body) + 1, loop=loop)
            self.content.feed_data(answer.body)
            self.content.feed_eof()
            self._closed = True

        async def read(self) -> bytes:
            """Return the whole body."""
            return self._body or b""

        def release(self) -> None:
            """Do nothing, because there is no connection."""

        def close(self) -> None:
            """Do nothing, because there is no connection."""

        async def wait_for_close(self) -> None:
            """Do nothing, because there is no connection."""

    return AnsweredResponse
