"""Processes that a system makes: their calls are recorded as its own, they are refused what it is, and end with it."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx  # noqa: F401 a fork need not load it
import pytest

import ragrounds as rr
from ragrounds.agents.agent import Limits
from ragrounds.base.errors import StopRun
from ragrounds.base.records import Attempt, Question
from ragrounds.evals.engine.attempt_log import AttemptEnded
from ragrounds.evals.engine.foreign_system import run_system
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from tests.engine import asking
from tests.engine.doubles import Doing, context_of
from tests.servers.process import gone

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")


def in_process(method: str, work: Any, url: str) -> str:
    context: Any = multiprocessing.get_context(method)
    answers = context.SimpleQueue()
    child = context.Process(target=asking.put, args=(answers, work, url))
    child.start()
    child.join(20)
    try:
        assert child.exitcode is not None, "the child hangs"
        return str(answers.get()) if not answers.empty() else "it gave nothing"
    finally:
        child.kill()


def in_pool(method: str, url: str) -> str:
    with multiprocessing.get_context(method).Pool(1) as pool:
        return "".join(pool.map(asking.by_urllib3, [url]))


def in_executor(url: str) -> str:
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        return pool.submit(asking.by_urllib3, url).result()


def in_program(work: str, url: str) -> str:
    program = [sys.executable, str(Path(asking.__file__)), work, url]
    return subprocess.run(program, capture_output=True, text=True, timeout=30).stdout


WAYS: dict[str, Any] = {
    "a forked process": partial(in_process, "fork", asking.by_urllib3),
    "a forked process with a loop": partial(in_process, "fork", asking.by_httpx_async),
    "a child of a child": asking.in_a_fork_of_its_own,
    "a process of a server of forks": partial(in_process, "forkserver", asking.by_urllib3),
    "a spawned process": partial(in_process, "spawn", asking.by_urllib3),
    "a forked pool": partial(in_pool, "fork"),
    "an executor": in_executor,
    "a program": partial(in_program, "by_urllib3"),
    "a program with a loop": partial(in_program, "by_httpx_async"),
    "a program that forks": partial(in_program, "in_a_fork_of_its_own"),
}


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=pytest.mark.slow if way == "a program with a loop" else ()) for way in WAYS]
)
def test_what_a_child_asks_is_recorded_and_replayed(way, served, attempt):
    def do(_: Question) -> Any:
        return asyncio.to_thread(WAYS[way], served.url)

    first = attempt(do)
    assert first.error is None
    assert "The answer is B" in first.text
    assert (len(first.calls), first.context.missed, len(served.asked)) == (1, 0, 1)
    again = attempt(do, "replay", id="another")
    assert (again.text, again.context.missed, len(served.asked)) == (first.text, 0, 1)


@pytest.mark.parametrize("way", ["a forked process", "a forked pool", "an executor", "a program"])
def test_a_child_is_refused_at_a_cap_and_in_a_replay_and_does_not_hang(way, served, attempt):
    began = time.monotonic()

    def do(_: Question) -> Any:
        return asyncio.to_thread(WAYS[way], served.url)

    made = attempt(do, "replay")
    assert isinstance(made.error, StopRun)
    assert "not in the journal" in str(made.error)
    assert isinstance(attempt(do, limits=Limits(calls=0), id="capped").error, AttemptEnded)
    assert not served.asked
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("start", [partial(in_process, "fork", asking.page), partial(in_program, "page")])
def test_what_a_child_sends_unrecorded_is_named_and_refused_in_a_replay(start, served, attempt):
    made = attempt(lambda _: asyncio.to_thread(start, f"{served.url}/page"))
    assert made.context.missed == 1
    assert [note for note in made.notes if note.startswith("not_")] == [
        "not_recorded: a request to 127.0.0.1 by http.client"
    ]
    refused = attempt(lambda _: asyncio.to_thread(start, f"{served.url}/page"), "replay")
    assert isinstance(refused.error, StopRun)
    assert len(served.asked) == 1


def test_a_program_hears_of_us_without_importing_us(served, attempt):
    ask = f"import sys, urllib.request as r; r.urlopen('{served.url}/page'); print('ragrounds' in sys.modules)"
    program = [os.path.realpath(sys.executable), "-c", ask]  # outside a virtual environment: it has nothing of ours
    done: list[Any] = []

    def run() -> str:
        done.append(subprocess.run(program, capture_output=True, text=True, cwd="/"))
        return "A"

    assert attempt(lambda _: asyncio.to_thread(run)).context.missed == 1
    assert (done[0].stdout, done[0].stderr) == ("False\n", "")


@pytest.mark.parametrize("program", [[sys.executable, "-I"], ["/bin/sh"]])
def test_a_program_that_does_not_hear_of_us_is_named(program, served, attempt):
    made = attempt(lambda _: asyncio.to_thread(subprocess.run, [*program, "-c", ""], check=True))
    assert made.context.missed == 1
    assert any("a process: " in note for note in made.notes)


def test_the_work_of_a_pool_that_attempts_share_belongs_to_who_hands_it_in(served, home):
    served.says = lambda asked: asked["messages"][0]["content"]
    words = ("one", "two", "three")

    async def all_of_them(pool: ProcessPoolExecutor) -> list[Any]:
        with Store(home) as store:
            journal = StoreJournal(store)
            loop = asyncio.get_running_loop()

            async def ask(question: Question) -> str:
                return await loop.run_in_executor(pool, asking.by_urllib3, served.url, question.id)

            contexts = [context_of(journal, word) for word in words]
            answers = await asyncio.gather(*(run_system(Doing(ask), one, journal) for one in contexts))
            assert [answer.text for answer in answers] == list(words)
            journal.close()
            return contexts

    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        pool.submit(int).result()  # its process is older than what watches
        contexts = asyncio.run(all_of_them(pool))
    assert [(one.calls.total(), one.missed) for one in contexts] == [(1, 0)] * 3


FORKING = """
import multiprocessing, subprocess, sys
sys.path.append({folder!r})
import asking

def ask(question):
    forking = multiprocessing.get_context("fork")
    answers = forking.SimpleQueue()
    child = forking.Process(target=asking.put, args=(answers, asking.by_urllib3, {url!r}))
    child.start()
    child.join()
    program = [sys.executable, {folder!r} + "/asking.py", "by_urllib3", {url!r}]
    return answers.get() + subprocess.run(program, capture_output=True, text=True).stdout
"""


def test_children_of_a_host_are_recorded_too(served, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch):
    folder = str(Path(asking.__file__).parent)
    (tmp_path / "mine.py").write_text(FORKING.format(folder=folder, url=served.url))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGROUNDS_HOME", str(home))

    def run(**options: Any) -> list[Attempt]:
        made = rr.run("sample", "./mine.py:ask", limit=1, progress=False, **options).runs[0]
        with Store(home) as store:
            return [*store.attempts(made)]

    assert [(attempt.status, attempt.model_calls) for attempt in run()] == [("completed", 2)]
    assert len(served.asked) == 2  # once by each way
    served.close()
    assert [attempt.status for attempt in run(new=True, journal="replay")] == ["completed"]


SHARING = """
import multiprocessing, threading, time
import {library}
lock, client = threading.Lock(), {library}.{client}

def work(answers, question):
    with lock:
        pass
    answers.put(post(question))

def post(question):
    asked = dict(model="m", messages=[dict(role="user", content=question)])
    made = client.request("POST", {url!r} + "/chat/completions", json=asked)
    return made.json()["choices"][0]["message"]["content"]

post("kept open")

def ask(question):
    with lock:  # as what is made when it is first used
        time.sleep(0.1)
    forking = multiprocessing.get_context("fork")
    answers = forking.SimpleQueue()
    child = forking.Process(target=work, args=(answers, question))
    child.start()
    child.join(10)
    hangs = child.exitcode is None
    child.kill()
    return "hangs" if hangs else answers.get()
"""


@pytest.mark.parametrize(
    ("library", "client"), [("httpx", "Client(timeout=20)"), ("urllib3", "PoolManager(timeout=20, maxsize=8)")]
)
def test_attempts_of_a_host_that_fork_at_once(
    library: str, client: str, served, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
):
    """What one attempt holds when another forks holds up no child, and children share no connection."""
    served.says = lambda asked: asked["messages"][0]["content"]
    (tmp_path / "mine.py").write_text(SHARING.format(library=library, client=client, url=served.url))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGROUNDS_HOME", str(home))
    made = rr.run("sample", "./mine.py:ask", limit=6, concurrency=6, progress=False).runs[0]
    with Store(home) as store:
        questions, _ = store.questions(made)
        assert {one.question_id: one.text.partition("\n")[0] for one in store.attempts(made)} == {
            one.id: one.text.partition("\n")[0] for one in questions
        }


HANGING = """
import multiprocessing, os, sys, time
def hang():
    with open({pids!r}, "a") as file:
        file.write(f"{{os.getpid()}}\\n")
    time.sleep(600)
def ask(question):
    forking = multiprocessing.get_context("fork")
    children = [forking.Process(target=hang) for _ in range(2)]
    for child in children:
        child.start()
    while not os.path.exists({pids!r}) or open({pids!r}).read().count("\\n") < 2:
        time.sleep(0.01)
    children[0].terminate()
    children[0].join()
    return "A"
"""


def test_children_end_with_the_run(tmp_path: Path, home: Path) -> None:
    """A child that hangs holds up no run at its end, one that is ended ends nothing else, and none is left."""
    pids = tmp_path / "pids"
    (tmp_path / "mine.py").write_text(HANGING.format(pids=str(pids)))
    made = rr.run("sample", f"{tmp_path / 'mine.py'}:ask", limit=1, progress=False, home=home)
    assert not made.failures
    first, second = map(int, pids.read_text().split())
    assert gone(first, second)
