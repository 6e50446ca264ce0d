"""`perf/strategies.py`: every strategy that ships answers on the model that follows a rule, and nothing fails."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ragrounds.api.agents import list_agents
from tests.conftest import ROOT


@pytest.mark.slow
def test_every_strategy_is_measured_and_none_fails(data: Path) -> None:
    command = [sys.executable, str(ROOT / "perf" / "strategies.py"), str(data), "--limit", "3"]
    measuring = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    assert measuring.returncode == 0, measuring.stderr
    page = measuring.stdout
    assert " 0 calls failed." in page
    measured, did = (dict(re.findall(r"^\| `(.+?)` \| (.+) \|$", part, re.M)) for part in page.split("What they did"))
    assert {*measured} == {*did} == {*list_agents()} - {"native_search", "query_generation"}
    assert {line.split(" | ")[-1] for line in measured.values()} == {"0"}
    ended = {word for line in did.values() for word in re.findall(r"\d+ ([a-z ]+)", line.split(" | ")[-1])}
    assert ended <= {"answered", "own limit"}
