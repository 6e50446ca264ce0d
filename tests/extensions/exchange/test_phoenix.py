"""Phoenix itself takes what `export otel` sends: the spans of every attempt, once.

It has many packages and pins of its own, so it runs in an environment of its own:

    python3 -m venv .venv-phoenix && .venv-phoenix/bin/pip install arize-phoenix
    RAGROUNDS_PHOENIX=.venv-phoenix/bin/phoenix python -m pytest -m weekly tests/extensions/exchange/test_phoenix.py
"""

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

import pytest

from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import every_trace
from ragrounds.extensions.exchange.exporters.otel import span_id
from ragrounds.extensions.exchange.exporters.trace_nodes import trace_nodes

pytest.importorskip("opentelemetry.proto", reason="needs OpenTelemetry: pip install 'ragrounds[export]'")


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
        end = time.monotonic() + 300
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

    def spans(self, place):
        try:
            return list(self.all(f"{place}/spans", limit=200))
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return []  # the project is made when its first spans are read

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
@pytest.mark.weekly
def test_a_real_phoenix_holds_what_the_store_holds(command, home, phoenix):
    made = command("run", "--display", "none", "--limit", "25", "--agent", "direct", "--agent", "vanilla_rag[top_k=8]")
    assert made.returncode == 0, made.stderr
    with Store(home) as store:
        runs = store.runs()
        for _ in range(2):  # the second time nothing is doubled
            done = command("export", "otel", *(run.id for run in runs), "--endpoint", f"{phoenix.url}/v1/traces")
            assert done.returncode == 0, done.stderr
            assert "refused" not in done.stdout
        for run in runs:
            traces = {span_id(trace, ()).hex(): trace for trace in every_trace(store, run)}
            nodes = {
                span_id(trace, node.position).hex(): node for trace in traces.values() for node in trace_nodes(trace)
            }
            place, end = f"/v1/projects/{urllib.parse.quote(run.id)}", time.monotonic() + 60
            while len(spans := phoenix.spans(place)) < len(nodes) and time.monotonic() < end:
                time.sleep(0.5)
            kinds = {span["context"]["span_id"]: span["span_kind"] for span in spans}
            expected = {"attempt": "AGENT", "step": "CHAIN", "model": "LLM", "search": "RETRIEVER"}
            assert kinds == {id: expected[node.kind] for id, node in nodes.items()}
