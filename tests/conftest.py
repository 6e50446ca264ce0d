"""What tests in every folder share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.servers.process import Running, openai_server

Cli = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real data; the test is skipped where there is none."""
    folder = os.environ.get("RAGROUNDS_TEST_DATA")
    if not folder:
        pytest.skip("needs real data: set RAGROUNDS_TEST_DATA (docs/benchmarks.md says where each part comes from)")
    return Path(folder)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test sees the user's own runs, settings or keys."""
    for name in list(os.environ):
        if (name.startswith("RAGROUNDS_") and name != "RAGROUNDS_TEST_DATA") or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("RAGROUNDS_CONFIG", str(tmp_path_factory.getbasetemp() / "no-settings.toml"))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh home folder."""
    folder = tmp_path / "home"
    monkeypatch.setenv("RAGROUNDS_HOME", str(folder))
    return folder


@pytest.fixture
def cli(home: Path, tmp_path: Path) -> Cli:
    """Run the command line in a process of its own, from another folder than the repository."""

    def run(*arguments: str, timeout: float = 120, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "ragrounds", *arguments],
            cwd=tmp_path,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    return run


@pytest.fixture(scope="session")
def server() -> Iterator[Running]:
    """A model server without recorded replies, for the whole test session."""
    with openai_server() as running:
        yield running
