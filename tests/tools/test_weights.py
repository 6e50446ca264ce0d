"""Weights that are not here: said at once, whatever the network does."""

import importlib.util
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import pytest

from ragrounds.base.errors import UserError
from ragrounds.tools.index import weights
from ragrounds.tools.index.weights import check_weights, weights_are_here
from ragrounds.tools.retriever import open_searcher

_ID = "nobody/such-weights"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch, tmp_path):
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))


@pytest.fixture
def closed():
    """An address where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_what_is_here_is_not_asked_for(tmp_path, monkeypatch, closed):
    monkeypatch.setenv("HF_ENDPOINT", closed)
    snapshot = tmp_path / "hub" / "models--nobody--such-weights" / "snapshots" / "1"
    assert not weights_are_here(_ID)
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    check_weights(_ID, str(tmp_path))


def test_a_hub_out_of_reach_is_said_at_once(monkeypatch, closed):
    monkeypatch.setenv("HF_ENDPOINT", closed)
    with pytest.raises(
        UserError, match=r"(?s)nobody/such-weights, nobody/else.*cannot be reached.*model=/path/to/copy"
    ):
        check_weights(_ID, "nobody/else", _ID)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UserError, match="offline"):
        check_weights(_ID)


def test_a_hub_that_is_silent_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(weights, "PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(UserError, match="cannot be loaded"):
            check_weights(_ID)


def test_a_hub_that_answers_is_left_to_the_library(monkeypatch):
    asked = []

    class Hub(BaseHTTPRequestHandler):
        def do_HEAD(self):
            asked.append(self.path)
            self.send_response(404)
            self.end_headers()

        def log_message(self, *_):
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Hub) as hub:
        threading.Thread(target=hub.serve_forever, args=(0.02,), daemon=True).start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{hub.server_port}")
        check_weights(_ID)
        hub.shutdown()
    assert asked == [f"/{_ID}"]


@pytest.mark.parametrize("spec", ["medcpt", "rrf[a=bm25,b=medcpt]", "rerank[of=bm25,model=medcpt-cross]"])
def test_a_retriever_fails_before_its_corpus_is_read(spec, beir, tmp_path, monkeypatch, closed):
    real = importlib.util.find_spec
    there = SimpleNamespace(name="sentence_transformers")
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: there if name == there.name else real(name, *more)
    )
    monkeypatch.setenv("HF_ENDPOINT", closed)
    corpus = beir([("a", "", "asthma")])
    began = time.perf_counter()
    with pytest.raises(UserError, match="ncbi/MedCPT"):
        open_searcher(spec, corpus, tmp_path)
    assert time.perf_counter() - began < 5  # well below a minute, on any machine
    built = len(list(tmp_path.glob("indexes/*/manifest.json")))
    assert built == spec.startswith("rrf"), "its BM25 reads the corpus"
