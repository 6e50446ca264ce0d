"""A command ends although threads of a system go on; one whose threads only wait for work ends as any other."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

_START = """
import atexit, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from ragrounds.cli.entry import main
atexit.register(lambda: print("flushed", flush=True))
pool = ThreadPoolExecutor(1)
pool.submit(time.sleep, float(sys.argv[1])) if len(sys.argv) > 1 else pool.submit(int).result()
sys.argv = ["ragrounds", "--version"]
main()
"""


@pytest.mark.parametrize(("given", "left"), [(["60"], True), ([], False)])
def test_a_thread_at_work_is_not_waited_for(given: list[str], left: bool) -> None:
    began = time.monotonic()
    ended = subprocess.run([sys.executable, "-c", _START, *given], capture_output=True, text=True, timeout=50)
    assert ended.returncode == 0
    assert time.monotonic() - began < 40
    assert ("running (1)" in ended.stderr) is left
    assert ended.stdout.count("flushed") == 1
