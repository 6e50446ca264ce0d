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
import socket
import sqlite3
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Self

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
    bare: str = ""
    """The place for `bare.py`, where it is another one; ``-``: it cannot be run bare."""
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Variables of the system's own."""
    searches: bool = True
    """It looks things up: passages are expected."""

    @property
    def file(self) -> Path | None:
        """Its file in docs/foreign, where it has one there."""
        path = FOREIGN / self.place.rpartition(":")[0]
        return path if path.is_file() else None


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

    @property
    def broken(self) -> list[str]:
        """The columns that do not hold."""
        return [name for name, cell in self.cells.items() if not cell.holds]


class Server:
    """A model server in a process of its own, which can be ended and begun again at the same port."""

    model = "gpt-4o-mini"
    """The name that is asked for."""
    latency = 0.0

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def command(self) -> list[str | Path]:
        """What starts it."""
        raise NotImplementedError

    def answered(self) -> int:
        """Requests that it has answered whole."""
        raise NotImplementedError

    def start(self) -> None:
        """Listen, at the same port as before."""
        nowhere = subprocess.DEVNULL
        self._process = subprocess.Popen(
            self.command(), cwd=ROOT, stdout=self.log(), stderr=nowhere, env=environment(), start_new_session=True
        )
        end = time.monotonic() + LIMIT
        while time.monotonic() < end and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            time.sleep(0.05)
        raise RuntimeError(f"{type(self).__name__} does not listen (exit code {self._process.poll()})")

    def log(self) -> int | IO[bytes]:
        """Where what it prints goes."""
        return subprocess.DEVNULL

    def stop(self) -> None:
        """End it, with what it started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def settled(self) -> int:
        """Requests answered, once nothing is in hand any more."""
        before = -1
        while before != (now := self.answered()):
            before = now
            time.sleep(self.latency + 0.3)
        return now

    def tokens(self) -> dict[str, int] | None:
        """What it counts itself; ``None``: it does not tell."""
        return None


class AgentServer(Server):
    """`tests.servers.agent_server`: ours, scripted."""

    def __init__(self, python: Path, latency: float = 0.0) -> None:
        super().__init__()
        self._python, self.latency = python, latency

    def command(self) -> list[str | Path]:
        """What starts it."""
        words = ["-m", "tests.servers.agent_server", "--port", str(self.port), "--latency", str(self.latency)]
        return [self._python, *words]

    def stats(self) -> dict[str, object]:
        """What it was asked and answered."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{self.port}/stats", timeout=10) as answer:
            return dict(json.load(answer))

    def answered(self) -> int:
        """Requests that it has answered whole."""
        return int(str(self.stats()["answered"]))

    def tokens(self) -> dict[str, int]:
        """Tokens in and out, and of texts for vectors."""
        counted = self.stats()["tokens"]
        assert isinstance(counted, dict)
        return counted


@contextlib.contextmanager
def trap(port: int) -> Iterator[list[str]]:
    """Listen where the server was, answer nothing, and keep who came."""
    came: list[str] = []
    with socket.create_server(("127.0.0.1", port)) as listening:
        listening.settimeout(0.2)
        over = threading.Event()

        def _listen() -> None:
            while not over.is_set():
                with contextlib.suppress(TimeoutError):
                    connection, peer = listening.accept()
                    came.append(str(peer))
                    connection.close()

        thread = threading.Thread(target=_listen, daemon=True)
        thread.start()
        try:
            yield came
        finally:
            over.set()
            thread.join()


class Measure:
    """Runs one system in every way that a column asks about."""

    def __init__(self, foreign: Foreign, python: Path, folder: Path, questions: int, streamed: bool = False) -> None:
        self.foreign, self.python, self.questions, self.streamed = foreign, python, questions, streamed
        self.folder = folder / foreign.key
        self.copy = self.folder / "foreign"
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(FOREIGN, self.copy, ignore=shutil.ignore_patterns("__pycache__"))
        self.cells: dict[str, Cell] = {}
        self._server: Server | None = None
        self._seed: Seed | None = None

    def row(self, columns: Sequence[str]) -> Row:
        """Measure these columns. One that fails is told as such; where `calls` cannot be had, the others are not."""
        began = time.monotonic()
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
        self._opening = opening_cost(self._run("whole"))
        counted = self.server.settled() - before
        self.facts = facts = self._facts("whole")
        if facts.statuses != {"completed": self.questions}:
            return Cell(False, f"{facts.statuses} {facts.reasons}")
        missed = f", {facts.unrecorded} not recorded" if facts.unrecorded else ""
        self.counted = counted
        return Cell(facts.models == counted > 0 and not missed, f"{facts.models} = {counted}{missed}")

    def _again(self) -> Cell:
        """The same command: nothing is asked again."""
        before = self.server.settled()
        self._run("whole")
        return Cell((sent := self.server.settled() - before) == 0, f"{sent} sent")

    def _passages(self) -> Cell:
        facts = self.facts
        if not self.foreign.searches:
            return Cell(True, "none of its own")
        return Cell(facts.passages > 0, f"{facts.passages} of {facts.searches} searches")

    def _cost(self) -> Cell:
        """Dollars in the ledger beside what the server counted, at the same prices."""
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
            with trap(self.server.port) as came:
                self._run("whole", "--journal", "replay", "--new")
        finally:
            self.server.start()
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
                if self.server.answered() >= max(1, total // 2) and self._holds_something("killed"):
                    break
                time.sleep(0.01)
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
            process.wait(LIMIT)
            killed = process.code == -signal.SIGKILL
            before = self.server.settled()
            kept = self._facts("killed").models
            self._run("killed")
            asked = self.server.settled() - before
        self._server = undisturbed
        facts = self._facts("killed")
        same = facts.answers == self.facts.answers
        held = killed and same and asked == total - kept and kept > 0
        words = f"{kept} kept, {asked} asked"
        return Cell(held, words if held else f"{words} of {total}, killed {killed}, same answers {same}")

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
        before = digests(FOREIGN)
        place = foreign.bare or foreign.place
        said = "an address, no file" if foreign.file is None else "0, not run bare"
        if place != "-":
            command = ["bare", self.copy / "bare.py", str(self._path(place)), "What lowers a high potassium?"]
            done = self._finish(command, "bare")
            said = "0"
            if not done.stdout.strip():
                return Cell(False, "bare, it answers nothing")
        knows = [name for name, text in texts(self.copy).items() if "ragrounds" in text]
        return Cell(digests(self.copy) == before and not knows, said if not knows else f"known to {knows}")

    # How it is run.

    def serving(self, latency: float = 0.0) -> Server:
        """A server for the system to ask."""
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
        own |= {"RAGROUNDS_HOME": str(self.folder / home)}
        own |= {
            "LANGSMITH_TRACING": "false",
            "NO_PROXY": "127.0.0.1",
            "STREAM": "1" if self.streamed else "",
            "MODEL": self.server.model,
        }
        return environment() | own | dict(self.foreign.environment)

    def _command(self, home: str, *more: str, caps: str = "") -> list[str | Path]:
        words = ["run", "--agent", self._agent(caps), "--limit", str(self.questions), "--yes"]
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
)


def opening_cost(told: str) -> float | None:
    """Dollars that a run said it paid while the system was opened; ``None``: unknown."""
    found = re.search(r"Model calls made while systems were opened: [\d,]+ \((?:\$([\d.e-]+)|cost unknown)\)", told)
    if found is None:
        return 0.0
    return None if found[1] is None else float(found[1])


def environment() -> dict[str, str]:
    """This process's variables, but for proxies: everything here is on loopback."""
    proxies = {"http_proxy", "https_proxy", "all_proxy"}
    return {key: value for key, value in os.environ.items() if key.lower() not in proxies} | {"NO_PROXY": "127.0.0.1"}


def texts(folder: Path) -> dict[str, str]:
    """What the files of a folder say, but for what Python makes of them."""
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def digests(folder: Path) -> dict[str, str]:
    """A digest of each file of a folder."""
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts(folder).items()}
