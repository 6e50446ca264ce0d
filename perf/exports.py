"""ATIF and Every Eval Ever files before their own validators: `python perf/exports.py HOME PYTHON HARBOR`.

PYTHON is a Python 3.12 with `every-eval-ever` and pydantic installed; HARBOR the unpacked wheel of `harbor` (0.26.0),
whose validator stands alone: `pip download harbor --no-deps --python-version 3.12`. Three agents with the built-in
baseline answer the sample benchmark.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

AGENTS = ("direct", "vanilla_rag[top_k=4]", "search_o1")
ATIF = """
import json, sys, types
for name in ("harbor", "harbor.models", "harbor.utils"):  # its package file pulls in all of it
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [sys.argv[1] + "/" + name.replace(".", "/")]
from harbor.utils.trajectory_validator import TrajectoryValidator
lines, valid = open(sys.argv[2], encoding="utf-8").read().splitlines(), TrajectoryValidator()
good = sum(valid.validate(json.loads(line), validate_images=False) for line in lines)
print(f"ATIF: {good} of {len(lines)} trajectories valid", *valid.errors[:3])
"""


def main() -> None:
    home, python, harbor = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    agents = [word for name in AGENTS for word in ("--agent", name)]
    ragrounds(home, "run", *agents, "--model", "baseline:extractive", "--display", "none")
    ragrounds(home, "export", "atif", *AGENTS, "--out", str(home / "atif.jsonl"), "--force")
    subprocess.run([python, "-c", ATIF, harbor, str(home / "atif.jsonl")], check=True)
    ragrounds(home, "export", "every-eval-ever", *AGENTS, "--out", str(home / "eee"), "--force")
    files = [str(path.relative_to(home / "eee")) for path in (home / "eee").rglob("*.json*")]
    subprocess.run([python, "-m", "every_eval_ever", "validate", *files], cwd=home / "eee", check=False)


def ragrounds(home: Path, *arguments: str) -> None:
    """One command in a process of its own."""
    environment = {**os.environ, "RAGROUNDS_HOME": str(home)}
    command = [sys.executable, "-m", "ragrounds", *arguments]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
