"""A terminal's whole screen that is drawn again and again while a command works, and given back as it was.

It is drawn in the alternate screen, each line at its own place with wrapping off: a terminal that is made narrower
while a frame is written cuts the lines, and none of them makes a ghost. What else is written to the terminal meanwhile
(by print, logging, a library in C, a child) goes into a file: its last lines are shown inside the frame, and all of it
stands below the command when the screen is given back.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from types import FrameType
from typing import IO, TextIO

from rich.console import Console, ConsoleDimensions, RenderableType
from rich.text import Text

from ragrounds.ui.console import SafeConsole
from ragrounds.ui.text import safe

FrameLines = Callable[[int, int, Sequence[str]], Sequence[RenderableType]]
"""Gives what is drawn in so many columns and lines; the last lines that others have written are told."""
_OPEN = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
_CLOSE = "\x1b[H\x1b[2J\x1b[?7h\x1b[?25h\x1b[?1049l"
"""It is cleared before: tmux 3.3 moves lines of an alternate screen that was resized to the other one."""
_LOOK = 0.1
"""Seconds between two looks at the size."""
_EVERY = 0.4
"""Seconds between two frames."""
_WHOLE = 2.0
"""Seconds after which a frame is written whole: what somebody wrote past us is gone then."""
_KEPT = 400
"""Lines of others that are kept."""
_LINE = 2_000
"""Characters of such a line."""
_PIECE = 1 << 20
"""Bytes of others that are read at a time."""
_CODES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")


def can_redraw(stream: TextIO) -> bool:
    """Whether a stream is a terminal whose cursor can be moved."""
    try:
        return os.name == "posix" and stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")
    except ValueError:  # closed
        return False


class OtherOutput:
    """What others write to the terminal while a screen is drawn: kept in a file, so that nobody waits for us."""

    def __init__(self) -> None:
        self._saved: dict[int, int] = {}
        self._file: IO[bytes] | None = None
        self._read = 0
        self._open = b""
        self.lines: deque[str] = deque(maxlen=_KEPT)
        """The last lines, with nothing in them that moves a cursor."""
        self.dropped = 0
        """Lines before these."""

    def take(self, descriptors: Sequence[int]) -> None:
        """Take what is written to these descriptors from now on."""
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - until `give_back`
        for number in descriptors:
            self._saved[number] = os.dup(number)
            os.dup2(self._file.fileno(), number)

    def give_back(self) -> None:
        """Let others write to the terminal again, and read what is left."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        for number, saved in self._saved.items():
            os.dup2(saved, number)
            os.close(saved)
        self._saved.clear()
        if self._file is not None:
            self.read()
            if self._open:
                self._add(self._open)
            self._file.close()
            self._file = None

    def read(self) -> None:
        """Read what was written since the last time."""
        if self._file is None:
            return
        number = self._file.fileno()
        while piece := os.pread(number, _PIECE, self._read):
            self._read += len(piece)
            *whole, self._open = (self._open + piece).split(b"\n")
            self._open = self._open[-_PIECE:]
            for line in whole:
                self._add(line)

    def shown(self) -> list[str]:
        """The last lines, with the one that has no end yet."""
        open_ = _plain(self._open)
        return [*self.lines, *([open_] if open_.strip() else [])]

    def _add(self, line: bytes) -> None:
        text = _plain(line)
        if text.strip():
            self.dropped += len(self.lines) == _KEPT
            self.lines.append(text)


def _plain(line: bytes) -> str:
    """What a terminal would show of a line: without colours, and of a line that was written again and again the
    last."""
    text = _CODES.sub("", line[-4 * _LINE :].decode("utf-8", "replace")).rstrip("\r").rpartition("\r")[2]
    return safe(text.replace("\t", "    "), _LINE)


class TerminalScreen:
    """A screen that is drawn again until the block ends.

    Args:
        stream: of the terminal.
        frame: what is drawn.
        said: lines that were said before, to be seen inside the frame.
        skip: lines of others that need not be told afterwards, as the frame said it itself.
    """

    def __init__(self, stream: TextIO, frame: FrameLines, said: Sequence[str] = (), skip: Sequence[str] = ()) -> None:
        self._stream, self._frame, self._said, self._skip = stream, frame, list(said), frozenset(skip)
        self._others = OtherOutput()
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._drawn: list[str] = []
        self._size = (0, 0)
        self._whole = self._next = 0.0
        self._before: object = None
        self._out: TextIO | None = None
        self._console: Console = SafeConsole(file=stream, force_terminal=True)
        self._thread = threading.Thread(target=self._draw_on, name="ragrounds-screen", daemon=True)

    def __enter__(self) -> TerminalScreen:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        self._out = os.fdopen(os.dup(self._stream.fileno()), "w", encoding="utf-8", errors="replace")
        self._console = SafeConsole(file=self._out, force_terminal=True)
        self._others.take(_descriptors_of(self._stream))
        self._open()
        with contextlib.suppress(ValueError):  # not the main thread
            self._before = signal.signal(signal.SIGTSTP, self._suspend)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(5)
        with self._lock:
            if self._before is not None:
                with contextlib.suppress(ValueError):
                    signal.signal(signal.SIGTSTP, self._before)  # type: ignore[arg-type]
            self._write(_CLOSE)
            self._others.give_back()
            if self._out is not None:
                with contextlib.suppress(OSError):
                    self._out.close()
                self._out = None
        self._tell_others()

    def _tell_others(self) -> None:
        """Write what others have written, below the command."""
        lines = [line for line in self._others.lines if line not in self._skip]
        if self._others.dropped:
            dropped = f"({self._others.dropped:,} lines before these are left out; --display plain shows all.)"
            lines.insert(0, dropped)
        for line in lines:
            self._stream.write(line + "\n")
        self._stream.flush()

    def _open(self) -> None:
        self._write(_OPEN)
        self._drawn, self._size = [], (0, 0)

    def _write(self, text: str) -> None:
        if self._out is not None:
            with contextlib.suppress(OSError, ValueError):  # the terminal is gone
                self._out.write(text)
                self._out.flush()

    def _suspend(self, number: int, frame: FrameType | None) -> None:
        """Ctrl-Z: give the screen back, and draw on when the process goes on."""
        with self._lock:
            self._write(_CLOSE)
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTSTP)
            signal.signal(signal.SIGTSTP, self._suspend)
            self._open()

    def _draw_on(self) -> None:
        while True:
            with self._lock:
                if self._ended.is_set():
                    return
                size = self._terminal_size()
                if size != self._size or time.monotonic() >= self._next:
                    self._draw(size)
            if self._ended.wait(_LOOK):
                return

    def _terminal_size(self) -> tuple[int, int]:
        try:
            size = os.get_terminal_size(self._out.fileno() if self._out is not None else 2)
        except (OSError, ValueError):
            return self._size
        return max(1, size.columns), max(1, size.lines)

    def _draw(self, size: tuple[int, int]) -> None:
        width, height = size
        self._others.read()
        try:
            parts = self._frame(width, height, [*self._said, *self._others.shown()])
        except Exception as error:  # the work goes on, whatever becomes of its picture
            parts = [Text(f"This screen cannot be drawn ({type(error).__name__}: {error}). The work goes on.")]
        lines = drawn_lines(self._console, parts, *size)
        now = time.monotonic()
        whole = size != self._size or now >= self._whole
        codes = ["\x1b[2J"] if size != self._size else []
        for row, line in enumerate(lines):
            if whole or row >= len(self._drawn) or self._drawn[row] != line:
                # Erased first: after a line that fills the screen the cursor stands on its last letter.
                codes.append(f"\x1b[{row + 1};1H\x1b[2K{line}\x1b[0m")
        if whole or len(lines) < len(self._drawn):
            codes.append(f"\x1b[{len(lines) + 1};1H\x1b[J" if len(lines) < height else "")
        if codes:
            # Terminals that know it show the frame at once; others leave it aside.
            self._write("\x1b[?2026h\x1b[?7l" + "".join(codes) + "\x1b[?2026l")
        self._drawn, self._size, self._next = lines, size, now + _EVERY
        if whole:
            self._whole = now + _WHOLE


def drawn_lines(console: Console, parts: Sequence[RenderableType], width: int, height: int) -> list[str]:
    """What is drawn as lines of text with their styles, at most `height` of them and none longer than `width`."""
    console.size = ConsoleDimensions(width, max(height, 1))
    with console.capture() as captured:
        for part in parts:
            console.print(part, no_wrap=True, overflow="ellipsis", crop=True)
    return captured.get().removesuffix("\n").split("\n")[:height]


def _descriptors_of(stream: TextIO) -> list[int]:
    """The descriptors of this process that write to the terminal of a stream."""
    try:
        terminal = os.ttyname(stream.fileno())
    except (OSError, ValueError):
        return []
    found = []
    for number in {1, 2, stream.fileno()}:
        with contextlib.suppress(OSError):
            if os.isatty(number) and os.ttyname(number) == terminal:
                found.append(number)
    return found
