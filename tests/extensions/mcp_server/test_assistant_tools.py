"""The assistant's tools, called by the SDK's own client: bounded text, nothing that starts a run unless allowed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ragrounds as rr
from ragrounds.cli.entry import command_tree
from ragrounds.extensions.mcp_server import functions
from tests.conftest import Cli

if TYPE_CHECKING:
    from mcp import ClientSession
    from mcp.types import CallToolResult

# Imported where it is used: that takes a second in each process that collects tests.
pytestmark = pytest.mark.skipif(find_spec("mcp") is None, reason="mcp is not installed")
READING = {"runs", "compare", "trace", "show"}
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one run of two questions."""
    home = tmp_path_factory.mktemp("stored")
    rr.run("sample", "vanilla_rag[top_k=8]", limit=2, home=home, progress=False)
    return home


@asynccontextmanager
async def connected(**options: Any) -> AsyncIterator[ClientSession]:
    """Connect a client with a server of the assistant's tools."""
    from mcp.shared.memory import create_connected_server_and_client_session

    server = functions.assistant_server(**options)._mcp_server
    async with create_connected_server_and_client_session(server) as session:
        yield session


async def called(session: ClientSession, tool: str, **arguments: Any) -> str:
    """Return what a tool says. It is one text, sent once."""
    result = await session.call_tool(tool, arguments)
    assert not result.isError, result
    return text_of(result)


def text_of(result: CallToolResult) -> str:
    from mcp.types import TextContent

    [content] = result.content
    assert isinstance(content, TextContent)
    assert result.structuredContent is None
    return content.text


async def test_tools_read_the_store_and_say_what_the_commands_say(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGROUNDS_HOME", str(stored))
    [run] = rr.runs(home=stored)
    async with connected() as session:
        tools = (await session.list_tools()).tools
        assert {tool.name for tool in tools if tool.annotations and tool.annotations.readOnlyHint} == READING
        assert len(tools) == len(READING)
        assert run.id in await called(session, "runs", words=["sample"])
        compared = f"Runs: {run.id}\n\n{rr.compare(run, home=stored)}"
        assert await called(session, "compare", runs=[run.agent]) == compared
        assert (await called(session, "trace", runs=[run.agent])).startswith(f"Runs: {run.id}\n\n2 attempts")
        assert "Did you mean 'wrong'" in await called(session, "trace", runs=[run.id], where="wron")
        question = str(rr.load(run).to_pandas("attempts")["question_id"][0])
        assert question in await called(session, "show", run=run.id, question=question)
        unknown = await session.call_tool("show", {"run": "vanila_rag", "question": question})
        assert unknown.isError
        assert "Did you mean" in text_of(unknown)
        assert not (await session.list_resources()).resources


async def test_a_long_text_is_cut_where_it_says_and_continues_there(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGROUNDS_HOME", str(stored))
    [run] = rr.runs(home=stored)
    attempt = {"run": run.id, "question": str(rr.load(run).to_pandas("attempts")["question_id"][0]), "full": True}
    async with connected() as session:
        whole = await called(session, "show", **attempt)
        monkeypatch.setattr(functions, "MAX_CHARACTERS", len(whole) - 100)
        first = await called(session, "show", **attempt)
        start = len(whole) - 100
        assert first == f"{whole[:start]}\n[Characters 0 to {start:,} of {len(whole):,}; start={start} continues.]"
        rest = await called(session, "show", **attempt, start=start)
        assert rest == f"{whole[start:]}\n[Characters {start:,} to {len(whole):,} of {len(whole):,}.]"


async def test_a_file_that_has_the_name_of_a_run_is_not_read(
    stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGROUNDS_HOME", str(stored))
    private = tmp_path / "private.csv"
    private.write_text("id,answer,gold\n1,A,A\n", encoding="utf-8")
    async with connected() as session:
        refused = await session.call_tool("compare", {"runs": [str(private)]})
    assert refused.isError
    assert "There is no run" in text_of(refused)


async def test_a_run_is_started_only_if_allowed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = {"agents": ["direct"], "limit": 1}
    async with connected() as session:
        assert (await session.call_tool("run", arguments)).isError
        assert len(rr.runs()) == 0
    async with connected(allow_runs=True) as session:
        assert "1 question" in await called(session, "run", **arguments)
        assert [run.agent for run in rr.runs()] == ["direct"]


@pytest.mark.slow
async def test_a_client_starts_the_command_and_speaks_with_it(home: Path, tmp_path: Path) -> None:
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    command = [sys.executable, "-m", "ragrounds", "mcp", "--allow-runs"]
    parameters = StdioServerParameters(command=command[0], args=command[1:], env={**os.environ}, cwd=tmp_path)
    # A system that imports ragrounds runs in the server's process. What it prints is no line of the protocol.
    system = "import ragrounds\n\n\ndef ask(question):\n    print('hello')\n    return 'A'\n"
    (tmp_path / "mine.py").write_text(system, encoding="utf-8")
    unexpected: list[object] = []

    async def keep(message: object) -> None:
        unexpected.append(message)

    async with stdio_client(parameters) as streams, ClientSession(*streams, message_handler=keep) as session:
        await session.initialize()
        assert "1 question" in await called(session, "run", agents=["./mine.py:ask"], limit=1)
        assert "mine.py:ask" in await called(session, "runs")
    assert unexpected == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_ends_at_a_signal(home: Path, number: signal.Signals) -> None:
    hello = (
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
        b'"clientInfo":{"name":"a client","version":"1"}}}\n'
    )
    with subprocess.Popen(
        [sys.executable, "-m", "ragrounds", "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(hello)
        process.stdin.flush()
        assert b'"name":"ragrounds"' in process.stdout.readline()
        process.send_signal(number)
        assert process.wait(timeout=60) == -number


def test_without_the_package_the_command_says_what_to_install(command: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.fastmcp", None)
    refused = command("mcp")
    assert refused.returncode == 2
    assert "pip install 'ragrounds[mcp]'" in refused.stderr


@pytest.fixture(scope="module")
def tree() -> Any:
    """The command line with every command imported."""
    return command_tree()


def test_every_command_of_the_skill_exists(command: Cli, tree: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs/scripts"))
    from blocks.commands import option_faults

    skill = command("mcp", "--skill").stdout
    assert skill.startswith("---\nname: ragrounds\ndescription: ")
    spans = [span for span in re.findall(r"`([^`]*)`", skill) if span.startswith("ragrounds ")]
    assert len(spans) > 20
    assert [fault for span in spans for fault in option_faults(span, tree)] == []
