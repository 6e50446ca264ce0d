"""Processor seconds of `import ragrounds`, beside those of an interpreter that does nothing, and of a first call.

    python perf/import_api.py [--runs N]

Each figure is the median over the runs, user + system time of the whole process.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from help import cpu

CODE = {
    "import ragrounds": "import ragrounds",
    "rr.runs() in an empty folder": "import ragrounds as rr, tempfile; rr.runs(home=tempfile.mkdtemp())",
    "python -c pass": "pass",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=11)
    runs = parser.parse_args().runs
    seconds: dict[str, list[float]] = {name: [] for name in CODE}
    for _ in range(runs):
        for name, code in CODE.items():
            seconds[name].append(cpu([sys.executable, "-c", code]))
    print(json.dumps({name: round(statistics.median(values), 3) for name, values in seconds.items()}, indent=2))


if __name__ == "__main__":
    main()
