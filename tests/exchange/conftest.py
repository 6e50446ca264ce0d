import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import pytest

from ragrounds.evals.store.store import Store
from tests.compare.making import add_run, questions
from tests.ui.report.making import passage, traced_events

SECRET = "sk-proj-abcdefghijklmnopqrstuvwx"


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def run(store):
    """Four attempts: one with a search and a model call, one plain, one failed, one not made."""
    asked = [msgspec.structs.replace(question, group="heart") for question in questions(4)]
    events = traced_events(
        store, 1, passages=[passage(1), passage(2, "Other text."), passage(1, "Again.")], prompt=f"My key: {SECRET}"
    )
    return add_run(
        store, "rag[k=3]", asked, [1, 0, 0, ...], events={0: events}, status={2: "failed"},
        answer_statuses={2: "empty"},
        cost_uncached=0.02,
    )  # fmt: skip


class Server:
    """What was sent to it: (method, path, headers, body). `answer` gives status and content for a path and a body."""

    def __init__(self):
        self.requests = []
        self.status = 200
        self.headers = {}
        self.answer = lambda path, body: (self.status, {"version": "0", "batch_ingest_config": {}})
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.requests.append((self.command, self.path, dict(self.headers), body))
                status, content = outer.answer(self.path, body)
                answer = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                kind = "application/x-protobuf" if isinstance(content, bytes) else "application/json"
                for name, value in {**outer.headers, "Content-Type": kind}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_GET = do_POST = do_PATCH = answer  # noqa: N815

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def listening():
    server = Server()
    yield server
    server.close()
