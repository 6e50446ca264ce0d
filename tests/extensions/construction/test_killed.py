"""`kill -9` in the middle of mining and labelling: the same command resumes, no answer that had arrived is asked for
again, and the benchmark is the one of an undisturbed run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.forked import ForkedPython
from tests.servers.process import ROOT, Running, running

CONCURRENCY, KILLS = 4, 2
DEPTHS = ["--corpus", "sample", "--top-k", "6", "--candidates", "6", "--limit", "24", "--concurrency", str(CONCURRENCY)]
COMMITTEE = ["--retriever", "bm25", "--retriever", "bm25[analyser=plain]"]
PIPELINES: dict[str, tuple[list[str], int]] = {
    "relevance-mining": (
        ["--model", "openai:grader", "--panel", "openai:small-1", "--panel", "openai:small-2", "--positive", "6"],
        1,
    ),
    "consensus-labels": (
        [part for n in (1, 2, 3) for part in ("--labeller", f"openai:labeller-{n}")] + ["--batch-size", "2"],
        3,
    ),
}
"""Options, and how many calls one item has in flight."""


def started(pipeline: str, server: Running, folder: Path) -> subprocess.Popen[str]:
    options, _ = PIPELINES[pipeline]
    command = [sys.executable, "-m", "ragrounds", "build", pipeline, "sample", *DEPTHS, *COMMITTEE, *options]
    command += ["--base-url", server.url, "--display", "none", "--out", str(folder / "built")]
    environment = {**os.environ, "RAGROUNDS_HOME": str(folder / "home")}
    return ForkedPython(
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def finished(process: subprocess.Popen[str]) -> None:
    _, told = process.communicate(timeout=240)
    assert process.returncode == 0, told


def files(folder: Path) -> dict[str, bytes]:
    built = folder / "built"
    return {str(path.relative_to(built)): path.read_bytes() for path in sorted(built.rglob("*")) if path.is_file()}


def card(folder: Path) -> dict[str, Any]:
    made: dict[str, Any] = json.loads((folder / "built" / "card.json").read_bytes())
    return made


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", ["consensus-labels", pytest.param("relevance-mining", marks=pytest.mark.weekly)])
def test_killed_twice_equals_undisturbed(pipeline: str, tmp_path: Path) -> None:
    in_flight = CONCURRENCY * PIPELINES[pipeline][1]
    with running("extensions.construction.annotator", "--latency", "0.02") as server:
        finished(started(pipeline, server, tmp_path / "clean"))
        whole = server.stats()["asked"]
        for kill in range(1, KILLS + 1):
            process = started(pipeline, server, tmp_path / "killed")
            while server.stats()["asked"] < whole + kill * whole // 3 and process.poll() is None:
                time.sleep(0.01)
            assert process.poll() is None, "it ended before it was killed"
            process.send_signal(signal.SIGKILL)
            process.communicate()
        assert not (tmp_path / "killed" / "built").exists(), "nothing is written by halves"
        finished(started(pipeline, server, tmp_path / "killed"))
        # What the server had sent may still have been on its way when the process died.
        assert whole <= server.stats()["asked"] - whole <= whole + KILLS * in_flight
        asked = server.stats()["asked"]
        finished(started(pipeline, server, tmp_path / "killed"))
        assert server.stats()["asked"] == asked
    clean, killed = files(tmp_path / "clean"), files(tmp_path / "killed")
    assert clean.keys() == killed.keys()
    assert [name for name in clean if clean[name] != killed[name] and Path(name).name != "card.json"] == []
    one, other = card(tmp_path / "clean")["made"], card(tmp_path / "killed")["made"]
    for same in ("fingerprint", "stages", "figures", "files", "models", "prompts", "parameters", "notes"):
        assert one[same] == other[same], same
    assert one["bill"]["calls"] == other["bill"]["calls"]
