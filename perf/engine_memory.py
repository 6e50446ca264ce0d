"""Peak memory and stored bytes of one long attempt: its state grows at every step, or its one node asks and asks.

python perf/engine_memory.py steps 900 && python perf/engine_memory.py calls 10000
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
GRAPHS = {
    "steps": """
async def step(state: State, runtime: Runtime[Context]) -> State:
    count = state.get("count", 0)
    pad = state.get("pad", "") + (f"line {count} " * 300)[:2000] + "\\n"
    return {"pad": pad, "count": count + 1, "answer": "A"}
""",
    "calls": """
async def step(state: State, runtime: Runtime[Context]) -> State:
    for number in range(COUNT):
        await runtime.context.ask([Message("user", f"Number {number}?" + " padding" * 250)])
    return {"count": COUNT, "answer": "A"}
""",
}
HEAD = """
from typing import TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from ragrounds.base.contracts import Context
from ragrounds.base.records import Message

COUNT = {count}


class State(TypedDict, total=False):
    answer: str
    pad: str
    count: int


def build():
    graph = StateGraph(State, context_schema=Context)
    graph.add_node("step", step)
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", lambda state: "step" if state["count"] < COUNT else END, ["step", END])
    return graph

"""


class Forgetful(list[Any]):
    """Keeps nothing, so that what is measured is the attempt's."""

    def append(self, item: Any) -> None:
        """Leave it."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=GRAPHS)
    parser.add_argument("count", type=int)
    options = parser.parse_args()
    from ragrounds.evals.store.store import Store
    from tests.engine.conftest import planned, replayed
    from tests.engine.doubles import ScriptedModel, always, questions

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "graph.py"
        path.write_text(HEAD.replace("{count}", str(options.count)) + GRAPHS[options.what])
        asked, golds = questions(1)
        model = ScriptedModel(say=always("B " * 300), asked=Forgetful())
        with Store(folder / "store") as store:
            agent = f"{path}:build[limits.calls=1000000,limits.tokens=1000000000]"
            one = planned(store, agent, asked, golds, model)
            before, started = peak(), time.monotonic()
            asyncio.run(replayed(store, [one], asked, golds))
            [attempt] = store.summaries(one.run)
            seconds = time.monotonic() - started
        size = sum(file.stat().st_size for file in (folder / "store").rglob("*") if file.is_file())
    print(f"{options.count:,} {options.what}: {attempt.status} {attempt.reason}")
    print(f"{peak() - before} MB above the {before} MB before it, {size / 1e6:.1f} MB stored, {seconds:.1f} s")


def peak() -> int:
    """Most resident memory so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    main()
