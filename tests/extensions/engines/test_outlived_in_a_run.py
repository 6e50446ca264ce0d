"""A search server that is killed in the middle of a run and comes back: the run waits, and nothing is lost."""

import os
import socket
import subprocess
import sys
import time

import pytest

from ragrounds.base.specs import parse
from tests.extensions.engines.filled_engines import fill
from tests.extensions.engines.hashed_words import EMBED, rows
from tests.servers.process import ROOT
from tests.servers.scripted_http import GOOD, scripted

KEY = "Xq7-hidden-Pa55word"


@pytest.mark.slow
def test_a_run_outlives_a_killed_search_server(tmp_path, monkeypatch):
    pytest.importorskip("qdrant_client", reason="qdrant-client is not installed: the extra `qdrant`")
    from tests.extensions.engines.qdrant_server import QdrantStub

    monkeypatch.setenv("STUB_KEY", KEY)
    stub = QdrantStub(KEY)
    fill(parse("qdrant").having(url=stub.url, key_env="STUB_KEY"), rows())

    def reply(prompt, before):
        time.sleep(0.2)  # so that the run is not over before the server is stopped
        return GOOD

    def searches():
        return sum(path.endswith("query/batch") for _, path, _, _ in stub.asked)

    retriever = f'qdrant[url="{stub.url}",key_env=STUB_KEY,embed={EMBED}]'
    with scripted(reply) as model:
        command = [
            sys.executable, "-m", "ragrounds", "run", "--benchmark", "sample", "--agent", "vanilla_rag",
            "--model", "openai:m", "--base-url", model.url, "--retriever", retriever, "--limit", "16",
            "--concurrency", "2",
        ]  # fmt: skip
        home = tmp_path / "home"
        paths = os.pathsep.join((str(ROOT), str(ROOT / "tests" / "indexes")))
        run = subprocess.Popen(
            command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, "RAGROUNDS_HOME": str(home), "OPENAI_API_KEY": "none", "PYTHONPATH": paths},
        )  # fmt: skip
        while run.poll() is None and searches() < 4:
            time.sleep(0.02)
        stub.stop()
        before = searches()
        with socket.create_server(("127.0.0.1", stub.port)) as away:
            for _ in range(2):  # connections in vain
                away.accept()[0].close()
        stub.start()
        said = run.communicate(timeout=120)[0]
    stub.stop()
    assert run.returncode == 0, said
    assert searches() > before
    assert "16 of 16 attempts" in said
    assert "0 failed" in said
    assert "Xq7-hidden" not in said
    assert not [file for file in home.rglob("*") if file.is_file() and b"Xq7-hidden" in file.read_bytes()]
