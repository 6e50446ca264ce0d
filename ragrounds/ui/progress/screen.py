"""Full screen of a terminal that redraws while a command runs, and restores the terminal afterwards.

rich renders it in the alternate screen. Other output to the terminal (by print, logging, a C library, a child process)
is redirected into a file: its last lines are shown inside the screen, and all of it is printed below the command when
the screen closes.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from types import FrameType
from typing import IO, Any, Self, TextIO

from rich.cells import cell_len
from rich.console import ConsoleDimensions, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ragrounds.evals.engine.interrupts import FINISHES, times_asked
from ragrounds.models.traffic import ServerTraffic, flows
from ragrounds.ui.console import SafeConsole
from ragrounds.ui.text import duration, number_of, one_line, safe

Picture = Callable[[int, int, Sequence[str]], RenderableType]
"""Renders a screen of the given columns and lines; it receives the last lines of other output."""
_REFRESH_RATE = 2.5
"""Refreshes per second."""
_MAX_LINES = 400
"""Lines of other output that are kept."""
_LINE = 2_000
"""Characters kept of such a line."""
_READ_SIZE = 1 << 20
"""Bytes of other output that are read at a time."""
_VISIBLE_LINES = 4
"""Lines of other output that a screen shows."""
_KEY_INTERVAL = 0.1
"""Seconds between two checks for a pressed key."""
_STALE = 30.0
"""Seconds for which lines printed before the screen opened are shown."""
_CODES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")


def can_redraw(stream: TextIO) -> bool:
    """True if the stream is a terminal whose cursor can be moved."""
    try:
        return os.name == "posix" and stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")
    except ValueError:  # closed
        return False


def _is_typed_into() -> bool:
    """True if standard input is a terminal and this process receives its keys."""
    try:
        return os.name == "posix" and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError, AttributeError):
        return False


class OtherOutput:
    """Other output to the terminal while a screen is open. It goes into a file, so that no writer has to wait."""

    def __init__(self) -> None:
        self._saved: dict[int, int] = {}
        self._file: IO[bytes] | None = None
        self._read = 0
        self._open = b""
        self.lines: deque[str] = deque(maxlen=_MAX_LINES)
        """Last lines, without control sequences."""
        self.dropped = 0
        """Number of lines before these, which are not kept."""

    def take(self, descriptors: Sequence[int]) -> None:
        """Redirect these descriptors into the file from now on."""
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - until `give_back`
        for number in descriptors:
            self._saved[number] = os.dup(number)
            os.dup2(self._file.fileno(), number)

    def give_back(self) -> None:
        """Restore the descriptors, and read the rest of the file."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        for number, saved in self._saved.items():
            os.dup2(saved, number)
            os.close(saved)
        self._saved.clear()
        if self._file is not None:
            self.read()
            self._add(self._open)
            self._file.close()
            self._file = None

    def read(self) -> None:
        """Read the output since the last call."""
        while self._file is not None and (piece := os.pread(self._file.fileno(), _READ_SIZE, self._read)):
            self._read += len(piece)
            *complete_lines, self._open = (self._open + piece).split(b"\n")
            self._open = self._open[-_READ_SIZE:]
            for line in complete_lines:
                self._add(line)

    def last_lines(self) -> list[str]:
        """Return the last lines, including the unfinished one."""
        return [line for line in (*self.lines, _plain(self._open)) if line.strip()]

    def _add(self, line: bytes) -> None:
        text = _plain(line)
        if text.strip():
            self.dropped += len(self.lines) == _MAX_LINES
            self.lines.append(text)


def _plain(line: bytes) -> str:
    """Return the visible text of a line: without colours, and only the part after the last carriage return."""
    text = _CODES.sub("", line[-4 * _LINE :].decode("utf-8", "replace")).rstrip("\r").rpartition("\r")[2]
    return safe(text.replace("\t", "    "), _LINE)


class Screen:
    """Screen that refreshes until the block ends.

    Args:
        stream: stream of the terminal.
        picture: renders the screen.
        earlier_lines: lines printed before, shown inside the screen.
        viewer: command that takes the terminal when `v` is pressed, until it ends; empty: no key has an effect.
    """

    def __init__(
        self, stream: TextIO, picture: Picture, earlier_lines: Sequence[str] = (), viewer: Sequence[str] = ()
    ) -> None:
        self._stream, self._picture, self._earlier_lines = stream, picture, list(earlier_lines)
        self._other_output, self._began = OtherOutput(), time.monotonic()
        self._viewer = list(viewer) if _is_typed_into() else []
        self._modes: list[Any] = []
        self._ended, self._keys = threading.Event(), threading.Thread(target=self._watch_keys, daemon=True)

    @property
    def opens_viewer(self) -> bool:
        """True if the key `v` opens the viewer."""
        return bool(self._viewer)

    def __enter__(self) -> Self:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        self._out = os.fdopen(os.dup(self._stream.fileno()), "w", encoding="utf-8", errors="replace")
        self._console = SafeConsole(file=self._out, force_terminal=True)
        self._other_output.take(_descriptors_of(self._stream))
        self._live = Live(
            get_renderable=self._render, console=self._console, screen=True, refresh_per_second=_REFRESH_RATE,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        self._live.start(refresh=True)
        self._before: object = None
        with contextlib.suppress(ValueError):  # not the main thread
            self._before = signal.signal(signal.SIGTSTP, self._suspend)
        if self._viewer:
            self._single_keys(True)
            self._keys.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._viewer:
            self._keys.join()  # while the viewer is open, the terminal is the viewer's
            self._single_keys(False)
        if self._before is not None:
            signal.signal(signal.SIGTSTP, self._before)  # type: ignore[arg-type]
        self._close()
        self._other_output.give_back()
        with contextlib.suppress(OSError):
            self._out.close()
        if self._other_output.dropped:
            remark = f"({self._other_output.dropped:,} lines before these are left out; --display plain shows all.)\n"
            self._stream.write(remark)
        for line in self._other_output.lines:
            if line != FINISHES:  # the screen showed it while it was true
                self._stream.write(line + "\n")
        self._stream.flush()

    def _close(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # the terminal is gone
            # Cleared before: tmux 3.3 moves lines of an alternate screen that was resized to the other one.
            self._out.write("\x1b[H\x1b[2J")
            self._live.stop()

    def _suspend(self, number: int, frame: FrameType | None) -> None:
        """Handle Ctrl-Z: restore the terminal, and redraw when the process continues."""
        self._close()
        self._single_keys(False)
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._suspend)
        if self._viewer:
            self._single_keys(True)
        self._live.start(refresh=True)

    def _single_keys(self, on: bool) -> None:
        """Deliver single keys without echo if `on`; otherwise restore the line mode."""
        import termios
        import tty

        with contextlib.suppress(OSError, ValueError, termios.error):  # the terminal is gone
            if on:
                self._modes = termios.tcgetattr(sys.stdin.fileno())
                tty.setcbreak(sys.stdin.fileno())
            elif self._modes:
                termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._modes)

    def _watch_keys(self) -> None:
        """Wait for keys until the screen ends; the command continues while the viewer is open."""
        number = sys.stdin.fileno()
        with contextlib.suppress(OSError, ValueError):
            while not self._ended.wait(_KEY_INTERVAL):
                # A background process that reads from the terminal would be stopped.
                if os.tcgetpgrp(number) != os.getpgrp() or not select.select([number], [], [], 0)[0]:
                    continue
                if not (key := os.read(number, 1)):
                    return
                if key == b"v":
                    self._close()
                    self._single_keys(False)
                    subprocess.run(self._viewer, stdout=self._out, stderr=self._out, check=False)  # noqa: S603 (our own)
                    self._single_keys(True)
                    self._live.start(refresh=True)

    def _render(self) -> RenderableType:
        with contextlib.suppress(OSError, ValueError):
            size = os.get_terminal_size(self._out.fileno())
            self._console.size = ConsoleDimensions(max(1, size.columns), max(1, size.lines))
        self._other_output.read()
        before = self._earlier_lines if time.monotonic() - self._began < _STALE else ()
        lines = [line for line in (*before, *self._other_output.last_lines()) if line.strip() and line != FINISHES]
        try:
            return self._picture(*self._console.size, lines)
        except Exception as error:  # a failing display must not end the work
            return Text(f"This screen cannot be shown ({type(error).__name__}: {error}). The work continues.")


def line(*parts: str | tuple[str, str], style: str = "") -> Text:
    """Return a line that is cut at the edge of the screen."""
    return Text.assemble(*parts, style=style, no_wrap=True, overflow="ellipsis")


def page(
    head: Sequence[RenderableType],
    body: Sequence[tuple[RenderableType, int]],
    earlier_lines: Sequence[str],
    foot: Sequence[str],
    width: int,
    height: int,
) -> RenderableType:
    """Render a screen: its head, the parts that have room, the last lines of other output, and the foot.

    A part comes with its number of lines. The foot is the first of its wordings that fits.
    """
    room = height - len(head) - 1
    parts = list(head)
    for part, lines in body:
        if lines <= room:
            parts.append(part)
            room -= lines
    other_lines = [one_line(output_line, 10_000) for output_line in earlier_lines][
        -min(_VISIBLE_LINES, max(0, room - 1)) or len(earlier_lines) :
    ]
    if other_lines and room > 1:
        parts += [rule("other output", width), *map(line, other_lines)]
        room -= len(other_lines) + 1
    fits = next((wording for wording in foot if cell_len(wording) <= width), foot[-1])
    return Group(*parts, *[Text("")] * room, line(fits, style="bold" if fits.startswith("Stop") else ""))


def rule(words: str, width: int) -> Text:
    """Return words on a horizontal line across the screen."""
    return Text(f"── {words} {'─' * width}", no_wrap=True, overflow="crop")


def title(name: str, about: str, seconds: float) -> Table:
    """Return the first line: the command, its subject, and the time since it began."""
    grid = Table.grid(expand=True)
    grid.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    grid.add_column(no_wrap=True, justify="right")
    grid.add_row(line((f" {name} ", "bold reverse"), f"  {about}" if about else ""), duration(seconds))
    return grid


def footer_lines(in_flight: int, noun: str, interrupts: int) -> list[str]:
    """Return wordings of what Ctrl-C does now, or of what the last one does; the longest first.

    Args:
        in_flight: number of calls or attempts in flight.
        noun: noun for these.
        interrupts: number of times that Ctrl-C was pressed.
    """
    flying = f"the {number_of(in_flight, noun)} in flight" if in_flight else "what is in flight"
    if interrupts > 1:
        return ["Stopping at once: what is in flight is cut off, what ended is kept.", "Stopping at once."]
    if interrupts:
        return [
            f"Stopping: finishing {flying}, nothing else begins; Ctrl-C once more stops at once.",
            f"Stopping: {in_flight:,} in flight awaited; Ctrl-C again stops at once.",
        ]
    return [
        f"Ctrl-C begins nothing more and finishes {flying}; twice stops at once. Nothing done is lost.",
        f"Ctrl-C finishes {flying} and ends; twice stops at once.",
        "Ctrl-C ends; twice stops at once.",
    ]


def server_words(traffic: Sequence[ServerTraffic]) -> list[str]:
    """Describe the calls to each server that has or refused some, and whether its refusals slow them down."""
    return [
        f"{one_line(flow.base_url, 60)}: {flow.flying:,} of {flow.flying + flow.waiting:,} calls in flight"
        + (f", slowed by {flow.limited:,} x 429 to {flow.allowed:,} at once" if flow.limited else "")
        for flow in traffic
        if flow.flying or flow.waiting or flow.limited
    ]


class TaskDisplay:
    """Display of a command that judges, plays or runs a study. Subclasses define :meth:`line`.

    It redraws a screen on a terminal whose cursor can be moved, and shows nothing elsewhere.

    Args:
        stream: stream of the terminal; ``None``: stderr.
        clock: returns seconds.
    """

    name = ""
    """Command as it is typed."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.stream, self._clock = stream or sys.stderr, clock
        self._began = clock()
        self._screen: Screen | None = None

    def line(self) -> str:
        """Return the progress in one line."""
        raise NotImplementedError

    def share(self) -> float | None:
        """Return the completed share, from 0 to 1; ``None`` if unknown."""
        return None

    @property
    def is_open(self) -> bool:
        """True if the screen is open on the terminal."""
        return self._screen is not None

    @property
    def seconds(self) -> float:
        """Seconds since the command began."""
        return max(self._clock() - self._began, 1e-6)

    def __enter__(self) -> Self:
        if can_redraw(self.stream):
            self._screen = Screen(self.stream, self.picture).__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if self._screen is not None:
            screen, self._screen = self._screen, None
            screen.__exit__(*error)

    def picture(self, width: int, height: int, earlier_lines: Sequence[str]) -> RenderableType:
        """Render one screen of `width` columns and `height` lines."""
        head: list[RenderableType] = [title(self.name, "", self.seconds), line(one_line(self.line(), 10_000)), Text("")]
        if (share := self.share()) is not None:
            bar = Table.grid()
            bar.add_row(ProgressBar(total=1.0, completed=share, width=min(60, width), complete_style="green"))
            head.insert(2, bar)
        servers = [(line(server), 1) for server in server_words(flows())]
        foot = footer_lines(sum(flow.flying for flow in flows()), "call", times_asked())
        return page(head, servers, earlier_lines, foot, width, height)


def _descriptors_of(stream: TextIO) -> list[int]:
    """Return the descriptors of this process that write to the terminal of a stream."""
    try:
        terminal = os.ttyname(stream.fileno())
    except (OSError, ValueError):
        return []
    descriptors = []
    for number in {1, 2, stream.fileno()}:
        with contextlib.suppress(OSError):
            if os.isatty(number) and os.ttyname(number) == terminal:
                descriptors.append(number)
    return descriptors
