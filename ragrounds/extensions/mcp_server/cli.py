"""`ragrounds mcp`: offer stored runs to an assistant as tools, by the Model Context Protocol."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

from ragrounds.cli.output import tell
from ragrounds.extensions.mcp_server.functions import assistant_server

app = typer.Typer()


@app.command("mcp")
def mcp_command(
    allow_runs: Annotated[
        bool, typer.Option("--allow-runs", help="Also a tool that runs agents: it calls models and runs code in files.")
    ] = False,
    skill: Annotated[
        bool, typer.Option("--skill", help="Print a skill that teaches an assistant ragrounds' commands.")
    ] = False,
) -> None:
    """Offer stored runs to an assistant as tools, by the Model Context Protocol.

    The assistant starts this command and talks to it on standard input and output. Its tools list, compare and show
    runs of the store; they make no call and run nothing. The length of their results is bounded.

    Examples:

      ragrounds mcp

      ragrounds mcp --skill
    """
    if skill:
        tell((Path(__file__).parent / "SKILL.md").read_text(encoding="utf-8"), nl=False)
        return
    server = assistant_server(allow_runs=allow_runs)
    # The thread that waits for standard input would hold back the usual end; a store bears a kill at any time.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    server.run()
