"""One Ray node against two on a latency-bound load: calls of 2 s, so many in flight on each node.

    python perf/engine_ray.py          # needs the extra [ray] and PostgreSQL's server programs

Nodes, PostgreSQL and the model server are processes of this machine, on loopback. The replay's time is from the first
attempt's begin to the last one's end, by the store; the command's time has joining the cluster and starting its workers
in it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from ragrounds.evals.store.store import Store  # noqa: E402
from tests.extensions.cluster.ray_server import ray_cluster  # noqa: E402
from tests.servers.postgresql import binaries, postgresql  # noqa: E402
from tests.servers.process import openai_server  # noqa: E402


def benchmark(folder: Path, count: int) -> Path:
    path = folder / "questions.jsonl"
    options = {"A": "one", "B": "two", "C": "three", "D": "four"}
    lines = (
        {"id": f"q{number}", "question": f"Question number {number}?", "options": options, "answer": "A"}
        for number in range(count)
    )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def measured(nodes: int, given: argparse.Namespace, folder: Path, programs: Path) -> dict[str, float]:
    latency = ("--latency", str(given.latency))
    with postgresql(programs) as url, ray_cluster(nodes) as cluster, openai_server(*latency) as server:
        home = folder / f"home-{nodes}"
        environment = {**os.environ, **cluster.environment, "RAGROUNDS_HOME": str(home), "RAGROUNDS_STORE": url}
        command = [sys.executable, "-m", "ragrounds", "run", "--benchmark", f"jsonl:{folder / 'questions.jsonl'}"]
        command += ["--agent", "direct", "--model", "openai:perf", "--base-url", server.url, "--display", "none"]
        command += ["--engine", "ray", "--concurrency", str(given.per_node * nodes), "--yes"]
        begun = time.perf_counter()
        subprocess.run(command, env=environment, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        whole = time.perf_counter() - begun
        asked = server.stats()["asked"]
        with Store(home, url) as store:
            attempts = store.summaries(store.runs()[0])
    assert asked == len(attempts) == given.questions
    assert all(attempt.status == "completed" for attempt in attempts)
    replay = max(one.at + one.seconds for one in attempts) - min(one.at for one in attempts)
    ideal = given.questions * given.latency / (given.per_node * nodes)
    return {"nodes": nodes, "replay_s": round(replay, 2), "command_s": round(whole, 2), "ideal_s": round(ideal, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=640)
    parser.add_argument("--per-node", type=int, default=16, help="attempts in flight on each node")
    parser.add_argument("--latency", type=float, default=2.0)
    given = parser.parse_args()
    programs = binaries()
    if programs is None:
        raise SystemExit("needs PostgreSQL's server programs (Debian: postgresql)")
    with tempfile.TemporaryDirectory(prefix="ragrounds-perf-") as name:
        folder = Path(name)
        benchmark(folder, given.questions)
        one, two = (measured(nodes, given, folder, programs) for nodes in (1, 2))
    ratio = {key: round(one[f"{key}_s"] / two[f"{key}_s"], 2) for key in ("replay", "command")}
    print(json.dumps({"one": one, "two": two, "two_against_one": ratio, "load": round(os.getloadavg()[0], 1)}))


if __name__ == "__main__":
    main()
