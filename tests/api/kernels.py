"""A notebook's kernel for tests: a real one, of this checkout, with a home folder of its own."""

from __future__ import annotations

import os
import queue
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.conftest import ROOT

if TYPE_CHECKING:
    from jupyter_client.manager import KernelManager


def environment(home: Path) -> dict[str, str]:
    """The variables of a process that uses the checkout, and nothing of the user's."""
    folders = {"IPYTHONDIR": str(home / "ipython"), "JUPYTER_CONFIG_DIR": str(home / "jupyter")}
    return {**os.environ, **folders, "PYTHONPATH": str(ROOT), "RAGROUNDS_HOME": str(home / "runs")}


class Kernel:
    """A kernel that runs cells."""

    def __init__(self, manager: KernelManager, client: Any) -> None:
        self.manager, self._client = manager, client
        self._shown: dict[str, list[dict[str, Any]]] = {}

    def start(self, code: str) -> str:
        """Begin a cell; gives its number."""
        number: str = self._client.execute(code)
        return number

    def interrupt(self) -> None:
        """What the stop button does."""
        self.manager.interrupt_kernel()

    def until_said(self, number: str, text: str) -> None:
        """Wait until a cell has written this."""
        while text not in texts({"shown": self._shown.get(number, [])}):
            self._hear(60)

    def finish(self, number: str, seconds: float = 60) -> dict[str, Any]:
        """Wait for a cell: its reply, with the messages that it showed under ``shown``."""
        until = time.monotonic() + seconds
        shown = self._shown.setdefault(number, [])
        while not any(one["content"].get("execution_state") == "idle" for one in shown):
            self._hear(until - time.monotonic())
        while True:
            try:
                reply = self._client.get_shell_msg(timeout=max(0.1, until - time.monotonic()))
            except queue.Empty:
                raise AssertionError(shown) from None
            if reply["parent_header"].get("msg_id") == number:
                return {**reply["content"], "shown": shown}

    def _hear(self, seconds: float) -> None:
        message = self._client.get_iopub_msg(timeout=max(0.1, seconds))
        self._shown.setdefault(message["parent_header"].get("msg_id", ""), []).append(message)

    def run(self, code: str) -> dict[str, Any]:
        """Run a cell to its end."""
        return self.finish(self.start(code))


def texts(reply: dict[str, Any]) -> str:
    """What a cell wrote and gave, as text."""
    parts = []
    for message in reply["shown"]:
        content = message["content"]
        parts.append(content.get("text") or content.get("data", {}).get("text/plain") or content.get("evalue") or "")
    return "\n".join(parts)


@contextmanager
def kernel(home: Path) -> Iterator[Kernel]:
    """A kernel while the block lasts."""
    from jupyter_client.manager import KernelManager

    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env=environment(home), cwd=str(home))
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
