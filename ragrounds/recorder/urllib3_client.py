"""urllib3, and with it requests and whatever else is built on it: the method of its pools that sends a request."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from .wire import Grown, WireRequest, WireResponse, answered, bounded, passing, watcher

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, HTTPConnectionPool


_own: WeakSet[HTTPConnectionPool] | None = None
"""In a forked child: pools that have connections of their own; others have those that its parent goes on with."""


def forked() -> None:
    """Be a forked child."""
    global _own
    _own = WeakSet()


def _empty(pool: HTTPConnectionPool) -> None:
    """Have a pool forget the connections of the parent's."""
    if _own is not None and pool not in _own and pool.pool is not None:
        _own.add(pool)
        pool.pool = type(pool.pool)(pool.pool.maxsize)
        while not pool.pool.full():
            pool.pool.put(None)


def install(library: Any) -> Iterator[Callable[[], None]]:
    """Watch urllib3's pools. Gives what undoes it."""
    import urllib3

    urlopen = urllib3.HTTPConnectionPool.urlopen

    def watched(
        self: HTTPConnectionPool,
        method: str,
        url: str,
        body: object = None,
        headers: dict[str, str] | None = None,
        *given: object,
        **named: object,
    ) -> BaseHTTPResponse:
        def original(**changed: object) -> BaseHTTPResponse:
            _empty(self)
            return urlopen(self, method, url, body, headers, *given, **{**named, **changed})  # type: ignore[arg-type]

        found = watcher()
        if found is None:
            return original()
        place = (
            url if "://" in url else f"{self.scheme}://{self.host}:{self.port or _PORTS[self.scheme or 'http']}{url}"
        )

        def send(grown: Grown) -> WireResponse:
            with passing():
                response = original(preload_content=False)
                body = b"".join(bounded(response.stream(1 << 16, decode_content=True), grown))
                response.release_conn()
                return answered(response.status, response.headers.items(), body)

        sent = body.encode() if isinstance(body, str) else body if isinstance(body, bytes) else b""
        asked = {name.lower(): str(value) for name, value in dict(headers or {}).items()}
        answer = found.exchange_blocking(WireRequest(method, place, asked, sent), send)
        if answer is None:
            with passing():
                return original()
        return urllib3.HTTPResponse(
            body=io.BytesIO(answer.body),
            headers={**answer.headers, "content-type": answer.content_type},
            status=answer.status,
            version=11,
            preload_content=bool(named.get("preload_content", True)),
            request_method=method,
            request_url=url,
        )

    urllib3.HTTPConnectionPool.urlopen = watched  # type: ignore[method-assign,assignment]

    def undo() -> None:
        urllib3.HTTPConnectionPool.urlopen = urlopen  # type: ignore[method-assign]

    yield undo


_PORTS = {"http": 80, "https": 443}
