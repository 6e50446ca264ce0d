"""The same build twice at once pays nothing twice: the second is refused in one line."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tests.conftest import Cli
from tests.servers.process import running


def test_the_same_build_twice(cli: Cli, home: Path, tmp_path: Path) -> None:
    with running("annotator", "--latency", "600") as server:  # the first is at work until it is killed
        options = ["build", "relevance-mining", "sample", "--corpus", "sample", "--out", str(tmp_path / "mined")]
        options += ["--model", "openai:grader", "--limit", "8", "--concurrency", "4", "--display", "none"]
        options += ["--base-url", server.url]
        first = subprocess.Popen([sys.executable, "-m", "ragrounds", *options], cwd=tmp_path, stderr=subprocess.DEVNULL)
        try:
            while server.stats()["asked"] < 4:
                assert first.poll() is None
                time.sleep(0.02)
            second = cli(*options)
            asked = server.stats()["asked"]
        finally:
            first.kill()
            first.wait()
    assert second.returncode == 2, second.stderr
    assert f"is being made by process {first.pid}" in second.stderr
    assert "Traceback" not in second.stderr
    assert asked == 4
