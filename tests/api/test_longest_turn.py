"""The event loop never stands still: all calls in flight would wait."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.servers.process import Running


@pytest.mark.slow
@pytest.mark.usefixtures("home")
def test_no_turn_of_the_event_loop_takes_a_tenth_of_a_second(tmp_path: Path, server: Running) -> None:
    """In a new interpreter, whose run imports everything itself, numba included."""
    pytest.importorskip("numba", reason="needs numba: install ragrounds[fast]")
    question = {"options": {"A": "statins", "B": "insulin"}, "answer": "A"}
    lines = [
        {"id": f"q{n}", "question": f"Case {n}. Asthma in children of {n} months?", **question} for n in range(120)
    ]
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    command = [sys.executable, "-m", "tests.api.longest_turn", f"jsonl:{tmp_path / 'cases.jsonl'}", server.url]
    ended = subprocess.run(
        [*command, "vanilla_rag", "direct_cot"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=280
    )
    seconds, _, turn = ended.stdout.partition(" ")
    assert float(seconds) < 0.1, turn
