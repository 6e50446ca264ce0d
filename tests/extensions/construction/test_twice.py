"""The same build twice at once pays nothing twice: the second is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.at_work import refused_beside_itself
from tests.conftest import Cli
from tests.servers.process import running


@pytest.mark.slow
def test_the_same_build_twice(cli: Cli, home: Path, tmp_path: Path) -> None:
    with running(
        "extensions.construction.annotator", "--latency", "600"
    ) as server:  # the first is at work until it is killed
        options = ["build", "relevance-mining", "sample", "--corpus", "sample", "--out", str(tmp_path / "mined")]
        options += ["--model", "openai:grader", "--limit", "8", "--concurrency", "4", "--display", "none"]
        options += ["--base-url", server.url]
        refused_beside_itself(cli, server, options, tmp_path)
