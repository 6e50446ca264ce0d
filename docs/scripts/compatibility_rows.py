"""One row of perf/compatibility.md: a system that knows nothing of ragrounds, run and measured.

Everything that is counted is counted from outside: by the server that the system calls, by a socket at the server's
address once it is gone, and in the store that the run leaves behind.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from compatibility_counting import AgentServer, GrpcServer, Server, environment, trap
from compatibility_seed import LIMIT, ROOT, Facts, Seed, Sprout

FOREIGN = ROOT / "docs" / "foreign"
PRICES = {"input": 2.0, "output": 8.0}
"""Dollars per million tokens, of every model that the systems name."""


@dataclasses.dataclass(frozen=True)
class Foreign:
    """A system as it is run: what it is called, where it stands, what has to be installed, what its card says."""

    key: str
    title: str
    place: str
    """``FILE.py:NAME`` in docs/foreign, ``package.module:NAME``, or ``FOLDER/langgraph.json:NAME``."""
    packages: tuple[str, ...]
    """What is installed beside ragrounds."""
    shown: tuple[str, ...]
    """Distributions whose versions the page gives."""
    card: str = ""
    """Lines of its agent file, where it needs one: what it is given and under which key it answers."""
    bare: bool = True
    """`bare.py` can run it, where its file is in docs/foreign."""
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Variables of the system's own."""
    searches: bool = True
    """It looks things up: passages are expected."""
    apart: bool = False
    """It stands in an environment of its own, which `--python` names."""
    repository: str = ""
    """``owner/name`` on GitHub: the place is in its clone, as it was cloned; it stands apart."""
    notebook: str = ""
    """``owner/name:path`` of a notebook that the file runs (NOTEBOOK)."""
    site: str = ""
    """A line that its environment runs as it starts: an address that no variable sets."""
    heard: bool = True
    """Its calls can be recorded; ``False``: that they were not is said, and no replay goes through."""

    @property
    def file(self) -> Path | None:
        """Its file in docs/foreign, where it has one there."""
        path = FOREIGN / self.place.rpartition(":")[0]
        return path if path.is_file() else None

    @property
    def own(self) -> bool:
        """Whether it has an environment of its own."""
        return self.apart or bool(self.repository)


@dataclasses.dataclass
class Cell:
    """What a column says: whether it holds (``None``: it could not be measured), and in which words."""

    holds: bool | None
    words: str

    def __str__(self) -> str:
        return self.words if self.holds else f"**{'no' if self.holds is False else 'not measured'}**: {self.words}"


@dataclasses.dataclass
class Row:
    """A system's measured row."""

    foreign: Foreign
    cells: dict[str, Cell] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0
    measured: str = ""
    """The day, the commit, and how many questions."""

    @property
    def broken(self) -> list[str]:
        """The columns that do not hold."""
        return [name for name, cell in self.cells.items() if not cell.holds]


class Measure:
    """Runs one system in every way that a column asks about."""

    def __init__(
        self,
        foreign: Foreign,
        python: Path,
        folder: Path,
        questions: int,
        streamed: bool = False,
        *,
        theirs: Path | None = None,
        clone: Path | None = None,
    ) -> None:
        self.foreign, self.python, self.questions, self.streamed = foreign, python, questions, streamed
        self.theirs, self.clone = theirs, clone
        self.folder = folder / foreign.key
        self.copy = self.folder / "foreign"
        self.source = clone if clone is not None and foreign.repository else FOREIGN
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.source, self.copy, ignore=shutil.ignore_patterns("__pycache__", ".git"))
        if foreign.site:
            (self.folder / "site").mkdir()
            line = f"try:\n    {foreign.site}\nexcept ImportError:\n    pass\n"
            (self.folder / "site" / "sitecustomize.py").write_text(line)
        self.cells: dict[str, Cell] = {}
        self._server: Server | None = None
        self._seed: Seed | None = None

    def row(self, columns: Sequence[str]) -> Row:
        """Measure these columns. One that fails is told as such; where `calls` cannot be had, the others are not."""
        began = time.monotonic()
        self._packages = packages(self.theirs)
        with self.serving() as server:
            self._server = server
            whole = self._cell("calls", self._whole)
            for name in ("again", "passages", "cost", "caps", "replayed", "resumed", "unchanged"):
                if name in columns and (whole or name == "unchanged"):
                    self._cell(name, getattr(self, f"_{name}"))
        if self._seed is not None:
            self._seed.close()
        return Row(self.foreign, self.cells, time.monotonic() - began)

    def _cell(self, name: str, measure: object) -> bool:
        assert callable(measure)
        try:
            self.cells[name] = measure()
        except Exception as error:  # the row goes on, and the page says what happened
            self.cells[name] = Cell(None, f"{type(error).__name__}: {' '.join(str(error).split())[-300:]}")
        return bool(self.cells[name].holds is not None)

    # What the columns say.

    def _whole(self) -> Cell:
        """All questions, with an empty store: what the server counted beside what was seen."""
        before = self.server.settled()
        ended = self._finish(self._command("whole"), "whole")
        self._opening = opening_cost(ended.stderr)
        counted = self.server.settled() - before
        self.facts = facts = self._facts("whole")
        if facts.statuses != {"completed": self.questions}:
            return Cell(False, f"{facts.statuses} {facts.reasons}")
        missed = f", {facts.unrecorded} not recorded" if facts.unrecorded else ""
        self.counted = counted
        if not self.foreign.heard:
            said = any("not recorded" in note or "no call" in note for note in json.loads(ended.stdout)["notes"])
            words = f"{facts.models} of {counted}, said beside the figures: {'yes' if said else 'no'}"
            return Cell(facts.models == 0 < counted and said, words)
        return Cell(facts.models == counted > 0 and not missed, f"{facts.models} = {counted}{missed}")

    def _again(self) -> Cell:
        """The same command: nothing is asked again."""
        before = self.server.touched()
        self._run("whole")
        self.server.settled()
        return Cell((sent := self.server.touched() - before) == 0, f"{sent} sent")

    def _passages(self) -> Cell:
        facts = self.facts
        if not self.foreign.searches:
            return Cell(True, "none of its own")
        return Cell(facts.passages > 0, f"{facts.passages} of {facts.searches} searches")

    def _cost(self) -> Cell:
        """Dollars in the ledger beside what the server counted, at the same prices."""
        if not self.foreign.heard:
            return Cell(self.facts.cost is None, "unknown, as nothing was heard")
        if self.facts.cost is None or self._opening is None:
            return Cell(False, "unknown")
        tokens = self.server.tokens()
        if tokens is None:
            return Cell(True, f"${self.facts.cost:.4f}")
        given, written = (int(tokens.get(name, 0)) for name in ("input", "output"))
        expected = (given * PRICES["input"] + written * PRICES["output"]) / 1e6
        expected += int(tokens.get("embedded", 0)) * PRICES["input"] / 1e6
        paid, opening = self.facts.cost, self._opening
        near = abs(paid + opening - expected) < 1e-9 + 1e-3 * expected
        said = f"${paid:.4f}" + (f" and ${opening:.4f} at opening" if opening else "")
        return Cell(near, said if near else f"{said}, counted ${expected:.6f}")

    def _caps(self) -> Cell:
        """Capped one call before the cheapest attempt's end: no attempt makes more calls than it may."""
        if not self.foreign.heard:
            return Cell(True, "nothing is heard")
        # The only call of an attempt may not be made at all; what it then says it searched for is no call more.
        most = min(self.facts.calls) - 1 if self.facts.models > self.questions else 0
        before = self.server.settled()
        self._run("capped", caps=f"calls = {most}", check=False)
        sent = self.server.settled() - before
        facts = self._facts("capped")
        held = facts.statuses == {"capped": self.questions} and max(facts.calls) <= most
        return Cell(
            held,
            f"{most} of {min(self.facts.calls)}, {sent} sent" if held else f"{facts.statuses}, {facts.calls} calls",
        )

    def _replayed(self) -> Cell:
        """Every attempt made anew from the journal, with nobody at the server's address but a socket that counts."""
        self.server.stop()
        try:
            front = getattr(self.server, "front", None)
            with trap(self.server.port) as came, trap(front) if front else contextlib.nullcontext([]) as native:
                done = self._finish(self._command("whole", "--journal", "replay", "--new"), "whole", check=False)
            came += native
        finally:
            self.server.start()
        if not self.foreign.heard:
            return Cell(done.code != 0 and not came, f"refused, {len(came)} connections (exit code {done.code})")
        if done.code:
            return Cell(False, f"exit code {done.code}: {' '.join(done.stderr.split())[-300:]}")
        facts = self._facts("whole")
        same = facts.answers == self.facts.answers
        held = same and not came and facts.runs == 2
        return Cell(
            held, "same answers" if held else f"same answers: {same}, {len(came)} connections, {facts.statuses}"
        )

    def _resumed(self) -> Cell:
        """`kill -9` in the middle; then the same command asks for what the journal lacks, and for no more."""
        total = self.counted
        undisturbed = self.server
        with self.serving(latency=0.4) as self._server:
            process = self._start("killed")
            end = time.monotonic() + LIMIT
            while not process.ended and time.monotonic() < end:
                enough = self._holds_something("killed") or not self.foreign.heard
                if enough and self.server.answered() >= max(1, total // 2) + (not self.foreign.heard):
                    break
                time.sleep(0.01)
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
            process.wait(LIMIT)
            killed = process.code == -signal.SIGKILL
            left = orphans(self.folder / "killed")
            before = self.server.settled()
            held = self._facts("killed")
            kept = held.models if self.foreign.heard else held.statuses.get("completed", 0) * (total // self.questions)
            self._run("killed")
            asked = self.server.settled() - before
        self._server = undisturbed
        facts = self._facts("killed")
        same = facts.answers == self.facts.answers
        words = f"{kept} kept, {asked} asked"
        if killed and same and asked == total - kept and kept > 0 and not left:
            return Cell(True, words)
        return Cell(False, f"{words} of {total}, killed {killed}, same answers {same}, processes left: {left}")

    def _holds_something(self, home: str) -> bool:
        """Whether an answer has reached a store's journal, or the file beside it of those that are on their way."""
        if any(path.stat().st_size for path in (self.folder / home / "arrivals").rglob("*@*")):
            return True
        with (
            contextlib.suppress(sqlite3.Error),
            contextlib.closing(
                sqlite3.connect(f"file:{self.folder / home / 'store.sqlite'}?mode=ro", uri=True)
            ) as store,
        ):
            return bool(store.execute("SELECT count(*) FROM calls WHERE kind = 'model'").fetchone()[0])
        return False

    def _unchanged(self) -> Cell:
        """The file that runs bare, and the file that was just run: lines that differ."""
        foreign = self.foreign
        before = digests(self.source)
        said = "an address, no file" if "[endpoint]" in foreign.card else "0, not run bare"
        if foreign.bare and foreign.file is not None:
            command = ["bare", self.copy / "bare.py", str(self._path(foreign.place)), "What lowers a high potassium?"]
            if self.theirs is None:
                given = self._finish(command, "bare").stdout
            else:
                told = subprocess.run(
                    [self.theirs, *command[1:]],
                    env=self._environment("bare"),
                    cwd=self.folder,
                    text=True,
                    capture_output=True,
                    check=False,
                    timeout=LIMIT,
                )
                given = told.stdout
            said = "0"
            if not given.strip():
                return Cell(False, "bare, it answers nothing")
        knows = [name for name, path in files(self.copy).items() if b"ragrounds" in path.read_bytes()]
        changed = differing(before, digests(self.copy))
        installed = differing(self._packages, packages(self.theirs))
        if not (knows or changed or installed):
            return Cell(True, said)
        return Cell(False, f"known to {knows}, changed {changed}, installed files changed {installed}")

    # How it is run.

    def serving(self, latency: float = 0.0) -> Server:
        """A server for the system to ask."""
        if "{grpc}" in str(self.foreign.environment):
            return GrpcServer(self.python, self.theirs or self.python, latency)
        return AgentServer(self.python, latency)

    @property
    def server(self) -> Server:
        """The server that counts."""
        assert self._server is not None
        return self._server

    def _path(self, place: str) -> str:
        """A place as it is typed: files by their path."""
        file, _, name = place.rpartition(":")
        return f"{self.copy / file}:{name}" if (self.copy / file).is_file() else place

    def _agent(self, caps: str) -> str:
        """What stands behind ``--agent``: the place itself, or a file that says more."""
        if not (self.foreign.card or caps):
            return self._path(self.foreign.place)
        name = f"{self.foreign.key}{'_capped' if caps else ''}.toml"
        lines = "" if "[endpoint]" in self.foreign.card else f'graph = "{self._path(self.foreign.place)}"\n'
        lines += f'summary = "{self.foreign.title}"\n' + self.foreign.card.replace("{port}", str(self.server.port))
        (self.folder / name).write_text(lines + (f"\n[limits]\n{caps}\n" if caps else ""), encoding="utf-8")
        return str(self.folder / name)

    def _environment(self, home: str) -> dict[str, str]:
        address = f"http://127.0.0.1:{self.server.port}/v1"
        own = {"OPENAI_BASE_URL": address, "OPENAI_API_BASE": address, "OPENAI_API_KEY": "sk-loopback-needs-none"}
        own |= {"RAGROUNDS_HOME": str(self.folder / home), "OF_ROW": str(self.folder / home)}
        own |= {
            "LANGSMITH_TRACING": "false",
            "NO_PROXY": "127.0.0.1",
            "STREAM": "1" if self.streamed else "",
            "MODEL": self.server.model,
        }
        root = f"http://127.0.0.1:{self.server.port}"
        own |= {"ROOT_URL": root}
        if self.foreign.site:
            own |= {"PYTHONPATH": str(self.folder / "site")}
        if self.foreign.notebook and self.clone:
            own |= {"NOTEBOOK": str(self.clone / self.foreign.notebook.partition(":")[2])}
        front = str(getattr(self.server, "front", ""))
        given = {
            name: value.replace("{root}", root).replace("{grpc}", front)
            for name, value in self.foreign.environment.items()
        }
        return environment() | own | given

    def _command(self, home: str, *more: str, caps: str = "") -> list[str | Path]:
        words = ["run", "--agent", self._agent(caps), "--limit", str(self.questions), "--yes"]
        if self.theirs is not None:
            words += ["--python", str(self.theirs)]
        place = self.folder / home
        place.mkdir(exist_ok=True)
        (place / "prices.toml").write_text(
            "".join(
                f'["{model}"]\n' + "".join(f"{name} = {price}\n" for name, price in PRICES.items())
                for model in dict.fromkeys((*MODELS, f"openai:{self.server.model}"))
            )
        )
        return ["ragrounds", *words, "--display", "none", "--json", *(more or ("--concurrency", "2"))]

    def _run(self, home: str, *more: str, caps: str = "", check: bool = True) -> str:
        return self._finish(self._command(home, *more, caps=caps), home, check=check).stderr

    def _start(self, home: str) -> Sprout:
        command = self._command(home, "--concurrency", "1")  # one call in flight, at most, is lost
        return self.seed.begun(command, self.folder, self._environment(home))

    @property
    def seed(self) -> Seed:
        """What commands are forked from."""
        if self._seed is None:
            self._seed = Seed(self.python, self._environment("whole"))
        return self._seed

    def _finish(self, command: Sequence[str | Path], name: str, *, check: bool = True) -> Sprout:
        done = self.seed.begun(command, self.folder, self._environment(name))
        done.wait(LIMIT)
        with (self.folder / f"{name}.log").open("a", encoding="utf-8") as log:
            said = f"{done.stderr}\n{done.stdout[-2000:]}\n(exit {done.code})"
            log.write(f"$ {' '.join(map(str, command))}\n{said}\n\n")
        if check and done.code:
            raise RuntimeError(f"exit code {done.code}: {done.stderr.strip()[-300:]}")
        return done

    def _facts(self, home: str) -> Facts:
        return Facts(**json.loads(self._finish(["facts", self.folder / home], home).stdout))


MODELS = (
    "openai:gpt-4o-mini",
    "openai:gpt-4.1",
    "openai:gpt-4.1-mini",
    "openai:text-embedding-3-small",
    "openai:agent",
    "anthropic:claude-sonnet-4-5-20250929",
    "anthropic:claude-3-5-sonnet-20240620",
    "anthropic:claude-3-haiku-20240307",
    "google_genai:gemini-2.0-flash",
    "google_genai:gemini-2.5-flash",
    "google_genai:gemini-2.5-pro",
)


def opening_cost(told: str) -> float | None:
    """Dollars that a run said it paid while the system was opened; ``None``: unknown."""
    found = re.search(r"Model calls made while systems were opened: [\d,]+ \((?:\$([\d.e-]+)|cost unknown)\)", told)
    if found is None:
        return 0.0
    return None if found[1] is None else float(found[1])


def files(folder: Path) -> dict[str, Path]:
    """The files of a folder, but for what Python and git make of them."""
    return {
        str(path.relative_to(folder)): path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not {"__pycache__", ".git"} & set(path.parts)
    }


def digests(folder: Path) -> dict[str, str]:
    """A digest of each file of a folder."""
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files(folder).items()}


def packages(python: Path | None) -> dict[str, str]:
    """A digest of each file that is installed beside a Python."""
    return {} if python is None else digests(python.parent.parent / "lib")


def differing(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """The names that are new, gone, or of another digest; the first few."""
    return sorted({name for name, _ in before.items() ^ after.items()})[:5]


def orphans(home: Path, patience: float = 5.0) -> list[str]:
    """Processes that still run for a store some seconds after their command was killed (Linux tells)."""
    end = time.monotonic() + patience
    while True:
        left = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"OF_ROW={home}\0".encode() in (process / "environ").read_bytes():
                    left.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:80])
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.2)
