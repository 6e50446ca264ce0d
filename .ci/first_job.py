"""Do a newcomer's first job with an installed wheel: three agents on 40 questions, a small study, `doctor --store`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

STUDY = """\
title = "A small study"
settings = { benchmark = "sample", corpus = "sample", limit = 20 }
columns = [{ name = "sample" }]
rows = [
  { name = "{agent}", agent = { alone = "direct", "with passages" = "vanilla_rag[top_k=8]" } },
  { name = "BM25", retriever = "bm25", measure = "recall@5" },
]
"""


def ragrounds(*arguments: str) -> str:
    """Run the installed command and return what it prints; fail if it ends with an error or shows a traceback."""
    program = Path(sys.executable).with_name("ragrounds")
    done = subprocess.run([str(program), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0 or "Traceback" in done.stderr:
        sys.exit(f"ragrounds {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


first = json.loads(ragrounds("run", "--limit", "40", "--display", "none", "--json"))["rows"]
assert [row["statuses"] for row in first] == [{"completed": 40}] * 3, first
Path("small.toml").write_text(STUDY, encoding="utf-8")
study = json.loads(ragrounds("study", "run", "small.toml", "--yes", "--display", "none", "--json"))
states = [cell["state"] for row in study["table"]["rows"] for cell in row["cells"]]
assert states == ["done"] * 3, study
ragrounds("doctor", "--store")

import ragrounds as rr  # noqa: E402 - the library after the command, on what the command stored

assert rr.__file__.startswith(sys.prefix), f"{rr.__file__} is not the wheel"
assert len(rr.runs()) == 5
assert rr.compare([row["run"] for row in first]).comparison.questions == 40
print(f"Python {sys.version.split()[0]}: the wheel of {rr.__version__} did the first job")
