"""End of a process that was asked to end by SIGTERM, even if something in it waits for ever."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable


class ProcessEnd:
    """End of this process after SIGTERM, even if something in it waits for ever.

    60 seconds after the first signal, calls in flight are stopped; 15 seconds later, or after a second signal, the
    process ends. Schedulers send the signal once or twice, and then wait for the node.
    """

    after_first, after_second = 60.0, 15.0

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None

    def signalled(self) -> None:
        """Handle a SIGTERM."""
        if self._timer is None:
            self._start(self.after_first, self._stop)
        else:
            self._start(self.after_second, os._exit, 143)

    def cancel(self) -> None:
        """Let the process live: the work has ended."""
        if self._timer is not None:
            self._timer.cancel()

    def _stop(self) -> None:
        self._start(self.after_second, os._exit, 143)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)  # wakes that thread

    def _start(self, seconds: float, end: Callable[..., object], *arguments: object) -> None:
        self.cancel()
        self._timer = threading.Timer(seconds, end, arguments)
        self._timer.daemon = True
        self._timer.start()
