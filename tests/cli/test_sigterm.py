"""SIGTERM, as systems and schedulers send it, is as Ctrl-C for commands that ask nothing too."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import Cli, succeeded
from tests.forked import ForkedPython

COUNT = 30_000


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.weekly)])
def test_an_index_that_is_being_built_is_built_on_by_the_same_command(
    command: Cli, home: Path, tmp_path: Path, how: signal.Signals
) -> None:
    documents = tmp_path / "corpus.jsonl"
    words = [f"word{number}" for number in range(3000)]
    with documents.open("w") as file:
        for i in range(COUNT):
            text = " ".join(words[(i * 7 + j * j) % len(words)] for j in range(60))
            file.write(json.dumps({"_id": str(i), "title": "t", "text": text}) + "\n")
    build = ["index", "build", "notes", "--from", str(documents)]
    process = ForkedPython(
        [sys.executable, "-m", "ragrounds", *build], env=dict(os.environ), stderr=subprocess.PIPE, text=True
    )
    while not list(home.glob("indexes/notes/*")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(how)
    _, said = process.communicate(timeout=240)
    assert process.returncode == 128 + how
    assert "Traceback" not in said
    succeeded(command(*build, "--json"))
    assert f"{COUNT}" in command("index", "show", "notes", "--json").stdout
