"""A piece of the matrix of ``perf/faults.py``: what becomes of a reply, and in how much memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "perf" / "faults.py"
EXPECTED = {
    "plain": {"read"},
    "usage negative": {"read, usage unknown"},
    "307 to another host": {"stop"},
    "gzip of 1 GB": {"too_large"},
    "nested 3,000,000 deep": {"too_large", "malformed"},
}


@pytest.mark.slow
def test_a_reply_has_the_same_outcome_for_a_model_a_judge_and_an_embedder() -> None:
    line = [sys.executable, str(SCRIPT), "--json", "--only", *EXPECTED]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    cells = [cell for cell in json.loads(done.stdout) if cell["kind"] in EXPECTED]
    assert len(cells) == len(EXPECTED) * 6
    for cell in cells:
        if cell["surface"] != "embedder" or not cell["stream"] or cell["outcome"] not in ("malformed",):
            assert cell["outcome"] in EXPECTED[cell["kind"]], cell
        assert cell["mb"] < 300, cell
