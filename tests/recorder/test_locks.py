"""What the recorder does while Python or a library holds a lock: it never waits for another thread there."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import ragrounds as rr
from ragrounds.recorder.frames import Sender

SYSTEM = """
import atexit, gc, os, signal, sqlite3, subprocess, sys, threading, time

def reads():
    open(__file__).close()
    sqlite3.connect(__file__ + ".sqlite").close()
    os.listdir(os.path.dirname(__file__))
    return os.environ.get("A_VALUE")

class Reading:
    def __init__(self): self.itself = self
    def __del__(self): reads()

def under_a_lock():
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.create_function("reads", 0, lambda: reads() or "")
    connection.set_progress_handler(lambda: reads() and None, 10)
    connection.set_trace_callback(lambda statement: reads())
    return [connection.execute("select reads()").fetchall() for _ in range(20)]

worker = threading.Thread(target=reads)  # while this module is imported
worker.start()
worker.join()
atexit.register(reads)
sys.setprofile(None)
sys.addaudithook(lambda event, arguments: reads() if event == "of.mine" else None)
signal.signal(signal.SIGALRM, lambda *_: reads())

async def ask(question):
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
    threads = [threading.Thread(target=work) for work in (under_a_lock, reads, gc.collect) for _ in range(3)]
    for thread in threads: thread.start()
    for _ in range(200):
        Reading()
        sys.audit("of.mine")
    subprocess.run([sys.executable, "-c", "import atexit; atexit.register(print)"], stdout=subprocess.DEVNULL)
    for thread in threads: thread.join()
    signal.setitimer(signal.ITIMER_REAL, 0)
    return "(A)"
"""


def test_no_hook_of_the_recorder_waits_under_a_lock(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "locked.py").write_text(SYSTEM)
    result = rr.run("sample", "./locked.py:ask[limits.seconds=60]", limit=2, progress=False, home=home)
    (row,) = result.comparison.rows
    assert row.statuses["completed"] == 2


def test_a_signal_handler_may_send_in_the_middle_of_a_frame() -> None:
    class Interrupted:
        sent = b""

        def sendall(self, data: bytes) -> None:
            self.sent += data[:1]
            if data == b"first":
                sender.hold(b"second")
                sender.send()
            self.sent += data[1:]

    sink = Interrupted()
    sender = Sender(sink)  # type: ignore[arg-type]
    sender.hold(b"first")
    thread = threading.Thread(target=sender.send, daemon=True)
    thread.start()
    thread.join(5)
    assert not thread.is_alive()
    assert sink.sent == b"firstsecond"
