"""Calls that strategies share: CoT, CoT-Refine, vanilla RAG and its refined form on the same questions.

    python perf/engine_sharing.py [--data DATA] [--limit N]

Each strategy alone in an empty store, then all of them in one run, against a loopback server that answers each prompt
alike; calls made are the server's count. Without DATA: the sample.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.servers.process import openai_server

ROOT = Path(__file__).resolve().parents[1]
COT = ["direct_cot", "cot_refine"]
RAG = ["vanilla_rag", "cot_refine_rag"]


def calls(agents: list[str], options: argparse.Namespace) -> int:
    """Calls that the server saw."""
    with tempfile.TemporaryDirectory(prefix="ragrounds-sharing-") as home, openai_server() as server:
        command = [sys.executable, "-m", "ragrounds", "run", "--model", "openai:plain", "--base-url", server.url]
        command += ["--display", "none", "--json", *(f"--agent={agent}" for agent in agents)]
        if options.data:
            command += ["--benchmark", f"mirage:{options.data / 'mirage' / 'benchmark.json'}"]
            command += ["--corpus", f"beir:{options.data / 'beir' / 'pubmedqa_1k'}"]
        if options.limit:
            command += ["--limit", str(options.limit)]
        environment = {**os.environ, "RAGROUNDS_HOME": home, "PYTHONPATH": str(ROOT)}
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        asked: int = server.stats()["asked"]
        return asked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--limit", type=int, default=0)
    options = parser.parse_args()
    alone = {agent: calls([agent], options) for agent in (*COT, *RAG)}
    found = {"alone": alone}
    for name, agents in (("cot", COT), ("rag", RAG), ("all", COT + RAG)):
        made, needed = calls(agents, options), sum(alone[agent] for agent in agents)
        found[name] = {"made": made, "needed": needed, "ratio": round(made / needed, 3)}
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
