"""Pictures of every screen: of the viewer, of `run` at work, and of the main tables.

    python docs/scripts/draw_screens.py [NAME ...] [--size 80x24] [--theme light] [--into FOLDER]
    python docs/scripts/draw_screens.py --lines    # how many lines each table has at 80 and 120 columns

Each is drawn at 120 × 40, dark, as SVG into docs/pictures/screens, where no other size or theme is said. The viewer
shows the store of docs/scripts/hunt.py; `run` asks a slow server of its own on loopback and is seen through tmux,
as are the tables: what is drawn is what a terminal was sent. `compare` has eight agents of `ragrounds stand-in`.
Nothing comes from the web. Times differ from run to run, so the pictures of `run` do too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from rich.ansi import AnsiDecoder
from rich.segment import Segment

sys.path.insert(0, str(Path(__file__).resolve().parent))
from terminal_svg import DARK, LIGHT, terminal_svg

from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.summaries import PREFERRED, Pages
from ragrounds.ui.trace import themes
from ragrounds.ui.trace.app import TraceApp

INTO = Path(__file__).parents[1] / "pictures" / "screens"
SIZES = ((80, 24), (120, 40), (200, 60))
SCORER = "equivalent"
WRONG = ("--scorer", SCORER)


class ViewerScreen(NamedTuple):
    """A screen of the viewer: how it is reached."""

    keys: tuple[str, ...]
    view: str = "attempts"
    where: str = ""
    seek: str = ""
    """Begin at the first attempt that is so."""


VIEWER = {
    "home": ViewerScreen(("down",), "home"),
    "attempts": ViewerScreen(("tab",), seek="wrong and hops>1"),
    "search": ViewerScreen(("tab", "down", "down", "down"), seek="wrong and hops>1"),
    "reply": ViewerScreen(("tab", "end"), seek="wrong and hops>1"),
    "hops": ViewerScreen((), "hops", where="hops>1"),
    "grid": ViewerScreen(("right",), "grid"),
    "compare": ViewerScreen(("down",), "compare", seek="wrong and hops>1"),
    "filter": ViewerScreen(("f", *"wrong and gold not seen")),
    "sort": ViewerScreen(("s",)),
    "mark": ViewerScreen(("asterisk",)),
    "note": ViewerScreen(("a", *"read the second query")),
    "keys": ViewerScreen(("question_mark",)),
}
EIGHT = (
    "vanilla_rag[top_k=8]", "direct_cot", "search_o1", "i_medrag[rounds=2]", "tool_agent", "ircot", "chain_of_note",
    "cot_refine_rag",
)  # fmt: skip
"""Agents whose answers `compare` shows: the first two, three, and all of them."""
TABLES = {
    "table-run": ("run",),
    "table-compare-2": ("compare", *EIGHT[:2]),
    "table-compare-3": ("compare", *EIGHT[:3]),
    "table-compare-8": ("compare", *EIGHT),
    "table-runs": ("runs", "ls"),
    "table-list": ("trace", "--format", "text", "--where", "wrong", "--limit", "12", *WRONG),
    "table-ledger": ("ledger",),
}
RUN = (
    "run", "--benchmark", "sample", "--limit", "20", "--epochs", "12", "--model", "openai:demo", "--agent", "direct",
    "--agent", "vanilla_rag[top_k=4] as RAG", "--agent", "i_medrag[rounds=2]", "--concurrency", "64",
    "--display", "full",
)  # fmt: skip
LIVE = {"run-live": (), "run-stopping": ("C-c",)}
NAMES = (*VIEWER, *LIVE, *TABLES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these: {', '.join(NAMES)}")
    parser.add_argument("--size", choices=[f"{wide}x{high}" for wide, high in SIZES], default="120x40")
    parser.add_argument("--theme", choices=["dark", "light"], default="dark")
    parser.add_argument("--into", type=Path, default=INTO)
    parser.add_argument("--lines", action="store_true", help="print the lines of tables, draw nothing")
    given = parser.parse_args()
    if unknown := set(given.names) - set(NAMES):
        parser.error(f"no such screen: {', '.join(sorted(unknown))}")
    wide, high = map(int, given.size.split("x"))
    given.into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "hunt"
        hunt = [sys.executable, str(Path(__file__).with_name("hunt.py")), str(home)]
        subprocess.run(hunt, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 (our own words)
        for name in given.names or (TABLES if given.lines else NAMES):
            if given.lines:
                at = [
                    len(captured(TABLES[name], (width, 40), home_of(name, home, Path(folder)))) for width in (80, 120)
                ]
                sys.stdout.write(f"{name} {at[0]} {at[1]}\n")
                continue
            lines = drawn(name, (wide, high), given.theme, home, Path(folder))
            theme = DARK if given.theme == "dark" else LIGHT
            picture = terminal_svg(lines, wide, theme, f"{name} at {wide} × {high}, {given.theme}")
            (given.into / f"{name}-{wide}-{given.theme}.svg").write_text(picture, encoding="utf-8")
            sys.stderr.write(f"{name}\n")


def drawn(name: str, size: tuple[int, int], theme: str, home: Path, folder: Path) -> Sequence[Sequence[Segment]]:
    """The lines of a screen. A terminal's own colours are what its theme makes of them."""
    if name in VIEWER:
        with Store(home) as store:
            return asyncio.run(viewed(store, VIEWER[name], size, themes.DARK if theme == "dark" else themes.LIGHT))
    if name in LIVE:
        return at_work(LIVE[name], size, folder)
    return captured(TABLES[name], size, home_of(name, home, folder))


def home_of(name: str, hunt: Path, folder: Path) -> Path:
    """The home that a table is of; that of `compare` is made when it is first asked for."""
    if name == "table-run":
        return Path(tempfile.mkdtemp(dir=folder))
    made = folder / "eight"
    if name.startswith("table-compare") and not made.exists():
        port = 8093
        agents = [word for agent in EIGHT for word in ("--agent", agent)]
        model = [
            "--model",
            "openai:demo[price_input=0.15,price_output=0.6]",
            "--base-url",
            f"http://127.0.0.1:{port}/v1",
        ]
        run = ["run", "--limit", "60", "--display", "plain", "--yes", *model, *agents]
        with terminal((80, 24), made, ["stand-in", "--port", str(port)]) as server:
            wait(lambda: str(port) in server("capture-pane", "-p"))
            with terminal((200, 50), made, run) as tmux:
                wait(lambda: "[done]" in tmux("capture-pane", "-p", "-S", "-"), seconds=600)
    return made if name.startswith("table-compare") else hunt


async def viewed(store: Store, screen: ViewerScreen, size: tuple[int, int], theme: str) -> list[list[Segment]]:
    """The lines of a screen of the viewer."""
    pages = Pages(store, store.runs(), (SCORER, *PREFERRED))
    row = pages.seek(screen.seek, -1, 1, None) if screen.seek else 0
    app = TraceApp(pages, where=screen.where, row=row or 0, theme=theme, view=screen.view)
    if screen.view == "home":
        app = TraceApp(store, theme=theme)
    async with app.run_test(size=size) as pilot:
        for key in ("", *screen.keys):
            if key:
                await pilot.press("space" if key == " " else key)
            for _ in range(3):
                await app.workers.wait_for_complete()
                await pilot.pause(0.05)
        app.clear_notifications()
        await pilot.pause(0.2)
        strips = app.screen._compositor.render_strips()
        return [list(strip) for strip in strips]


def captured(arguments: Sequence[str], size: tuple[int, int], home: Path) -> list[list[Segment]]:
    """What a command prints in a terminal of this width, all of it."""
    with terminal(size, home, arguments) as tmux:
        wait(lambda: "[done]" in tmux("capture-pane", "-p", "-S", "-"))
        text = tmux("capture-pane", "-p", "-e", "-S", "-")
    return from_ansi(text.partition("[done]")[0])


def at_work(keys: Sequence[str], size: tuple[int, int], folder: Path) -> list[list[Segment]]:
    """What `run` shows some seconds after it began, or after a key."""
    home = Path(tempfile.mkdtemp(dir=folder))
    with slow_server() as url, terminal(size, home, (*RUN, "--base-url", url)) as tmux:
        wait(lambda: "in flight" in tmux("capture-pane", "-p"))
        time.sleep(8)
        for key in keys:
            tmux("send-keys", key)
            time.sleep(1.5)
        text = tmux("capture-pane", "-p", "-e")
        tmux("send-keys", "C-c")
        tmux("send-keys", "C-c")
    return from_ansi(text)[: size[1]]


def from_ansi(text: str) -> list[list[Segment]]:
    """What a terminal was sent, as segments."""
    from rich.console import Console

    console = Console(width=1000, force_terminal=True, color_system="truecolor", legacy_windows=False)
    decoder = AnsiDecoder()  # tmux sends a style once for all lines that have it
    lines = map(decoder.decode_line, text.rstrip("\n").split("\n"))
    return [[one for one in line.render(console, end="") if one.text] for line in lines]


@contextmanager
def terminal(size: tuple[int, int], home: Path, arguments: Sequence[str]) -> Iterator[Callable[..., str]]:
    """A tmux with one window in which `ragrounds` runs; gives a function that speaks to it."""
    with tempfile.TemporaryDirectory(prefix="draw") as folder:
        environment = {
            **os.environ, "RAGROUNDS_HOME": str(home), "OPENAI_API_KEY": "none", "COLORTERM": "truecolor",
            "PYTHONPATH": str(Path(__file__).resolve().parents[2]), "PATH": f"{folder}:{os.environ['PATH']}",
        }  # fmt: skip
        environment.pop("NO_COLOR", None)
        script = Path(folder) / "ragrounds"
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m ragrounds "$@"\n')
        script.chmod(0o755)
        command = shlex.join(["ragrounds", *arguments])
        base = ["tmux", "-S", f"{folder}/socket", "-f", "/dev/null"]

        def speak(*words: str) -> str:
            done = subprocess.run([*base, *words], env=environment, capture_output=True, text=True, check=False)  # noqa: S603
            return done.stdout

        speak("new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), f"{command}; echo '[done]'; sleep 60")
        speak("set-option", "-g", "status", "off")
        speak("resize-window", "-x", str(size[0]), "-y", str(size[1]))
        try:
            yield speak
        finally:
            speak("kill-server")


def wait(true: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until something is so.

    Raises:
        TimeoutError: it did not come so in time.
    """
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise TimeoutError("the terminal did not show what was waited for")
        time.sleep(0.2)


@contextmanager
def slow_server() -> Iterator[str]:
    """A model on loopback that takes its time, and now and then has none; gives its address."""
    drawing = random.Random(7)

    class Model(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            json.loads(self.rfile.read(length))
            time.sleep(drawing.uniform(1, 5))
            busy = drawing.random() < 0.06
            body = {"error": {"message": "Too many requests, slow down"}} if busy else answer(drawing)
            made = json.dumps(body).encode()
            self.send_response(429 if busy else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(made)))
            self.end_headers()
            self.wfile.write(made)

        def do_GET(self) -> None:
            made = json.dumps({"data": [{"id": "demo"}]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(made)))
            self.end_headers()
            self.wfile.write(made)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """Who asked is gone: Ctrl-C ended it."""

    server = Server(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()


def answer(drawing: random.Random) -> dict[str, object]:
    """A completion that names one of four options."""
    message = {"role": "assistant", "content": f"The answer is {drawing.choice('ABCD')}."}
    return {
        "model": "demo-1",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 220, "completion_tokens": 9, "total_tokens": 229},
    }


if __name__ == "__main__":
    main()
