"""The systems of docs/foreign: they know nothing of ragrounds, and what measures them can say no."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from langchain_core.messages import AIMessage

from ragrounds.agents.systems.in_process import answer_of, to_recorder_question
from ragrounds.base.records import Question
from ragrounds.recorder.answers import Wiring, read_answer
from tests.conftest import ROOT
from tests.servers.agent_server import Turn, value_of

FOREIGN = ROOT / "docs" / "foreign"


def test_no_file_knows_ragrounds() -> None:
    files = [path for path in FOREIGN.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert len(files) > 15
    assert [path.name for path in files if "ragrounds" in path.read_text(encoding="utf-8")] == []


def test_a_row_that_nobody_has_is_refused_by_name() -> None:
    command = [sys.executable, "docs/scripts/compatibility.py", "--only", "react_agent,nobody"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no row is called nobody" in done.stderr


def test_a_column_that_fails_fails_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "scripts"))
    import compatibility
    import compatibility_rows

    cells = {"calls": compatibility_rows.Cell(False, "0 = 8"), "cost": compatibility_rows.Cell(None, "no store")}
    row = compatibility_rows.Row(compatibility.SYSTEMS[0], cells)
    assert row.broken == ["calls", "cost"]
    text = compatibility.page([row], {}, False, [])
    assert "**no**: 0 = 8" in text
    assert "**not measured**: no store" in text


def test_the_scripted_server_searches_then_answers_and_fills_schemas() -> None:
    asked = [{"role": "user", "content": "Which treatment lowers potassium?"}]
    tools = {"transfer_to_reader": {}, "search": {"type": "object", "properties": {"query": {"type": "string"}}}}
    assert [name for name, _ in Turn(asked, {"search": tools["search"]}, None, None).calls] == ["search"]
    assert [name for name, _ in Turn(asked, tools, None, None).calls] == ["transfer_to_reader"]
    called = {"role": "assistant", "tool_calls": [{"function": {"name": "search"}}]}
    assert "The answer is (" in Turn([*asked, called], {"search": tools["search"]}, None, None).text
    schema = {"properties": {"yes": {"type": "boolean"}, "kind": {"enum": ["a", "b"]}}, "required": ["yes", "kind"]}
    assert value_of(schema, "text", schema)["kind"] in ("a", "b")


def test_the_text_of_a_langchain_message_can_be_stored() -> None:
    question = Question(id="q", benchmark="own", text="?", options={"A": "a", "B": "b"})
    given = AIMessage("It is (B).").text  # a subclass of str
    wiring = Wiring(name="mine.py:chain")
    answer = answer_of(read_answer(given, to_recorder_question(question), wiring, None))  # type: ignore[arg-type]
    assert type(answer.text) is str
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(answer), type=type(answer)).text == "It is (B)."


def test_the_scripted_server_speaks_other_vendors_forms() -> None:
    from tests.servers.vendor_forms import from_blocks, from_parts, lowered, message_events

    blocks = [
        {"role": "user", "content": "Why?"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "search", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "a note"}]},
    ]
    parts = [
        {"role": "user", "parts": [{"text": "Why?"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "search", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "search", "response": {}}}]},
    ]
    for messages in (list(from_blocks(blocks)), list(from_parts(parts))):
        assert [one["role"] for one in messages] == ["user", "assistant", "tool"]
        assert Turn(messages, {"search": {}}, None, None).calls == []  # it was called once
    assert lowered({"type": "OBJECT", "properties": {"a": {"type": "STRING"}}})["properties"]["a"]["type"] == "string"
    used = {"type": "tool_use", "id": "1", "name": "search", "input": {"query": "sodium"}}
    whole = {"content": [used], "stop_reason": "tool_use"}
    pieces = [
        one["delta"]["partial_json"]
        for one in message_events(whole, {"output_tokens": 3})
        if "index" in one and "delta" in one
    ]
    assert "".join(pieces) == '{"query": "sodium"}'


def test_a_row_says_which_processes_a_killed_command_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "scripts"))
    import compatibility_rows

    sleeper = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]
    environment = {**os.environ, "OF_ROW": str(tmp_path)}
    with subprocess.Popen(sleeper, env=environment, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert len(compatibility_rows.orphans(tmp_path, 0.0)) == 1
        child.kill()
    assert compatibility_rows.orphans(tmp_path, 0.0) == []
