"""LangSmith: the tree that is sent, and that nothing is sent unasked."""

import json

import pytest

from ragrounds.errors import UserError
from ragrounds.evals.exchange.langsmith import upload
from ragrounds.records import WITHOUT_ANSWER
from tests.compare.making import add_run, questions
from tests.exchange.conftest import SECRET

pytest.importorskip("langsmith", reason="needs langsmith")


def test_the_tree_is_sent_once_and_without_keys(store, run, listening, monkeypatch):
    monkeypatch.setenv("LANGSMITH_TRACING_SAMPLING_RATE", "0")
    count = upload(store, [run], url=listening.url, key="k" * 20, project="mine")
    sent = b"".join(body for method, _, _, body in listening.requests if method == "POST")
    posts = [json.loads(body)["post"] for method, path, _, body in listening.requests if path == "/runs/batch"]
    nodes = [node for post in posts for node in post]
    assert len(nodes) == count == 7
    root = nodes[0]
    children = [node for node in nodes if node.get("parent_run_id") == root["id"]]
    assert [node["name"] for node in children] == ["retrieve", "answer"]
    assert {node["run_type"] for node in nodes} == {"chain", "retriever", "llm"}
    assert all(node["trace_id"] == root["id"] for node in children)
    assert children[0]["dotted_order"].startswith(root["dotted_order"] + ".")
    assert root["extra"]["metadata"]["strict.score"] == 1.0
    assert SECRET.encode() not in sent
    assert b"My key: [key]" in sent


def test_every_export_marks_the_same_attempts_as_errors(store, listening):
    statuses = dict(enumerate(["completed", "blocked", "failed", "capped", "paused"]))
    run = add_run(store, "all", questions(5), [1, 0, 0, 1, 0], status=statuses)
    upload(store, [run], url=listening.url, key="k" * 20, project="mine")
    posts = [json.loads(body)["post"] for method, path, _, body in listening.requests if path == "/runs/batch"]
    roots = [node for post in posts for node in post if not node.get("parent_run_id")]
    marked = {node["extra"]["metadata"]["status"] for node in roots if node.get("error")}
    assert marked == WITHOUT_ANSWER - {"not_run"}
    assert {node["extra"]["metadata"]["status"] for node in roots} - marked == {"completed", "capped"}


def test_a_server_that_refuses_is_one_clear_line(store, run, listening):
    listening.status = 401
    with pytest.raises(UserError, match="did not take the traces"):
        upload(store, [run], url=listening.url, key="k" * 20, project="mine")


def test_the_command_sends_nothing_without_its_flag(command, listening):
    refused = command("export", "langsmith", "direct", "--url", listening.url, LANGSMITH_API_KEY="k" * 20)
    assert refused.returncode == 2
    assert "--upload" in refused.stderr
    assert listening.requests == []
    ran = command(
        *("run", "--display", "none", "--limit", "3"),
        LANGSMITH_API_KEY="k" * 20,
        LANGSMITH_ENDPOINT=listening.url,
        LANGSMITH_TRACING="true",
    )
    assert ran.returncode == 0
    assert listening.requests == []
