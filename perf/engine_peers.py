"""Processor time, throughput, memory and disk of a replay beside its peers, in one run on one machine.

    python perf/engine_peers.py [--small 2000] [--large 10000] [--inspect PYTHON] [--lm-eval PYTHON]
    python perf/engine_peers.py --quick

A loopback server answers 24 kB prompts (27 documents and a question) with 300 tokens, one call a question. Processor
time (user and system, of the whole process) is the slope between the smaller and the larger number of questions, so
that imports do not count. `--inspect` and `--lm-eval` name the Python of an environment in which that peer is
installed; without them it is left out.

`--quick` is for every change: the processor time of a question beside that of the bare graph, the median of as many
runs as its spread needs; and the functions of the package that a further question passes. It fails above what is
agreed. A processor that others use changes its speed within seconds, by half and more; so every eighth question of a
run is followed by eight of the bare graph, in a thread whose time is counted apart, and both meet the same speed. Start
and end of a run do not count.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import gc
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

from msgspec import Struct

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from perf.engine import questions  # noqa: E402

OURS = "ragrounds"
AGAIN = "ragrounds, from the journal"
AGREED_RATIO, AGREED_FUNCTIONS = 2.6, 300
"""Of `--quick`: the processor time of a question over the bare graph's, and the functions that it passes (Python 3.11
counts comprehensions). A ratio of 1.15 times the agreed one fails, and 1.1 times as many functions."""
SPREAD, RUNS = 0.05, (9, 40)
"""Half width of the median's interval, as a share of it, at which measuring ends; the fewest and the most runs."""
BLOCK, ENDS = 8, 4
"""Questions of the bare graph after as many of ours; the number of such blocks at either end that do not count."""
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
        command += ["--concurrency", str(given.concurrency), "--workers", str(given.workers)]
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


def quick() -> int:
    """Print the ratio and the functions; 1 where either is above what is agreed."""
    import ragrounds as rr
    from perf.engine.peers import three_bare_nodes

    package = str(Path(rr.__file__).parent) + os.sep
    agent = f"{HERE / 'engine' / 'three_nodes.py'}:build"
    few, many, most = 1, 9, 409
    bare, loop = three_bare_nodes(), asyncio.new_event_loop()

    async def ask_bare_graph() -> None:
        await asyncio.gather(*(bare.ainvoke({"prompt": "which of the four"}) for _ in range(BLOCK)))

    def bare_block() -> float:
        """Processor seconds of a block of the bare graph."""
        begun = time.thread_time()
        loop.run_until_complete(ask_bare_graph())
        return time.thread_time() - begun

    class Interleaved(rr.RunListener):
        """Asks the bare graph a block of questions after each block of ours."""

        def __init__(self) -> None:
            self.blocks: list[tuple[float, float]] = []
            """Processor time of the process before each block of the bare graph, and what that block took."""
            self._ended = 0

        def progress(self, progress: Any, *, pilot: bool = False) -> Any:
            def observe(finished: Any) -> None:
                progress.observe(finished)
                self._ended += not pilot
                if not pilot and self._ended % BLOCK == 0:
                    self.blocks.append((time.process_time(), thread.submit(bare_block).result()))

            return contextlib.nullcontext(observe)

        def ratio(self) -> float:
            """Return our processor time over the bare graph's."""
            (first, _), *_, (last, _) = counted = self.blocks[ENDS:-ENDS]
            of_bare = sum(taken for _, taken in counted[:-1])
            return (last - first - of_bare) / of_bare

    with (
        tempfile.TemporaryDirectory(prefix="ragrounds-perf-") as name,
        server(0.02, 0.02) as url,
        ThreadPoolExecutor(1) as thread,
    ):
        files = {count: questions.write(Path(name), count)[0] for count in (few, many, most)}
        begun = iter(range(1_000_000))

        def ours(count: int, listener: rr.RunListener | None = None) -> None:
            """All questions of a file, in a store of their own."""
            rr.run(
                f"jsonl:{files[count]}", agent, model="openai:perf[alias=perf]", base_url=url, concurrency=32,
                home=Path(name) / f"home-{next(begun)}", listener=listener,
            )  # fmt: skip

        def passed(count: int) -> collections.Counter[tuple[str, str]]:
            """The functions of the package that a run of so many questions enters, with how often."""
            seen: collections.Counter[tuple[str, str]] = collections.Counter()

            def enter(frame: FrameType, event: str, argument: object) -> None:
                code = frame.f_code
                if event == "call" and code.co_flags & 1 and code.co_filename.startswith(package):
                    seen[code.co_filename, code.co_qualname] += 1

            sys.setprofile(enter)
            threading.setprofile(enter)
            try:
                ours(count)
            finally:
                sys.setprofile(None)
                threading.setprofile(None)
            return seen

        def ratio() -> float:
            gc.collect()  # the garbage of the run before is not this one's
            interleaved = Interleaved()
            ours(most, interleaved)
            return interleaved.ratio()

        ratio()  # imports, compiled patterns and connections are made
        ratios: list[float] = []
        while len(ratios) < RUNS[0] or (spread(ratios) > SPREAD and len(ratios) < RUNS[1]):
            ratios.append(ratio())
        counts = []
        for _ in range(2):  # what a slow machine does now and then is not part of every question
            one, nine = passed(few), passed(many)
            counts.append(sum(count - one[key] >= many - few for key, count in nine.items()))
    functions = min(counts)
    median = statistics.median(ratios)
    print(f"a question takes {median:.2f} times the processor time of the bare graph (agreed {AGREED_RATIO}; ", end="")
    print(f"of {len(ratios)}, {min(ratios):.2f} to {max(ratios):.2f}, the median within {spread(ratios):.0%})")
    print(f"it passes {functions} functions of the package (agreed {AGREED_FUNCTIONS})")
    counted = sys.version_info[:2] == (3, 11) and functions > 1.1 * AGREED_FUNCTIONS
    return int(median > 1.15 * AGREED_RATIO or counted)


def spread(values: list[float]) -> float:
    """Half width of the 95 % interval of the median, as a share of it: 1.57 quartile ranges by the root of the number
    (McGill, Tukey and Larsen 1978)."""
    low, middle, high = statistics.quantiles(values, n=4)
    return 1.57 * (high - low) / len(values) ** 0.5 / middle


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
    parser.add_argument("--quick", action="store_true", help="ours beside the bare graph, in half a minute")
    given = parser.parse_args()
    if given.quick:
        raise SystemExit(quick())
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
