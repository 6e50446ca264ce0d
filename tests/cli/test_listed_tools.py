"""An agent that lists its tools, from the command line: a real MCP server, its settings, a replay without it."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from tests.conftest import succeeded
from tests.servers.scripted_http import scripted

SERVER = """
import json
from mcp.server.fastmcp import FastMCP
from ragrounds.tools.retriever import open_searcher
import os
import pathlib

server = FastMCP("sample", log_level="WARNING")
searcher = open_searcher("bm25", "sample", pathlib.Path(os.environ["MARK"]))

@server.tool(name="corpus_search")
async def search(query: str, k: int = 5) -> str:
    return json.dumps([{"id": hit.id, "text": hit.text} for hit in await searcher.search(query, k)])

server.run("stdio")
"""
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
def test_tools_of_a_real_mcp_server_run_and_replay(command, tmp_path) -> None:
    """At the replay the server's program is gone."""
    settings, program = tmp_path / "settings.toml", tmp_path / "serve.py"
    program.write_text(SERVER)
    given = f"command = {json.dumps(sys.executable)}\nargs = [{json.dumps(str(program))}]"
    settings.write_text(f'[mcp.sample]\n{given}\nenv = {{ MARK = "${{RAGROUNDS_HOME}}" }}\n')
    with scripted(_model) as server:
        options = ("run", "--display", "none", "--limit", "1", "--agent", AGENT, "--model", "openai:m")
        where = ("--base-url", server.url, "--json")
        made = succeeded(command(*options, *where, RAGROUNDS_CONFIG=str(settings)))
        offered = [one["function"]["name"] for one in server.bodies[0]["tools"]]
        assert offered == ["search", "read", "corpus_search"]
        asked = server.calls
        program.unlink()
        again = succeeded(command(*options, "--new", *where, "--journal", "replay", RAGROUNDS_CONFIG=str(settings)))
        assert server.calls == asked
        assert "0 model calls made" in again.stderr
    run = json.loads(made.stdout)["rows"][0]["run"]
    question = json.loads(command("trace", run, "--format", "json").stdout)["attempts"][0]["question_id"]
    shown = command("show", run, question, COLUMNS="120").stdout
    assert "search “dose” → 5" in shown
    assert 'search corpus_search({"k": 1, "query": "dose"})' in shown
    assert 'search read("' in shown
