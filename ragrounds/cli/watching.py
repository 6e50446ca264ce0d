"""`ragrounds run --display viewer`: the trace viewer in front, the run going on behind it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from ragrounds.errors import UserError
from ragrounds.ui.progress import LineProgress

if TYPE_CHECKING:
    from ragrounds.evals.engine.strands import Finished
    from ragrounds.evals.engine.tally import Tally


class ViewerProgress(LineProgress):
    """Opens `ragrounds trace` on the runs in a process of its own, which has the terminal until the user closes it.
    Closed before the run's end, plain lines follow; still open at the run's end, the results wait for it."""

    def __init__(self, tally: Tally) -> None:
        super().__init__(tally, sys.stderr, as_json=False)
        if not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):
            raise UserError("--display viewer needs a terminal. Use --display plain, json or none.")
        self._runs = list(tally.runs)
        self._viewer: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ViewerProgress:
        command = [sys.executable, "-m", "ragrounds", "trace", *self._runs]
        self._viewer = subprocess.Popen(command)  # noqa: S603 - our own program, and ids of our own making
        return self

    def hear(self, finished: Finished) -> None:
        if self._viewer is not None and self._viewer.poll() is None:
            self._tally.hear(finished)  # the terminal is the viewer's: nothing is written
        else:
            super().hear(finished)

    def __exit__(self, *_: object) -> None:
        if self._viewer is not None:
            self._viewer.wait()
        super().__exit__()
