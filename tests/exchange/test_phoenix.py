"""Phoenix: what a real server of it holds after our command is what the store holds.

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
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import msgspec
import pytest

from ragrounds.errors import UserError
from ragrounds.evals.exchange.formats import Export
from ragrounds.evals.exchange.otlp import span_id, trace_id
from ragrounds.evals.exchange.phoenix import PhoenixOptions, push
from ragrounds.evals.exchange.trace_nodes import trace_nodes
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.traces import every_trace
from ragrounds.records import Score
from tests.compare.making import add_run, questions

pytest.importorskip("opentelemetry.proto", reason="needs OpenTelemetry: pip install 'ragrounds[export]'")


def pushed(store, runs, server, key="", **options):
    return list(push(Export(store, runs, PhoenixOptions(endpoint=server.url, **options)), key))


def posted(server, path):
    bodies = [json.loads(body) for _, to, _, body in server.requests if to == f"/v1/{path}?sync=true"]
    return [one for body in bodies for one in body["data"]]


def test_scores_are_annotations_of_the_attempts_spans(store, run, listening):
    assert pushed(store, [run], listening, "k" * 20) == ["7 spans sent", "3 scores sent"]
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
    assert pushed(store, [run], listening)[1] == "3 scores sent"


def test_annotations_of_a_span_that_never_comes_are_counted(store, run, listening, monkeypatch):
    monkeypatch.setattr("ragrounds.evals.exchange.phoenix.PATIENCE", 0.1)
    lost = span_id(next(every_trace(store, run)), ()).hex().encode()
    listening.answer = lambda path, body: (404 if lost in body and "annot" in path else 200, {"detail": "no such span"})
    assert pushed(store, [run], listening)[1] == "2 scores sent, 1 refused (404: no such span)"


def test_a_failed_attempt_that_is_made_again_is_another_trace(store, run):
    traces = list(every_trace(store, run))
    for trace, same in zip(traces, (True, True, False), strict=True):
        later = msgspec.structs.replace(trace, attempt=msgspec.structs.replace(trace.attempt, at=7.0))
        assert (trace_id(later) == trace_id(trace)) is same


def test_nothing_is_sent_without_an_address(command, listening):
    refused = command("export", "phoenix", "direct", PHOENIX_COLLECTOR_ENDPOINT=listening.url)
    assert refused.returncode == 2
    assert "--endpoint" in refused.stderr
    assert listening.requests == []


def test_a_server_that_is_not_there_is_one_clear_line(store, run, listening):
    listening.close()
    with pytest.raises(UserError, match="cannot be reached"):
        pushed(store, [run], listening)


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


def unflattened(attributes):
    """Attributes as the tree that their names say."""
    tree = {}
    for name, value in attributes.items():
        at, *inside = name.split(".")
        here = tree
        for part in inside:
            here = here.setdefault(at, {})
            at = part
        here[at] = value
    return tree


def in_order(tree):
    return [tree[str(number)] for number in range(len(tree))]


def check_span(span, trace, node, project):
    """One span of Phoenix's against its node of the store's trace."""
    found = unflattened(span["attributes"])
    assert span["context"]["trace_id"] == trace_id(trace, project).hex()
    assert span["parent_id"] == (None if node.parent is None else span_id(trace, node.parent, project).hex())
    kinds = {"attempt": "AGENT", "step": "CHAIN", "model": "LLM", "search": "RETRIEVER"}
    assert span["span_kind"] == kinds[node.kind]
    assert span["status_code"] == ("ERROR" if node.error else "OK")
    traced = node.call
    if node.kind == "attempt":
        assert found["output"]["value"] == trace.attempt.text
        assert found["input"]["value"].startswith(trace.question.text)
        assert all(text in found["input"]["value"] for text in trace.question.options.values())
        about = found["metadata"]
        assert (about["gold"], about["question_id"], about["run"]) == (
            trace.gold.answer, trace.question.id, trace.run.id,
        )  # fmt: skip
        assert about["fingerprint"] == trace.run.fingerprint
        assert about["identity"]["agent"] == trace.run.identity["agent"]
    if node.kind == "step":
        assert (span["name"], found["graph"]["node"]["name"]) == (node.name, node.name)
    if node.kind == "search":
        assert found["input"]["value"] == traced.searched.query
        documents = [one["document"] for one in in_order(found["retrieval"]["documents"])]
        assert [one["id"] for one in documents] == [one.id for one in traced.passages]
        assert [one["content"] for one in documents] == [one.text for one in traced.passages]
        assert [one["score"] for one in documents] == pytest.approx([one.score for one in traced.passages])
    if node.kind == "model":
        said = found["llm"]
        messages = [one["message"] for one in in_order(said["input_messages"])]
        assert [(one["role"], one["content"]) for one in messages] == [
            (message.role, message.content) for message in traced.asked.messages
        ]
        assert in_order(said["output_messages"])[0]["message"]["content"] == traced.reply.text
        assert (said["token_count"]["prompt"], said["token_count"]["completion"]) == (
            traced.call.usage.input, traced.call.usage.output,
        )  # fmt: skip
        assert said["cost"]["total"] == pytest.approx(traced.call.cost_uncached)
        assert said["model_name"] == node.model


@pytest.mark.slow
def test_a_real_phoenix_holds_what_the_store_holds(command, home, phoenix):
    made = command("run", "--display", "none", "--limit", "25", "--agent", "direct", "--agent", "vanilla_rag[top_k=8]")
    assert made.returncode == 0, made.stderr
    with Store(home) as store:
        runs = store.runs()
        for again in range(2):  # the second time nothing is doubled
            done = command("export", "phoenix", *(run.id for run in runs), "--endpoint", phoenix.url)
            assert done.returncode == 0, done.stderr
            assert "refused" not in done.stdout, again
        for run in runs:
            check_run(phoenix, store, run)
            # Scored anew, an annotation is replaced and none is added.
            first = next(every_trace(store, run))
            anew = Score(**{**msgspec.structs.asdict(first.scores[0]), "value": 0.25, "reason": "scored anew"})
            store.add_scores(run, [anew])
        command("export", "phoenix", *(run.id for run in runs), "--endpoint", phoenix.url)
        for run in runs:
            check_run(phoenix, store, run)
        # In another project they are other traces, and those here stay.
        command("export", "phoenix", runs[0].id, "--endpoint", phoenix.url, "--project", "all of mine")
        check_run(phoenix, store, runs[0], "all of mine")
        check_run(phoenix, store, runs[0])


def check_run(phoenix, store, run, project=""):
    traces = {span_id(trace, (), project).hex(): trace for trace in every_trace(store, run)}
    nodes = {
        span_id(trace, node.place, project).hex(): (trace, node)
        for trace in traces.values()
        for node in trace_nodes(trace)
    }
    place = f"/v1/projects/{urllib.parse.quote(project or run.id)}"
    end = time.monotonic() + 60
    while len(spans := list(phoenix.all(f"{place}/spans", limit=200))) < len(nodes) and time.monotonic() < end:
        time.sleep(0.5)
    assert sorted(span["context"]["span_id"] for span in spans) == sorted(nodes)
    for span in spans:
        check_span(span, *nodes[span["context"]["span_id"]], project)
    totals = {one["trace_id"]: one for one in phoenix.all(f"{place}/traces", limit=200)}
    for trace in traces.values():
        counted = totals[trace_id(trace, project).hex()]
        assert (counted["token_count_prompt"], counted["token_count_completion"]) == (
            trace.attempt.usage.input, trace.attempt.usage.output,
        )  # fmt: skip
    kept = phoenix.all(f"{place}/span_annotations", span_ids=list(traces), limit=1000)
    expected = {(id, score.scorer): score for id, trace in traces.items() for score in trace.scores}
    annotations = {(one["span_id"], one["name"]): one for one in kept}
    assert annotations.keys() == expected.keys()
    for key, one in annotations.items():
        score = expected[key]
        assert (one["result"]["score"], one["result"]["label"]) == (score.value, score.answer_status)
        assert one["metadata"]["prediction"] == score.prediction
