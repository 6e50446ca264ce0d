"""An agent that lists its tools, from the command line: a real MCP server, its settings, a replay without it."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from tests.servers.scripted_http import scripted

AGENT = "tool_agent[tools=[corpus,read,mcp:sample]]"


def _call(name: str, **arguments: object) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": function}],
    }
    return {"message": message, "finish_reason": "tool_calls"}


def _model(prompt: str, before: int) -> str | dict[str, Any]:
    """Searches, asks the MCP server, reads on by the id that it gave, answers."""
    if prompt.startswith("### Question") and "options" not in prompt.lower():
        return _call("search", query="dose")
    if prompt.startswith("[") and not prompt.startswith('[{"'):
        return _call("corpus_search", query="dose", k=1)
    if prompt.startswith('[{"id"') and before == 0:
        return _call("read", passage=json.loads(prompt)[0]["id"])
    return json.dumps({"step_by_step_thinking": "", "answer_choice": "A"})


@pytest.mark.slow
def test_tools_of_a_real_mcp_server_run_and_replay(cli, tmp_path) -> None:
    """The server is this package's own, over the sample; at the replay its program is gone."""
    settings, program = tmp_path / "settings.toml", tmp_path / "serve"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -m ragrounds index serve sample --mcp\n")
    program.chmod(0o755)
    variables = 'env = { RAGROUNDS_HOME = "${RAGROUNDS_HOME}" }'
    settings.write_text(f"[mcp.sample]\ncommand = {json.dumps(str(program))}\n{variables}\n")
    with scripted(_model) as server:
        options = ("run", "--display", "none", "--limit", "1", "--agent", AGENT, "--model", "openai:m")
        where = ("--base-url", server.url, "--json")
        made = cli(*options, *where, RAGROUNDS_CONFIG=str(settings))
        assert made.returncode == 0, made.stderr
        offered = [one["function"]["name"] for one in server.bodies[0]["tools"]]
        assert offered == ["search", "read", "corpus_read", "corpus_search"]
        asked = server.calls
        program.unlink()
        again = cli(*options, "--new", *where, "--journal", "replay", RAGROUNDS_CONFIG=str(settings))
        assert again.returncode == 0, again.stderr
        assert server.calls == asked
        assert "0 calls made" in again.stderr
    run = json.loads(made.stdout)["rows"][0]["run"]
    question = json.loads(cli("trace", run, "--format", "json").stdout)["attempts"][0]["question_id"]
    shown = cli("show", run, question, COLUMNS="120").stdout
    assert "search “dose” → 5" in shown
    assert 'search corpus_search({"k": 1, "query": "dose"})' in shown
    assert 'search read("' in shown
