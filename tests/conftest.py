"""What tests in every folder share."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests.compiled import compile_once
from tests.forked import run_python
from tests.servers.postgresql import binaries, database, empty, postgresql
from tests.servers.process import Running, openai_server

if TYPE_CHECKING:
    from ragrounds.evals.store.journal import StoreJournal
    from ragrounds.evals.store.store import Store
    from tests.uneven import Uneven

# No deadline: how long an example takes depends on what else the machine does, not on whether the code is right.
settings.register_profile("quick", max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
EXAMPLES = os.environ.get("RAGROUNDS_TEST_EXAMPLES")
"""Number of examples of each property, where `.ci/run` or a user asks for another one than that of the quick tests."""
if EXAMPLES:
    settings.register_profile("thorough", settings.get_profile("quick"), max_examples=int(EXAMPLES))
settings.load_profile("thorough" if EXAMPLES else "quick")

ROOT = Path(__file__).resolve().parents[1]
Cli = Callable[..., "subprocess.CompletedProcess[str]"]


def succeeded(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """Check that a command ended with 0, and return what it printed."""
    assert done.returncode == 0, done.stderr
    return done


MEMORY, ENOUGH = Path("/dev/shm"), 8 << 30
"""Where tests keep their files if it has this many bytes free: the thousands of stores take a third less time there."""


def pytest_configure() -> None:
    """Keep compiled modules. Keep temporary files in memory, unless a user says where or there is little of it."""
    # Images of containers often set this: each of the hundreds of processes would compile all that it imports.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    if "TMPDIR" in os.environ or not MEMORY.is_dir() or not os.access(MEMORY, os.W_OK):
        return
    room = os.statvfs(MEMORY)
    if room.f_bavail * room.f_frsize >= ENOUGH and not room.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # it was computed when a plugin asked for it


@pytest.hookimpl(optionalhook=True)  # mutation testing runs without pytest-xdist
def pytest_xdist_setupnodes() -> None:
    compile_once()


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """Start one worker more than there are cores, because tests wait for servers and for other processes."""
    return (yield) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the golden outputs first: their fixture is made once under a file lock, and `worksteal` leaves the head of
    the order to one worker, so that no other waits for the lock."""
    items.sort(key=lambda item: "golden_outputs" not in item.path.parts)


def pytest_collection() -> None:
    gc.disable()  # what collection makes is kept: looking for garbage in it takes a tenth of the time


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()  # modules and tests stay until the end; no later collection looks at them
    gc.set_threshold(50_000)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Report each test's processor time, its ended children's included and without fixtures, which tests share.

    A child of an earlier test may be waited for here: what all processors cannot have done meanwhile is not the test's.
    """
    before, began = sum(os.times()[:4]), monotonic()
    try:
        yield
    finally:
        most = (monotonic() - began) * (os.cpu_count() or 1)
        item.user_properties.append(("cpu_seconds", f"{min(sum(os.times()[:4]) - before, most):.2f}"))


def pytest_sessionstart(session: pytest.Session) -> None:
    """End the session at the first SIGTERM, with the test that runs; the second ends the process."""

    def end(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        session.shouldstop = "SIGTERM"  # a run in this process takes a Ctrl-C for its own
        if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # a shell starts a process in the background so
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    # Workers end with the process that started them. In a process that a test forks, a handler would wait for its
    # main thread, which may wait for a lock.
    if threading.current_thread() is threading.main_thread() and not hasattr(session.config, "workerinput"):
        signal.signal(signal.SIGTERM, end)
        os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))


@pytest.fixture
def sigterm_is_not_handled() -> Iterator[None]:
    """Have SIGTERM's default action, as in a script that calls us."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def statements() -> Iterator[list[str]]:
    """SQL that was executed since the test began, on any store."""
    from sqlalchemy import Engine, event

    executed: list[str] = []

    def record(connection: object, cursor: object, statement: str, *_: object) -> None:
        executed.append(statement)

    event.listen(Engine, "before_cursor_execute", record)
    yield executed
    event.remove(Engine, "before_cursor_execute", record)


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real data; the test is skipped where there is none."""
    folder = os.environ.get("RAGROUNDS_TEST_DATA")
    if not folder:
        pytest.skip("needs real data: set RAGROUNDS_TEST_DATA (tests/README.md says where each part comes from)")
    return Path(folder)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test sees the user's own runs, settings or keys."""
    for name in list(os.environ):
        if (name.startswith("RAGROUNDS_") and name != "RAGROUNDS_TEST_DATA") or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)  # pytest that a test starts is none of this session's
    monkeypatch.setenv("RAGROUNDS_CONFIG", str(tmp_path_factory.getbasetemp() / "no-settings.toml"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.getbasetemp()))  # the default home is under it


@pytest.fixture(scope="session", autouse=True)
def quick_stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Thousands of stores are made in this process: as copies of the first one, which takes half the time, and without
    waiting for the disk at each commit, which only a loss of power would show."""
    from ragrounds.evals.store import database, sqlite, writer

    settled, open_file = sqlite._with, database.open_file
    engines: list[Any] = []

    def settle(engine: Any, pragmas: Sequence[str]) -> Any:
        if not engines:
            engines.append(engine)
        # One dialect: each statement is compiled once in the session, not once in each store.
        engine.dialect = engine.pool._dialect = engines[0].dialect
        engine._compiled_cache = engines[0]._compiled_cache
        return settled(engine, [*pragmas, "synchronous=OFF"])

    def open_copy(path: Path) -> Any:
        if not path.exists():
            # The whole file appears at once, as another process may open it. Without it the store is made as ever.
            with suppress(OSError), tempfile.NamedTemporaryFile(dir=path.parent) as copy:
                copy.write(empty_store)
                copy.flush()
                os.link(copy.name, path)
        return open_file(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "_GATHER", 0)
        patch.setattr(sqlite, "_with", settle)
        folder = tmp_path_factory.mktemp("empty")
        database.open_engine(folder).dispose()
        empty_store = (folder / "store.sqlite").read_bytes()
        patch.setattr(database, "open_file", open_copy)
        yield


@pytest.fixture(scope="session", autouse=True)
def modules_stay_frozen() -> Iterator[None]:
    """A run unfreezes all objects at its end, also those that `pytest_collection_finish` froze: each later collection
    of all garbage would take half a second, within whichever test happens to run."""
    from ragrounds.evals.engine import scheduler

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduler, "rare_garbage_collection", nullcontext)
        yield


@pytest.fixture(scope="session")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> Uneven:
    """Three runs of which no two figures and no two costs are equal. Tests only read their home."""
    from tests.uneven import write_uneven

    return write_uneven(tmp_path_factory.mktemp("uneven"))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh home folder."""
    folder = tmp_path / "home"
    monkeypatch.setenv("RAGROUNDS_HOME", str(folder))
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store in a file."""
    from ragrounds.evals.store.store import Store

    with Store(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def journal(store: Store) -> Iterator[StoreJournal]:
    """The journal of that store."""
    from ragrounds.evals.store.journal import StoreJournal

    opened = StoreJournal(store)
    yield opened
    opened.close()


@pytest.fixture
def cli(home: Path, tmp_path: Path) -> Cli:
    """Run the command line in a process of its own, from another folder than the repository."""

    def run(*arguments: str, timeout: float = 120, **environment: str) -> subprocess.CompletedProcess[str]:
        command, variables = [sys.executable, "-m", "ragrounds", *arguments], {**os.environ, **environment}
        return subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=timeout)

    return run


@pytest.fixture
def forked_cli(home: Path, tmp_path: Path) -> Cli:
    """Run the command line in a forked process (`tests/forked.py`): cheaper than `cli`, without its start."""

    def run(*arguments: str, timeout: float = 120, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ragrounds", *arguments]
        return run_python(command, timeout, cwd=tmp_path, env={**os.environ, **environment})

    return run


@pytest.fixture
def command(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Cli:
    """Run the command line inside this process: quicker than `cli`, for what needs no process of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        from ragrounds.cli import main

        code: object = 0
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["ragrounds", *arguments])
            for name, value in environment.items():
                patch.setenv(name, value)
            try:
                main(own_process=False)
            except SystemExit as ended:
                code = ended.code or 0
        told = capfd.readouterr()
        return subprocess.CompletedProcess(arguments, int(str(code)), told.out, told.err)

    return run


@pytest.fixture
def edit(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let a file of the package do something else, as its digest has it."""
    from ragrounds.base import digests

    real = digests._read

    def change(name: str) -> None:
        def edited(path: Path, own: bool, mark: tuple[int, int]) -> tuple[str, Any]:
            digest, imports = real(path, own, mark)
            return digest + ("!" if path.name == name else ""), imports

        monkeypatch.setattr(digests, "_read", edited)

    return change


@pytest.fixture(scope="session")
def server() -> Iterator[Running]:
    """A model server without recorded replies, for the whole test session."""
    with openai_server() as running:
        yield running


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """A PostgreSQL server of the test session's own; skipped where there are no programs for it."""
    programs = binaries()
    if programs is None:
        pytest.skip("needs PostgreSQL's server programs (Debian: postgresql)")
    pytest.importorskip("psycopg", reason="needs the extra 'postgresql'")
    with postgresql(programs) as running:
        yield running


@pytest.fixture(scope="session")
def databases() -> list[str]:
    """The URLs of databases that tests have left empty: making one takes as long as a test."""
    return []


@pytest.fixture
def url(postgresql_server: str, databases: list[str]) -> Iterator[str]:
    """An empty database that no other test uses meanwhile."""
    address = databases.pop() if databases else database(postgresql_server)
    yield address
    empty(postgresql_server, address)
    databases.append(address)
