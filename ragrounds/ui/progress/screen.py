"""A terminal's whole screen that is drawn again and again while a command works, and given back as it was.

rich draws it, in the alternate screen. What else is written to the terminal meanwhile (by print, logging, a library in
C, a child) goes into a file: its last lines are shown inside the screen, and all of it stands below the command when
the screen is given back.
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
"""Gives what is drawn in so many columns and lines; the last lines that others have written are shown in it."""
_A_SECOND = 2.5
"""Pictures a second."""
_KEPT = 400
"""Lines of others that are kept."""
_LINE = 2_000
"""Characters of such a line."""
_PIECE = 1 << 20
"""Bytes of others that are read at a time."""
_SAID = 4
"""Lines of others that a screen shows."""
_HEARD = 0.1
"""Seconds between two looks at the keys."""
_STALE = 30.0
"""Seconds for which what was said before is shown."""
_CODES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")


def can_redraw(stream: TextIO) -> bool:
    """Whether a stream is a terminal whose cursor can be moved."""
    try:
        return os.name == "posix" and stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")
    except ValueError:  # closed
        return False


def _is_typed_into() -> bool:
    """Whether standard input is a terminal of which this process has the keys."""
    try:
        return os.name == "posix" and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError, AttributeError):
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
            self._add(self._open)
            self._file.close()
            self._file = None

    def read(self) -> None:
        """Read what was written since the last time."""
        while self._file is not None and (piece := os.pread(self._file.fileno(), _PIECE, self._read)):
            self._read += len(piece)
            *whole, self._open = (self._open + piece).split(b"\n")
            self._open = self._open[-_PIECE:]
            for line in whole:
                self._add(line)

    def shown(self) -> list[str]:
        """The last lines, with the one that has no end yet."""
        return [line for line in (*self.lines, _plain(self._open)) if line.strip()]

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


class Screen:
    """A screen that is drawn again until the block ends.

    Args:
        stream: of the terminal.
        picture: what is drawn.
        said: lines that were said before, to be seen inside the screen.
        viewer: a command that takes the terminal when `v` is pressed, until it ends; none: no key does anything.
    """

    def __init__(self, stream: TextIO, picture: Picture, said: Sequence[str] = (), viewer: Sequence[str] = ()) -> None:
        self._stream, self._picture, self._said = stream, picture, list(said)
        self._others, self._began = OtherOutput(), time.monotonic()
        self._viewer = list(viewer) if _is_typed_into() else []
        self._modes: list[Any] = []
        self._ended, self._keys = threading.Event(), threading.Thread(target=self._listen, daemon=True)

    @property
    def opens_viewer(self) -> bool:
        """Whether `v` does."""
        return bool(self._viewer)

    def __enter__(self) -> Self:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        self._out = os.fdopen(os.dup(self._stream.fileno()), "w", encoding="utf-8", errors="replace")
        self._console = SafeConsole(file=self._out, force_terminal=True)
        self._others.take(_descriptors_of(self._stream))
        self._live = Live(
            get_renderable=self._drawn, console=self._console, screen=True, refresh_per_second=_A_SECOND,
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
        self._others.give_back()
        with contextlib.suppress(OSError):
            self._out.close()
        if self._others.dropped:
            said = f"({self._others.dropped:,} lines before these are left out; --display plain shows all.)\n"
            self._stream.write(said)
        for line in self._others.lines:
            if line != FINISHES:  # the screen said it, when it was so
                self._stream.write(line + "\n")
        self._stream.flush()

    def _close(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # the terminal is gone
            # Cleared before: tmux 3.3 moves lines of an alternate screen that was resized to the other one.
            self._out.write("\x1b[H\x1b[2J")
            self._live.stop()

    def _suspend(self, number: int, frame: FrameType | None) -> None:
        """Ctrl-Z: give the screen back, and draw on when the process goes on."""
        self._close()
        self._single_keys(False)
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._suspend)
        if self._viewer:
            self._single_keys(True)
        self._live.start(refresh=True)

    def _single_keys(self, on: bool) -> None:
        """Give keys as they are pressed, without showing them; or lines again, as before."""
        import termios
        import tty

        with contextlib.suppress(OSError, ValueError, termios.error):  # the terminal is gone
            if on:
                self._modes = termios.tcgetattr(sys.stdin.fileno())
                tty.setcbreak(sys.stdin.fileno())
            elif self._modes:
                termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._modes)

    def _listen(self) -> None:
        """Hear keys until the screen ends; the work goes on while the viewer is open."""
        number = sys.stdin.fileno()
        with contextlib.suppress(OSError, ValueError):
            while not self._ended.wait(_HEARD):
                # Who reads in the background is stopped.
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

    def _drawn(self) -> RenderableType:
        with contextlib.suppress(OSError, ValueError):
            size = os.get_terminal_size(self._out.fileno())
            self._console.size = ConsoleDimensions(max(1, size.columns), max(1, size.lines))
        self._others.read()
        before = self._said if time.monotonic() - self._began < _STALE else ()
        said = [line for line in (*before, *self._others.shown()) if line.strip() and line != FINISHES]
        try:
            return self._picture(*self._console.size, said)
        except Exception as error:  # the work goes on, whatever becomes of its picture
            return Text(f"This screen cannot be drawn ({type(error).__name__}: {error}). The work continues.")


def line(*parts: str | tuple[str, str], style: str = "") -> Text:
    """A line that is cut where the screen ends."""
    return Text.assemble(*parts, style=style, no_wrap=True, overflow="ellipsis")


def page(
    head: Sequence[RenderableType],
    body: Sequence[tuple[RenderableType, int]],
    said: Sequence[str],
    foot: Sequence[str],
    width: int,
    height: int,
) -> RenderableType:
    """A screen: its head, parts as far as there is room, the last of what others said, and at the bottom the first of
    the foot's wordings that fits. A part comes with its number of lines."""
    room = height - len(head) - 1
    kept = list(head)
    for part, lines in body:
        if lines <= room:
            kept.append(part)
            room -= lines
    others = [one_line(one, 10_000) for one in said][-min(_SAID, max(0, room - 1)) or len(said) :]
    if others and room > 1:
        kept += [rule("other output", width), *(line(one, style="dim") for one in others)]
        room -= len(others) + 1
    fits = next((one for one in foot if cell_len(one) <= width), foot[-1])
    return Group(*kept, *[Text("")] * room, line(fits, style="bold yellow" if fits.startswith("Stop") else "dim"))


def rule(words: str, width: int) -> Text:
    """Words on a line across the screen."""
    return Text(f"── {words} {'─' * width}", style="dim", no_wrap=True, overflow="crop")


def title(name: str, about: str, seconds: float) -> Table:
    """The first line: the command, what it is about, and for how long it has worked."""
    made = Table.grid(expand=True)
    made.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    made.add_column(no_wrap=True, justify="right", style="dim")
    made.add_row(line((f" {name} ", "bold reverse"), f"  {about}" if about else ""), duration(seconds))
    return made


def foot_words(in_flight: int, what: str, asked: int) -> list[str]:
    """What a Ctrl-C does now, or what the one that was pressed does: the longest wording first."""
    flying = f"the {number_of(in_flight, what)} in flight" if in_flight else "what is in flight"
    if asked > 1:
        return ["Stopping at once: what is in flight is cut off, what ended is kept.", "Stopping at once."]
    if asked:
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
    """What the calls to each server are doing, and whether its refusals make it slow."""
    return [
        f"{one_line(flow.place, 60)}: {flow.flying:,} of {flow.flying + flow.waiting:,} calls in flight"
        + (f", slowed by {flow.limited:,} x 429 to {flow.allowed:,} at once" if flow.limited else "")
        for flow in traffic
    ]


class TaskDisplay:
    """The display of a command that judges, plays or carries out a study: a screen that redraws, and nothing where its
    stream is no terminal whose cursor can be moved. A kind of it says where it stands.

    Args:
        stream: of the terminal; ``None``: stderr.
        clock: gives seconds.
    """

    name = ""
    """The command, as it is typed."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.stream, self._clock = stream or sys.stderr, clock
        self._began = clock()
        self._screen: Screen | None = None

    def line(self) -> str:
        """Where it stands, in a line."""
        raise NotImplementedError

    def share(self) -> float | None:
        """How much of it is done, from 0 to 1; ``None``: not known."""
        return None

    @property
    def is_open(self) -> bool:
        """Whether it has the terminal."""
        return self._screen is not None

    @property
    def seconds(self) -> float:
        """Since it began."""
        return max(self._clock() - self._began, 1e-6)

    def __enter__(self) -> Self:
        if can_redraw(self.stream):
            self._screen = Screen(self.stream, self.picture).__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if self._screen is not None:
            screen, self._screen = self._screen, None
            screen.__exit__(*error)

    def picture(self, width: int, height: int, said: Sequence[str]) -> RenderableType:
        """One screen of `width` columns and `height` lines."""
        head: list[RenderableType] = [title(self.name, "", self.seconds), line(one_line(self.line(), 10_000)), Text("")]
        if (share := self.share()) is not None:
            bar = Table.grid()
            bar.add_row(ProgressBar(total=1.0, completed=share, width=min(60, width), complete_style="green"))
            head.insert(2, bar)
        servers = [(line(one, style="dim"), 1) for one in server_words(flows())]
        foot = foot_words(sum(flow.flying for flow in flows()), "call", times_asked())
        return page(head, servers, said, foot, width, height)


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
