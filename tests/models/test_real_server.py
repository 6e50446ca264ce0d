"""llama.cpp's own server with a real model of 135 million parameters: what no scripted server does.

No figure of the model is expected here, only that what it and its server do is recorded, cut and named.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ragrounds as rr
from ragrounds.base.contracts import Request
from ragrounds.base.errors import UserError
from ragrounds.base.records import Attempt, Message, Run
from ragrounds.base.specs import parse
from ragrounds.evals.scorers.judged import VerdictForm
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace import traces
from ragrounds.models.faults import CallFailed
from ragrounds.models.llama_cpp import weights_path
from ragrounds.models.options import read_options
from ragrounds.models.providers import open_model, probe
from ragrounds.models.reply_parts import REPEATED_PREFIX
from ragrounds.models.started import served
from tests.conftest import Cli
from tests.servers.http_script import Asked, HttpScript, Told, answering

pytest.importorskip("xllamacpp")
try:
    weights_path(read_options(parse("local:smollm2")))
except UserError as error:
    pytest.skip(f"not installed: {error}", allow_module_level=True)

WINDOW, QUESTIONS = 1024, 2
AGENTS = (
    "direct",
    "direct_cot",
    "vanilla_rag[top_k=1]",
    "search_r1[turns=1]",
    "tool_agent[turns=1]",
    "self_ask[follow_ups=1]",
)


class Recorder:
    """Server on loopback that passes every request to llama.cpp and keeps what was answered."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream.removesuffix("/v1")
        self.replies: list[tuple[dict[str, Any], dict[str, Any]]] = []
        """Body of each answered call, with the reply's."""
        self.script: HttpScript

    @property
    def url(self) -> str:
        return f"{self.script.url}/v1"

    def forward(self, asked: Asked, before: int) -> Told:
        body = None if asked.body is None else json.dumps(asked.body).encode()
        request = urllib.request.Request(self.upstream + asked.path, body, {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=900) as answer:
                reply = json.load(answer)
        except urllib.error.HTTPError as error:
            return Told(json.load(error), error.code)
        if asked.body is not None:
            self.replies.append((asked.body, reply))
        return Told(reply)


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorder]:
    text = f"local:smollm2[slots=4,window={WINDOW}]"
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("server")
        patch.setenv("RAGROUNDS_HOME", str(home))
        with served([text], home, lambda line: None) as joined:
            recorder = Recorder(str(parse(joined[text]).parameters["base_url"]))
            with answering(recorder.forward) as recorder.script:
                yield recorder


def run_all(recorder: Recorder, home: Path, **more: Any) -> Any:
    model = f'openai:smollm2[base_url="{recorder.url}",alias=lab,temperature=0,max_tokens=16,continues=prefix]'
    return rr.run("sample", AGENTS, model=model, limit=QUESTIONS, home=home, progress=False, concurrency=4, **more)


@pytest.fixture(scope="module")
def first_run(recorder: Recorder, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """Store with five questions under six strategies, and the number of calls made."""
    path = tmp_path_factory.mktemp("real") / "home"
    return path, run_all(recorder, path).made


@pytest.fixture(scope="module")
def home(first_run: tuple[Path, int]) -> Path:
    return first_run[0]


def attempts(home: Path) -> Iterator[tuple[Store, Run, Attempt]]:
    with Store(home) as store:
        for run in store.runs():
            for attempt in store.attempts(run):
                yield store, run, attempt


@pytest.mark.slow
def test_the_trace_is_what_went_over_the_wire(recorder: Recorder, first_run: tuple[Path, int]) -> None:
    home, made = first_run
    wire: dict[str, list[Any]] = {}
    for body, reply in recorder.replies:
        messages = [(turn["role"], turn["content"]) for turn in body["messages"]]
        wire.setdefault(json.dumps(messages), []).append(reply)
    compared = set()
    for store, _, attempt in attempts(home):
        for call in traces.traced_calls(store, list(traces.calls(attempt.events))):
            if not isinstance(call.asked, Request):
                continue
            assert call.reply is not None
            assert call.reply.usage is not None
            turns = [(message.role, message.content) for message in call.asked.messages]
            prefix = call.asked.prefix
            replies = wire[json.dumps(turns + ([("assistant", prefix)] if prefix else []))]
            usages = [(reply["usage"]["prompt_tokens"], reply["usage"]["completion_tokens"]) for reply in replies]
            texts = [reply["choices"][0]["message"]["content"] for reply in replies]
            times = [(reply["timings"]["prompt_ms"] + reply["timings"]["predicted_ms"]) / 1000 for reply in replies]
            assert call.call.worked in [pytest.approx(seconds, abs=1e-4) for seconds in times]
            assert call.call.worked <= call.call.seconds
            assert prefix + call.reply.text in texts
            assert (call.reply.usage.input, call.reply.usage.output) in usages
            compared.add(call.call.key)
    assert len(compared) == made >= QUESTIONS


async def test_a_repeated_prefix_is_never_taken_for_the_models_words(recorder: Recorder) -> None:
    model = open_model(f'openai:smollm2[base_url="{recorder.url}",temperature=0,max_tokens=8,continues=prefix]')
    request = Request(messages=(Message("user", "Count to nine."),), prefix="<search>one two\n three ")
    reply = await model.complete(request, [])
    await model.close()
    whole = recorder.replies[-1][1]["choices"][0]["message"]["content"]
    assert whole.startswith(request.prefix)
    assert request.prefix + reply.text == whole
    assert reply.notes == (REPEATED_PREFIX,)


@pytest.mark.slow
def test_a_replay_sends_nothing(recorder: Recorder, home: Path) -> None:
    before = len(recorder.script.asked)
    result = run_all(recorder, home, journal="replay", new=True)
    assert len(recorder.script.asked) == before
    assert (result.made, result.ended, result.failures) == (0, "", ())


async def test_the_servers_abilities_are_found(recorder: Recorder) -> None:
    found = await probe(f'openai:smollm2[base_url="{recorder.url}",temperature=0]')
    assert (found.continues, found.tools, found.forms) == ("prefix", False, True)
    assert "repeats" in found.reason
    assert found.adds_system is True, "the template has a system turn of its own"


async def test_a_prompt_that_is_too_long_is_refused_with_both_figures(recorder: Recorder) -> None:
    model = open_model(f'openai:smollm2[base_url="{recorder.url}"]')
    with pytest.raises(CallFailed, match=rf"[\d,]+ tokens, the model's limit is {WINDOW:,}") as failed:
        await model.complete(Request(messages=(Message("user", "word " * 2000),)), [])
    await model.close()
    assert failed.value.kind == "context_too_long"


async def test_a_verdict_follows_its_schema(recorder: Recorder) -> None:
    form = VerdictForm(("better",), ("A", "B", "tie"))
    model = open_model(f'openai:smollm2[base_url="{recorder.url}",temperature=0,max_tokens=40]')
    question = (Message("user", "Which of two answers is better? Answer A: yes. Answer B: no."),)
    reply = await model.complete(Request(messages=question, response_format=form.schema), [])
    await model.close()
    assert json.loads(reply.text)["better"] in form.values


@pytest.mark.slow
def test_a_killed_run_resumes_and_pays_no_finished_call_again(recorder: Recorder, tmp_path: Path) -> None:
    line = [sys.executable, "-m", "ragrounds", "run", "--agent", "direct", "--limit", "4", "--concurrency", "1"]
    line += ["--model", "openai:smollm2[temperature=0,max_tokens=4]", "--base-url", recorder.url, "--display", "none"]
    environment = {**os.environ, "RAGROUNDS_HOME": str(tmp_path / "home")}
    before = len(recorder.replies)
    begun = subprocess.Popen(line, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while len(recorder.replies) < before + 2:
        assert begun.poll() is None
        time.sleep(0.05)
    begun.send_signal(signal.SIGKILL)
    begun.wait()
    subprocess.run(line, env=environment, check=True, capture_output=True)
    asked = [json.dumps(body["messages"]) for body, _ in recorder.replies[before:]]
    assert len(set(asked)) == 4
    assert len(asked) <= 5, "more than the call in flight was asked again"


@pytest.mark.slow
def test_a_local_model_is_one_command(cli: Cli, tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    line = ("run", "--model", "local:smollm2[max_tokens=4,window=1024]", "--limit", "1", "--agent", "direct")
    done = cli(*line, "--concurrency", "2", RAGROUNDS_HOME=home)
    assert done.returncode == 0, done.stderr
    assert "llama.cpp: smollm2 is ready" in done.stderr
    assert "answers near chance" in done.stdout
    again = cli(*line, "--concurrency", "1", "--new", RAGROUNDS_HOME=home)
    assert "0 model calls made, 1 answered from the journal" in again.stderr
    assert "llama.cpp: starting" not in again.stderr
