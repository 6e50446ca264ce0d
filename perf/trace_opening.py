"""Opening the trace viewer: 100,000 attempts against 1,000, and one attempt of 200 steps with 5 MB of text.

    python perf/trace_opening.py [--small 1000] [--large 100000] [--repeat 5]

Everything is measured in processor time of this process, in one run, both sizes in turn. "Opening" is from nothing
but the folder to a drawn screen of 160 × 45: the store, the rows, the application, layout, the first attempt.
Prints JSON; exits with 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import sqlalchemy as sa

from ragrounds.base.contracts import Entry, Request
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
from ragrounds.evals.store.journal import call_rows
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.summaries import Pages
from ragrounds.ui.trace.app import TraceApp
from ragrounds.ui.trace.layout import TextLayout
from ragrounds.ui.trace.loaded import LoadedAttempt
from ragrounds.ui.trace.tree_view import TreeState

BAR = 3.0
"""Opening the large store takes at most so many times as long as the small one."""
STEPS, TEXT = 200, 5_000_000


def make_run(store: Store, count: int) -> Run:
    """A run of `count` attempts of two steps each."""
    asked = [
        Question(id=f"made/{n:06}", benchmark="made", text=f"Question {n}: " + "which finding fits best? " * 8,
                 options={"A": "one", "B": "two"}, group=f"subject {n % 12}")
        for n in range(count)
    ]  # fmt: skip
    run = Run(id=f"run-{count}", agent="made", benchmark="made", questions=f"set-{count}", count=count, epochs=1,
              fingerprint=f"{count}", identity={}, created=0.0)  # fmt: skip
    store.add_run(run, asked, {one.id: Gold(question_id=one.id, answer="A") for one in asked})
    for start in range(0, count, 5000):
        part = asked[start : start + 5000]
        attempts = [_attempt(run, one.id, number) for number, one in enumerate(part, start)]
        scores = [
            Score(question_id=one.id, epoch=0, scorer=scorer, value=float(number % 3 > 0), answer_status="answered",
                  prediction="A")
            for number, one in enumerate(part) for scorer in ("mirage", "strict", "robust")
        ]  # fmt: skip
        store.add_attempts(run, attempts, scores)
    return run


def _attempt(run: Run, id: str, number: int) -> Attempt:
    events: list[Event] = []
    for index, node in enumerate(("retrieve", "answer")):
        call = Call(key="", kind="model", role="answering", node=node, actor="m", at=0.0, seconds=0.1,
                    usage=Usage(900, 100), cost_uncached=0.001)  # fmt: skip
        events += [Entered(step=index, node=node, at=0.0), Called(step=index, call=call),
                   Left(step=index, seconds=0.1, changes={"answer": f"answer {number} " * 20})]  # fmt: skip
    return Attempt(run=run.id, question_id=id, epoch=0, status="completed", text=f"answer {number} " * 20,
                   usage=Usage(1800, 200), cost_paid=0.002, cost_uncached=0.002, seconds=0.2, at=float(number),
                   model_calls=2, events=tuple(events))  # fmt: skip


def make_long(store: Store) -> Run:
    """A run of one attempt: 200 steps, each with a call whose prompt and reply are a two-hundredth of 5 MB."""
    question = Question(id="made/long", benchmark="made", text="A long one?", options={"A": "one"})
    run = Run(id="run-long", agent="long", benchmark="made", questions="set-long", count=1, epochs=1,
              fingerprint="long", identity={}, created=0.0)  # fmt: skip
    store.add_run(run, [question], {question.id: Gold(question_id=question.id, answer="A")})
    events: list[Event] = []
    rows = []
    half = TEXT // STEPS // 2
    for index in range(STEPS):
        key = f"{index:064x}"
        request = Request(messages=(Message("user", (f"prompt {index} word " * half)[:half]),))
        reply = Reply(text=(f"reply {index} *word* " * half)[:half])
        rows += call_rows(Entry(key=key, kind="model", actor="m", request=request), reply, 0.0, 0.1, b"")
        call = Call(key=key, kind="model", role="answering", node=f"node {index % 7} of {index}", actor="m", at=0.0,
                    seconds=0.1, usage=Usage(10, 10), cost_uncached=0.001)  # fmt: skip
        events += [Entered(step=index, node=call.node, at=0.0), Called(step=index, call=call),
                   Left(step=index, seconds=0.1)]  # fmt: skip
    with store.engine.begin() as connection:
        for table, values in rows:
            connection.execute(sa.insert(table), values)
    attempt = Attempt(run=run.id, question_id=question.id, epoch=0, status="completed", text="A", events=tuple(events))
    store.add_attempts(run, [attempt])
    return run


def cost_paid(work: Callable[[], object]) -> float:
    """Processor seconds of `work`."""
    start = time.process_time()
    work()
    return time.process_time() - start


def opening(folder: Path, reference: str, keys: tuple[str, ...] = ()) -> None:
    """Open the viewer, press keys, leave."""

    async def go() -> None:
        with Store(folder) as store:
            app = TraceApp(Pages(store, [store.run(reference)]))
            async with app.run_test(size=(160, 45)) as pilot:
                await pilot.pause()
                for key in keys:
                    await pilot.press(key)

    asyncio.run(go())


def measure(folder: Path, small: str, large: str, repeat: int) -> dict[str, object]:
    """All figures."""
    opening(folder, small)  # imports and style sheets are not what is compared
    scroll = ("end", *["pageup"] * 10)
    figures: dict[str, dict[str, list[float]]] = {}
    for _ in range(repeat):
        for name in (small, large):
            both = figures.setdefault(name, {"open": [], "open_and_scroll": []})
            both["open"].append(cost_paid(lambda name=name: opening(folder, name)))
            both["open_and_scroll"].append(cost_paid(lambda name=name: opening(folder, name, scroll)))
    medians = {
        name: {what: statistics.median(seconds) for what, seconds in both.items()} for name, both in figures.items()
    }
    with Store(folder) as store:
        pages = Pages(store, [store.run(large)])
        slow = {
            "sort_by_cost": cost_paid(lambda: pages.order("", "cost")),
            "filter_wrong": cost_paid(lambda: pages.order("wrong")),
            "filter_text": cost_paid(lambda: pages.order('about:"question 9"')),
        }
        long = Pages(store, [store.run("run-long")])
        kept: list[TreeState] = []
        one = {
            "open": cost_paid(lambda: kept.append(TreeState(LoadedAttempt(long, long.read([0])[0])))),
            "show_a_call": cost_paid(lambda: _show(kept[0], "step 7")),
            "fold_all_and_unfold": cost_paid(
                lambda: (kept[0].fold_all(True), kept[0].fold_all(False), kept[0].lines())
            ),
            "search_5_mb": cost_paid(lambda: kept[0].search("prompt 199")),
            "lay_out_5_mb": cost_paid(lambda: _all_at_once(kept[0])),
        }
    return {
        "open_s": medians,
        "open_ratio": medians[large]["open"] / medians[small]["open"],
        "open_and_scroll_ratio": medians[large]["open_and_scroll"] / medians[small]["open_and_scroll"],
        "whole_list_s": slow,
        "long_attempt_s": one,
    }


def _show(state: TreeState, key: str) -> None:
    state.cursor = key
    TextLayout(state.blocks(), 80)


def _all_at_once(state: TreeState) -> None:
    from ragrounds.ui.trace.layout import TextBlock

    TextLayout([TextBlock("lorem ipsum dolor sit amet " * (TEXT // 27))], 80)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", type=int, default=1000)
    parser.add_argument("--large", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Store(folder) as store:
            small, large = make_run(store, given.small), make_run(store, given.large)
            make_long(store)
        size = (folder / "store.sqlite").stat().st_size
        found = {"store_mb": round(size / 1e6), **measure(folder, small.id, large.id, given.repeat)}
    print(json.dumps(found, indent=2, default=lambda value: round(value, 4)))
    ratio = found["open_ratio"]
    return 0 if isinstance(ratio, float) and ratio <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
