"""A Ray cluster of the tests' own: nodes on loopback, started in a process of its own, one of which can be killed."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


class RunningCluster:
    """A cluster that runs."""

    def __init__(self, process: subprocess.Popen[str], environment: dict[str, str]) -> None:
        self._process = process
        self.environment = environment
        """What a program that joins the cluster needs in its environment."""

    def kill_a_node(self) -> None:
        """Kill all processes of the node that was started last."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("kill\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline().strip() == "killed"


@contextlib.contextmanager
def ray_cluster(nodes: int) -> Iterator[RunningCluster]:
    """Run a cluster of so many nodes, one processor each, until the block ends."""
    folder = tempfile.mkdtemp(prefix="rr-", dir="/tmp")  # its sockets' names must be short
    environment = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_TMPDIR": folder,
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # so that this machine's address is its loopback
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.extensions.cluster.ray_server", str(nodes)],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout
        address = process.stdout.readline().strip()
        if not address:
            raise RuntimeError(f"the Ray cluster did not start (exit code {process.wait(10)})")
        yield RunningCluster(process, {**environment, "RAY_ADDRESS": address})
    finally:
        assert process.stdin
        process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Serve until standard input ends."""
    talk = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    nodes = [
        cluster.add_node(num_cpus=1, include_dashboard=False, node_ip_address="127.0.0.1")
        for _ in range(int(sys.argv[1]))
    ]
    print(cluster.address, file=talk, flush=True)
    try:
        for line in sys.stdin:
            if line.strip() == "kill":
                cluster.remove_node(nodes.pop(), allow_graceful=False)
                print("killed", file=talk, flush=True)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
