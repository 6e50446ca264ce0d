"""A question that ends the process of its system: what else was in flight there is made again, and nothing is paid
twice."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ragrounds as rr
from ragrounds.base.records import Attempt
from ragrounds.evals.engine.budget import BudgetStop
from ragrounds.evals.store.store import Store
from tests.servers.any_form import AnyForm

# One ends the process, once the first call of the other is recorded. The other waits for that.
AGENT = """
import os, time, urllib3
from datetime import datetime
from pathlib import Path

def ask(question: str):
    def said(what):
        body = {{"model": "m", "messages": [{{"role": "user", "content": f"{{what}} at {{now}}: {{question}}"}}]}}
        answer = urllib3.request("POST", {url!r} + "/chat/completions", json=body)
        return answer.json()["choices"][0]["message"]["content"]
    now, ended = datetime.now(), Path("ended")
    if said("first") == "end":
        ended.touch()
        os._exit(3)
    while not ended.exists():
        time.sleep(0.01)
    return said("second")
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


def recorded_calls(home: Path) -> int:
    with contextlib.closing(sqlite3.connect(home / "store.sqlite")) as connection:
        return int(connection.execute("SELECT count(*) FROM calls WHERE kind = 'model'").fetchone()[0])


@pytest.mark.parametrize("journal", ["reuse", pytest.param("fresh", marks=pytest.mark.slow)])
def test_the_other_is_made_again_alone_and_nothing_is_paid_twice(
    journal: str, made: Make, served: AnyForm, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: list[str] = []
    billed: list[float | None] = []
    monkeypatch.setattr(BudgetStop, "observe", lambda self, finished: billed.append(finished.billable))
    home.mkdir(exist_ok=True)
    (home / "prices.toml").write_text('["openai:m"]\ninput = 1_000_000\noutput = 0\n')

    def says(body: dict[str, Any]) -> str:
        texts.append(str(body["messages"]))
        if len(texts) > 1:
            return "(B)"
        while not recorded_calls(home):
            time.sleep(0.01)
        return "end"

    served.says = says
    attempts = made(limit=2, concurrency=2, journal=journal)
    assert Counter((one.status, one.reason, one.model_calls) for one in attempts) == {
        ("completed", "", 2): 1,
        ("failed", ENDED, 1): 1,
    }
    assert len(texts) == 3, "a call that was finished is asked again"
    assert sorted(one.cost_paid for one in attempts) == sorted(billed) == [7, 14], "what it paid before is its own"
    assert all(one.cost_paid == one.cost_uncached for one in attempts)
    assert all(any("made again, alone" in str(event) for event in one.events) for one in attempts)


def test_what_ends_it_alone_is_not_made_again(made: Make, served: AnyForm) -> None:
    served.says = lambda body: "end"
    (attempt,) = made(limit=1)
    assert (attempt.status, attempt.reason) == ("failed", ENDED)
    assert "made again" not in str(attempt.events)
