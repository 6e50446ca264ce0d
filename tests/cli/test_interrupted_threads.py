"""A function of the user's own waits for a server in a thread: the second Ctrl-C does not wait with it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from tests.forked import ForkedPython
from tests.servers.any_form import any_form

SLOW = """
import os, requests

def answer(question: str) -> str:
    asked = {"model": "m", "messages": [{"role": "user", "content": question}]}
    answer = requests.post(os.environ["SERVED_AT"] + "/chat/completions", json=asked, timeout=60)
    return answer.json()["choices"][0]["message"]["content"]
"""


@pytest.mark.slow
def test_the_second_interrupt_ends_a_run_whose_threads_wait(tmp_path, home, monkeypatch):
    (tmp_path / "slow.py").write_text(SLOW)
    with any_form() as server:
        server.gate.clear()
        monkeypatch.setenv("SERVED_AT", server.url)
        asked = ["run", "--agent", "./slow.py:answer", "--limit", "4", "--display", "none"]
        process = ForkedPython(
            [sys.executable, "-m", "ragrounds", *asked], cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        waited = time.monotonic() + 60
        while len(server.asked) < 4 and time.monotonic() < waited:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        while b"Ctrl-C again" not in (line := process.stderr.readline()):
            assert line
        process.send_signal(signal.SIGINT)
        # The server holds the calls back for 30 seconds, and the client would wait for a minute.
        assert process.wait(15) == 130
        assert b"the same command resumes" in process.stderr.read()
        process.stderr.close()
