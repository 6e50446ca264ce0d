"""A question that ends the process of its system: the others that it had in hand are made again, and nothing is paid
twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ragrounds as rr
from ragrounds.evals.store.store import Store
from ragrounds.records import Attempt
from tests.servers.any_form import AnyForm

# All have had their first call answered, after a while, when one ends the process.
AGENT = """
import asyncio, os, httpx
from datetime import datetime

async def ask(question: str):
    async def said(what):
        body = {{"model": "m", "messages": [{{"role": "user", "content": f"{{what}} at {{now}}: {{question}}"}}]}}
        async with httpx.AsyncClient() as client:
            answer = await client.post({url!r} + "/chat/completions", json=body)
        return answer.json()["choices"][0]["message"]["content"]
    now = datetime.now()
    first = await said("first")
    await asyncio.sleep(0.5)
    if first == "end":
        os._exit(3)
    await asyncio.sleep(0.5)
    return await said("second")
"""
ENDED = "HostEnded: the process that ./mine.py:ask runs in ended with exit code 3"
Make = Callable[..., list[Attempt]]


@pytest.fixture
def made(served: AnyForm, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(AGENT.format(url=served.url))

    def make(**options: Any) -> list[Attempt]:
        result = rr.run("sample", "./mine.py:ask", progress=False, home=home, **options)
        with Store(home) as store:
            return list(store.attempts(result.runs[0]))

    return make


@pytest.mark.parametrize("journal", ["reuse", "fresh"])
def test_the_others_are_made_again_alone_and_nothing_is_paid_twice(journal: str, made: Make, served: AnyForm) -> None:
    texts: list[str] = []

    def says(body: dict[str, Any]) -> str:
        texts.append(str(body["messages"]))
        return "end" if len(texts) == 1 else "(B)"

    served.says = says
    attempts = made(limit=4, concurrency=4, journal=journal)
    assert Counter((one.status, one.reason, one.model_calls) for one in attempts) == {
        ("completed", "", 2): 3,
        ("failed", ENDED, 1): 1,
    }
    assert len(texts) == 7, "a call that was finished is asked again"
    assert all(one.cost_paid == one.cost_uncached for one in attempts), "what it paid before is its own"
    assert all(any("made again, alone" in str(event) for event in one.events) for one in attempts)


def test_what_ends_it_alone_is_not_made_again(made: Make, served: AnyForm) -> None:
    served.says = lambda body: "end"
    (attempt,) = made(limit=1)
    assert (attempt.status, attempt.reason) == ("failed", ENDED)
    assert "made again" not in str(attempt.events)
