"""`ragrounds runs show` and `resume`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ragrounds.evals.store.store import Store
from tests.conftest import Cli
from tests.forked import ForkedPython
from tests.servers.process import Running, openai_server

QUESTIONS = {f"q-{i}": {"question": f"Which {i}?", "options": {"A": "x", "B": "y"}, "answer": "A"} for i in range(12)}


@pytest.fixture
def benchmark(tmp_path: Path) -> Path:
    path = tmp_path / "mine" / "b.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"mmlu": QUESTIONS}), encoding="utf-8")
    return path


def told(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stderr.splitlines() if line.startswith("ragrounds: ")]


@pytest.mark.slow
def test_a_killed_run_goes_on_from_another_folder_without_its_command(
    benchmark: Path, home: Path, tmp_path: Path, command: Cli
) -> None:
    with openai_server("--latency", "0.3") as server:
        options = ["--benchmark", "mirage:b.json", "--agent", "direct", "--agent", "direct_cot", "--concurrency", "4"]
        options += ["--model", "openai:m[temperature=0]", "--base-url", server.url, "--limit", "10", "--seed", "3"]
        words = [sys.executable, "-m", "ragrounds", "run", *options, "--display", "none"]
        process = ForkedPython(words, cwd=benchmark.parent, env={**os.environ}, stderr=subprocess.DEVNULL)
        while server.stats()["answered"] < 6:
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        with Store(home) as store:
            run = store.run("direct_cot")
            assert 0 < sum(len(store.done(one)) for one in store.runs()) < 20
        done = command("runs", "resume", "direct_cot", "--display", "none", "--json")
        assert done.returncode == 0, done.stderr
        comparison = json.loads(done.stdout)
        assert [row["run"] for row in comparison["rows"]] == [run.id]
        assert comparison["rows"][0]["statuses"]["completed"] == 10
        assert len(server.stats()["answered_twice"]) <= 4
        with Store(home) as store:
            assert len(store.done(run)) == 10
            assert len(store.done(store.run("direct"))) < 10  # exactly that run, no other


def test_of_two_runs_of_one_identity_the_named_one_goes_on(home: Path, command: Cli) -> None:
    for more in ([], ["--new"]):
        assert command("run", "--limit", "3", "--agent", "direct", "--display", "none", *more).returncode == 0
    with Store(home) as store:
        first, second = store.runs()
        assert first.fingerprint == second.fingerprint
    done = command("runs", "resume", first.id, "--display", "none", "--json")
    assert json.loads(done.stdout)["rows"][0]["run"] == first.id


def test_what_cannot_be_restored_is_one_clear_line(
    benchmark: Path, home: Path, command: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(benchmark.parent)
    options = ["--benchmark", f"mirage:{benchmark}", "--model", "baseline:extractive", "--display", "none"]
    assert command("run", *options, "--agent", "direct").returncode == 0
    changed = {**QUESTIONS, "q-0": {**QUESTIONS["q-0"], "answer": "B"}}
    benchmark.write_text(json.dumps({"mmlu": changed}), encoding="utf-8")
    done = command("runs", "resume", "direct", "--display", "none")
    assert (done.returncode, len(told(done))) == (2, 1)
    assert "cannot be resumed: its questions changed" in told(done)[0]
    benchmark.unlink()
    done = command("runs", "resume", "direct", "--display", "none")
    assert (done.returncode, len(told(done))) == (2, 1)
    assert "b.json" in told(done)[0]
    assert "Traceback" not in done.stderr


def test_no_key_is_kept_with_a_run(home: Path, command: Cli, server: Running) -> None:
    key = "sk-secret-0123456789abcdef"
    options = ["--agent", "direct", "--limit", "2", "--model", f"openai:m[alias={key}]", "--display", "none"]
    with_login = server.url.replace("http://", "http://me:very-secret@")
    refused = command("run", *options, "--base-url", with_login, OPENAI_API_KEY=key)
    assert refused.returncode == 2
    assert "very-secret" not in refused.stderr
    assert command("run", *options, "--base-url", server.url, OPENAI_API_KEY=key).returncode == 0
    with Store(home) as store:
        [run] = store.runs()
    assert run.asked is not None
    assert key not in str(run.asked)
    assert server.url in run.asked.options


def test_show_says_what_a_run_is_and_what_it_came_to(home: Path, command: Cli) -> None:
    assert command("run", "--limit", "4", "--agent", "vanilla_rag[top_k=2]", "--display", "none").returncode == 0
    shown = command("runs", "show", "vanilla_rag").stdout
    flat = " ".join(shown.split())  # the command may take several lines
    for part in ("4 completed", "$0.00", "score (robust)", "--agent 'vanilla_rag[top_k=2]'"):
        assert part.replace("'", "") in flat.replace("'", "")
    assert len(shown.splitlines()) <= 20
    whole = command("runs", "show", "vanilla_rag", "--full").stdout
    assert all(part in whole and part not in shown for part in ("outcomes (facts)", "identity: prompts", "bm25["))
    found = json.loads(command("runs", "show", "vanilla_rag", "--json").stdout)
    assert found["run"]["asked"]["options"][:2] == ["--benchmark", "sample"]
    assert found["comparison"]["rows"][0]["statuses"]["completed"] == 4
    assert found["at_work"] == ""
