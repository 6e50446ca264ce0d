"""What recording and a host cost: processor time of a question, memory, and the time to start.

A graph of three nodes asks a model once, and functions ask it twice, with 24 kB each, at a server on loopback in a
process of its own: bare, recorded in our process and recorded in a host, in turn in one process of ours, with one
question in flight and with 64. Processor time is that of our process and the host together; a first run of few
questions, which loads everything, does not count. The store, the journal, the recorder, the watch of clients and the
rare garbage collection are those of a run; plan, scores and tables are left out. It takes six minutes.

    python perf/hosts.py [--write]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)  # and not this folder, whose coverage.py numba would take for the package
CLIENTS = {
    "graph": "three nodes with ChatOpenAI",
    "aiohttp": "aiohttp",
    "openai": "openai, async",
    "threads": "openai, a function without async",
}
FEW, QUESTIONS, TIMES = 50, 100, 5
WAYS, IN_FLIGHT = ("bare", "here", "host"), (1, 64)
SYSTEM = """
import os
PLACE, PAD = os.environ["PLACE"], "word " * 4800
kept = []

def body(text): return {"model": "m", "messages": [{"role": "user", "content": text}]}

async def aiohttp(prompt):
    import aiohttp
    kept.extend([] if kept else [aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))])
    for text in (prompt + PAD, "again " + prompt + PAD):
        async with kept[0].post(PLACE + "/chat/completions", json=body(text)) as answer:
            said = (await answer.json())["choices"][0]["message"]["content"]
    return said

async def openai(prompt):
    import openai
    kept.extend([] if kept else [openai.AsyncOpenAI(base_url=PLACE, api_key="none")])
    for text in (prompt + PAD, "again " + prompt + PAD):
        answer = await kept[0].chat.completions.create(**body(text))
    return answer.choices[0].message.content

def graph():
    from typing import TypedDict

    from langchain_openai import ChatOpenAI
    from langgraph.graph import START, StateGraph

    class State(TypedDict, total=False):
        prompt: str
        plan: str
        reply: str
        answer: str

    model = ChatOpenAI(model="m", base_url=PLACE, api_key="none")

    async def prepare(state): return {"plan": "answer"}
    async def ask(state): return {"reply": (await model.ainvoke(state["prompt"] + PAD)).content}
    async def settle(state): return {"answer": state["reply"]}

    nodes = StateGraph(State)
    before = START
    for node in (prepare, ask, settle):
        nodes.add_node(node.__name__, node)
        nodes.add_edge(before, node.__name__)
        before = node.__name__
    return nodes.compile()

def threads(prompt):
    import openai
    kept.extend([] if kept else [openai.OpenAI(base_url=PLACE, api_key="none")])
    for text in (prompt + PAD, "again " + prompt + PAD):
        answer = kept[0].chat.completions.create(**body(text))
    return answer.choices[0].message.content
"""
STARTS = {"nothing": "", "langgraph": "import langgraph.graph\n", "langchain_openai": "import langchain_openai\n"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write perf/hosts.md")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        name, folder, in_flight = options.child
        print(json.dumps(asked(name, folder, int(in_flight)) if name in CLIENTS else started(name, folder)))
        return
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "asks.py").write_text(SYSTEM)
        for name, imports in STARTS.items():
            (Path(folder) / f"{name}_imported.py").write_text(f"{imports}def ask(prompt): return ''\n")
        text = page(folder)
    print(text)
    if options.write:
        (ROOT / "perf" / "hosts.md").write_text(text, encoding="utf-8")


def measured(*child: str) -> dict[str, Any]:
    """What one new process of ours tells."""
    command = [sys.executable, __file__, "--child", *child]
    told = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "NO_PROXY": "*"})
    if told.returncode:
        raise SystemExit(told.stderr[-2000:])
    print(child[0], child[2], told.stdout.strip(), file=sys.stderr, flush=True)
    report: dict[str, Any] = json.loads(told.stdout)
    return report


def page(folder: str) -> str:
    """Measure, and write it down."""
    lines = [
        "# What recording and a host cost",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}. `python perf/hosts.py --write`: two calls of 24 kB a question; Python "
        f"{sys.version.split()[0]}, {os.cpu_count()} processors. Processor time (user + system, our process and the "
        f"host) by that of the bare system in the same run, medians of {TIMES} times {QUESTIONS} questions; in "
        "brackets seconds for 1,000 questions, and the least and most of the times.",
        "",
        "| client of the system | in flight | bare | in our process | in a host |",
        "|---|---:|---:|---:|---:|",
    ]
    for client, words in CLIENTS.items():
        for in_flight in IN_FLIGHT:
            times = list(measured(client, folder, str(in_flight)).values())
            bare = statistics.median(times[0])
            cells = []
            for values in times:
                middle = statistics.median(values)
                cells.append(f"{middle / bare:.2f} × ({middle:.2f}, {min(values):.2f} to {max(values):.2f})")
            lines.append(f"| {words} | {in_flight} | {' | '.join(cells)} |")
    lines += ["", "| a host that imports | ready after | processor time | memory |", "|---|---:|---:|---:|"]
    for name in STARTS:
        told = [measured(name, folder, "1") for _ in range(TIMES)]
        ready, used, size = (statistics.median(one[key] for one in told) for key in ("ready", "seconds", "memory"))
        lines.append(f"| {name} | {ready:.2f} s | {used:.2f} s | {size / 2**20:.0f} MB |")
    return "\n".join([*lines, ""])


def system_in_host(target: str, folder: str, **variables: str) -> Any:
    """A function of one of the files, in a host."""
    from ragrounds.agents.systems.hosts import HostConfig, HostedSystem, environment

    place = HostConfig(sys.executable, folder, folder, environment(variables))
    return HostedSystem(target, f"{folder}/{target}", place, wiring={"name": target}).open()


def host() -> Any:
    """The one host of this process."""
    from ragrounds.agents.systems import hosts

    return next(iter(hosts._HOSTS._by_config.values()))


def used(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def started(name: str, folder: str) -> dict[str, float]:
    """Start a host, and tell of it when a system in it is ready."""
    from ragrounds.agents.systems import hosts  # noqa: F401 - what we load for it does not count

    began = time.perf_counter()
    system_in_host(f"{name}_imported.py:ask", folder)
    ready, pid = time.perf_counter() - began, host().pid
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return {"ready": ready, "seconds": used(pid), "memory": float(pages * os.sysconf("SC_PAGE_SIZE"))}


def asked(client: str, folder: str, in_flight: int) -> dict[str, list[float]]:
    """Ask the questions in every way in turn, and return the seconds for 1,000 of each time."""
    from ragrounds.agents.systems.in_process import adapted
    from ragrounds.base.records import Question
    from ragrounds.evals.engine.context import AttemptContext
    from ragrounds.evals.engine.foreign_system import run_system
    from ragrounds.evals.engine.scheduler import rare_garbage_collection
    from ragrounds.evals.engine.thread_bridge import grow_threads
    from ragrounds.evals.store.journal import StoreJournal
    from ragrounds.evals.store.store import Store
    from ragrounds.prompts.loader import PromptFolder
    from ragrounds.recorder.answers import Wiring
    from ragrounds.recorder.watch import installed

    server = subprocess.Popen([sys.executable, "-c", SERVER], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    os.environ["PLACE"] = place = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
    sys.path.append(folder)
    import asks  # type: ignore[import-not-found]

    function = getattr(asks, client)
    bare = function() if client == "graph" else function
    systems = {
        "here": adapted(bare, Wiring(name=client)),
        "host": system_in_host(f"asks.py:{client}", folder, PLACE=place),
    }

    async def answered_bare(text: str) -> str:
        """The answer of the function alone."""
        if client == "graph":
            return str((await bare.ainvoke({"prompt": text}))["answer"])
        return str(await (asyncio.to_thread(function, text) if client == "threads" else function(text)))

    async def answered(way: str, journal: StoreJournal, first: int, count: int) -> float:
        """Processor time of so many questions."""
        free, before = asyncio.Semaphore(in_flight), spent()

        async def one(number: int) -> None:
            async with free:
                if way == "bare":
                    assert "B" in await answered_bare(f"What is {number}?")
                    return
                context = AttemptContext(
                    item=Question(id=f"q{number}", benchmark="a/b", text=f"What is {number}?"),
                    epoch=0, parameters={}, models={}, searcher=None, prompts=PromptFolder(None, ""), journal=journal,
                )  # fmt: skip
                assert "B" in (await run_system(systems[way], context, journal)).text

        with contextlib.ExitStack() as as_in_a_run:
            if way != "bare":
                as_in_a_run.enter_context(rare_garbage_collection())
                as_in_a_run.enter_context(installed())
            await asyncio.gather(*map(one, range(first, first + count)))
        return spent() - before

    def spent() -> float:
        return sum(os.times()[:2]) + used(host().pid)

    async def in_turn() -> dict[str, list[float]]:
        seconds: dict[str, list[float]] = {way: [] for way in WAYS}
        grow_threads(256)
        with tempfile.TemporaryDirectory() as home, Store(Path(home)) as store:
            journal, first = StoreJournal(store), FEW * len(WAYS)
            for number, way in enumerate(WAYS):
                await answered(way, journal, FEW * number, FEW)
            for _ in range(TIMES):
                for way in WAYS:
                    seconds[way].append(await answered(way, journal, first, QUESTIONS) * 1000 / QUESTIONS)
                    first += QUESTIONS
            journal.close()
        return seconds

    try:
        return asyncio.run(in_turn())
    finally:
        server.kill()


SERVER = """
from aiohttp import web
from tests.servers.account import serve

message = {"role": "assistant", "content": "The answer is B. " * 70}
usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
said = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": choices, "usage": usage}

async def answer(request):
    await request.read()
    return web.json_response(said)

serve({"POST /v1/chat/completions": answer})
"""


if __name__ == "__main__":
    main()
