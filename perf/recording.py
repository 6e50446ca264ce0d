"""What recording a foreign system costs: processor time of a call, beside the same graph run bare.

The graph is docs/foreign/react_agent.py (two calls of a model and a search for a question), the server one on loopback
in a process of its own. Five ways, each in a process of its own, in turn, as often as is asked: bare; by `rr.run` with
both boundaries taken out, so that nothing but the run itself is left; with LangChain's callbacks alone; with the wire
alone; with both, as it is.

What a run costs once (its plan, the digests of code and packages, its tables) is taken away: a run of few questions is
subtracted from one of many, after a first one that loads everything.

    python perf/recording.py --questions 100 --times 3 [--write]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "scripts"), str(ROOT / "docs" / "foreign")]
WAYS = {
    "bare": "the graph alone, `ainvoke`",
    "neither": "`rr.run`, both boundaries taken out",
    "callbacks": "and LangChain's callbacks",
    "wire": "and the wire, without callbacks",
    "both": "`rr.run` as it is: both",
}
FEW, IN_FLIGHT = 20, 8
"""Questions of the run that is taken away from the whole, with all that a run costs once; attempts in flight."""
CALLS = 2
"""Of the model, for a question."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="write perf/recording.md")
    parser.add_argument("--child", choices=list(WAYS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(options.child, options.questions)))
        return
    from compatibility_rows import AgentServer

    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    with AgentServer(Path(sys.executable)) as server:
        for _ in range(options.times):
            for way in WAYS:
                seconds[way].append(measured(way, options.questions, server.port))
                print(f"{way}: {seconds[way][-1]:.2f} ms a call", file=sys.stderr, flush=True)
    text = page(options, seconds)
    print(text)
    if options.write:
        (ROOT / "perf" / "recording.md").write_text(text, encoding="utf-8")


def measured(way: str, questions: int, port: int) -> float:
    """Milliseconds of processor time for a call, in a new process."""
    address = f"http://127.0.0.1:{port}/v1"
    own = {"OPENAI_BASE_URL": address, "OPENAI_API_KEY": "loopback-needs-none", "LANGSMITH_TRACING": "false"}
    command = [sys.executable, __file__, "--child", way, "--questions", str(questions)]
    told = subprocess.run(
        command, env={**os.environ, **own, "NO_PROXY": "127.0.0.1"}, capture_output=True, text=True, check=False
    )
    if told.returncode:
        raise SystemExit(f"{way}: {told.stderr[-2000:]}")
    report = json.loads(told.stdout)
    return float(1000 * report["seconds"] / (CALLS * (questions - FEW)))


def child(way: str, questions: int) -> dict[str, float]:
    """Warm up, then measure this process."""
    if way == "bare":
        return bare(questions)
    import ragrounds as rr
    from ragrounds.evals.engine import foreign_system
    from ragrounds.recorder import watch

    if way in ("neither", "callbacks"):
        watch._install = lambda: iter(())  # type: ignore[assignment]
    if way in ("neither", "wire"):
        foreign_system.CallbackRecorder = Silent  # type: ignore[misc, assignment]
    agent = str(ROOT / "docs" / "foreign" / "react_agent.py:graph")

    def measured_run(count: int, home: Path) -> float:
        began = time.process_time()
        result = rr.run("sample", agent, limit=count, progress=False, home=home, concurrency=IN_FLIGHT)
        seconds = time.process_time() - began
        statuses = result.to_pandas("attempts")["status"].value_counts().to_dict()
        assert statuses == {"completed": count}, statuses
        return seconds

    with tempfile.TemporaryDirectory() as folder:
        measured_run(FEW, Path(folder) / "warm")
        few = measured_run(FEW, Path(folder) / "few")
        return {"seconds": measured_run(questions, Path(folder) / "many") - few, "few": few}


def bare(questions: int) -> dict[str, float]:
    """The graph by itself, so many at a time."""
    from react_agent import graph

    lines = (ROOT / "ragrounds" / "sample" / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    asked = [json.loads(line) for line in lines]
    prompts = [
        "\n".join([one["question"], "", *(f"{k}. {v}" for k, v in (one.get("options") or {}).items())]) for one in asked
    ]

    async def answer_all(prompts: list[str]) -> int:
        free = asyncio.Semaphore(IN_FLIGHT)

        async def answer(prompt: str) -> int:
            async with free:
                state = await graph.ainvoke({"messages": [{"role": "user", "content": prompt}]})
            return sum(message.type == "ai" for message in state["messages"])

        return sum(await asyncio.gather(*(answer(prompt) for prompt in prompts)))

    async def measured_all(count: int) -> float:
        began = time.process_time()
        calls = await answer_all(prompts[:count])
        assert calls == count * CALLS, calls
        return time.process_time() - began

    async def in_turn() -> dict[str, float]:
        await measured_all(FEW)
        few = await measured_all(FEW)
        return {"seconds": await measured_all(questions) - few, "few": few}

    return asyncio.run(in_turn())


def _silent() -> type:
    from langchain_core.callbacks import AsyncCallbackHandler

    class Nothing(AsyncCallbackHandler):
        """Hears nothing."""

        def __init__(self, *_: object) -> None:
            super().__init__()

    return Nothing


def Silent(*_: object) -> object:  # noqa: N802 - stands where a class does
    """A callback handler that does nothing, in place of the one that records."""
    return _silent()()


def page(options: argparse.Namespace, seconds: dict[str, list[float]]) -> str:
    """The page."""
    names = ("langgraph", "langchain-openai", "openai")
    middle = {way: statistics.median(values) for way, values in seconds.items()}
    lines = [
        "# What recording a foreign system costs",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}. `python perf/recording.py --questions {options.questions} "
        f"--times {options.times} --write`: {CALLS} calls of a model and a search a question, {IN_FLIGHT} at a time, "
        f"a run of {FEW} questions taken away from one of {options.questions}; "
        f"{', '.join(f'{name} {version(name)}' for name in names)}. Processor time (user + system) of the "
        "process that runs the graph, in milliseconds a call: the median, and the least and most of the times.",
        "",
        "| what runs | ms a call | least to most | beside bare |",
        "|---|---:|---:|---:|",
    ]
    for way, words in WAYS.items():
        values = seconds[way]
        more = "" if way == "bare" else f"+{middle[way] - middle['bare']:.1f} ms"
        lines.append(f"| {words} | {middle[way]:.1f} | {min(values):.1f} to {max(values):.1f} | {more} |")
    both, run = middle["both"], middle["neither"]
    varies = max(max(values) - min(values) for way, values in seconds.items() if way != "bare")
    lines += [
        "",
        f"Recording at both boundaries takes {both - run:.1f} ms of processor time a call more than the same run "
        f"without them; the run itself (attempts, scores, store) {run - middle['bare']:.1f} ms. One way varies "
        f"by up to {varies:.1f} ms from time to time: smaller differences are not shown by these figures.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
