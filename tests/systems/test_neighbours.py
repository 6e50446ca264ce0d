"""Agents of one file in one command: what one does to its process reaches no other; what they print is bounded."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import ragrounds as rr
from ragrounds.base.records import Attempt, Noted
from ragrounds.evals.store.store import Store
from ragrounds.ui.agent_names import agent_names
from tests.servers.any_form import any_form

APP = """
import os, signal, sys, time

def ask(question):
    time.sleep(0.05)
    return f"(A) {os.getpid()}"

def twice(question): return ask(question)

def calls(question):
    import urllib3
    body = {"model": "m", "messages": [{"role": "user", "content": question}]}
    reply = urllib3.request("POST", os.environ["SERVED_AT"] + "/chat/completions", json=body, timeout=60)
    return reply.json()["choices"][0]["message"]["content"]

def patches(question):
    import json
    def broken(*arguments, **keywords): raise RuntimeError("patched")
    json.dumps = time.sleep = broken
    return "(A)"

async def blocks(question):
    time.sleep(3)
    return "(A)"

def prints(question):
    for number in range(6000): print(f"line {number} " + "loud " * 1000)
    print("the last line", file=sys.stderr)
    return "(A)"

def long_answer(question): return "word " * 300_000

def words():
    while True: yield "word "

def endless(question): return words()

def exits(question):
    print("about to end")
    os._exit(3)

def forks(question):
    os.fork()
    return "(A)"

def chooses(question): return "(B)"

def recurses(question):
    sys.setrecursionlimit(30_000)
    def deeper(level): return deeper(level + 1) + 1
    return deeper(0)

def stops(question):
    os.kill(os.getpid(), signal.SIGSTOP)
    return "(A)"

def ends_its_group(question): os.killpg(os.getpgrp(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def attempts(home: Path, *names: str, limit: int = 2, **options: object) -> list[list[Attempt]]:
    """The attempts of each agent."""
    agents = [f"./app.py:{name}" for name in names]
    result = rr.run("sample", agents, limit=limit, progress=False, home=home, **options)  # type: ignore[arg-type]
    with Store(home) as store:
        return [list(store.attempts(run)) for run in result.runs]


def notes(attempt: Attempt, kind: str) -> list[str]:
    return [event.text for event in attempt.events if isinstance(event, Noted) and event.what == kind]


@pytest.mark.slow
def test_no_agent_is_changed_by_another_of_its_file(
    home: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("calls", "patches", "blocks", "prints", "long_answer", "endless", "exits", "forks")
    for folder in (home, home / "alone"):
        folder.mkdir(exist_ok=True)
        (folder / "prices.toml").write_text('["openai:m"]\ninput = 1.0\noutput = 2.0\n')
    with any_form() as server:
        monkeypatch.setenv("SERVED_AT", server.url)
        (alone,) = attempts(home / "alone", "calls")
        calls, patches, blocks, prints, long_answer, endless, exits, forks = attempts(home, *names)
        assert len([body for _, body in server.asked if body]) == 4
    assert [attempt.status for attempt in (*calls, *patches, *blocks, *prints, *forks)] == ["completed"] * 10
    assert [attempt.cost_paid for attempt in alone] == [(7 * 1.0 + 2 * 2.0) / 1e6] * 2
    for attempt, attempt_alone in zip(calls, alone, strict=True):
        for name in ("question_id", "text", "usage", "cost_paid", "cost_uncached"):
            assert getattr(attempt, name) == getattr(attempt_alone, name), name
    assert max(attempt.seconds for attempt in calls) < 3
    for attempt in (*long_answer, *endless):
        assert attempt.reason == "ValueError: the answer has more than 1,000,000 characters"
    (trace,) = notes(exits[0], "traceback")
    assert exits[0].reason.endswith("ended with exit code 3")
    assert trace.endswith("The last lines that it printed:\nabout to end")
    (printed,) = notes(prints[0], "printed")
    assert printed.startswith("30,")
    assert len(printed) < 2100
    assert printed.endswith("the last line")
    shown = [line for line in capfd.readouterr().err.splitlines() if line.startswith("app.py:prints | ")]
    assert len(shown) == 101
    assert shown[-1] == "app.py:prints | … prints more: see its attempts' traces"
    assert max(map(len, shown)) < 600


def test_a_command_ends_whatever_a_system_does_to_itself(home: Path) -> None:
    ask, recurses, stops, group = attempts(home, "ask", "recurses", "stops", "ends_its_group", limit=1)
    assert [attempt.status for attempt in ask] == ["completed"]
    assert recurses[0].reason == "RecursionError: maximum recursion depth exceeded"
    assert len(notes(recurses[0], "traceback")[0]) < 50_000
    assert stops[0].reason.endswith("was stopped by a signal, and then ended")
    assert group[0].reason.endswith("was ended by SIGKILL")


def test_agents_share_a_process_if_that_is_set_and_it_is_named(home: Path) -> None:
    apart = {attempt.text for made in attempts(home, "ask", "twice") for attempt in made}
    assert len(apart) == 2
    messages: list[str] = []

    class Listener(rr.RunListener):
        def message(self, text: str) -> None:
            messages.append(text)

    shared = attempts(home, "ask", "twice", share_process=True, listener=Listener())
    assert len({attempt.text for made in shared for attempt in made}) == 1
    named = "./app.py:ask[share_process=true], ./app.py:twice[share_process=true]"
    assert f"In one process for each folder, so one can slow or fail another: {named}." in messages
    with Store(home) as store:
        assert {run.identity["process"] for run in store.runs()} == {"its own", "shared"}


def test_two_agents_of_one_file_are_used_inside_another(home: Path) -> None:
    agent = "cascade[first=./app.py:ask,then=./app.py:chooses]"
    result = rr.run("sample", agent, limit=2, progress=False, home=home)
    assert [row.statuses["completed"] for row in result.comparison.rows] == [2]


def test_an_interpreter_is_the_same_however_its_path_is_written(folder: Path, home: Path) -> None:
    link = folder / ".venv" / "bin" / "python"
    link.parent.mkdir(parents=True)
    link.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    link.chmod(0o755)
    for path in (f"./.venv/bin/../bin/{link.name}", str(link)):
        attempts(home, f"ask[python={path}]", limit=1)
    agents = ["./app.py:ask[python=.venv/bin/python]", "./app.py:ask"]
    result = rr.run("sample", agents, limit=1, progress=False, home=home)
    with Store(home) as store:
        run, _ = sorted(store.runs(), key=lambda run: -len(run.agent))
    assert run.agent == "./app.py:ask[python=./.venv/bin/python]"
    assert run.id == f"app.py-ask-{run.fingerprint[:6]}"
    assert set(agent_names(result.comparison).values()) == {"./app.py:ask (python .venv)", "./app.py:ask"}
