"""What `ragrounds publish` costs for many runs, and what a kill leaves: `python perf/publish.py HOME [RUNS] [KILLS]`.

The built-in baseline answers the sample benchmark with six agents. Their attempts are then copied under other agents
and models, with some of the scores turned, until there are RUNS runs (500) in five sets of questions; the calls behind
them are those of the first six. All are published without attempts, then with them, then once more. At last three runs
are published KILLS times (0) by processes that are killed at random moments: after each, every link of the folder must
lead to a file, and the way in be the old one or the new one.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from msgspec.structs import replace

from ragrounds.base.records import Run
from ragrounds.evals.benchmarks.benchmark import content_version
from ragrounds.evals.store.store import Store

AGENTS = ("direct", "direct_cot", "vanilla_rag[top_k=1]", "vanilla_rag[top_k=4]", "vanilla_rag[top_k=8]", "search_o1")
SETS = (107, 100, 90, 80, 60)
"""Questions of each set: a set is the first so many of the sample."""


def main() -> None:
    home = Path(sys.argv[1])
    wanted = int(sys.argv[2]) if len(sys.argv) > 2 else 500
    kills = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    agents = [word for name in AGENTS for word in ("--agent", name)]
    ragrounds(home, "run", *agents, "--display", "none")
    draw = random.Random(0)
    with Store(home) as store:
        first = [run for run in store.runs() if not run.id.startswith("copy-")]
        for number in range(len(store.runs()) - len(first), wanted - len(first)):
            copy(store, first[number % len(first)], number, SETS[number % len(SETS)], draw)
    site = home / "site"
    for what, more in (("without attempts", ("--attempts", "never")), ("with attempts", ()), ("again", ())):
        seconds = ragrounds(home, "publish", str(site), *more)
        files = [path for path in site.iterdir() if not path.name.startswith(".")]
        size = sum(path.stat().st_size for path in files)
        index = (site / "index.html").stat().st_size
        print(f"{what}: {seconds:.0f} processor seconds, {len(files)} files, {size:,} bytes, index {index:,} bytes")
    if kills:
        print(killed(home, kills, draw))


def ragrounds(home: Path, *arguments: str) -> float:
    """One command in a process of its own; the processor seconds it took."""
    before = os.times()
    command = [sys.executable, "-m", "ragrounds", *arguments]
    subprocess.run(command, env={**os.environ, "RAGROUNDS_HOME": str(home)}, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def copy(store: Store, run: Run, number: int, count: int, draw: random.Random) -> None:
    """A run of the first `count` questions with the attempts of another, some of whose scores are turned."""
    questions, golds = store.questions(run)
    kept = questions[:count]
    ids = {question.id for question in kept}
    here = {id: golds[id] for id in ids}
    drawn = {"seed": 0, "limit": count, "per_dataset": None, "of": len(questions)}
    made = replace(
        run,
        id=f"copy-{number}",
        agent=f"{run.agent.partition('[')[0]}[seed={number}]",
        questions=content_version(kept, here),
        count=count,
        fingerprint=f"{number:064x}",
        identity={
            **run.identity,
            "models": {"model": f"openai:model-{number % 7}"},
            "selection": drawn if count < len(questions) else None,
        },
        created=run.created + 3600 * number,
    )
    turned = {score.question_id for score in store.scores(run) if draw.random() < 0.15}
    scores = [
        replace(score, value=1.0 - score.value) if score.question_id in turned and score.value is not None else score
        for score in store.scores(run)
        if score.question_id in ids
    ]
    attempts = [replace(one, run=made.id) for one in store.attempts(run) if one.question_id in ids]
    store.add_run(made, kept, here)
    store.add_attempts(made, attempts, scores)


def killed(home: Path, kills: int, draw: random.Random) -> dict[str, int]:
    """Publish three runs again and again, kill most of the processes, and look at what is left each time."""
    site, ends = home / "killed", {"finished": 0, "the old one": 0, "the new one": 0}
    started = time.monotonic()
    ragrounds(home, "publish", str(site), *AGENTS[:3], "--title", "0")
    took = time.monotonic() - started
    for number in range(1, kills + 1):
        before = title(site)
        command = [sys.executable, "-m", "ragrounds", "publish", str(site), *AGENTS[: 2 + number % 2]]
        process = subprocess.Popen(
            [*command, "--title", str(number)],
            env={**os.environ, "RAGROUNDS_HOME": str(home)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        time.sleep(draw.uniform(0.2, 1.2) * took)
        finished = process.poll() is not None
        if not finished:
            process.send_signal(signal.SIGKILL)
            process.wait()
        if dead := dead_links(site):
            raise SystemExit(f"kill {number}: {dead}")
        now = title(site)
        if now not in (before, str(number)):
            raise SystemExit(f"kill {number}: the index is of {now}")
        ends["finished" if finished else "the old one" if now == before else "the new one"] += 1
    ragrounds(home, "publish", str(site), *AGENTS[:3], "--title", "end")
    left = {path.name for path in site.iterdir() if path.suffix not in (".html", ".json")}
    if left:
        raise SystemExit(f"left over: {left}")
    return ends


def title(site: Path) -> str:
    found = re.search("<h1>(.*?)</h1>", (site / "index.html").read_text(encoding="utf-8"))
    return found[1] if found else ""


def dead_links(site: Path) -> list[str]:
    """Links of pages that lead to no file."""
    dead = []
    for page in site.glob("*.html"):
        links = re.findall(r'<a href="([^"#]+)', page.read_text(encoding="utf-8"))
        dead += [f"{page.name}: {link}" for link in links if not (site / link).is_file()]
    return dead


if __name__ == "__main__":
    main()
