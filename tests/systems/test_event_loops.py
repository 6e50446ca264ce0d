"""Clients with async that a module holds serve `rr.run`, `rr.arun` and their user in turn, whichever loop each has."""

from __future__ import annotations

from pathlib import Path

import httpx

import ragrounds as rr
from tests.servers.any_form import any_form


async def test_one_client_serves_a_run_a_coroutine_and_its_user(home: Path) -> None:
    with any_form() as server:
        client = httpx.AsyncClient()

        async def ask(prompt: str) -> str:
            body = {"model": "m", "messages": [{"role": "user", "content": prompt}]}
            answer = await client.post(f"{server.url}/chat/completions", json=body)
            return str(answer.json()["choices"][0]["message"]["content"])

        run = rr.run("sample", ask, limit=2, progress=False, home=home)
        assert await ask("theirs")
        arun = await rr.arun("sample", ask, limit=4, progress=False, home=home)
        again = rr.run("sample", ask, limit=6, progress=False, home=home)
        assert await ask("theirs again")
        assert [[*made.to_pandas("attempts")["status"]] for made in (run, arun, again)] == [
            ["completed"] * count for count in (2, 4, 6)
        ]
        await client.aclose()


def test_clients_stay_patched_between_the_attempts_of_a_run(home: Path) -> None:
    client = httpx.HTTPTransport
    before, patched = client.handle_request, []

    def ask(prompt: str) -> str:
        patched.append(client.handle_request)
        return "A"

    rr.run("sample", ask, limit=2, concurrency=1, progress=False, home=home)
    first, second = patched
    assert first is second
    assert first.__module__.startswith("ragrounds.")
    # A cancelled attempt of an earlier test leaves clients patched for the rest of the process.
    assert client.handle_request is before
