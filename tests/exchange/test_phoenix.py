"""Phoenix: what is sent to it, beside the spans that every collector gets.

The last test needs Phoenix itself, which has many packages and pins of its own, so in an environment of its own:

    python3 -m venv .venv-phoenix && .venv-phoenix/bin/pip install arize-phoenix
    RAGROUNDS_PHOENIX=.venv-phoenix/bin/phoenix python -m pytest -m slow tests/exchange/test_phoenix.py
"""

import itertools
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path

import msgspec
import pytest

from ragrounds.evals.exchange.formats import Export
from ragrounds.evals.exchange.otlp import span_id, trace_id
from ragrounds.evals.exchange.phoenix import FORMAT, PhoenixOptions
from ragrounds.evals.exchange.trace_nodes import trace_nodes
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.traces import every_trace
from tests.compare.making import add_run, questions

pytest.importorskip("opentelemetry.proto", reason="needs OpenTelemetry: pip install 'ragrounds[export]'")


def pushed(store, runs, server):
    return FORMAT.send(Export(store, runs, PhoenixOptions(endpoint=server.url))).partition(": http")[0]


def posted(server, path):
    bodies = [json.loads(body) for _, to, _, body in server.requests if to == f"/v1/{path}?sync=true"]
    return [one for body in bodies for one in body["data"]]


def test_scores_are_annotations_of_the_attempts_spans(store, run, listening, monkeypatch):
    monkeypatch.setenv("PHOENIX_API_KEY", "k" * 20)
    assert pushed(store, [run], listening) == "7 spans sent; 3 scores sent"
    assert {headers["Authorization"] for _, _, headers, _ in listening.requests} == {f"Bearer {'k' * 20}"}
    traces = list(every_trace(store, run))
    annotations = posted(listening, "span_annotations")
    assert [one["span_id"] for one in annotations] == [span_id(trace, ()).hex() for trace in traces]
    assert annotations[0] == {
        "span_id": span_id(traces[0], ()).hex(),
        "name": "strict",
        "annotator_kind": "CODE",
        "result": {"score": 1.0, "label": "answered", "explanation": "read as A; right is A"},
        "metadata": {"answer_status": "answered", "prediction": "A", "code": "", "epoch": 0, "run": run.id},
        "identifier": "ragrounds",
    }
    assert annotations[2]["result"]["label"] == "empty"


def test_judged_scores_are_an_llms_and_missing_ones_have_none(store, listening):
    run = add_run(store, "long", questions(2), [0.5, None], scorer="comprehensiveness")
    plain = add_run(store, "plain", questions(2), [1, 0], id="plain-run")
    pushed(store, [run, plain], listening)
    annotations = posted(listening, "span_annotations")
    assert [one["annotator_kind"] for one in annotations] == ["LLM", "LLM", "CODE", "CODE"]
    assert "score" not in annotations[1]["result"]


def test_annotations_wait_for_spans_that_are_not_there_yet(store, run, listening):
    answers = itertools.chain([404, 404], itertools.repeat(200))
    listening.answer = lambda path, body: (next(answers) if "annotations" in path else 200, {"detail": "not there"})
    assert pushed(store, [run], listening).endswith("; 3 scores sent")


def test_annotations_of_a_span_that_never_comes_are_counted(store, run, listening, monkeypatch):
    monkeypatch.setattr("ragrounds.evals.exchange.phoenix.PATIENCE", 0.1)
    lost = span_id(next(every_trace(store, run)), ()).hex().encode()
    listening.answer = lambda path, body: (404 if lost in body and "annot" in path else 200, {"detail": "no such span"})
    assert pushed(store, [run], listening).endswith("; 2 scores sent, 1 refused (404: no such span)")


def test_a_failed_attempt_that_is_made_again_is_another_trace(store, run):
    traces = list(every_trace(store, run))
    for trace, same in zip(traces, (True, True, False), strict=True):
        later = msgspec.structs.replace(trace, attempt=msgspec.structs.replace(trace.attempt, at=7.0))
        assert (trace_id(later) == trace_id(trace)) is same


class Phoenix:
    """A real Phoenix on loopback, and what its API says."""

    def __init__(self, program, folder):
        with socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", 0))
            other.bind(("127.0.0.1", 0))
            port, grpc = one.getsockname()[1], other.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        environment = {
            **os.environ, "PHOENIX_WORKING_DIR": str(folder), "PHOENIX_HOST": "127.0.0.1", "PHOENIX_PORT": str(port),
            "PHOENIX_GRPC_PORT": str(grpc), "PHOENIX_TELEMETRY_ENABLED": "false",
        }  # fmt: skip
        environment.pop("PYTHONPATH", None)
        self._log = (folder / "log").open("wb")
        self._process = subprocess.Popen([program, "serve"], env=environment, stdout=self._log, stderr=self._log)

    def wait(self):
        end = time.monotonic() + 120
        while time.monotonic() < end and self._process.poll() is None:
            try:
                return self.get("/v1/projects")
            except OSError:
                time.sleep(0.25)
        raise AssertionError("Phoenix did not start")

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=60) as answer:
            return json.load(answer)

    def all(self, path, **query):
        cursor = None
        while True:
            more = urllib.parse.urlencode({**query, **({"cursor": cursor} if cursor else {})}, doseq=True)
            page = self.get(f"{path}?{more}")
            yield from page["data"]
            if not (cursor := page["next_cursor"]):
                return

    def close(self):
        self._process.terminate()
        self._process.wait(30)
        self._log.close()


@pytest.fixture(scope="module")
def phoenix(tmp_path_factory):
    program = os.environ.get("RAGROUNDS_PHOENIX") or shutil.which("phoenix")
    if not program or not Path(program).exists():
        pytest.skip(
            "needs Phoenix: RAGROUNDS_PHOENIX=…/bin/phoenix (pip install arize-phoenix, in its own environment)"
        )
    server = Phoenix(str(Path(program).absolute()), tmp_path_factory.mktemp("phoenix"))
    try:
        server.wait()
        yield server
    finally:
        server.close()


@pytest.mark.slow
def test_a_real_phoenix_holds_what_the_store_holds(command, home, phoenix):
    made = command("run", "--display", "none", "--limit", "25", "--agent", "direct", "--agent", "vanilla_rag[top_k=8]")
    assert made.returncode == 0, made.stderr
    with Store(home) as store:
        runs = store.runs()
        for _ in range(2):  # the second time nothing is doubled
            done = command("export", "phoenix", *(run.id for run in runs), "--endpoint", phoenix.url)
            assert done.returncode == 0, done.stderr
            assert "refused" not in done.stdout
        for run in runs:
            traces = {span_id(trace, ()).hex(): trace for trace in every_trace(store, run)}
            nodes = {span_id(trace, node.place).hex(): node for trace in traces.values() for node in trace_nodes(trace)}
            place, end = f"/v1/projects/{urllib.parse.quote(run.id)}", time.monotonic() + 60
            while len(spans := list(phoenix.all(f"{place}/spans", limit=200))) < len(nodes) and time.monotonic() < end:
                time.sleep(0.5)
            kinds = {span["context"]["span_id"]: span["span_kind"] for span in spans}
            expected = {"attempt": "AGENT", "step": "CHAIN", "model": "LLM", "search": "RETRIEVER"}
            assert kinds == {id: expected[node.kind] for id, node in nodes.items()}
            kept = list(phoenix.all(f"{place}/span_annotations", span_ids=list(traces), limit=1000))
            assert {(one["span_id"], one["name"]): one["result"]["score"] for one in kept} == {
                (id, score.scorer): score.value for id, trace in traces.items() for score in trace.scores
            }
