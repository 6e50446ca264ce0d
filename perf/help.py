"""Processor seconds of `ragrounds --help` and of what a shell asks when Tab is pressed, beside those of an interpreter
that does nothing.

    python perf/help.py [--runs N]

Each figure is the median over the runs, user + system time of the whole process. The lines are completed over a store
of a thousand runs.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from ragrounds.evals.store.store import Store
from ragrounds.records import Run

LINES = (
    "ragrounds ru",
    "ragrounds run --agent va",
    "ragrounds run --agent vanilla_rag[",
    "ragrounds run --benchmark mir",
    "ragrounds compare di",
    "ragrounds compare x --scorer st",
    "ragrounds retrieve --retriever bm",
)


def cpu(command: list[str], **environment: str) -> float:
    """Processor seconds of one run of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **environment})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def fill(home: Path, count: int) -> None:
    """A store of so many runs without attempts."""
    with Store(home) as store:
        for number in range(count):
            agent = f"direct[prompting=cot,limits.calls={number}]"
            about = {"fingerprint": f"{number}", "identity": {"model": "baseline:extractive"}, "created": float(number)}
            names = {"id": f"direct-{number:06}", "agent": agent, "benchmark": "sample", "questions": "none"}
            store.add_run(Run(count=0, epochs=1, **names, **about), [], {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=11)
    runs = parser.parse_args().runs
    program = [sys.executable, "-m", "ragrounds"]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        fill(home, 1000)
        environments: dict[str, dict[str, str]] = {"python -c pass": {}, "ragrounds --help": {}}
        environments |= {f"{line}<TAB>": {"COMP_LINE": line} for line in LINES}
        commands = dict.fromkeys(environments, program) | {
            "python -c pass": [sys.executable, "-c", "pass"],
            "ragrounds --help": [*program, "--help"],
        }
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(runs):
            for name, environment in environments.items():
                asked = {"_RAGROUNDS_COMPLETE": "complete_bash", **environment} if environment else {}
                seconds[name].append(cpu(commands[name], RAGROUNDS_HOME=str(home), **asked))
    print(json.dumps({name: round(statistics.median(values), 3) for name, values in seconds.items()}, indent=2))


if __name__ == "__main__":
    main()
