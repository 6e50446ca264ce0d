"""Functions that ask a model, for processes that are to start quickly."""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from collections.abc import Callable
from typing import Any


def by_urllib3(url: str, word: str = "hi") -> str:
    import urllib3

    asked = {"model": "m", "messages": [{"role": "user", "content": word}]}
    answer = urllib3.request("POST", f"{url}/chat/completions", json=asked, timeout=20)
    return str(answer.json()["choices"][0]["message"]["content"])


def by_httpx_async(url: str) -> str:
    import asyncio

    import httpx

    async def ask() -> str:
        asked = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        async with httpx.AsyncClient(timeout=20) as client:
            answer = await client.post(f"{url}/chat/completions", json=asked)
        return str(answer.json()["choices"][0]["message"]["content"])

    return asyncio.run(ask())


def in_a_fork_of_its_own(url: str) -> str:
    """By `os.fork`, and in a child of that child."""
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            if os.fork() == 0:
                os.write(write, by_urllib3(url).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        return told.read()


def put(answers: Any, work: Callable[[str], str], url: str) -> None:
    answers.put(work(url))


def page(url: str) -> str:
    """By a client that is not recorded."""
    return str(urllib.request.urlopen(url, timeout=20).read())


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](sys.argv[2])))
