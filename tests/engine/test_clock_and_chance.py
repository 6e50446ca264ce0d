"""What a system's own files draw from clock and chance is given back: on resume, asked again, and in a replay."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

import ragrounds as rr
from ragrounds.base.contracts import Entry, Request
from ragrounds.base.records import Noted
from ragrounds.evals.engine.recorded_randomness import RecordedRandomness
from ragrounds.evals.engine.recording.library_values import LibraryValues
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.extensions.gate.journal import read_journal, write_journal
from ragrounds.models.wire_forms import FORMS, ModelCall
from tests.forked import ForkedPython
from tests.servers.any_form import AnyForm, any_form

SYSTEM = '''
"""In the manner of LangChain's react-agent template: the clock is in the system prompt."""
import os
import random
from datetime import UTC, date, datetime

import urllib3

from clocked_names import name

STARTED = datetime.now()
PROMPT = f"Begun {STARTED.isoformat()}. System time: {{system_time}}"


def asked(*messages):
    body = {"model": "m", "messages": [{"role": "system", "content": one} for one in messages]}
    answer = urllib3.request("POST", f"{os.environ['SERVED_AT']}/chat/completions", json=body, timeout=60)
    return answer.json()["choices"][0]["message"]["content"]


def ask(question: str) -> str:
    unseen = name()
    example = random.choice(["one", "two", "three", "four", "five", "six", "seven", "eight"])
    plan = asked(PROMPT.format(system_time=datetime.now(tz=UTC).isoformat()), example, question)
    return asked(f"{date.today()} {name()} {random.random()}", plan, question)
'''
HELPER = """
def name():
    from uuid import uuid4 as fresh
    return f"request {fresh()}"
"""


def said(body: dict[str, object]) -> str:
    """A reply that no two requests share."""
    return f"{hashlib.sha256(json.dumps(body).encode()).hexdigest()[:8]}: the answer is B"


@pytest.fixture
def system(tmp_path, monkeypatch):
    with any_form() as server:
        server.says = said
        monkeypatch.setenv("SERVED_AT", server.url)
        (tmp_path / "clocked.py").write_text(SYSTEM)
        (tmp_path / "clocked_names.py").write_text(HELPER)
        yield server


def asked(server: AnyForm) -> list[str]:
    """The calls that came; which models a server has is asked besides."""
    return [json.dumps(body) for _, body in server.asked if body]


def started(
    tmp_path: Path, *options: str, agent: str = "./clocked.py:ask", home: str = "home"
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ragrounds", "run", "--agent", agent, "--limit", "4", "--display", "none"]
    environment = {**os.environ, "RAGROUNDS_HOME": str(tmp_path / home)}
    return ForkedPython([*command, *options], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> str:
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    return said


def answers(tmp_path: Path, run: int = -1) -> dict[str, str]:
    with Store(tmp_path / "home") as store:
        return {one.question_id: one.text for one in store.attempts(store.runs()[run])}


def killed(tmp_path: Path, server: AnyForm, *options: str, after: int = 5, agent: str = "./clocked.py:ask") -> None:
    """Kill a run while one call is at the server and `after` have been answered."""
    answer, process = server.says, started(tmp_path, "--concurrency", "1", *options, agent=agent)
    server.says = lambda body: answer(body) if len(asked(server)) <= after else time.sleep(2) or answer(body)
    while len(asked(server)) <= after:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    server.says = answer


@pytest.mark.slow
def test_a_killed_run_pays_no_finished_call_again_and_a_replay_hits_every_call(system, tmp_path):
    killed(tmp_path, system)
    told = ended(started(tmp_path))
    bodies = asked(system)
    assert (len(bodies), len(set(bodies))) == (9, 8), "only what was in flight is asked again"
    assert "other words" not in told
    first = answers(tmp_path)
    assert len(set(first.values())) == 4
    with Store(tmp_path / "home") as store:
        (attempt, *_) = store.attempts(store.runs()[-1])
        (note,) = [one.text for one in attempt.events if isinstance(one, Noted) and one.what == "drawn"]
    assert note.startswith("5 values of clock and chance"), "no call holds the first name"
    ended(started(tmp_path, "--new"))
    system.close()
    ended(started(tmp_path, "--new", "--journal", "replay"))
    assert len(asked(system)) == 9
    assert answers(tmp_path) == answers(tmp_path, 1) == first
    with Store(tmp_path / "home") as store:
        run = store.runs()[0].id
    write_journal([run], tmp_path / "journal.jsonl", home=tmp_path / "home")
    read_journal(tmp_path / "journal.jsonl", home=tmp_path / "elsewhere")
    ended(started(tmp_path, "--journal", "replay", home="elsewhere"))
    rr.import_store(tmp_path / "home" / "store.sqlite", run, home=tmp_path / "copied")
    ended(started(tmp_path, "--new", "--journal", "replay", home="copied"))


@pytest.mark.slow
def test_fresh_draws_anew_and_is_resumed_all_the_same(system, tmp_path):
    ended(started(tmp_path))
    killed(tmp_path, system, "--new", "--journal", "fresh", after=8 + 5)
    ended(started(tmp_path, "--journal", "fresh"))
    assert len(asked(system)) == 17, "only what was in flight is asked again"
    assert not {*answers(tmp_path, 0).values()} & {*answers(tmp_path, 1).values()}


@pytest.mark.slow
def test_the_real_clock_pays_again(system, tmp_path):
    killed(tmp_path, system, agent="./clocked.py:ask[clock=real]")
    ended(started(tmp_path, agent="./clocked.py:ask[clock=real]"))
    assert len(set(asked(system))) > 9


def test_two_agents_that_differ_in_a_cap_alone_draw_each_for_itself(system, home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    agents = ["./clocked.py:ask", "./clocked.py:ask[limits.calls=9]"]
    rr.run(agents=agents, limit=2)
    before = len(asked(system))
    again = rr.run(agents=agents, limit=2, new=True)
    assert len(asked(system)) == before
    assert again.reused == 8


FRAMEWORK = '''
"""An agents' library that puts the clock and its session into its system prompt, and quotes replies that do so."""
import os
from datetime import datetime
from uuid import uuid4

import urllib3


class Agent:
    def __init__(self):
        self.messages = [f"The current time is {datetime.now()}.", f"In UTC: {datetime.utcnow():%Y-%m-%dT%H:%M}"]
        self.messages.append(f"Session {uuid4()}, tool use call_{uuid4().hex}.")

    def ask(self, text):
        self.messages.append(text)
        body = {"model": "m", "messages": [{"role": "system", "content": one} for one in self.messages]}
        answer = urllib3.request("POST", f"{os.environ['SERVED_AT']}/chat/completions", json=body, timeout=60)
        self.messages.append(answer.json()["choices"][0]["message"]["content"])
        return self.messages[-1]
'''
WITH_FRAMEWORK = """
import sys, pathlib
sys.path.insert(0, str(pathlib.Path(__file__).parent / "site-packages"))
from framework import Agent

def ask(question):
    agent = Agent()
    for at in ("2020-01-01 10:00", "2020-01-01 11:00"):  # times of the case itself
        agent.ask(f"{question} Seen at {at}.")
    return agent.ask("So?")
"""


@pytest.fixture
def framework(system, tmp_path):
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "framework.py").write_text(FRAMEWORK)
    (tmp_path / "framed.py").write_text(WITH_FRAMEWORK)
    system.says = lambda body: f"{body['messages'][0]['content']} {said(body)}"
    return system


async def test_a_time_that_a_system_read_when_it_was_opened_is_its_own(store):
    """It is given back, so that the call needs no second key, however much later the attempt begins."""
    read = datetime.now(UTC).isoformat()
    opening = RecordedRandomness("clocked", "opening", "clocked.py")
    opening.values.recorded["clocked.py:<module> now 0"] = read
    attempt = RecordedRandomness("clocked", "sample q1, epoch 0", "q1")
    attempt._opening = opening
    body = {"model": "m", "messages": [{"role": "system", "content": f"Begun {read}"}]}
    call = ModelCall(FORMS[0], "http://127.0.0.1/v1/chat/completions", "m", body)
    entry = Entry(key="ab" * 32, kind="model", actor="m", request=Request(messages=()))
    journal = StoreJournal(store)
    await LibraryValues(attempt, b"", "").entry_for(entry, call, 0, journal)
    journal.close()
    assert attempt.keys == []


@pytest.mark.slow
def test_a_library_that_reads_the_clock_into_a_request_pays_no_finished_call_again(framework, tmp_path):
    killed(tmp_path, framework, agent="./framed.py:ask")
    told = ended(started(tmp_path, agent="./framed.py:ask"))
    assert "12 model calls" not in told
    assert len(asked(framework)) == 13, "only what was in flight is asked again"
    first = answers(tmp_path)
    assert len(set(first.values())) == 4
    ended(started(tmp_path, "--new", agent="./framed.py:ask"))
    framework.close()
    ended(started(tmp_path, "--new", "--journal", "replay", agent="./framed.py:ask"))
    assert len(asked(framework)) == 13
    assert answers(tmp_path) == answers(tmp_path, 1) == first
    with Store(tmp_path / "home") as store:
        run = store.runs()[0].id
    write_journal([run], tmp_path / "journal.jsonl", home=tmp_path / "home")
    read_journal(tmp_path / "journal.jsonl", home=tmp_path / "elsewhere")
    ended(started(tmp_path, "--journal", "replay", agent="./framed.py:ask", home="elsewhere"))


def test_a_run_again_and_a_replay_take_the_calls_that_differ_in_the_present_time_and_new_identifiers(
    framework, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    answered = []
    for options in ({}, {"new": True}, {"new": True, "journal": "replay"}):
        rr.run("sample", "./framed.py:ask", limit=1, progress=False, home=tmp_path / "home", **options)
        answered += answers(tmp_path).values()
        assert len(asked(framework)) == 3
    assert len(answered) == 3
    assert len(set(answered)) == 1
