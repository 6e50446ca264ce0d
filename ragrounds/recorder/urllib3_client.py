"""Patch of the urllib3 method that sends a request. It covers requests and other libraries built on urllib3."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from .wire import SizeCheck, WireRequest, WireResponse, answered, bounded, passing, watcher

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, HTTPConnectionPool


_renewed_pools: WeakSet[HTTPConnectionPool] | None = None
"""Pools with new connections, in a forked child. Other pools still have connections that the parent uses."""


def forked() -> None:
    """Use new connections in a forked child."""
    global _renewed_pools
    _renewed_pools = WeakSet()


def _renew_connections(pool: HTTPConnectionPool) -> None:
    """Drop the parent's connections from a pool."""
    if _renewed_pools is not None and pool not in _renewed_pools and pool.pool is not None:
        _renewed_pools.add(pool)
        pool.pool = type(pool.pool)(pool.pool.maxsize)
        while not pool.pool.full():
            pool.pool.put(None)


def install(library: Any) -> Iterator[Callable[[], None]]:
    """Patch urllib3's pools. Yield a function that undoes the patch."""
    import urllib3

    urlopen = urllib3.HTTPConnectionPool.urlopen

    def watched(
        self: HTTPConnectionPool,
        method: str,
        url: str,
        body: object = None,
        headers: dict[str, str] | None = None,
        *arguments: object,
        **keywords: object,
    ) -> BaseHTTPResponse:
        def original(**changed: object) -> BaseHTTPResponse:
            _renew_connections(self)
            return urlopen(self, method, url, body, headers, *arguments, **{**keywords, **changed})  # type: ignore[arg-type]

        recorder = watcher()
        if recorder is None:
            return original()
        absolute_url = (
            url if "://" in url else f"{self.scheme}://{self.host}:{self.port or _PORTS[self.scheme or 'http']}{url}"
        )

        def send(grown: SizeCheck) -> WireResponse:
            with passing():
                response = original(preload_content=False)
                body = b"".join(bounded(response.stream(1 << 16, decode_content=True), grown))
                response.release_conn()
                return answered(response.status, response.headers.items(), body)

        sent = body.encode() if isinstance(body, str) else body if isinstance(body, bytes) else b""
        lower_case_headers = {name.lower(): str(value) for name, value in dict(headers or {}).items()}
        answer = recorder.exchange_blocking(WireRequest(method, absolute_url, lower_case_headers, sent), send)
        if answer is None:
            with passing():
                return original()
        return urllib3.HTTPResponse(
            body=io.BytesIO(answer.body),
            headers={**answer.headers, "content-type": answer.content_type},
            status=answer.status,
            version=11,
            preload_content=bool(keywords.get("preload_content", True)),
            request_method=method,
            request_url=url,
        )

    urllib3.HTTPConnectionPool.urlopen = watched  # type: ignore[method-assign,assignment]

    def undo() -> None:
        urllib3.HTTPConnectionPool.urlopen = urlopen  # type: ignore[method-assign]

    yield undo


_PORTS = {"http": 80, "https": 443}
