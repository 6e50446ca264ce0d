"""What the full-text index, and the facts, add to a run: processor time of a question, beside the same run without.

The agent is search_r1 with four searches: five calls of a model inside the process (no server, so that nothing but our
own work is timed), four searches of ten passages out of 5,000, replies of 90 words. Each way is a process of its own;
they take turns, and the median is kept. Run once more with nothing new, a replay of the journal, it is the same attempt
without the calls' own work.

    python perf/trace_index_cost.py [--questions 1000] [--times 3]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from made_texts import MadeModel, MadeSearcher, MadeTexts

from ragrounds.records import Gold, Question, Run

WAYS = {
    "neither": "without both",
    "facts": "with facts, without the index",
    "both": "as it is",
}


def child(way: str, count: int) -> dict[str, float]:
    """Processor seconds of a run of `count` questions, and of the same once more, another agent, from the journal."""

    from ragrounds.agents.agent import open_agent
    from ragrounds.evals.engine import attempt
    from ragrounds.evals.engine.plan import PlannedRun
    from ragrounds.evals.engine.scheduler import replay
    from ragrounds.evals.scorers import scorers_for
    from ragrounds.evals.store import schema
    from ragrounds.evals.store.journal import StoreJournal
    from ragrounds.evals.store.store import Store

    if way != "both":
        attempt.texts_row = lambda made, *rest: (schema.meta, {"key": "perf", "value": ""})
    if way == "neither":
        attempt.facts_row = lambda made, *rest: (schema.meta, {"key": "perf", "value": ""})
    texts = MadeTexts(4)
    options = {"A": texts.words(3), "B": texts.words(3)}
    asked = [Question(id=f"made/{n:06}", benchmark="made", text=texts.words(60), options=options) for n in range(count)]
    golds = {one.id: Gold(question_id=one.id, answer="A", documents=("d1", "d2")) for one in asked}
    searcher, found = MadeSearcher(), {}
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder)) as store:

        def once(questions: list[Question], name: str) -> float:
            opened = open_agent("search_r1[top_k=10]")
            run = Run(id=name, agent=opened.spec, benchmark="made", questions=name, count=len(questions), epochs=1,
                      fingerprint=name, identity={}, created=0.0)  # fmt: skip
            store.add_run(run, questions, golds)
            planned = PlannedRun(run, opened, {"model": MadeModel()}, searcher)
            journal = StoreJournal(store, "reuse")
            start = time.process_time()
            asyncio.run(replay(store, journal, [planned], questions, golds, scorers_for))
            seconds = time.process_time() - start
            journal.close()
            assert len(store.done(run)) == len(questions)
            assert {(one.status, one.calls) for one in store.attempts(run)} == {("completed", 10)}
            return seconds

        once(asked[:20], "warm")
        found["run"] = once(asked[20:], "first")
        found["replay"] = once(asked[20:], "second")
        found["attempts"] = 2 * count - 20
        with store.engine.connect() as connection:
            pages = connection.exec_driver_sql("SELECT name, sum(pgsize) FROM dbstat GROUP BY name").all()
        found |= {f"bytes {name}": size for name, size in pages if size > 8192}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--child", choices=list(WAYS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(options.child, options.questions)))
        return
    seen: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for _ in range(options.times):
        for way in WAYS:
            command = [sys.executable, __file__, "--child", way, "--questions", str(options.questions)]
            made = subprocess.run(command, check=True, capture_output=True, text=True)
            seen[way].append(json.loads(made.stdout.splitlines()[-1]))
    for what in ("run", "replay"):
        medians = {way: statistics.median(one[what] for one in found) for way, found in seen.items()}
        for way, seconds in medians.items():
            each = seconds / (options.questions - 20) * 1000
            print(f"{what:8} {WAYS[way]:32} {each:6.2f} ms a question  {seconds / medians['neither']:.3f}")
    print({name: size for name, size in seen["both"][-1].items() if name not in ("run", "replay")})


if __name__ == "__main__":
    main()
