from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ragrounds.agents.agent import Limits, open_agent
from ragrounds.base.contracts import Model, Searcher
from ragrounds.base.records import Attempt, Gold, Question, Run
from ragrounds.evals.engine.foreign_system import run_system
from ragrounds.evals.engine.plan import PlannedRun
from ragrounds.evals.engine.replayed_runs import ReplayedRuns
from ragrounds.evals.engine.scheduler import replay
from ragrounds.evals.scorers import scorers_for
from ragrounds.evals.store.journal import Mode, StoreJournal
from ragrounds.evals.store.store import Store, now
from tests.conftest import Cli
from tests.engine.doubles import Doing, Made, ScriptedModel, ScriptedSearcher, context_of
from tests.servers.any_form import AnyForm, any_form
from tests.servers.process import Running


def planned(
    store: Store,
    agent: str,
    questions: Sequence[Question],
    golds: Mapping[str, Gold],
    model: Model | None = None,
    searcher: Searcher | None = None,
    epochs: int = 1,
) -> PlannedRun:
    """A planned whose run is in the store; the same agent on the same questions gets the same run."""
    opened = open_agent(agent)
    set_ = hashlib.sha256("".join(question.id + question.text for question in questions).encode()).hexdigest()
    print_ = hashlib.sha256(f"{opened.spec}{set_}{epochs}".encode()).hexdigest()
    run = store.latest(print_)
    if run is None:
        run = Run(
            id=f"{opened.name}-{print_[:6]}",
            agent=opened.spec,
            benchmark="t",
            questions=set_,
            count=len(questions),
            epochs=epochs,
            fingerprint=print_,
            identity={},
            created=now(),
        )
        store.add_run(run, questions, golds)
    return PlannedRun(opened, {"model": model or ScriptedModel()}, searcher or ScriptedSearcher(), run=run)


async def replayed(
    store: Store,
    planned_runs: Sequence[PlannedRun],
    questions: Sequence[Question],
    golds: Mapping[str, Gold],
    mode: Mode = "reuse",
    **options: Any,
) -> StoreJournal:
    """Replay and give the journal, for its counts."""
    journal = StoreJournal(store, mode)
    try:
        await replay(ReplayedRuns(store, journal, planned_runs, scorers_for), questions, golds, **options)
    finally:
        journal.close()
    return journal


def attempts(store: Store, run: Run) -> dict[str, Attempt]:
    return {attempt.question_id: attempt for attempt in store.attempts(run)}


@pytest.fixture
def served() -> Iterator[AnyForm]:
    """A model on a loopback server."""
    with any_form() as server:
        yield server


class Ran(NamedTuple):
    """One call of the command."""

    run: str
    asked: int
    """Requests that the server got from it."""
    said: str
    """Standard error."""


USERS_SYSTEM = """
import importlib, os, sqlite3
from pathlib import Path

import urllib3  # a tenth of what OpenAI's client takes to be imported, in each process of a system

HERE = Path(__file__).parent
client = urllib3.PoolManager()
COUNT = []
{above}

def answer(prompt: str) -> str:
    COUNT.append(prompt)
    {each}
    asked = {{"model": {model}, "temperature": 0, "messages": [{{"role": "user", "content": prompt + str({more})}}]}}
    said = client.request("POST", "{url}/chat/completions", json=asked)
    return said.json()["choices"][0]["message"]["content"]
"""


@pytest.fixture
def write(tmp_path: Path, server: Running) -> Callable[..., None]:
    """Write a user's system: what it does first, for each question, and adds to its prompt."""

    def write(
        more: str = "''", *, model: str = '"a"', above: str = "", each: str = "pass", url: str = "",
        text: str = USERS_SYSTEM,
    ) -> None:  # fmt: skip
        filled = text.format(url=url or server.url, model=model, above=above, each=each, more=more)
        (tmp_path / "mine.py").write_text(filled)

    return write


@pytest.fixture
def ran(command: Cli, server: Running) -> Callable[..., Ran]:
    """Run a system on three questions."""

    def run(*options: str, agent: str = "./mine.py:answer", of: Running = server, **environment: str) -> Ran:
        before = of.stats()["asked"]
        words = ("--agent", agent, "--limit", "3", "--concurrency", "1", "--display", "none", "--json")
        done = command("run", *words, *options, **environment)
        assert done.returncode == 0, done.stderr
        (row,) = json.loads(done.stdout)["rows"]
        return Ran(row["run"], of.stats()["asked"] - before, done.stderr)

    return run


@pytest.fixture
def attempt(home: Path) -> Callable[..., Made]:
    """Makes an attempt by a system that does what it is told."""

    def make(do: Any, mode: Mode = "reuse", limits: Limits | None = None, id: str = "q") -> Made:
        async def once() -> Made:
            with Store(home) as store:
                journal = StoreJournal(store, mode)
                context = context_of(journal, id, limits=limits or Limits())
                try:
                    return Made((await run_system(Doing(do), context, journal)).text, None, context)
                except Exception as error:
                    return Made("", error, context)
                finally:
                    journal.close()

        return asyncio.run(once())

    return make
