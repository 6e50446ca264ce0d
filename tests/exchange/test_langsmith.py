"""LangSmith: the multipart form that is sent, read with LangSmith's own records, and that nothing is sent unasked."""

import email
import json

import pytest

from ragrounds.errors import UserError
from ragrounds.evals.exchange.formats import Export
from ragrounds.evals.exchange.langsmith import LangSmithOptions, push
from ragrounds.records import WITHOUT_ANSWER
from tests.compare.making import add_run, questions
from tests.exchange.conftest import SECRET

schemas = pytest.importorskip("langsmith.schemas", reason="needs langsmith")
PROJECT = "0192f0c1-2222-7333-8444-555566667777"
KEY = "lsv2_" + "k1" * 12


@pytest.fixture
def langsmith(listening):
    listening.answer = lambda path, body: (
        (200, {"id": PROJECT}) if path.startswith("/sessions") else (202, {"message": "Runs batch ingested"})
    )
    return listening


def pushed(store, runs, server, **options):
    return list(push(Export(store, runs, LangSmithOptions(endpoint=server.url, project="mine", **options)), KEY))


def received(server):
    """Runs and feedback, put together again as the server does."""
    runs, feedback = {}, {}
    for _, path, headers, body in server.requests:
        assert headers["x-api-key"] == KEY
        if path != "/runs/multipart":
            continue
        kind = f"Content-Type: {headers['Content-Type']}\r\n\r\n".encode()
        for part in email.message_from_bytes(kind + body).get_payload():
            name, data = part.get_param("name", header="Content-Disposition"), part.get_payload(decode=True)
            assert part.get_content_type() == "application/json"
            assert int(part["Content-Length"]) == len(data)
            operation, id, *field = name.split(".")
            value = json.loads(data)
            if operation == "feedback":
                assert value["id"] == id
                feedback[id] = value
            elif field:
                runs[id][field[0]] = value
            else:
                assert operation == "post"
                assert value["id"] == id
                runs[id] = value
    return list(runs.values()), list(feedback.values())


def test_the_tree_is_what_langsmith_reads(store, run, langsmith):
    assert pushed(store, [run], langsmith) == ["7 runs sent", "3 scores sent"]
    assert langsmith.requests[0][1] == "/sessions?upsert=true"
    nodes, _ = received(langsmith)
    for node in nodes:
        read = schemas.Run(**node, session_id=PROJECT)
        assert read.id.version == 7
        assert read.end_time >= read.start_time
        assert node["session_name"] == "mine"
        times = [part[:21] for part in node["dotted_order"].split(".")]
        assert times == sorted(times)
        assert node["dotted_order"].endswith(node["id"])
    root, _, search, _, model = nodes[:5]
    children = [node for node in nodes if node["parent_run_id"] == root["id"]]
    assert [node["name"] for node in children] == ["retrieve", "answer"]
    assert {node["run_type"] for node in nodes} == {"chain", "retriever", "llm"}
    assert all(node["trace_id"] == root["id"] for node in nodes[:5])
    assert search["parent_run_id"] == children[0]["id"]
    assert children[0]["dotted_order"].startswith(root["dotted_order"] + ".")
    assert root["inputs"] == {"question": "Question 0?", "options": {"A": "yes", "B": "no"}}
    assert root["outputs"]["answer"] == "The answer is A."
    facts = root["extra"]["metadata"]
    assert (facts["run"], facts["gold"], facts["identity"]["agent"]) == (run.id, "A", "rag[k=3]")
    assert [one["page_content"] for one in search["outputs"]["documents"]][1] == "Other text."
    assert search["outputs"]["documents"][0]["metadata"]["score"] == 9.0
    assert [message["role"] for message in model["inputs"]["messages"]] == ["system", "user"]
    assert model["outputs"]["usage_metadata"]["total_tokens"] == 110
    assert model["outputs"]["usage_metadata"]["total_cost"] == 0.01
    assert model["extra"]["metadata"]["ls_model_name"] == "test"
    everything = b"".join(body for *_, body in langsmith.requests)
    assert SECRET.encode() not in everything
    assert b"My key: [key]" in everything


def test_scores_are_feedback_on_the_traces(store, run, langsmith):
    pushed(store, [run], langsmith)
    nodes, feedback = received(langsmith)
    roots = {node["id"]: node for node in nodes if not node["parent_run_id"]}
    for one in feedback:
        schemas.FeedbackCreate(**one)
        assert one["run_id"] == one["trace_id"]
        assert one["session_id"] == PROJECT
        assert one["start_time"] == roots[one["run_id"]]["start_time"]
    assert [(one["key"], one["score"]) for one in feedback] == [("strict", 1.0), ("strict", 0.0), ("strict", 0.0)]
    assert feedback[0]["comment"] == "read as A; right is A"


def test_a_score_has_the_four_decimals_that_are_taken_and_may_be_missing(store, langsmith):
    run = add_run(store, "long", questions(2), [1 / 3, None], scorer="facts")
    pushed(store, [run], langsmith)
    feedback = received(langsmith)[1]
    assert [one["score"] for one in feedback] == [0.3333, None]
    assert feedback[1]["value"] == "answered"


def test_sending_again_doubles_nothing(store, run, langsmith):
    pushed(store, [run], langsmith)
    first = received(langsmith)
    langsmith.requests.clear()
    pushed(store, [run], langsmith)
    assert received(langsmith) == first
    langsmith.answer = lambda path, body: (409, {"detail": "payloads already received"})
    assert pushed(store, [run], langsmith) == [
        "0 runs sent, 7 were there already",
        "0 scores sent, 3 were there already",
    ]


def test_every_export_marks_the_same_attempts_as_errors(store, langsmith):
    statuses = dict(enumerate(["completed", "blocked", "failed", "capped", "paused"]))
    run = add_run(store, "all", questions(5), [1, 0, 0, 1, 0], status=statuses)
    pushed(store, [run], langsmith)
    roots = [node for node in received(langsmith)[0] if not node["parent_run_id"]]
    marked = {node["extra"]["metadata"]["status"] for node in roots if node.get("error")}
    assert marked == WITHOUT_ANSWER - {"not_run"}
    assert {node["extra"]["metadata"]["status"] for node in roots} - marked == {"completed", "capped"}


def test_a_server_that_refuses_is_one_clear_line_without_the_key(store, run, langsmith):
    langsmith.answer = lambda path, body: (403, {"detail": f"the key {KEY} may not write"})
    with pytest.raises(UserError, match=r"403: the key \[key\] may not write"):
        pushed(store, [run], langsmith)


def test_the_command_sends_nothing_without_an_address(command, listening):
    refused = command("export", "langsmith", "direct", LANGSMITH_API_KEY=KEY, LANGSMITH_ENDPOINT=listening.url)
    assert refused.returncode == 2
    assert "--endpoint" in refused.stderr
    keyless = command("export", "langsmith", "direct", "--endpoint", listening.url, LANGSMITH_API_KEY="")
    assert "LANGSMITH_API_KEY is not set" in keyless.stderr
    assert listening.requests == []
    ran = command(
        *("run", "--display", "none", "--limit", "3"),
        LANGSMITH_API_KEY=KEY,
        LANGSMITH_ENDPOINT=listening.url,
        LANGSMITH_TRACING="true",
    )
    assert ran.returncode == 0
    assert listening.requests == []
