"""Scripts and running event loops: the example, Ctrl-C, cancelled tasks; nothing is asked twice."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from contextvars import ContextVar
from pathlib import Path

import pytest

import ragrounds as rr
from ragrounds.api.event_loop import finish
from ragrounds.evals.store.store import Store
from tests.at_work import until_asked
from tests.conftest import ROOT
from tests.forked import ForkedPython
from tests.servers.process import Running, openai_server

LIMIT = 12
IN_FLIGHT = 4
SCRIPT = """
import asyncio, sys
import ragrounds as rr

given = dict(agents="direct", model="openai:plain", base_url=sys.argv[2], limit=12, concurrency=4)

async def inside():
    return rr.run(**given) if sys.argv[1] == "sync inside" else await rr.arun(**given)

try:
    result = rr.run(**given) if sys.argv[1] == "sync" else asyncio.run(inside())
    print(result.made, result.reused)
except rr.Interrupted as error:
    print("interrupted:", error)
    sys.exit(7)
"""


def script(kind: str, server: Running, home: Path) -> subprocess.Popen[str]:
    home.mkdir(exist_ok=True)
    environment = {**os.environ, "RAGROUNDS_HOME": str(home / "runs")}
    command = [sys.executable, "-c", SCRIPT, kind, server.url]
    return ForkedPython(command, env=environment, cwd=home, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def attempts(home: Path) -> int:
    with Store(home) as store:
        return len(store.done(store.runs()[0]))


@pytest.mark.slow
def test_the_script_of_the_docs_runs(tmp_path: Path) -> None:
    environment = {**os.environ, "RAGROUNDS_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    path = ROOT / "docs" / "examples" / "first_steps.py"
    done = subprocess.run([sys.executable, path], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "calls made again: 0" in done.stdout
    assert done.stderr == ""  # no terminal, no display


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "number"),
    [
        pytest.param("sync", signal.SIGINT, marks=pytest.mark.weekly),
        ("async inside", signal.SIGINT),
        pytest.param("sync inside", signal.SIGINT, marks=pytest.mark.weekly),
        pytest.param("sync", signal.SIGTERM, marks=pytest.mark.weekly),
        pytest.param("sync inside", signal.SIGTERM, marks=pytest.mark.weekly),
    ],
)
def test_ctrl_c_in_a_script_finishes_what_is_in_flight_and_it_resumes(
    tmp_path: Path, kind: str, number: signal.Signals
) -> None:
    with openai_server("--latency", "1.0") as server:
        process = script(kind, server, tmp_path)
        until_asked(process, server, 2 * IN_FLIGHT)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 7, err
        assert out == "interrupted: Interrupted. Finished work is saved; the same call resumes.\n"
        assert err == "Finishing the calls in flight; Ctrl-C again stops at once.\n"
        assert attempts(tmp_path / "runs") == server.stats()["answered"] == 2 * IN_FLIGHT
        out, err = script(kind, server, tmp_path).communicate(timeout=60)
        assert (out, err) == (f"{LIMIT - 2 * IN_FLIGHT} 0\n", "")
        stats = server.stats()
    assert (stats["answered"], stats["answered_twice"]) == (LIMIT, [])


async def asked(server: Running, count: int) -> None:
    while (await asyncio.to_thread(server.stats))["asked"] < count:  # noqa: ASYNC110 - of another process
        await asyncio.sleep(0.02)


async def timed_out(task: asyncio.Task[rr.RunResult], server: Running) -> None:
    async with asyncio.timeout(60) as limit:
        await asked(server, 2 * IN_FLIGHT)
        limit.reschedule(asyncio.get_running_loop().time())
        await task


@pytest.mark.slow
@pytest.mark.parametrize("how", ["cancelled", "timed out"])
async def test_a_cancelled_task_keeps_what_ended(home: Path, how: str) -> None:
    with openai_server("--latency", "0.5") as server:
        given = {"agents": "direct", "model": "openai:plain", "base_url": server.url, "limit": LIMIT}

        async def run() -> rr.RunResult:
            return await rr.arun(**given, concurrency=IN_FLIGHT)

        task = asyncio.create_task(run())
        if how == "cancelled":
            await asked(server, 2 * IN_FLIGHT)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            with pytest.raises(TimeoutError):
                await timed_out(task, server)
        kept = attempts(home)
        assert kept == IN_FLIGHT
        again = await rr.arun(**given)
        assert (again.made, attempts(home)) == (LIMIT - kept, LIMIT)
        stats = server.stats()
    assert stats["answered_twice"] == []


async def test_runs_side_by_side_on_one_loop(home: Path) -> None:
    made = await asyncio.gather(
        *(rr.arun(agents=agent, limit=4, home=home / agent) for agent in ("direct", "direct_cot"))
    )
    assert [result.comparison.rows[0].statuses for result in made] == [{"completed": 4}] * 2


async def test_plain_functions_work_where_a_loop_runs(home: Path) -> None:
    heard: list[str] = []

    class Listener(rr.RunListener):
        def projected(self, projection: object) -> None:
            heard.append(threading.current_thread().name)

        def planned(self, run: object, models: object) -> None:
            heard.append(threading.current_thread().name)

    result = rr.run(agents="vanilla_rag[top_k=2]", limit=4, listener=Listener())
    assert heard == ["MainThread"]
    assert rr.compare(result).comparison.rows == result.comparison.rows


def test_every_call_has_the_context_of_its_caller() -> None:
    variable: ContextVar[str] = ContextVar("variable")

    async def value() -> str:
        return variable.get()

    for word in ("first", "second"):
        variable.set(word)
        assert finish(value()) == word


async def test_an_error_of_the_thread_is_the_callers() -> None:
    async def fails() -> None:
        raise rr.UserError("wrong: --max-cost")

    with pytest.raises(rr.UserError, match="wrong: `max_cost`"):
        finish(fails())


@pytest.mark.usefixtures("sigterm_is_not_handled")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_work_that_hears_no_request_is_cut_off(number: signal.Signals) -> None:
    begun = threading.Event()

    async def sleeps() -> None:
        begun.set()
        await asyncio.sleep(60)

    def press() -> None:
        begun.wait(10)
        os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    presser = threading.Thread(target=press)
    presser.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            finish(sleeps())
    finally:
        presser.join()
    assert signal.getsignal(number) is before


def test_loops_stay_open_so_that_what_a_graph_keeps_serves_the_next_call(server: Running) -> None:
    """A client's connections belong to the loop of their first use; a graph of one's own keeps its client."""
    from langchain_openai import ChatOpenAI

    chat = ChatOpenAI(model="plain", base_url=server.url, api_key="k", max_retries=0)
    other = ChatOpenAI(model="plain", base_url=f"{server.url}/", api_key="k", max_retries=0)

    async def asks(client: ChatOpenAI) -> str:
        return str((await client.ainvoke("hello")).content)

    async def inside() -> list[str]:
        return [finish(asks(other)) for _ in range(3)]

    said = [*(finish(asks(chat)) for _ in range(3)), *asyncio.run(inside()), *asyncio.run(inside())]
    assert len(said) == 9
    assert len(set(said)) == 1
