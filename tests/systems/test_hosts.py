"""Hosts: systems in processes of their own, whose calls are recorded here, and which end with us however that comes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ragrounds.agents.agent import Limits
from ragrounds.agents.systems import host_work, hosts
from ragrounds.agents.systems.host_frames import SystemRaised
from ragrounds.agents.systems.hosts import HostConfig, HostedSystem, end_hosts, environment
from ragrounds.base.errors import HostEnded, StopRun, UserError
from ragrounds.base.records import Entered, Left, Question
from ragrounds.evals.engine.attempt_log import AttemptEnded
from ragrounds.evals.engine.foreign_system import run_system
from ragrounds.evals.engine.recorded_randomness import RecordedRandomness
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.recorder.frames import packed
from tests.engine.doubles import Made, context_of
from tests.recorder.test_alone import oldest_python
from tests.servers.any_form import AnyForm, any_form
from tests.servers.process import alive, gone

SYSTEM = """
import asyncio, ctypes, os, sys, subprocess, threading, time, urllib.request, json

def echo(prompt): print("printed"); return "(B) " + prompt
def where(prompt): return json.dumps([os.getpid(), sys.version_info[:2], os.getcwd(), sys.path, dict(os.environ)])
def fails(prompt): raise KeyError("nothing here")
def leaves(prompt): os._exit(3)
def crashes(prompt): ctypes.string_at(0)
async def holds(prompt):
    while True:
        try: await asyncio.sleep(9)
        except BaseException: pass
def children(prompt):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    return f"{os.getpid()} {child.pid}"
def ends(prompt): sys.exit("enough")
async def waits(prompt): await asyncio.sleep(float(prompt.split()[0])); return prompt
"""
ASKING = """
import asyncio, os
import httpx
PLACE = os.environ["PLACE"]

def body(prompt): return {"model": "m", "messages": [{"role": "user", "content": prompt}]}
def text(answer): return answer["choices"][0]["message"]["content"]

def sync(prompt):
    for _ in range(3):
        answer = httpx.post(PLACE + "/chat/completions", json=body(prompt))
        if answer.is_success: return text(answer.json())

shared = httpx.AsyncClient()
async def kept(prompt): return text((await shared.post(PLACE + "/chat/completions", json=body(prompt))).json())

async def blocking(prompt):  # a client without async, on the loop itself
    return text(httpx.post(PLACE + "/chat/completions", json=body(prompt)).json())

async def many(prompt):
    async with httpx.AsyncClient() as client:
        sent = [client.post(PLACE + "/chat/completions", json=body(f"{prompt} {n}")) for n in range(8)]
        return " ".join(text(one.json()) for one in await asyncio.gather(*sent))

async def timed_out(prompt):
    async with httpx.AsyncClient() as client:
        try: await asyncio.wait_for(client.post(PLACE + "/chat/completions", json=body(prompt)), 0.2)
        except asyncio.TimeoutError: return "too late"

def unknown(prompt): return httpx.get(PLACE + "/page").text

def program(prompt):  # its urllib3 looks at its import whether there is IPv6
    import json, subprocess, sys
    code = "import sys, urllib3; print(urllib3.request('POST', sys.argv[1], body=sys.stdin.read()).data.decode())"
    done = subprocess.run(
        [sys.executable, "-c", code, PLACE + "/chat/completions"], input=json.dumps(body(prompt)), text=True, stdout=-1)
    return text(json.loads(done.stdout))

async def reports(prompt):  # as libraries do: to where nobody need be
    import aiohttp
    try: httpx.post(PLACE + "/v1/traces", json={})
    except httpx.ConnectError: pass
    try:
        async with aiohttp.ClientSession() as session, session.post(PLACE + "/v1/traces", json={}): pass
    except aiohttp.ClientConnectionError: pass
    return await kept(prompt)
"""


def system_at(file: Path, name: str, place: HostConfig) -> HostedSystem:
    return HostedSystem(f"./mine.py:{name}", f"{file}:{name}", place, wiring={"name": f"./mine.py:{name}"})


@pytest.fixture
def hosted(tmp_path: Path) -> Iterator[Callable[..., HostedSystem]]:
    """Makes systems in hosts of the test's own."""
    places = []

    def make(name: str, code: str = SYSTEM, *, python: str = sys.executable, folder: str = "own", **variables: str):
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        (place / "mine.py").write_text(code)
        places.append(HostConfig(python, str(place), str(tmp_path), environment(variables)))
        return system_at(place / "mine.py", name, places[-1])

    yield make
    for place in places:
        hosts._HOSTS.end(place)


class OneHost:
    """Systems in one host, or one for replays, which all tests of this file share."""

    def __init__(self, folder: Path, server: AnyForm, listening: socket.socket) -> None:
        self.server, self.listening, self._folder = server, listening, folder
        variables = {"PLACE": server.url, "PORT": str(listening.getsockname()[1])}
        self.place = HostConfig(sys.executable, str(folder), str(folder), environment(variables))
        self._files: dict[str, Path] = {}

    def __call__(self, name: str, code: str) -> HostedSystem:
        file = self._files.setdefault(code, self._folder / f"mine{len(self._files)}.py")
        file.write_text(code)
        return system_at(file, name, self.place)


@pytest.fixture(scope="module")
def one_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneHost]:
    with any_form() as server, socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.1)
        one = OneHost(tmp_path_factory.mktemp("one"), server, listening)
        yield one
        hosts._HOSTS.end(one.place)


@pytest.fixture
def shared(one_host: OneHost) -> OneHost:
    """The shared host, whose server has been asked nothing."""
    one_host.server.asked.clear()
    one_host.server.fails.clear()
    one_host.server.gate.set()
    return one_host


@pytest.fixture
def attempts(home: Path) -> Callable[..., list[Made]]:
    def make(system: Any, *prompts: str, mode: Any = "reuse", limits: Limits | None = None) -> list[Made]:
        async def once() -> list[Made]:
            with Store(home) as store:
                journal = StoreJournal(store, mode)

                async def one(prompt: str) -> Made:
                    drawn = await RecordedRandomness(system.name, prompt, (system.name, prompt)).load(journal)
                    context = context_of(
                        journal, f"q {prompt}", prompt, limits=limits or Limits(), recorded_randomness=drawn
                    )
                    try:
                        return Made((await run_system(system, context, journal)).text, None, context)
                    except Exception as error:
                        return Made("", error, context)

                try:
                    return await asyncio.gather(*map(one, prompts))
                finally:
                    journal.close()

        return asyncio.run(once())

    return make


def test_a_system_runs_in_one_process_of_its_own(hosted, attempts, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("RAGROUNDS_HOME", str(tmp_path))
    monkeypatch.setenv("A_KEY_OF_THEIRS", "k")
    first, again = attempts(hosted("where", OWN="x", A_KEY_OF_THEIRS="other"), "one", "two")
    pid, _, working, path, variables = json.loads(first.text)
    assert json.loads(again.text)[0] == pid != os.getpid()
    assert (working, path[0]) == (str(tmp_path), str(tmp_path / "own"))
    assert not any("recorder" in place for place in path)
    assert (variables["OWN"], variables["A_KEY_OF_THEIRS"]) == ("x", "k")  # what is set comes first
    assert "RAGROUNDS_HOME" not in variables
    assert gone(*[] if end_hosts() else [pid])


def test_another_environment_is_another_host(hosted, tmp_path) -> None:
    waiting = tmp_path / "python"  # an interpreter that waits for its first frame and ends
    waiting.write_text(f"#!{sys.executable} -IS\nimport os, sys\nos.read(int(sys.argv[2]), 1)\n")
    waiting.chmod(0o755)
    configs = [hosted("echo", python=str(waiting), WARD=ward).config for ward in ("north", "south", "north")]
    north, south, again = map(hosts._HOSTS.host_for, configs)
    assert again is north
    assert south is not north


async def test_it_is_opened_and_ended_where_a_loop_is_held_up_for_it(hosted) -> None:
    assert hosted("echo").open().kind == "function"
    began = time.monotonic()
    end_hosts()
    assert time.monotonic() - began < 1.9  # it is not waited for until it is killed


def test_what_it_prints_is_no_result(hosted, attempts, capfd) -> None:
    assert attempts(hosted("echo"), "a question")[0].text == "(B) a question"
    end_hosts()
    printed = capfd.readouterr()
    assert (printed.out, "printed" in printed.err) == ("", True)


def test_nothing_is_left_of_a_host_and_its_children(hosted, attempts) -> None:
    pids = [*map(int, attempts(hosted("children"), "x")[0].text.split())]
    assert all(map(alive, pids))
    end_hosts()
    assert gone(*pids)


def test_two_versions_of_a_package_are_two_systems(hosted, attempts, tmp_path) -> None:
    code = "from helper import WHICH\nasync def ask(prompt): return WHICH"
    made = []
    for version in ("one", "two"):
        system = hosted("ask", code, folder=version)
        (tmp_path / version / "helper.py").write_text(f"WHICH = {version!r}")
        made += [one.text for one in attempts(system, "?")]
    assert made == ["one", "two"]


@pytest.mark.parametrize("name", ["sync", "kept", "blocking", "program", "reports"])
def test_a_call_is_recorded_replayed_and_counted_as_in_our_process(name, shared, attempts) -> None:
    system = shared(name, ASKING)
    first = attempts(system, "one", "two")
    assert [made.text for made in first] == ["The answer is B"] * 2, first[0].error
    assert [(call.kind, call.cached, call.usage.input) for made in first for call in made.calls] == [
        ("model", False, 7)
    ] * 2
    again = attempts(system, "one", "two", mode="replay")
    assert [(made.text, made.calls[0].cached) for made in again] == [("The answer is B", True)] * 2
    missed = attempts(system, "three", mode="replay")[0]
    assert isinstance(missed.error, StopRun), missed
    assert len([asked for asked in shared.server.asked if "messages" in str(asked)]) == 2


def test_a_client_of_module_level_serves_runs_of_several_loops(shared, attempts) -> None:
    system = shared("kept", ASKING)
    for prompt in ("one", "two", "three"):  # each on a loop of its own here; there it is one
        assert attempts(system, prompt)[0].text == "The answer is B"


def test_faults_are_those_of_one_call_and_its_client_tries_again(shared, attempts) -> None:
    shared.server.fails = [500, 429]
    made = attempts(shared("sync", ASKING), "one")[0]
    assert made.text == "The answer is B"
    assert [fault.status for fault in made.calls[0].faults] == [500, 429]


def test_calls_side_by_side_are_held_to_the_cap(shared, attempts) -> None:
    made = attempts(shared("many", ASKING), "x", limits=Limits(calls=3))[0]
    assert isinstance(made.error, AttemptEnded)
    assert made.error.status == "capped"
    assert len(shared.server.asked) == 3


def test_a_call_that_its_caller_gives_up_is_given_up_here(shared, attempts) -> None:
    shared.server.gate.clear()
    made = attempts(shared("timed_out", ASKING), "x")[0]
    assert made.text == "too late"
    assert made.context.in_flight == 0


def test_what_is_no_model_call_passes_is_counted_and_ends_a_replay(shared, attempts) -> None:
    system = shared("unknown", ASKING)
    made = attempts(system, "x")[0]
    assert (made.text, made.context.missed) == ("page", 1)
    assert isinstance(attempts(system, "x", mode="replay")[0].error, StopRun)
    assert len(shared.server.asked) == 1


def test_an_exception_keeps_its_name_and_traceback(shared, attempts) -> None:
    error = attempts(shared("fails", SYSTEM), "x")[0].error
    assert (type(error).__name__, str(error)) == ("KeyError", "'nothing here'")
    assert 'raise KeyError("nothing here")' in error.trace
    assert type(attempts(shared("ends", SYSTEM), "x")[0].error).__name__ == "SystemExit"
    known = SystemRaised(
        attempt=1, type="GraphRecursionError", module="", text="x", trace="", refused=False, unsent=False
    )
    assert type(known.error).__module__ == "langgraph.errors"


@pytest.mark.slow
def test_steps_and_searches_are_told_with_the_time_they_took(hosted, attempts) -> None:
    code = """
import time
from typing import TypedDict
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langgraph.graph import END, START, StateGraph
class State(TypedDict):
    question: str
    answer: str
class Found(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager): return [Document("text", id="d", metadata={})]
def look(state): time.sleep(0.3); Found().invoke(state["question"]); return {}
def say(state): return {"answer": "(B)"}
graph = StateGraph(State)
graph.add_node(look); graph.add_node(say)
graph.add_edge(START, "look"); graph.add_edge("look", "say"); graph.add_edge("say", END)
"""
    made = attempts(hosted("graph", code), "x")[0]
    assert made.text == "(B)", made.error
    entered = [event for event in made.context.events if isinstance(event, Entered)]
    left = [event for event in made.context.events if isinstance(event, Left)]
    assert [event.node for event in entered] == ["look", "say"]
    assert left[0].seconds >= 0.3 > left[1].seconds
    (call,) = made.calls
    assert (call.kind, call.node, call.passages) == ("search", "look", ("d",))
    assert entered[0].at <= call.at


def test_an_attempt_that_is_cut_off_does_not_end_the_others(hosted, attempts) -> None:
    system = hosted("holds")
    began = time.monotonic()
    assert isinstance(attempts(system, "x", limits=Limits(seconds=0.5))[0].error, AttemptEnded)
    assert time.monotonic() - began < 5
    assert attempts(hosted("echo"), "after")[0].text == "(B) after"


@pytest.mark.parametrize(("name", "how"), [("leaves", "ended with exit code 3"), ("crashes", "was ended by SIGSEGV")])
def test_a_host_that_dies_fails_what_it_had_in_hand_and_is_started_again(name, how, hosted, attempts) -> None:
    failed = attempts(hosted(name), "x")[0].error
    assert isinstance(failed, HostEnded)
    assert str(failed) == f"the process that ./mine.py:{name} runs in {how}"
    assert attempts(hosted("echo"), "after")[0].text == "(B) after"


def test_a_host_that_always_dies_is_not_started_for_ever(hosted, attempts) -> None:
    system = hosted("leaves")
    errors = [str(attempts(system, "x")[0].error) for _ in range(5)]
    assert errors[2].endswith("ended with exit code 3")
    assert errors[4].endswith("ended with exit code 3, 3 times in a row: not restarted")


def test_an_answer_in_a_process_alone_begins_the_count_anew(hosted, attempts) -> None:
    system = hosted("ask", "import os\ndef ask(prompt):\n    return os.getpid() if '1' in prompt else os._exit(3)\n")

    async def alone() -> str:
        async with system.alone() as lone:
            question = Question(id="q", benchmark="a/b", text="1")
            return (await lone.answer(question, SimpleNamespace(thread="t", max_steps=10, changes=False))).text

    errors = [str(attempts(system, "2")[0].error) for _ in range(2)]
    assert gone(int(asyncio.run(alone()))), "it is ended at once"
    errors += [str(attempts(system, "2")[0].error) for _ in range(2)]
    assert all(error.endswith("ended with exit code 3") for error in errors), errors


@pytest.mark.parametrize(
    ("code", "name", "said"),
    [
        (
            "import nothing_of_that_name",
            "ask",
            "importing .*No module named 'nothing_of_that_name' .mine[0-9].py, line 1",
        ),
        ("def ask(:", "ask", "SyntaxError"),
        ("def answer(prompt): return 1", "ask", "there is no 'ask'.*It has: answer"),
        ("import os; os._exit(4)", "ask", "the process that ./mine.py:ask runs in ended with exit code 4"),
        ("import sys; sys.exit(1)", "ask", "tried to end the process while it was imported"),
        ("ask = 3", "ask", "gave int; expected a StateGraph"),
    ],
)
def test_what_cannot_be_opened_is_one_line(code, name, said, shared, hosted) -> None:
    make = hosted if "_exit" in code else shared  # the end of the shared host would cost the others a start
    with pytest.raises(UserError, match=said) as refused:
        make(name, code).open()
    assert "\n" not in str(refused.value)


def test_a_host_that_is_ended_while_it_opens_a_system_says_nothing(tmp_path) -> None:
    (tmp_path / "slow.py").write_text("import time; time.sleep(0.5); raise ValueError")
    ours, theirs = socket.socketpair()
    lifeline, _ = os.pipe()
    numbers = theirs.fileno(), lifeline
    command = [sys.executable, hosts._CHILD, *map(str, numbers), "open"]
    child = subprocess.Popen(command, pass_fds=numbers, stderr=subprocess.PIPE, start_new_session=True)
    opens = {"id": 1, "target": f"{tmp_path}/slow.py:ask", "folders": [], "wiring": {"name": ""}, "person": ""}
    ours.sendall(packed({"frame": "open", "values": None, **opens}) + packed({"frame": "end"}))
    assert child.communicate(timeout=60)[1] == b""
    assert child.returncode == 0


def test_an_interpreter_that_is_none_is_one_line(hosted, tmp_path) -> None:
    with pytest.raises(UserError, match=r"'/nowhere/python' cannot be started in .*: No such file"):
        hosted("echo", python="/nowhere/python").open()
    other = tmp_path / "other"
    other.write_text("#!/bin/sh\nexit 7\n")
    other.chmod(0o755)
    with pytest.raises(UserError, match="ended with exit code 7"):
        hosted("echo", python=str(other)).open()


def test_an_older_python_serves(hosted, attempts) -> None:
    python = oldest_python()
    if not python:
        pytest.skip("no python3.9 and no python3.10 here")
    _, version, _, _, _ = json.loads(attempts(hosted("where", python=python), "x")[0].text)
    assert version < list(sys.version_info[:2])


@pytest.mark.parametrize("busy", [False, True], ids=["at rest", "held up in C"])
def test_nothing_is_left_where_we_are_killed(busy, tmp_path) -> None:
    held = "    import re; re.match(r'(a+)+$', 'a' * 60 + 'b')\n"
    (tmp_path / "mine.py").write_text(
        "import os, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "def ask(prompt):\n    print(os.getpid(), child.pid, flush=True)\n"
        f"{held if busy else ''}    return ''\n"
    )
    ours = f"""
import asyncio, os, time
from types import SimpleNamespace
from ragrounds.agents.systems.hosts import HostedSystem, HostConfig, environment
from ragrounds.base.records import Question
place = HostConfig({sys.executable!r}, {str(tmp_path)!r}, {str(tmp_path)!r}, environment({{}}))
system = HostedSystem("ask", {str(tmp_path / "mine.py:ask")!r}, place, wiring={{"name": "ask"}})
seen = SimpleNamespace(thread="t", max_steps=10, changes=False)
asyncio.run(system.answer(Question(id="q", benchmark="a/b", text="?"), seen))
time.sleep(60)
"""
    process = subprocess.Popen([sys.executable, "-c", ours], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    pids = [int(word) for word in process.stderr.readline().partition(" | ")[2].split()]
    assert all(map(alive, pids))
    process.kill()
    process.wait()
    assert gone(*pids)


# What a host may not send

HOSTILE = """
import json, os, socket, struct, sys
line = next(s for s in (socket.socket(fileno=fd) for fd in [int(sys.argv[1])]))
def send(header, body=b"", lengths=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    line.sendall(struct.pack("!II", *(lengths or (len(text), len(body)))) + text + body)
def read():
    size, body = struct.unpack("!II", line.recv(8, socket.MSG_WAITALL))
    return json.loads(line.recv(size, socket.MSG_WAITALL))
opened = read()
send({"frame": "opened", "attempt": opened["id"], "kind": "function"})
asked = read()
n = asked["attempt"]
tell = {"frame": "tell", "attempt": n, "named": {}, "step": "", "model_call": "", "at": 0.0}
"""


@pytest.mark.parametrize(
    ("sends", "said"),
    [
        ("send(b'', lengths=(1 << 31, 0))", "a frame of 2,147,483,648 bytes is more than any may have"),
        ("send(b'{')", "truncated|unexpected|malformed"),
        ("send({'frame': 'rule'})", "Invalid value 'rule'"),
        ("send({'frame': 'answered', 'attempt': n, 'text': 5, 'choice': '', 'passages': []})", r"Expected `str`"),
        ("send({'frame': 'answered', 'attempt': 99, 'text': '', 'choice': '', 'passages': []})", "no attempt 99"),
        ("send({**tell, 'what': '__init__', 'args': []})", "there is no event '__init__'"),
        ("send({**tell, 'what': 'entered', 'args': [1, 2]})", "entered: Expected `str`"),
        ("for _ in range(102): send({**tell, 'what': 'note', 'args': ['a', 'b']})", "101 events of one attempt"),
        ("send({'frame': 'answered', 'attempt': n, 'text': '', 'choice': '', 'passages': [{}]})", "required field"),
    ],
)
def test_a_hostile_host_is_ended_with_a_line(sends, said, attempts, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(host_work, "_MOST_TOLD", 100)
    script = tmp_path / "python"
    script.write_text(f"#!{sys.executable}\n{HOSTILE.replace('sys.argv[1]', 'sys.argv[2]')}\n{sends}\nread()\n")
    script.chmod(0o755)
    place = HostConfig(str(script), str(tmp_path), str(tmp_path), environment({}))
    system = HostedSystem("./bad.py:ask", "/bad.py:ask", place, wiring={"name": "ask"})
    error = attempts(system, "x")[0].error
    assert isinstance(error, HostEnded)
    assert "sent an invalid message" in str(error)
    assert re.search(said, str(error)), error


DRAWING = """
import os, random, httpx
from datetime import date, datetime
from uuid import uuid4

def said(prompt):
    body = {"model": "m", "messages": [{"role": "user", "content": f"{datetime.now()} {uuid4()} {prompt}"}]}
    answer = httpx.post(os.environ["PLACE"] + "/chat/completions", json=body)
    return f"{answer.json()['choices'][0]['message']['content']} {date.today()} {random.random()}"
"""


def test_what_a_system_draws_from_clock_and_chance_is_given_back(shared, attempts) -> None:
    system = shared("said", DRAWING)
    first = attempts(system, "one", "two")
    assert [made.error for made in first] == [None, None]
    again = attempts(system, "one", "two", mode="replay")
    assert [made.text for made in again] == [made.text for made in first]
    assert len({made.text for made in first}) == 2
    assert len(shared.server.asked) == 2
    assert all(any("4 values of clock and chance" in note for note in made.notes) for made in first)


NATIVE = """
import ctypes, os, socket, struct
PORT = int(os.environ["PORT"])

def connects():
    libc = ctypes.CDLL(None)
    made = libc.socket(int(socket.AF_INET), int(socket.SOCK_STREAM), 0)
    return libc.connect(made, struct.pack("=H", 2) + struct.pack("!HI", PORT, 0x7F000001) + bytes(8), 16)

def native(prompt): return "A" if connects() else "B"
def hidden(prompt):
    try: connects()
    except Exception: pass
    return "A"
def forked(prompt):
    if not os.fork():
        connects(); os._exit(0)
    os.wait()
    return "A"
def python(prompt):
    try: socket.create_connection(("127.0.0.1", PORT)).close()
    except Exception: pass
    return "A"
def looks(prompt):
    def _filter_supported():  # as langchain_openai does for each new model
        try: socket.socket().close()
        except OSError: pass
    _filter_supported()
    return "A"
def silent(prompt): return "A"
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("native", "a network connection, by native code or a child"),
        ("hidden", "a network connection, by native code or a child"),
        ("forked", ""),
        ("python", "a connection to 127.0.0.1:"),
        ("looks", ""),
        ("silent", ""),
    ],
)
def test_nothing_leaves_in_a_replay_and_what_tried_is_named(name, said, shared, attempts) -> None:
    system = shared(name, NATIVE)
    assert attempts(system, "one")[0].error is None
    assert not system.sealed
    if name not in ("looks", "silent"):
        shared.listening.accept()[0].close()
    made = attempts(system, "one", mode="replay")[0]
    if not system.sealed:
        pytest.skip("this system refuses a filter of system calls")
    assert said in str(made.error)
    if name != "forked":  # which is refused as a fork
        assert isinstance(made.error, StopRun) == bool(said)
    with pytest.raises(TimeoutError):
        shared.listening.accept()


LOCAL = """
import asyncio, ctypes, multiprocessing, os, socket, struct, subprocess, sys, tempfile
PORT, PATH = int(os.environ["PORT"]), os.path.join(os.path.dirname(__file__), "s")

def hidden(ask):
    def answer(prompt):
        try: ask()
        except Exception: pass
        return "A"
    return answer
def python():
    with socket.socket(socket.AF_UNIX) as client: client.connect(PATH)
def natively(path=PATH):
    libc = ctypes.PyDLL(None)
    libc.connect(socket.socket(socket.AF_UNIX).detach(), struct.pack("=H", 1) + path.encode() + bytes(1), 3 + len(path))
def forked():
    if not (child := os.fork()):
        try: natively()
        finally: os._exit(0)
    os.waitpid(child, 0)
def program():
    code = f"import socket\\ntry: socket.socket(socket.AF_UNIX).connect({PATH!r})\\nexcept OSError: pass"
    subprocess.run([sys.executable, "-c", code])
def datagram(family=socket.AF_INET, address=("127.0.0.1", PORT)):
    with socket.socket(family, socket.SOCK_DGRAM) as client: client.sendto(b"x", address)
def own():
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        server.bind(folder + "/own"); server.listen()
        with socket.socket(socket.AF_UNIX) as client: client.connect(folder + "/own")
        natively(folder + "/own")
def managed():
    with multiprocessing.get_context("fork").Manager() as manager:
        assert list(manager.list([1])) == [1]
def log():
    import syslog
    syslog.syslog("x")
for ask in (python, natively, forked, program, datagram, own, managed, log):
    globals()[f"{ask.__name__}_hidden"] = hidden(ask)
"""


@pytest.mark.parametrize(
    ("name", "live", "replay"),
    [
        ("python", "a connection to the socket PATH", "a connection to the socket PATH"),
        ("natively", "a connection by native code (ctypes)", "by native code or a child (the socket PATH)"),
        ("forked", "a connection by native code (ctypes)", "by native code or a child (the socket PATH)"),
        ("program", "a connection to the socket PATH", "a connection to the socket PATH"),
        ("datagram", "a message to 127.0.0.1:", "a connection by a socket of its own"),
        ("own", "a connection by native code (ctypes)", ""),
        ("managed", "", ""),
        ("log", "", ""),
    ],
)
def test_sockets_of_this_machine_are_counted_and_closed_in_a_replay(name, live, replay, shared, attempts) -> None:
    system = shared(f"{name}_hidden", LOCAL)
    path = f"{shared.place.folder}/s"
    Path(path).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        server.settimeout(1)
        recorded = attempts(system, "one")[0]
        assert recorded.error is None
        assert live.replace("PATH", path) in "; ".join(recorded.notes)
        assert recorded.context.missed == bool(live)
        if "PATH" in replay:
            server.accept()[0].close()
        made = attempts(system, "one", mode="replay")[0]
        if not system.sealed:
            pytest.skip("this system refuses a filter of system calls")
        assert replay.replace("PATH", path) in str(made.error)
        assert isinstance(made.error, StopRun) == bool(replay)
        with pytest.raises(TimeoutError):
            server.accept()


@pytest.mark.slow
def test_a_model_that_is_made_for_a_question_is_replayed(shared, attempts) -> None:
    code = (
        "import os\n"
        "def ask(prompt):\n"
        "    from langchain_openai import ChatOpenAI\n"
        '    return ChatOpenAI(model="m", base_url=os.environ["PLACE"], api_key="none").invoke(prompt).content\n'
    )
    system = shared("ask", code)
    assert [made.text for made in attempts(system, "one")] == ["The answer is B"]
    again = attempts(system, "one", mode="replay")[0]
    assert (again.text, again.error) == ("The answer is B", None)
    assert len(shared.server.asked) == 1
