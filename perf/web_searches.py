"""MedQA's questions searched for on loopback providers: what leaves, what is refused, whether every question ends.

SearXNG and Tavily stand on this machine (`tests/servers/web_searches.py`). Tavily refuses queries of more than 400
characters, and answers 429 with ``Retry-After: 1`` to every 25th request. The same questions are asked five times: by
SearXNG; by Tavily as it is by default; by Tavily with a length that it does not take; by a Tavily that is killed in the
middle of the run and started again; and from the journal, with nobody there. The answers are the built-in baseline's.

    python perf/web_searches.py --data DATA [--questions N] [--write perf/web_searches.md]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
RATE = 200
"""Requests a second that the runs allow themselves; Tavily's own default would take 13 minutes."""
KILLED_AFTER, BACK_AFTER = 300, 5.0
"""Requests after which the provider is killed; seconds until it is there again."""


class Row(NamedTuple):
    """What came of one run."""

    name: str
    attempts: Counter[str]
    notes: Counter[str]
    counts: dict[str, int]
    longest: int
    most: int
    paid: float | None
    seconds: float
    said: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder with mirage/benchmark.json")
    parser.add_argument("--questions", type=int, help="only so many")
    parser.add_argument("--write", type=Path, help="the page; by default it is printed")
    options = parser.parse_args()
    mirage = options.data / "mirage" / "benchmark.json"
    long, count = long_questions(mirage, options.questions)
    with tempfile.TemporaryDirectory() as folder:
        rows = list(runs(Path(folder), mirage, options.questions))
    page = written(rows, count, long)
    if options.write:
        options.write.write_text(page, encoding="utf-8")
    else:
        print(page)


def runs(folder: Path, mirage: Path, questions: int | None) -> Iterator[Row]:
    """The five runs."""
    port = free_port()
    tavily = f'url="http://127.0.0.1:{port}/tavily",rate={RATE}'
    with served(port):
        searxng = f'web[provider=searxng[url="http://127.0.0.1:{port}/searxng",rate={RATE}]]'
        yield run("SearXNG", folder / "searxng", mirage, searxng, questions, port, "searxng")
    home = folder / "tavily"
    with served(port):
        yield run("Tavily", home, mirage, f"web[provider=tavily[{tavily}]]", questions, port, "tavily")
    # The same text names the same run, and the journal has its own.
    offline = run(
        "Tavily from the journal, nobody there", home, mirage, f"web[provider=tavily[{tavily}]]", questions, None,
        "tavily", "--new", "--journal", "replay",
    )  # fmt: skip
    with served(port):
        longer = f"web[provider=tavily[{tavily},length=100000]]"
        yield run("Tavily, length=100000", folder / "long", mirage, longer, questions, port, "tavily")
    yield disturbed(folder / "disturbed", mirage, f"web[provider=tavily[{tavily}]]", questions, port)
    yield offline


def run(
    name: str, home: Path, mirage: Path, retriever: str, questions: int | None, port: int | None, who: str, *more: str
) -> Row:
    """One run, and what the provider says of it."""
    began = time.perf_counter()
    done = subprocess.run(
        command(mirage, retriever, questions, *more), env=environment(home), capture_output=True, text=True
    )
    return row(name, home, done.stderr, time.perf_counter() - began, stats(port) if port else {}, who)


def disturbed(home: Path, mirage: Path, retriever: str, questions: int | None, port: int) -> Row:
    """A run whose provider is killed and started again."""
    began = time.perf_counter()
    with served(port):
        running = subprocess.Popen(
            command(mirage, retriever, questions), env=environment(home), stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        while (before := stats(port))["counts"].get("tavily", 0) < min(KILLED_AFTER, (questions or 10**6) // 3):
            time.sleep(0.05)
    time.sleep(BACK_AFTER)
    with served(port):
        _, said = running.communicate()
        after = stats(port)
    together = {
        key: before["counts"].get(key, 0) + after["counts"].get(key, 0)
        for key in {**before["counts"], **after["counts"]}
    }
    both = {"counts": together, "longest": after["longest"], "most": after["most"]}
    name = f"Tavily, killed after {before['counts']['tavily']} requests, back after {BACK_AFTER:g} s"
    return row(name, home, said, time.perf_counter() - began, both, "tavily")


def row(name: str, home: Path, said: str, seconds: float, told: dict[str, Any], who: str) -> Row:
    """What the store holds of the latest run."""
    import ragrounds as rr
    from ragrounds.api.workspace import open_selected_runs
    from ragrounds.base.records import Noted

    with patched("RAGROUNDS_HOME", str(home)):
        latest = list(rr.runs())[-1]
        with open_selected_runs(latest.ids, latest.settings) as (store, [stored]):
            attempts = list(store.attempts(stored))
    notes: Counter[str] = Counter()
    for attempt in attempts:
        notes.update({event.what for event in attempt.events if isinstance(event, Noted)})
    costs = [attempt.cost_paid for attempt in attempts]
    last = next((line for line in reversed(said.splitlines()) if line.startswith("ragrounds:")), "")
    return Row(
        name,
        Counter(attempt.status for attempt in attempts),
        notes,
        told.get("counts", {}),
        told.get("longest", {}).get(who, 0),
        told.get("most", {}).get(who, 0),
        None if None in costs else sum(cost for cost in costs if cost is not None),
        seconds,
        last,
    )


@contextlib.contextmanager
def patched(name: str, value: str) -> Iterator[None]:
    """A variable of the environment, until the block ends."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def command(mirage: Path, retriever: str, questions: int | None, *more: str) -> list[str]:
    """The command that a user would type."""
    limit = ["--limit", str(questions)] if questions else []
    return [
        sys.executable, "-m", "ragrounds", "run", "--benchmark", f"mirage/medqa:{mirage}", "--agent", "vanilla_rag",
        "--retriever", retriever, "--model", "baseline:extractive", "--display", "none", *limit, *more,
    ]  # fmt: skip


def environment(home: Path) -> dict[str, str]:
    """The user's, with a home of its own and the key that the loopback takes."""
    from tests.servers.web_searches import KEY

    return {**os.environ, "RAGROUNDS_HOME": str(home), "TAVILY_API_KEY": KEY}


@contextlib.contextmanager
def served(port: int) -> Iterator[None]:
    """The providers, until the block ends."""
    given = ["--port", str(port), "--every", "25", "--retry-after", "1"]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.servers.web_searches", *given], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def stats(port: int) -> dict[str, Any]:
    """What the providers were asked."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/stats", timeout=30) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def long_questions(mirage: Path, questions: int | None) -> tuple[int, int]:
    """How many of MedQA's questions have more than 400 characters, and how many there are."""
    asked = [one["question"] for one in json.loads(mirage.read_text(encoding="utf-8"))["medqa"].values()]
    return sum(len(text) > 400 for text in asked), min(len(asked), questions or len(asked))


def written(rows: list[Row], count: int, long: int) -> str:
    """The page."""
    lines = [
        "# Searches of the web on loopback",
        "",
        f"`python perf/web_searches.py --data DATA --write perf/web_searches.md`, {datetime.now(UTC).date()}, Python "
        f"{platform.python_version()}, {os.cpu_count()} cores: {count:,} questions of MedQA (MIRAGE); {long:,} of its "
        "1,273 have more than 400 characters.",
        "",
        *" ".join((__doc__ or "").split("\n\n")[1].split()).splitlines(),
        f"The runs allow themselves {RATE} requests a second. *Completed*: attempts; *cut*, *refused*: attempts whose "
        "trace says so; *sent*: requests that arrived; *longest*: characters of the longest query that arrived; *in a "
        "second*: requests that arrived in any one second, at most.",
        "",
        "| run | completed | others | cut | refused | sent | 429 | refused there "
        "| longest | in a second | paid | seconds |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in rows:
        others = sum(one.attempts.values()) - one.attempts["completed"]
        sent = one.counts.get("tavily", 0) + one.counts.get("searxng", 0)
        paid = "unknown" if one.paid is None else f"${one.paid:.2f}"
        cells = (
            one.name, f"{one.attempts['completed']:,}", others, f"{one.notes['query_cut']:,}",
            f"{one.notes['search_refused']:,}", f"{sent:,}", one.counts.get("tavily 429", 0),
            f"{one.counts.get('tavily refused', 0):,}", one.longest, one.most, paid, f"{one.seconds:.0f}",
        )  # fmt: skip
        lines.append(f"| {' | '.join(map(str, cells))} |")
    ended = [f"{one.name}: {one.said}" for one in rows if one.said]
    return "\n".join([*lines, *(["", "What runs said at their end: " + "; ".join(ended)] if ended else []), ""])


if __name__ == "__main__":
    main()
