"""What a server of one's own needs of this machine: its program, an environment, a port; and a record of it, so that
one whose run is gone is found again."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from ragrounds.errors import UserError
from ragrounds.models.processes import Process


class ServerRecord(Struct, frozen=True):
    """A server that runs, as it is written down."""

    model: str
    owner: Process
    supervisor: Process
    server: Process


def stop_orphans(home: Path) -> int:
    """Stop servers whose run is gone; how many there were. Each is known by process id and start time."""
    stopped = 0
    for path in sorted((home / "servers").glob("*.json")):
        try:
            record = msgspec.json.decode(path.read_bytes(), type=ServerRecord)
        except (OSError, msgspec.DecodeError):
            continue
        if record.owner.alive:
            continue
        if record.server.alive:
            record.server.end_group()
            stopped += 1
        path.unlink(missing_ok=True)
    return stopped


def executable() -> str:
    """The path of ``vllm``.

    Raises:
        UserError: there is none.
    """
    beside = str(Path(sys.executable).parent)  # an environment that was not activated
    found = shutil.which("vllm") or shutil.which("vllm", path=beside)
    if found is None:
        raise UserError(
            "There is no `vllm` on the PATH to serve this model with. Install it where there is a GPU "
            "(pip install 'ragrounds[vllm]'), or name a server that runs with --base-url."
        )
    return found


def environment() -> Iterator[tuple[str, str]]:
    """Ours without providers' keys, which a server of one's own has no use for."""
    for name, value in os.environ.items():
        if not name.endswith("_API_KEY") or name.startswith("VLLM_"):
            yield name, value
    # vLLM reports its use to its makers where nothing is said.
    yield from (("VLLM_NO_USAGE_STATS", "1"), ("DO_NOT_TRACK", "1"))


def free_port() -> int:
    """A port of the loopback interface that is free now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def answer_of(url: str) -> bytes | None:
    """What a server says to a GET, if it answers with success."""
    request = urllib.request.Request(url)  # noqa: S310
    if key := os.environ.get("VLLM_API_KEY"):
        request.add_header("Authorization", f"Bearer {key}")
    try:
        # No proxy: it is on this machine, whatever the environment says.
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=2) as answer:
            body: bytes = answer.read()
            return body
    except (OSError, urllib.error.URLError, ValueError):
        return None
