"""What an attempt that retrieves costs: `vanilla_rag` over MedQuAD's 16,407 passages, many calls in flight at once.

    python perf/engine_rag.py DATA [--small 1000] [--large 5000] [--concurrency 256] [--workers 1 2 auto] [--agents …]

A loopback server answers after 50 ms. Questions are MIRAGE's, each with its number before it, so that all prompts
differ. Processor time and attempts a second are slopes between the smaller and the larger number of questions; then the
finished run is given again, and what that takes is said as a whole.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from perf.engine_peers import measured, server, size  # noqa: E402


def corpus(data: Path, folder: Path) -> Path:
    """MedQuAD's answers as passages, a line each."""
    file = folder / "medquad.jsonl"
    with gzip.open(data / "medquad" / "medquad_with_answers.jsonl.gz", "rt") as lines, file.open("w") as out:
        for number, line in enumerate(lines):
            item = json.loads(line)
            out.write(json.dumps({"id": f"m{number}", "title": item["question"], "contents": item["answer"]}) + "\n")
    return file


def questions(data: Path, folder: Path, count: int) -> Path:
    """MIRAGE's questions, round and round, each with a number of its own."""
    held = json.loads((data / "mirage" / "benchmark.json").read_text())
    items = itertools.cycle([item for dataset in held.values() for item in dataset.values()])
    file = folder / f"cases-{count}.jsonl"
    with file.open("w") as out:
        for number, item in zip(range(count), items, strict=False):
            line = {"id": f"q{number}", "question": f"Case {number}. {item['question']}", "options": item["options"]}
            out.write(json.dumps({**line, "answer": item["answer"]}) + "\n")
    return file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder with medquad/ and mirage/")
    parser.add_argument("--small", type=int, default=1000)
    parser.add_argument("--large", type=int, default=5000)
    parser.add_argument("--concurrency", type=int, default=256)
    parser.add_argument("--workers", nargs="*", default=["1", "2", "auto"], metavar="N|auto")
    parser.add_argument("--agents", nargs="*", default=["direct", "vanilla_rag", "direct+vanilla_rag"])
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="ragrounds-perf-"))
    try:
        passages = corpus(given.data, folder)
        files = [questions(given.data, folder, count) for count in (given.small, given.large)]
        rows = []
        print(f"{'':34}  s/1,000  attempts/s  MB, most  disk MB  again s  again processor s", flush=True)
        for agents, workers in itertools.product(given.agents, given.workers):
            names = agents.split("+")
            with server(0.05, 0.05) as url:
                spent = []
                for file in files:
                    home = {"RAGROUNDS_HOME": str(folder / f"home-{agents}-{workers}-{file.stem}")}
                    command = [sys.executable, "-m", "ragrounds", "run", "--benchmark", f"jsonl:{file}"]
                    command += [word for name in names for word in ("--agent", name)]
                    command += ["--corpus", f"jsonl:{passages}"] if "vanilla_rag" in names else []
                    command += ["--model", "openai:perf[alias=perf]", "--base-url", url, "--display", "none", "--json"]
                    command += ["--concurrency", str(given.concurrency), "--workers", str(workers)]
                    environment = {**home, "PYTHONPATH": str(HERE.parent)}
                    spent.append(measured(command, environment))
                again = measured(command, environment)
                spent[1].disk = size(Path(home["RAGROUNDS_HOME"]))
            attempts = (given.large - given.small) * len(names)
            row = {
                "agents": agents,
                "workers": workers,
                "processor_s_per_1000": round((spent[1].processor - spent[0].processor) / attempts * 1000, 2),
                "attempts_per_s": round(attempts / (spent[1].wall - spent[0].wall), 1),
                "memory_mb": round(spent[1].memory),
                "disk_mb": round(spent[1].disk, 1),
                "again": [round(again.wall, 2), round(again.processor, 2)],
            }
            rows.append(row)
            print(
                f"{agents + f', --workers {workers}':34}  {row['processor_s_per_1000']:7}  "
                f"{row['attempts_per_s']:10}  {row['memory_mb']:8}  {row['disk_mb']:7}  {again.wall:7.2f}  "
                f"{again.processor:7.2f}",
                flush=True,
            )
        print(json.dumps({"load": os.getloadavg()[0], "rows": rows}))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
