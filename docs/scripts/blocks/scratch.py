"""Where a page is run: a folder and a home of its own, the programs on its PATH, and what stands in for what."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from blocks.made_data import MAKERS
from blocks.pages import Page
from blocks.rules import Rules
from blocks.session import COLUMNS, LINES, Terminal

HOME = "/me"
"""What the page's home and folder are called in outputs."""
_RUN = re.compile(r"(?<![\w./-])RUN(?![\w=])")


class Scratch:
    """The folder of a page, and its terminal."""

    def __init__(self, page: Page, base: Path, root: Path, rules: Rules, ports: Mapping[str, str]) -> None:
        """Make the folder.

        Args:
            page: the page.
            base: an empty folder, all of which is the page's.
            root: the repository.
            rules: what stands in for what.
            ports: port in the pages → the port that it has here.
        """
        self._rules, self._root = rules, root
        self._ports = ports
        home, self.folder, kept = base / "home", base / "page", base / "kept"
        for each in (home, self.folder, kept):
            each.mkdir(parents=True)
        if rules.is_in_repository(page.name):
            copy_repository(root, self.folder)
        elif not rules.is_complete(page.name):
            self._make_data(page)
        self._home = home
        self._asks_models = page.name in rules.asks_models
        self.terminal = Terminal(self.folder, self._environment(home, base.parent / "bin"), kept)

    def _environment(self, home: Path, programs: Path) -> dict[str, str]:
        kept = ("LANG", "TMPDIR", "SSL_CERT_FILE", "RAGROUNDS_CHROMIUM")
        own = os.path.dirname(sys.executable)  # noqa: PTH120
        return {name: os.environ[name] for name in kept if name in os.environ} | {
            "PATH": f"{programs}:{own}:/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": f"{self._root}:{home / 'site'}",
            "HOME": str(home),
            "RAGROUNDS_HOME": str(home / ".local/share/ragrounds"),
            "COLUMNS": str(COLUMNS),
            "LINES": str(LINES),
            "NO_COLOR": "1",
            "TZ": "UTC",
            "PYTHONWARNINGS": "ignore",
            "MPLBACKEND": "Agg",
            "HF_HUB_OFFLINE": "1",
            # Whatever is asked for outside of this machine is refused.
            "HTTP_PROXY": "http://127.0.0.1:9",
            "HTTPS_PROXY": "http://127.0.0.1:9",
            "NO_PROXY": "127.0.0.1,localhost",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_AUTHOR_NAME": "A reader",
            "GIT_AUTHOR_EMAIL": "reader@example.org",
            "GIT_COMMITTER_NAME": "A reader",
            "GIT_COMMITTER_EMAIL": "reader@example.org",
        }

    def _make_data(self, page: Page) -> None:
        """Make the files that the page names and does not make."""
        texts = "\n".join(block.text for block in page.blocks)
        own = {block.file for block in page.blocks}
        for name, make in MAKERS.items():
            if name not in own and re.search(rf"(?<![\w/.-]){re.escape(name)}(?![\w-])", texts):
                path = self.folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                make(path)

    def model_server(self, text: str) -> dict[str, str]:
        """What a command or a block finds in its environment where it names a model of a provider, or where the page's
        own files ask one. Elsewhere nothing: a server in the environment is one that `ragrounds run` would ask."""
        if self._asks_models or re.search(r"\bopenai\b", text):
            return {"OPENAI_BASE_URL": f"http://127.0.0.1:{self._ports['8000']}/v1", "OPENAI_API_KEY": "none"}
        return {}

    def typed(self, text: str) -> str:
        """A command or a file with what stands in for its addresses, models and runs."""
        for one in self._rules.stands_in:
            text = one.pattern.sub(one.becomes, text)
        for port, real in self._ports.items():
            text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{real}")
        if _RUN.search(text):
            runs = itertools.cycle(self._runs() or ["RUN"])
            text = _RUN.sub(lambda _: next(runs), text)
        return text

    def _runs(self) -> list[str]:
        listed = self.terminal.run("ragrounds runs ls --json", 60)
        return [row["run"]["id"] for row in json.loads(listed.out)["runs"]] if listed.out.strip() else []

    def shown(self, text: str) -> str:
        """An output as a reader would have it: the page's addresses and folders."""
        for port, real in self._ports.items():
            text = text.replace(f"127.0.0.1:{real}", f"127.0.0.1:{port}")
        for path in (self.folder, self._home):
            text = text.replace(str(path), HOME)
        return text


def copy_repository(root: Path, to: Path) -> None:
    """Copy what Git knows of the repository, or would take up; all of it where there is no Git."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode:
        shutil.copytree(root, to, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".*", "build"))
        return
    for name in filter(None, listed.stdout.split("\0")):
        if (root / name).exists():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, to / name, follow_symlinks=False)
