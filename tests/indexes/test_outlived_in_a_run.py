"""A search server that is killed in the middle of a run and comes back: the run waits, and nothing is lost."""

import importlib.util
import os
import subprocess
import sys
import time

import pytest
from hashed_words import pushed
from search_server import SearchStub, basic

from ragrounds.specs import parse
from ragrounds.tools.retriever import find_retriever
from tests.servers.process import ROOT
from tests.servers.scripted_http import GOOD, scripted

LOGIN = "reader:Xq7-hidden-Pa55word"


@pytest.mark.slow
def test_a_run_outlives_a_killed_search_server(tmp_path, monkeypatch):
    if importlib.util.find_spec("opensearchpy") is None:
        pytest.skip("opensearchpy is not installed: the extra `opensearch`")
    monkeypatch.setenv("STUB_LOGIN", LOGIN)
    stub = SearchStub("opensearch", basic(LOGIN))
    way = find_retriever("opensearch").push
    pushed(way(parse("opensearch").having(url=stub.url, key_env="STUB_LOGIN"), "passages"))

    def reply(prompt, before):
        time.sleep(0.2)  # so that the run is not over before the server is stopped
        return GOOD

    def searches():
        return sum(path.endswith("_search") for _, path, _, _ in stub.asked)

    retriever = f'opensearch[url="{stub.url}",index=passages,key_env=STUB_LOGIN,mode=text]'
    with scripted(reply) as model:
        command = [
            sys.executable, "-m", "ragrounds", "run", "--benchmark", "sample", "--agent", "vanilla_rag",
            "--model", "openai:m", "--base-url", model.url, "--retriever", retriever, "--limit", "16",
            "--concurrency", "2",
        ]  # fmt: skip
        home = tmp_path / "home"
        run = subprocess.Popen(
            command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, "RAGROUNDS_HOME": str(home), "OPENAI_API_KEY": "none"},
        )  # fmt: skip
        while run.poll() is None and searches() < 4:  # the first reads what the index holds
            time.sleep(0.02)
        stub.stop()
        before = searches()
        time.sleep(2)
        stub.start()
        said = run.communicate(timeout=120)[0]
    stub.stop()
    assert run.returncode == 0, said
    assert searches() > before
    assert "16 of 16 attempts" in said
    assert "0 failed" in said
    assert "Xq7-hidden" not in said
    assert not [file for file in home.rglob("*") if file.is_file() and b"Xq7-hidden" in file.read_bytes()]
