"""LangGraph's own server on our langgraph.json: every graph is opened, and run against a server of this command's.

python docs/scripts/langgraph_dev.py
python docs/scripts/langgraph_dev.py --write  # langgraph.json alone, after a graph was added

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
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.servers.any_form import AnyForm, any_form  # noqa: E402

TEXT = "Step by step: aspirin helps. <answer>A</answer>\n\n**Final Information**\n\nAspirin helps.\n\nANSWER: A"
QUESTION = {
    "question": "Does low-dose aspirin help against pre-eclampsia?",
    "options": {"A": "yes", "B": "no"},
    "gold": ["d001"],
}


def graphs_file() -> str:
    """Return the text of langgraph.json, which names every built-in graph but those that run other agents: pages of
    the web reach the server, and may not choose what it opens.
    """
    from ragrounds.graphs import catalogue

    graphs = {
        name: f"./ragrounds/extensions/studio/server.py:{name}"
        for name in catalogue.names()
        if not catalogue.agents_in(name)
    }
    return json.dumps({"dependencies": ["."], "graphs": graphs}, indent=2) + "\n"


def main() -> int:
    """Run every graph; the exit code."""
    if sys.argv[1:] == ["--write"]:
        (ROOT / "langgraph.json").write_text(graphs_file())
        return 0
    command = shutil.which("langgraph", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if command is None:
        print("There is no `langgraph` here: pip install 'langgraph-cli[inmem]'")
        return 2
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    graphs = json.loads((ROOT / "langgraph.json").read_text())["graphs"]
    with any_form(lambda _: TEXT) as model, tempfile.TemporaryDirectory() as folder:
        for name in ("ragrounds", "langgraph.json", "pyproject.toml", "README.md"):  # the server writes beside these
            (Path(folder) / name).symlink_to(ROOT / name)
        quiet = {"LANGSMITH_TRACING": "false", "LANGGRAPH_CLI_NO_ANALYTICS": "1", "OPENAI_API_KEY": "none"}
        where = {"RAGROUNDS_HOME": f"{folder}/home", "RAGROUNDS_BASE_URL": model.url}
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
            lacks = [name for name in graphs if not _runs(name, port, model)]
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


def _runs(name: str, port: int, model: AnyForm) -> bool:
    """Run one graph as Studio does; whether it answered, or found what it is for."""
    before = len(model.asked)
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
    print(f"{name:22} {len(model.asked) - before:2} requests  {' → '.join(dict.fromkeys(nodes))}{said}")
    return done


if __name__ == "__main__":
    sys.exit(main())
