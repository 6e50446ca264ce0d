"""`--engine ray`: a cluster of two nodes on loopback and a PostgreSQL, both the test's own; one node is killed."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from ragrounds.evals.store.store import Store
from tests.conftest import Cli
from tests.extensions.cluster.ray_server import RunningCluster, ray_cluster
from tests.extensions.cluster.test_hung_workers import COMPUTING
from tests.extensions.cluster.test_workers import until
from tests.servers.process import Running, openai_server

COUNT = 60
AGENTS = ["direct", "direct_cot"]
OPTIONS = ["run", "--agent", "direct", "--agent", "direct_cot", "--limit", str(COUNT), "--concurrency", "8"]

with_ray = pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra 'ray'")


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with ray_cluster(2) as running:
        yield running


def half_done(server: Running, environment: dict[str, str]) -> subprocess.Popen[str]:
    """A run on the cluster, as soon as half of its questions are answered."""
    words = [*OPTIONS, "--engine", "ray", "--model", "openai:plain", "--base-url", server.url, "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "ragrounds", *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(server, COUNT // 2, process)
    return process


@with_ray
def test_a_store_in_a_file_is_refused_where_nodes_would_not_reach_it(cli: Cli, cluster: RunningCluster) -> None:
    told = cli(*OPTIONS, "--engine", "ray", **cluster.environment)
    assert told.returncode == 2
    assert "The Ray cluster has 2 nodes, and the store is a file on this machine. Set RAGROUNDS_STORE" in told.stderr
    assert "Traceback" not in told.stderr


@with_ray
def test_a_stopped_actor_is_ended_and_all_questions_are_answered_once(
    url: str, cluster: RunningCluster, tmp_path: Path
) -> None:
    environment = {**os.environ, **cluster.environment, "RAGROUNDS_HOME": str(tmp_path), "RAGROUNDS_STORE": url}
    environment |= {"RAGROUNDS_WORKER_TIMEOUT": "3"}
    with openai_server("--latency", "0.3", "--jitter", "0.2") as server:
        process = half_done(server, environment)
        stopped = actors(cluster)[0]
        os.kill(stopped, signal.SIGSTOP)
        _, said = process.communicate(timeout=120)
        stats = server.stats()
    assert process.returncode == 0, said
    assert f"did not answer for 3 s (process {stopped}) and was ended; other workers take" in said
    assert not Path(f"/proc/{stopped}").exists()
    with Store(tmp_path, url) as store:
        assert [Counter(store.done(run).values()) for run in store.runs()] == [Counter(completed=COUNT)] * 2
    assert stats["prompts"] == 2 * COUNT
    assert len(stats["answered_twice"]) <= 4, "no more than the stopped worker had in flight is asked again"


@with_ray
def test_an_actor_whose_graph_computes_for_long_is_left_alone(
    cli: Cli, url: str, cluster: RunningCluster, server: Running, tmp_path: Path
) -> None:
    path = tmp_path / "computing.py"
    path.write_text(COMPUTING.replace("number 3?", "").replace("HOLD()", "time.sleep(4)"))
    words = ["run", "--engine", "ray", "--agent", f"{path}:build", "--limit", "2", "--concurrency", "2"]
    words += ["--model", "openai:plain", "--base-url", server.url]
    told = cli(*words, RAGROUNDS_STORE=url, RAGROUNDS_WORKER_TIMEOUT="1.5", **cluster.environment)
    assert told.returncode == 0, told.stderr
    assert "was ended" not in told.stderr


def actors(cluster: RunningCluster) -> list[int]:
    """Processes that are workers on this Ray cluster: other tests of this machine may run one of their own."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if place.read_bytes().startswith(b"ray::RayWorker"):
                parent = re.search(r"^PPid:\s+(\d+)", place.with_name("status").read_text(), re.M)
                node = Path(f"/proc/{parent[1]}/cmdline").read_text() if parent else ""
                if cluster.environment["RAY_TMPDIR"] in node:
                    found.append(int(place.parent.name))
    return sorted(found)


@with_ray
def test_one_of_two_nodes_is_killed_and_all_questions_are_answered_once(
    url: str, cluster: RunningCluster, tmp_path: Path
) -> None:
    environment = {**os.environ, **cluster.environment, "RAGROUNDS_HOME": str(tmp_path), "RAGROUNDS_STORE": url}
    with openai_server("--latency", "0.3", "--jitter", "0.2") as server:
        process = half_done(server, environment)
        cluster.kill_a_node()
        told, said = process.communicate(timeout=120)
        stats = server.stats()
    assert process.returncode == 0, said
    assert told.startswith("{"), "standard output is for results"
    assert "was lost with its node" in said
    assert "other workers take" in said
    with Store(tmp_path, url) as store:
        runs = store.runs()
        assert [Counter(store.done(run).values()) for run in runs] == [Counter(completed=COUNT)] * 2
        assert [run.agent for run in runs] == AGENTS
    assert stats["prompts"] == 2 * COUNT
    assert len(stats["answered_twice"]) <= 4, "no more than the lost node had in flight is asked again"


@pytest.mark.slow
def test_without_ray_or_without_a_cluster_there_is_one_clear_line(cli: Cli) -> None:
    told = cli("run", "--engine", "ray", RAY_ADDRESS="127.0.0.1:1", RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0")
    assert told.returncode == 2
    assert ("pip install 'ragrounds[ray]'" if find_spec("ray") is None else "Cannot join a Ray cluster") in told.stderr
    assert "Traceback" not in told.stderr
