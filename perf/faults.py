"""Every kind of reply that a server may give, to a model, a judge and an embedder: what becomes of it, memory, seconds.

A server of its own sends the bytes over loopback. A model answers a question of a run, a judge grades a stored answer,
an embedder is given three texts, each by the public functions. Peak memory is the whole process's (the kernel's
high-water mark, reset before each cell); the three work at the same time, each in a process of its own.

    python perf/faults.py [--only WORD ...] [--write perf/faults.md]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
SURFACES = ("model", "judge", "embedder")
SECONDS = 2.0
"""The time-out of a call. It is tried once."""
LIMIT = 300
"""MB that no process may reach."""


class Cell(NamedTuple):
    """One kind of reply, met by one surface."""

    kind: str
    surface: str
    stream: bool
    outcome: str
    said: str
    mb: int
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="kinds that hold one of these words")
    parser.add_argument("--write", type=Path, help="the file for the table; by default it is printed")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--surface", choices=SURFACES, help=argparse.SUPPRESS)
    parser.add_argument("--url", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve())
    elif options.surface:
        for cell in met(options.surface, options.url, options.only):
            print(json.dumps(cell), flush=True)
    else:
        begun = time.monotonic()
        cells = measure(options.only)
        text = json.dumps([cell._asdict() for cell in cells]) if options.json else page(cells, time.monotonic() - begun)
        if options.write:
            options.write.write_text(text)
        else:
            print(text)
        if any(cell.mb >= LIMIT or cell.outcome == "ERROR" for cell in cells):
            sys.exit(1)


async def serve() -> None:
    """Send replies until the process is ended."""
    from tests.servers.raw_replies import raw_server

    async with raw_server() as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()


def measure(only: list[str]) -> list[Cell]:
    """Every cell, by a process a surface."""
    here = [sys.executable, str(Path(__file__).resolve())]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENAI_API_KEY": "Zq7-perf-faults-9Kw2x"}
    serving = subprocess.Popen([*here, "--serve"], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert serving.stdout is not None
        url = serving.stdout.readline().strip()
        working = [
            subprocess.Popen(
                [*here, "--surface", surface, "--url", url, "--only", *only],
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
            )
            for surface in SURFACES
        ]
        cells = []
        for worker in working:
            said, _ = worker.communicate()
            cells += [Cell(*json.loads(line)) for line in said.splitlines()]
            if worker.returncode:
                sys.exit(f"a process ended with {worker.returncode}")
        return cells
    finally:
        serving.terminate()
        serving.wait()


def met(surface: str, url: str, only: list[str]) -> Iterator[Cell]:
    """What one surface makes of every kind, plain and streamed."""
    from ragrounds.base.errors import GaveUp, StopRun
    from tests.servers.raw_replies import KINDS

    kinds = [kind for kind in KINDS if not only or any(word in kind for word in only)]
    with tempfile.TemporaryDirectory(prefix="ragrounds-faults-") as folder:
        ask = {"model": Answering, "judge": Judging, "embedder": Embedding}[surface](Path(folder), url)
        ask("plain", False)  # what is imported and opened once is no cell's
        for kind in kinds:
            for stream in (False, True):
                gc.collect()
                Path("/proc/self/clear_refs").write_text("5")
                begun = time.perf_counter()
                try:
                    outcome, said = ask(kind, stream)
                except StopRun as stopped:
                    outcome, said = "stop", str(stopped)
                except GaveUp as error:
                    outcome, said = error.kind, str(error)
                except Exception as error:
                    outcome, said = "ERROR", f"{type(error).__name__}: {error}"
                seconds = time.perf_counter() - begun
                yield Cell(kind, surface, stream, outcome, said, peak(), round(seconds, 2))


def peak() -> int:
    """The high-water mark of this process's memory, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


class Answering:
    """A question of a run."""

    def __init__(self, home: Path, url: str) -> None:
        self._home, self._url = home, url

    def __call__(self, kind: str, stream: bool) -> tuple[str, str]:
        import ragrounds as rr
        from ragrounds.evals.store.store import Store

        rr.run(
            agents="direct",
            model=spec(kind, stream, self._url),
            limit=1,
            fail_after="never",
            progress=False,
            confirmed=True,
            home=self._home,
        )
        with Store(self._home) as store:
            [attempt] = store.attempts(list(store.runs())[-1])
        notes = [event.text for event in attempt.events if getattr(event, "what", "") == "reply"]
        if attempt.status != "completed":
            return attempt.reason.partition(":")[0] or attempt.status, attempt.reason
        outcome = "read" if attempt.text else "read, empty"
        return outcome + (", usage unknown" if attempt.usage is None else ""), "; ".join(notes)


class Judging:
    """The verdict on a stored answer."""

    def __init__(self, home: Path, url: str) -> None:
        from ragrounds.evals.judges import verdict
        from tests.cli_grading.test_judge_command import stage

        stage(home, "earlier", ["an answer", *[None] * 5])
        self._home, self._url, self._calls = home, url, list[Any]()
        ask = verdict.call

        async def noting(judge: Any, journal: Any, request: Any, node: str, calls: list[Any]) -> Any:
            """Every call of a judge, as it ended."""
            try:
                return await ask(judge, journal, request, node, calls)
            finally:
                self._calls += calls[-1:]

        verdict.call = noting

    def __call__(self, kind: str, stream: bool) -> tuple[str, str]:
        import ragrounds as rr

        self._calls.clear()
        rr.judge("earlier", "equivalence", judges=spec(kind, stream, self._url), progress=False, home=self._home)
        last = self._calls[-1]
        if last.error:
            return last.error.partition(":")[0], last.error
        return f"read{', usage unknown' if last.usage is None else ''}", ""


class Embedding:
    """The vectors of three texts."""

    def __init__(self, home: Path, url: str) -> None:
        self._url = url

    def __call__(self, kind: str, stream: bool) -> tuple[str, str]:
        from ragrounds.tools.index.embedders import Encoding, OpenAIEmbedder
        from tests.servers.raw_replies import STREAMED, slug

        encoding = Encoding(model=f"openai:{STREAMED * stream}{slug(kind)}", base_url=self._url)
        vectors, tokens = OpenAIEmbedder(encoding, SECONDS, tries=1).metered(["a", "b", "c"])
        return f"read{', usage unknown' if tokens is None else ''}", f"{vectors.shape[0]} vectors"


def spec(kind: str, stream: bool, url: str) -> str:
    from tests.servers.raw_replies import STREAMED, slug

    # A streamed answer is the same call as one that is not: the journal would answer it.
    name, more = (STREAMED + slug(kind), ",stream=true") if stream else (slug(kind), "")
    return f'openai:{name}[base_url="{url}",tries=1,timeout={SECONDS}{more},price_input=1,price_output=1]'


def page(cells: list[Cell], seconds: float) -> str:
    """The table, with what it adds up to."""
    by = {(cell.kind, cell.surface, cell.stream): cell for cell in cells}
    kinds = list(dict.fromkeys(cell.kind for cell in cells))
    heads = [f"{surface}, {'streamed' if stream else 'plain'}" for surface in SURFACES for stream in (False, True)]
    counts = Counter(cell.outcome for cell in cells)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = used.ru_utime + used.ru_stime
    largest, slowest = max(cells, key=lambda cell: cell.mb), max(cells, key=lambda cell: cell.seconds)
    lines = [
        "# What becomes of replies",
        "",
        f"`python perf/faults.py --write perf/faults.md`, {time.strftime('%Y-%m-%d')}, Python "
        f"{platform.python_version()}, {os.cpu_count()} cores: {len(kinds)} kinds of reply, {len(cells)} cells, "
        f"{seconds:.0f} s in all, {processor:.0f} s of processor time.",
        "",
        "Each cell: the outcome, the peak memory of the whole process in MB, seconds. A model answers a question of a "
        f"run, a judge grades a stored answer, an embedder is given three texts; a call has {SECONDS:g} s and is tried "
        "once. *read*: the answer is used; *usage unknown*: so is its cost, and the trace says why; *stop*: the run "
        "ends with one line; other words are the names of faults, which fail the call. Embedders ask for no streams: "
        "*streamed* is what they make of one. Seconds hold what follows a reply, such as its scoring.",
        "",
        f"Largest process: {largest.mb} MB ({largest.kind}, {largest.surface}); limit {LIMIT} MB. Slowest: "
        f"{slowest.seconds:g} s ({slowest.kind}, {slowest.surface}). Outcomes: "
        + ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())
        + ".",
        "",
        f"| reply | {' | '.join(heads)} |",
        f"|---|{'---|' * len(heads)}",
    ]
    for kind in kinds:
        row = [by[kind, surface, stream] for surface in SURFACES for stream in (False, True)]
        lines.append(f"| {kind} | {' | '.join(f'{cell.outcome} {cell.mb} {cell.seconds:.1f}' for cell in row)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
