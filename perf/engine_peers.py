"""Processor time, throughput, memory and disk of a replay beside its peers, in one run on one machine.

    python perf/engine_peers.py [--small 2000] [--large 10000] [--inspect PYTHON] [--lm-eval PYTHON]

A loopback server answers 24 kB prompts (27 documents and a question) with 300 tokens, one call a question. Processor
time (user and system, of the whole process) is the slope between the smaller and the larger number of questions, so
that imports do not count. `--inspect` and `--lm-eval` name the Python of an environment in which that peer is
installed; without them it is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from perf.engine import questions  # noqa: E402

OURS = "ragrounds"
AGAIN = "ragrounds, from the journal"
BARE = ("bare_aiohttp", "bare_openai", "bare_graph", "chat_openai", "chat_openai_graph")


class Spent(Struct):
    """What one process took."""

    processor: float
    wall: float
    memory: float
    """Most resident memory, MB."""
    disk: float = 0.0
    """MB written."""


@contextlib.contextmanager
def server(low: float, high: float) -> Iterator[str]:
    command = [sys.executable, str(HERE / "engine" / "server.py"), "--low", str(low), "--high", str(high)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.terminate()
        process.wait()


def measured(command: list[str], environment: dict[str, str]) -> Spent:
    begun = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}: {said.read()[-2000:].decode()}")
    return Spent(usage.ru_utime + usage.ru_stime, time.perf_counter() - begun, usage.ru_maxrss / 1024)


def one(name: str, files: tuple[Path, Path], url: str, given: argparse.Namespace, folder: Path) -> Spent:
    """One system on so many questions."""
    alone, whole = files
    out = folder / f"{name}-{whole.stem}"
    if name in (OURS, AGAIN):
        home = folder / f"home-{alone.stem}"
        agent = f"{HERE / 'engine' / 'three_nodes.py'}:build"
        command = [sys.executable, "-m", "ragrounds", "run", "--benchmark", f"jsonl:{alone}", "--agent", agent]
        command += ["--model", "openai:perf[alias=perf]", "--base-url", url, "--display", "none", "--json"]
        command += ["--concurrency", str(given.concurrency)]
        command += ["--workers", str(given.workers)] if given.workers > 1 else []
        command += ["--new", "--journal", "replay"] if name == AGAIN else []
        cost_paid = measured(command, {"RAGROUNDS_HOME": str(home), "PYTHONPATH": str(HERE.parent)})
        cost_paid.disk = size(home)
        return cost_paid
    python = {"inspect": given.inspect, "lm_eval": given.lm_eval}.get(name, sys.executable)
    command = [python, str(HERE / "engine" / "peers.py"), name, str(whole), url, str(given.concurrency), str(out)]
    cost_paid = measured(command, {})
    cost_paid.disk = size(out) if name == "inspect" else 0.0
    return cost_paid


def size(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", type=int, default=2000)
    parser.add_argument("--large", type=int, default=10000)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--low", type=float, default=0.5, help="shortest latency of an answer in seconds")
    parser.add_argument("--high", type=float, default=0.5, help="longest")
    parser.add_argument("--inspect", help="a Python with inspect-ai")
    parser.add_argument("--lm-eval", help="a Python with lm-eval")
    parser.add_argument("--only", nargs="*", help="these systems alone")
    given = parser.parse_args()
    names = [OURS, AGAIN, *(["inspect"] if given.inspect else []), *(["lm_eval"] if given.lm_eval else []), *BARE]
    names = [name for name in names if not given.only or name in given.only]
    folder = Path(tempfile.mkdtemp(prefix="ragrounds-perf-"))
    ideal = given.concurrency / ((given.low + given.high) / 2)
    try:
        files = [questions.write(folder, count) for count in (given.small, given.large)]
        print(f"{'':28}  s/1,000   share  MB/10,000  disk MB", flush=True)
        thousands, rows = (given.large - given.small) / 1000, {}
        for name in names:
            with server(given.low, given.high) as url:
                less, more = (one(name, file, url, given, folder) for file in files)
            a_thousand = (more.processor - less.processor) / thousands
            share = thousands * 1000 / (more.wall - less.wall) / ideal
            memory = (more.memory - less.memory) / thousands * 10
            rows[name] = {
                "processor_s_per_1000": round(a_thousand, 3),
                "throughput_share": round(share, 3),
                "memory_mb_per_10000": round(memory, 1),
                "disk_mb": round(more.disk, 1),
                "raw": [[round(value, 2) for value in (s.processor, s.wall, s.memory)] for s in (less, more)],
            }
            shown = "" if name in (AGAIN, "bare_graph") else f"{share:7.1%}"
            print(f"{name:28}  {a_thousand:7.2f}  {shown:7}  {memory:8.0f}  {more.disk or '':>8}", flush=True)
        print(json.dumps({"ideal_per_second": ideal, "load": os.getloadavg()[0], "rows": rows}))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
