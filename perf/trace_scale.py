"""The trace viewer over 100,000 attempts of 8 steps beside 10,000: opening, finding, filtering, sorting, the grid.

Both stores are made directly through rows: five agents on the same questions, four calls of a model and four searches
of ten passages an attempt, out of 5,000 recorded calls of each kind, facts, three scorers' scores.
Each store is measured in a process of its own; figures are processor seconds, medians; memory is the peak of the
process that did all of it. "Open" is from nothing but the folder to a drawn screen of 160 × 45.

    python perf/trace_scale.py [--small 10000] [--large 100000] [--repeat 3] [--keep FOLDER] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from made_texts import MadeTexts

from ragrounds.base.contracts import Entry, Request, SearchRequest, SearchResult
from ragrounds.base.records import (
    Attempt,
    Call,
    Called,
    Entered,
    Event,
    Gold,
    Left,
    Message,
    Question,
    Reply,
    Run,
    Score,
    Usage,
)
from ragrounds.evals.store.codec import attempt_rows, score_rows
from ragrounds.evals.store.database import insert_new
from ragrounds.evals.store.journal import call_rows
from ragrounds.evals.store.schema import Row
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.writer import group
from ragrounds.evals.trace.attempt_facts import facts_row
from ragrounds.evals.trace.text_index import FILE
from ragrounds.evals.trace.traces import TracedCall

AGENTS, POOL, PASSAGES, STEPS = 5, 5000, 20_000, 8
"""Runs of a store; recorded calls of each kind; passages; steps of an attempt."""
_BATCH = 1000
RARE, COMMON, MISS = "zebrafish", "made", "nowhere"
"""A word in one recorded reply, in every passage's answer, in none."""
BAR = 60.0
"""Processor seconds in which a search over the large store is answered."""


def make_calls(store: Store, texts: MadeTexts) -> tuple[list[TracedCall], list[TracedCall]]:
    """The recorded calls: of models, and searches."""
    passages = [texts.passage(number) for number in range(PASSAGES)]
    models, searches = [], []
    rows: list[Row] = []

    def kept(
        number: int, kind: Literal["model", "search"], asked: Request | SearchRequest, gave: Reply | SearchResult
    ) -> str:
        key = f"{kind}{number}".encode().hex().zfill(64)
        rows.extend(call_rows(Entry(key=key, kind=kind, actor="made:model", request=asked), gave, 0.0, 0.1, b""))
        return key

    for number in range(POOL):
        asked = Request(messages=(Message("user", texts.words(150)),))
        gave = Reply(text=f"{texts.words(90)} {RARE if number == 77 else ''} {COMMON}", usage=Usage(900, 120))
        key = kept(number, "model", asked, gave)
        call = Call(key=key, kind="model", role="answering", node="reason", actor="made:model", at=0.0, seconds=0.1,
                    usage=gave.usage, cost_uncached=0.001)  # fmt: skip
        models.append(TracedCall(call, asked=asked, reply=gave))
        first = [int(texts.random.random() ** 2 * PASSAGES) for _ in range(10)]
        looked = SearchRequest(corpus="made@1", query=texts.words(7), k=10)
        found = SearchResult(tuple(passages[place] for place in dict.fromkeys(first)))
        key = kept(number, "search", looked, found)
        call = Call(key=key, kind="search", role="searching", node="search", actor="made", at=0.0, seconds=0.01,
                    passages=tuple(one.id for one in found.passages))  # fmt: skip
        searches.append(TracedCall(call, searched=looked, passages=found.passages))
    with store.engine.begin() as connection:
        for table, keyed in group(rows, {}).values():
            connection.execute(insert_new(store.engine, table), list(keyed.values()))
    return models, searches


def make_store(folder: Path, count: int) -> None:
    """A store with `count` attempts in it."""
    texts = MadeTexts(7)
    with Store(folder) as store:
        models, searches = make_calls(store, texts)
        asked = [
            Question(id=f"made/{n:06}", benchmark="made", text=texts.words(60), group=f"subject {n % 12}",
                     options={"A": texts.words(3), "B": texts.words(3)})
            for n in range(count // AGENTS)
        ]  # fmt: skip
        golds = {
            one.id: Gold(question_id=one.id, answer="A", documents=(f"d{texts.random.randrange(PASSAGES // 40)}",))
            for one in asked
        }
        for agent in range(AGENTS):
            run = Run(id=f"agent-{agent}", agent=f"agent_{agent}", benchmark="made", questions="made", count=len(asked),
                      epochs=1, fingerprint=f"{agent}", identity={}, created=float(agent))  # fmt: skip
            store.add_run(run, asked, golds)
            number = store.number(run)
            for start in range(0, len(asked), _BATCH):
                rows: list[Row] = []
                for question in asked[start : start + _BATCH]:
                    attempt, traced = make_attempt(run, question, texts, models, searches)
                    rows += attempt_rows(attempt, number)
                    rows += score_rows(make_scores(attempt, texts), number)
                    rows.append(facts_row(attempt, traced, golds[question.id], number))
                with store.engine.begin() as connection:
                    for table, keyed in group(rows, {}).values():
                        connection.execute(insert_new(store.engine, table), list(keyed.values()))


def make_attempt(
    run: Run, question: Question, texts: MadeTexts, models: Sequence[TracedCall], searches: Sequence[TracedCall]
) -> tuple[Attempt, tuple[TracedCall, ...]]:
    """An attempt of eight steps, a call each; one in 200 failed."""
    events: list[Event] = []
    traced = []
    for step in range(STEPS):
        one = texts.random.choice(searches if step % 2 else models)
        traced.append(one)
        events += [Entered(step=step, node=one.call.node, at=float(step)), Called(step=step, call=one.call),
                   Left(step=step, seconds=0.1, changes={"turns": step})]  # fmt: skip
    failed = texts.random.random() < 0.005
    attempt = Attempt(
        run=run.id,
        question_id=question.id,
        epoch=0,
        status="failed" if failed else "completed",
        text="" if failed else texts.words(40),
        reason="timeout: no reply within 60 seconds" if failed else "",
        usage=Usage(texts.random.randrange(2000, 9000), texts.random.randrange(100, 900)),
        cost_paid=0.004,
        cost_uncached=texts.random.random() / 100,
        seconds=texts.random.random() * 9,
        at=texts.random.random() * 1e6,
        model_calls=STEPS - STEPS // 2,
        searches=STEPS // 2,
        events=tuple(events),
    )
    return attempt, tuple(traced)


def make_scores(attempt: Attempt, texts: MadeTexts) -> list[Score]:
    """By three scorers, right in two thirds."""
    value = None if attempt.status == "failed" else float(texts.random.random() < 2 / 3)
    return [
        Score(question_id=attempt.question_id, epoch=0, scorer=name, value=value, answer_status="answered",
              prediction="A" if value else "B", code="made")
        for name in ("mirage", "strict", "robust")
    ]  # fmt: skip


def timed(work: Callable[[], object], repeat: int) -> tuple[float, object]:
    """Processor seconds of `work`, the median, and what it gave."""
    seconds, gave = [], None
    for _ in range(repeat):
        start = time.process_time()
        gave = work()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds), gave


def opening(folder: Path, keys: Sequence[str] = ()) -> None:
    """Open the viewer on all runs, press keys, leave."""
    from ragrounds.evals.trace.summaries import Pages
    from ragrounds.ui.trace.app import TraceApp

    async def go() -> None:
        with Store(folder) as store:
            app = TraceApp(Pages(store, store.runs()))
            async with app.run_test(size=(160, 45)) as pilot:
                await pilot.pause()
                for key in keys:
                    await pilot.press(key)
                    await app.workers.wait_for_complete()
                    await pilot.pause()

    asyncio.run(go())


def measure(folder: Path, repeat: int) -> dict[str, object]:
    """All figures of a store."""
    from ragrounds.evals.compare.grid import AgentGrid
    from ragrounds.evals.trace.summaries import Pages

    opening(folder)  # imports and style sheets are not what is compared
    found: dict[str, object] = {}
    hits: dict[str, int] = {}
    found["open"] = timed(lambda: opening(folder), repeat)[0]
    found["open, and the grid"] = timed(lambda: opening(folder, ["3"]), repeat)[0]
    with Store(folder) as store:
        runs = store.runs()
        pages = Pages(store, runs)

        def searched(where: str, on: Pages | None = None) -> object:
            """By default as nobody has searched before."""
            if on is None:
                (folder / FILE).unlink(missing_ok=True)
            on = on or Pages(store, runs)
            on.complete(where)
            return on.order(where)

        pages.complete(RARE)

        def grid() -> None:
            one = AgentGrid(pages)
            one.load()

        looks: dict[str, Callable[[], object]] = {
            "next wrong": lambda: pages.seek("wrong", 0, 1),
            "next of a condition that none fulfils": lambda: pages.seek("searches>99", 0, 1),
            "search: a rare word": lambda: searched(RARE),
            "search: a rare word, wrong attempts alone": lambda: searched(f"{RARE} wrong"),
            "search: a word of every attempt": lambda: searched(COMMON),
            "search: no hit": lambda: searched(MISS),
            "search: the same again": lambda: searched(RARE, pages),
            "filter: wrong and hops>3 and gold not seen": lambda: pages.order("wrong and hops>3 and gold not seen"),
            "filter: failed": lambda: pages.order("failed"),
            "sort by cost": lambda: pages.order("", "cost"),
            "grid: read": grid,
        }
        for name, look in looks.items():
            found[name], gave = timed(look, repeat)
            if hasattr(gave, "__len__"):
                hits[name] = len(gave)  # type: ignore[arg-type]
        with store.engine.connect() as connection:
            sizes = dict(connection.exec_driver_sql("SELECT name, sum(pgsize) FROM dbstat GROUP BY name").all())
        attempts = len(pages)
    found["hits"] = hits
    found["memory, MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found["store, bytes an attempt"] = sum(sizes.values()) / attempts
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", type=int, default=10_000)
    parser.add_argument("--large", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="keep the stores in this folder, and use those that are there")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.child:
        print(json.dumps(measure(given.child, given.repeat)))
        return 0
    figures: dict[int, dict[str, object]] = {}
    with tempfile.TemporaryDirectory() as name:
        for count in (given.small, given.large):
            folder = (given.keep or Path(name)) / str(count)
            if not (folder / "store.sqlite").exists():
                start = time.process_time()
                make_store(folder, count)
                print(f"made {count:,} attempts: {time.process_time() - start:.0f} s", file=sys.stderr)
            command = [sys.executable, __file__, "--child", str(folder), "--repeat", str(given.repeat)]
            made = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            figures[count] = json.loads(made.stdout.splitlines()[-1])
    small, large = figures[given.small], figures[given.large]
    if given.json:
        print(json.dumps(figures, indent=2))
    else:
        print(f"| | {given.small:,} | {given.large:,} | ratio |\n|---|---|---|---|")
        for name, value in large.items():
            before = small[name]
            if isinstance(value, float) and isinstance(before, float):
                shown = "{:,.0f}" if value >= 20 else "{:.3f}"
                print(f"| {name} | {shown.format(before)} | {shown.format(value)} | {value / max(before, 1e-9):.1f} |")
        print(f"\nhits: {large['hits']}")
    missed = [name for name, value in large.items() if "search" in name and isinstance(value, float) and value > BAR]
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
