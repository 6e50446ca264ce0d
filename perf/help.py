"""Processor seconds of `ragrounds --help`, beside those of an interpreter that does nothing.

    python perf/help.py [--runs N]

Each figure is the median over the runs, user + system time of the whole process.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys


def cpu(command: list[str]) -> float:
    """Processor seconds of one run of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=11)
    runs = parser.parse_args().runs
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "ragrounds --help": [sys.executable, "-m", "ragrounds", "--help"],
    }
    seconds = {name: statistics.median(cpu(command) for _ in range(runs)) for name, command in commands.items()}
    print(json.dumps({name: round(value, 3) for name, value in seconds.items()}, indent=2))


if __name__ == "__main__":
    main()
