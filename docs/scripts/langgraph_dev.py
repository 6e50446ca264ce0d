"""LangGraph's own server on our langgraph.json: every graph is opened, and run against a server of this command's.

python docs/scripts/langgraph_dev.py

Needs `pip install 'langgraph-cli[inmem]'` beside ragrounds. It starts `langgraph dev`, runs each graph as Studio does
(`POST /runs/stream`), and prints which nodes were seen and how many requests the model's server counted. The exit code
is 1 where a graph does not answer.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TEXT = "Step by step: aspirin helps. <answer>A</answer>\n\n**Final Information**\n\nAspirin helps.\n\nANSWER: A"
QUESTION = {
    "question": "Does low-dose aspirin help against pre-eclampsia?",
    "options": {"A": "yes", "B": "no"},
    "gold": ["d001"],
}
asked: list[str] = []


class Model(BaseHTTPRequestHandler):
    """Answers every chat completion alike."""

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        """The list of models."""
        self._give({"object": "list", "data": [{"id": "stand-in", "object": "model"}]})

    def do_POST(self) -> None:
        """A chat completion."""
        self.rfile.read(int(self.headers["Content-Length"]))
        asked.append(self.path)
        message = {"role": "assistant", "content": TEXT}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        self._give({"id": "1", "object": "chat.completion", "model": "stand-in", "choices": [choice], "usage": usage})

    def _give(self, given: dict[str, Any]) -> None:
        body = json.dumps(given).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> int:
    """Run every graph; the exit code."""
    command = shutil.which("langgraph", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if command is None:
        print("There is no `langgraph` here: pip install 'langgraph-cli[inmem]'")
        return 2
    model = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    graphs = json.loads((ROOT / "langgraph.json").read_text())["graphs"]
    with tempfile.TemporaryDirectory() as folder:
        for name in ("ragrounds", "langgraph.json", "pyproject.toml", "README.md"):  # the server writes beside these
            (Path(folder) / name).symlink_to(ROOT / name)
        quiet = {"LANGSMITH_TRACING": "false", "LANGGRAPH_CLI_NO_ANALYTICS": "1", "OPENAI_API_KEY": "none"}
        where = {"RAGROUNDS_HOME": f"{folder}/home", "RAGROUNDS_BASE_URL": f"http://127.0.0.1:{model.server_port}/v1"}
        options = ("dev", "--no-browser", "--no-reload", "--allow-blocking", "--port", str(port))
        with (Path(folder) / "log").open("wb") as log:
            server = subprocess.Popen(
                [command, *options],
                cwd=folder,
                env={**os.environ, **quiet, **where},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            _wait(f"http://127.0.0.1:{port}/ok", server)
            lacks = [name for name in graphs if not _runs(name, port)]
        finally:
            server.terminate()
            server.wait(30)
            if server.returncode not in (0, -15):
                print((Path(folder) / "log").read_text()[-3000:])
    print(f"{len(graphs) - len(lacks)} of {len(graphs)} graphs answered under `langgraph {' '.join(options[:4])}`.")
    return int(bool(lacks))


def _wait(address: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(240):
        try:
            urllib.request.urlopen(address, timeout=5).read()
            return
        except OSError:
            if server.poll() is not None:
                break
            time.sleep(0.5)
    raise SystemExit("`langgraph dev` does not start.")


def _runs(name: str, port: int) -> bool:
    """Run one graph as Studio does; whether it answered, or found what it is for."""
    before = len(asked)
    body = {
        "assistant_id": name,
        "input": QUESTION,
        "context": {"model": "openai:stand-in"},
        "stream_mode": ["updates"],
        "stream_subgraphs": True,
    }
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/runs/stream", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as reply:
        lines = reply.read().decode().splitlines()
    given = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    nodes = [node for one in given for node in one if isinstance(one[node], dict)]
    end = next((one[name] for one in reversed(given) if isinstance(one.get(name), dict)), {})
    done = bool(end.get("answer") or end.get("found"))
    said = "" if done else f"  {lines[-3:]}"
    print(f"{name:22} {len(asked) - before:2} requests  {' → '.join(dict.fromkeys(nodes))}{said}")
    return done


if __name__ == "__main__":
    sys.exit(main())
