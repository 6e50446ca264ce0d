"""`kill -9` in the middle of a run: the same command resumes, and nothing whose answer had arrived is asked again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ragrounds.evals.store.store import Store
from tests.at_work import interrupted, until_asked
from tests.forked import ForkedPython, run_python
from tests.servers.process import openai_server

CONCURRENCY = 8


@pytest.mark.slow
def test_killed_again_and_again_equals_undisturbed(tmp_path: Path) -> None:
    with openai_server("--latency", "0.02", "--jitter", "0.03", "--faults", "0.05") as server:
        options = ["--agent", "direct", "--agent", "direct_cot", "--agent", "vanilla_rag[top_k=2]"]
        options += ["--limit", "40", "--model", "openai:plain", "--base-url", server.url, "--display", "none"]
        command = [sys.executable, "-m", "ragrounds", "run", *options, "--concurrency", str(CONCURRENCY)]
        environment = {**os.environ, "RAGROUNDS_HOME": str(tmp_path / "killed")}
        draw, kills = random.Random(0), 0
        while kills < 3:
            process = ForkedPython(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            goal = server.stats()["answered"] + draw.randint(10, 40)
            while server.stats()["answered"] < goal and process.poll() is None:
                time.sleep(0.02)
            if process.poll() is not None:
                break
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
        assert kills == 3
        done = run_python(command, env=environment)
        assert done.returncode == 0, done.stderr
        stats = server.stats()
    # An answer that the server has sent may still have been on its way when the process died.
    assert len(stats["answered_twice"]) <= kills * CONCURRENCY
    with openai_server() as server:
        clean = [sys.executable, "-m", "ragrounds", "run", *options[:-3], server.url, "--display", "none"]
        environment = {**os.environ, "RAGROUNDS_HOME": str(tmp_path / "clean")}
        assert run_python(clean, env=environment).returncode == 0
    assert results(tmp_path / "killed") == results(tmp_path / "clean")


def results(home: Path) -> dict[tuple[str, str], tuple[str, str, list[float | None]]]:
    with Store(home) as store:
        kept = {}
        for run in store.runs():
            values = {(s.question_id, s.scorer): s.value for s in store.scores(run)}
            for attempt in store.attempts(run):
                scores = [value for (id, _), value in sorted(values.items()) if id == attempt.question_id]
                kept[run.agent, attempt.question_id] = (attempt.status, attempt.text, scores)
        assert len(kept) == 3 * 40
        return kept


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.weekly)])
@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_finishes_what_is_in_flight_and_twice_stops_at_once(
    tmp_path: Path, times: int, how: signal.Signals
) -> None:
    with openai_server("--latency", "2.0") as server:
        command = [sys.executable, "-m", "ragrounds", "run", "--agent", "direct", "--model", "openai:plain"]
        command += ["--base-url", server.url, "--display", "none", "--concurrency", "4"]
        environment = {**os.environ, "RAGROUNDS_HOME": str(tmp_path / "home")}
        process = ForkedPython(command, env=environment, stderr=subprocess.PIPE, text=True)
        until_asked(process, server, 8)  # the first four are answered and written, the next four are in flight
        told = interrupted(process, times, how=how)
        assert told.count("Finishing the calls in flight; Ctrl-C again stops at once.") == 1
        assert "the same command resumes" in told
    with Store(tmp_path / "home") as store:
        done = len(store.done(store.runs()[0]))
    assert done == (8 if times == 1 else 4)
