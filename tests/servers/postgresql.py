"""A PostgreSQL server of the tests' own: a fresh cluster in a temporary folder, on loopback, stopped by its id."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ragrounds.models.started_server import free_port
from tests.servers.process import ENDS_WITH_PARENT

ENDS_WITH_PARENT_THEN = f"{ENDS_WITH_PARENT.format(signal=2)}import os; os.execv(sys.argv[1], sys.argv[1:])"


def binaries() -> Path | None:
    """Where PostgreSQL's server programs are, if they are here."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    there = shutil.which("initdb")
    return Path(there).parent if there else None


class Restartable:
    """A server that a test may stop and start."""

    def __init__(self, programs: Path, folder: Path, port: int, user: list[str]) -> None:
        self.url = f"postgresql://ragrounds@127.0.0.1:{port}/postgres"
        self._control = [*user, str(programs / "pg_ctl"), "-D", str(folder / "db"), "-w", "-l", str(folder / "log")]
        self._options = ["-o", f"-p {port} -k {folder} -h 127.0.0.1"]

    def start(self) -> None:
        subprocess.run([*self._control, *self._options, "start"], check=True, stdout=subprocess.DEVNULL)

    def stop(self, how: str = "fast") -> None:
        """`how`: ``fast`` ends every connection with a word, ``immediate`` is a crash."""
        subprocess.run([*self._control, "-m", how, "stop"], check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def _cluster(programs: Path) -> Iterator[tuple[Path, int, list[str]]]:
    """Make a cluster in a folder that goes when the block ends; gives the folder, a free port and how to run as its
    user."""
    folder = Path(tempfile.mkdtemp(prefix="ragrounds-pg-"))
    port, user = free_port(), _unprivileged(folder)
    try:
        initdb = [programs / "initdb", "-D", folder / "db", "-U", "ragrounds", "-A", "trust", "-E", "UTF8", "--no-sync"]
        subprocess.run([*user, *map(str, initdb)], check=True, capture_output=True)
        yield folder, port, user
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def restartable(programs: Path) -> Iterator[Restartable]:
    """Run a server that may be restarted, by its data folder, until the block ends."""
    with _cluster(programs) as (folder, port, user):
        server = Restartable(programs, folder, port, user)
        server.start()
        try:
            yield server
        finally:
            with contextlib.suppress(subprocess.CalledProcessError):  # it may be stopped
                server.stop()


@contextlib.contextmanager
def postgresql(programs: Path) -> Iterator[str]:
    """Run a server until the block ends; gives its URL."""
    with _cluster(programs) as (folder, port, user):
        # `postgres` itself, not pg_ctl: the process started here is the one that is stopped.
        command = [programs / "postgres", "-D", folder / "db", "-p", port, "-k", folder, "-h", "127.0.0.1"]
        command += ["-c", "fsync=off", "-c", "full_page_writes=off"]  # only a loss of power would show it
        ends = [*user[:-1], "--pdeathsig=INT", "--"] if user else [sys.executable, "-c", ENDS_WITH_PARENT_THEN]
        server = subprocess.Popen([*ends, *map(str, command)], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            ready = [programs / "pg_isready", "-h", "127.0.0.1", "-p", port, "-U", "ragrounds", "-t", "1"]
            for _ in range(100):
                if subprocess.run(list(map(str, ready)), capture_output=True, check=False).returncode == 0:
                    break
            yield f"postgresql://ragrounds@127.0.0.1:{port}/postgres"
        finally:
            server.send_signal(signal.SIGINT)  # at once, whoever is still connected
            server.wait(30)


def database(server: str) -> str:
    """The URL of a new, empty database on a server that runs."""
    import psycopg

    name = f"test_{secrets.token_hex(4)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]
    return server.rpartition("/")[0] + "/" + name


def empty(server: str, address: str) -> None:
    """End the connections to a database and remove what is in it."""
    import psycopg

    name = address.rpartition("/")[2]
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")


def _unprivileged(folder: Path) -> list[str]:
    """PostgreSQL refuses to run as root: become its own user, who then owns the folder."""
    if os.geteuid() != 0:
        return []
    owner = pwd.getpwnam("postgres")
    os.chown(folder, owner.pw_uid, owner.pw_gid)
    return ["setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups", "--"]
