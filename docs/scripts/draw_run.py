"""Pictures of the screen of a run, as a real terminal (tmux) shows it: `python docs/scripts/draw_run.py`.

Writes SVG into docs/pictures: three sizes, dark and light, and one after Ctrl-C. A server on loopback stands for the
model; its answers and faults are made up, and times differ from run to run, so the pictures do too. Needs tmux.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, MONOKAI, TerminalTheme
from rich.text import Text

ROOT = Path(__file__).resolve().parents[2]
PICTURES = Path(__file__).parents[1] / "pictures"
SIZES = ((80, 24), (120, 40), (200, 60))
THEMES: dict[str, TerminalTheme] = {"": MONOKAI, "-light": DEFAULT_TERMINAL_THEME}
SERVER = ("--latency", "1", "--jitter", "5", "--faults", "0.06", "--mix", "429=3,500=3,400=1,context=1")
AGENTS = ("direct", 'vanilla_rag[top_k=8] as "RAG, 8 passages"', "direct_cot", 'i_medrag as "Asks further"')
_PATIENCE = 60.0


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, model_server() as url:
        window = Window(Path(folder))
        try:
            command = [sys.executable, "-m", "ragrounds", "run", "--model", "openai:stand-in", "--base-url", url]
            command += [word for agent in AGENTS for word in ("--agent", agent)]
            window.type(shlex.join([*command, "--concurrency", "64", "--max-cost", "5", "--yes"]))
            window.see("in flight 6")
            time.sleep(8)
            for width, height in SIZES:
                window.resize(width, height)
                keep(f"run-{width}x{height}", window.screen(), width)
            window.resize(120, 40)
            window.tmux("send-keys", "C-c")
            window.see("Stopping")
            keep("run-stopping", window.screen(), 120)
            window.tmux("send-keys", "C-c")
        finally:
            window.tmux("kill-server")


@contextmanager
def model_server() -> Iterator[str]:
    """The address of a model server of the tests."""
    command = [sys.executable, "-m", "tests.servers.openai_server", *SERVER]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 (our words)
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.terminate()


class Window:
    """A tmux server of its own with one window."""

    def __init__(self, folder: Path) -> None:
        self._socket = str(folder / "tmux")
        width, height = SIZES[0]
        settings = [f"RAGROUNDS_HOME={folder / 'home'}", "TERM=tmux-256color", "PS1=ready> "]
        size = ["-x", str(width), "-y", str(height)]
        self.tmux("-f", "/dev/null", "new-session", "-d", *size, "env", "-u", "COLUMNS", "-u", "LINES", *settings, "sh")

    def tmux(self, *arguments: str) -> str:
        """What a command of tmux gives."""
        environment = {name: value for name, value in os.environ.items() if name not in ("TMUX", "NO_COLOR")}
        command = ["tmux", "-S", self._socket, *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout  # noqa: S603

    def type(self, line: str) -> None:
        """Type a line."""
        self.tmux("send-keys", "-l", line)
        self.tmux("send-keys", "Enter")

    def resize(self, width: int, height: int) -> None:
        """Give the window this size, and wait until it is drawn."""
        self.tmux("resize-window", "-x", str(width), "-y", str(height))
        time.sleep(1)

    def screen(self) -> str:
        """What is on the screen, with its styles."""
        return self.tmux("capture-pane", "-p", "-e")

    def see(self, text: str) -> None:
        """Wait until a text is on the screen."""
        end = time.monotonic() + _PATIENCE
        while text not in self.tmux("capture-pane", "-p"):
            if time.monotonic() > end:
                raise SystemExit(f"{text!r} does not appear:\n{self.tmux('capture-pane', '-p')}")
            time.sleep(0.1)


def keep(name: str, screen: str, width: int) -> None:
    """Write a screen as SVG that asks nothing of the network, dark and light."""
    lines = Text.from_ansi(screen.rstrip("\n")).split("\n", allow_blank=True)
    for suffix, theme in THEMES.items():
        console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor")
        for line in lines:
            console.print(line, no_wrap=True, overflow="crop", crop=True)
        picture = console.export_svg(title="ragrounds run", theme=theme, unique_id=name)
        # Rich names a font on the web; any monospaced one does.
        picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
        (PICTURES / f"{name}{suffix}.svg").write_text(
            picture.replace("Fira Code", "DejaVu Sans Mono"), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
