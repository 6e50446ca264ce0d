"""Fetching from a server on loopback that can do what bad servers do."""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ragrounds.base.errors import UserError
from ragrounds.evals.benchmarks import download, load, verify
from ragrounds.evals.benchmarks.cards import RemoteFile
from ragrounds.evals.benchmarks.download import fetch

QUESTION = {"question": "Which?" + "x" * 500, "options": {"A": "a", "B": "b"}, "answer": "A"}
CONTENT = json.dumps({"mmlu": {f"anatomy-{number:03}": QUESTION for number in range(400)}}).encode()


class Home:
    """Where a dataset lives; `way` is how it answers."""

    def __init__(self):
        self.way = "whole"
        self.ranges = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                asked = self.headers.get("Range")
                outer.ranges.append(asked)
                if outer.way == "missing":
                    self.send_error(404)
                    return
                start = int(asked[6:-1]) if asked and outer.way != "no ranges" else 0
                body = CONTENT[start:] if outer.way != "other" else b"{}" * len(CONTENT)
                self.send_response(206 if start else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: len(body) // 2] if outer.way == "cut" else body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/benchmark.json"


@pytest.fixture
def public(monkeypatch):
    home = Home()
    file = RemoteFile(
        of="mirage", name="benchmark.json", url=home.url, bytes=len(CONTENT), sha256=hashlib.sha256(CONTENT).hexdigest()
    )
    monkeypatch.setattr(download, "remote_files", lambda name: (file,))
    yield home
    home.server.shutdown()
    home.server.server_close()


def test_a_fetched_dataset_is_registered(public, tmp_path):
    seen = []
    assert len(fetch("mirage", tmp_path, lambda name, here, size: seen.append((here, size)))) == 400
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert len(load("mirage/mmlu", tmp_path)) == 400
    fetch("mirage", tmp_path)
    assert len(public.ranges) == 1


@pytest.mark.parametrize("way", ["whole", "no ranges"])
def test_a_cut_download_goes_on(public, tmp_path, way):
    public.way = "cut"
    with pytest.raises(UserError, match=r"bytes are saved; the same call resumes") as caught:
        fetch("mirage", tmp_path)
    assert "\n" not in str(caught.value)
    public.way = way
    assert len(fetch("mirage", tmp_path)) == 400
    assert public.ranges[-1] == f"bytes={len(CONTENT) // 2}-"


def test_another_file_is_refused_and_deleted(public, tmp_path):
    public.way = "other"
    with pytest.raises(UserError, match="is not the file that the card of mirage describes"):
        fetch("mirage", tmp_path)
    assert not list(tmp_path.rglob("*.part"))
    with pytest.raises(UserError, match="is not here yet"):
        load("mirage", tmp_path)


def test_a_missing_file(public, tmp_path):
    public.way = "missing"
    with pytest.raises(UserError, match="Not Found"):
        fetch("mirage", tmp_path)


def test_a_closed_port(public, tmp_path):
    public.server.shutdown()
    public.server.server_close()
    with pytest.raises(UserError, match="ragrounds data add mirage PATH"):
        fetch("mirage", tmp_path)


def test_what_cannot_be_fetched_says_where_it_is(tmp_path):
    with pytest.raises(UserError, match=r"'ogcarebench' cannot be fetched.*ragrounds data add ogcarebench PATH"):
        fetch("ogcarebench", tmp_path)
    with pytest.raises(UserError, match="Did you mean 'mirage'"):
        fetch("mirag", tmp_path)


def test_verify(public, tmp_path, monkeypatch):
    fetch("mirage", tmp_path)
    checked = verify("mirage", tmp_path)
    assert checked.files == {"benchmark.json": False}  # the real card describes the real file
    assert checked.size_as_published is False
    assert checked.questions == 400


@pytest.mark.data
def test_verify_the_real_files(data, tmp_path):
    from ragrounds.evals.benchmarks import register

    for name, path in (("mirage", "mirage"), ("pubmedqa", "pubmedqa/data"), ("kqa", "kqa/dataset")):
        register(name, data / path, tmp_path)
        checked = verify(name, tmp_path)
        assert set(checked.files.values()) == {True}, name
        assert checked.size_as_published
