"""Answers of search providers, without a network."""

from __future__ import annotations

import httpx

KEY = "tvly-0123456789abcdefghij"


def sent(body: bytes, status: int = 200, **headers: str) -> httpx.Response:
    """An answer that comes in parts, as one from a network does."""

    async def parts():
        yield body

    return httpx.Response(status, content=parts(), headers=headers)
