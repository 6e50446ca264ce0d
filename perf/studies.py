"""A study of 2 strategies x 3 models x 5 datasets x 3 epochs through the wire, killed twice: one table.

The server is a process of its own and counts what it answers. The same study is carried out undisturbed in another
folder; both tables must be equal to the last digit. Then the study that has everything is carried out again: what a
cell costs that is already known.

    python perf/studies.py [--questions 12] [--write]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
DATASETS, EPOCHS, KILLS = 5, 3, (0.25, 0.6)
STRATEGIES = {"no retrieval": "direct", "4 passages": "vanilla_rag[top_k=4]"}
MODELS = {"A": "openai:a", "B": "openai:b", "C": "openai:c"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=12, help="of each dataset")
    parser.add_argument("--write", action="store_true", help="write perf/studies.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ragrounds-study-") as folder:
        text = measure(Path(folder), options.questions)
    print(text)
    if options.write:
        (ROOT / "perf" / "studies.md").write_text(text, encoding="utf-8")


def measure(folder: Path, questions: int) -> str:
    """Both studies, and the page about them.

    Raises:
        SystemExit: the tables differ.
    """
    from tests.servers.scripted_http import scripted

    file, attempts = write_study(folder, questions), 2 * 3 * DATASETS * questions * EPOCHS
    with scripted(letter) as server:
        began = time.monotonic()
        for share in KILLS:
            killed(file, folder / "killed", server.url, server, share * attempts)
        finish(file, folder / "killed", server.url)
        disturbed, calls = time.monotonic() - began, server.calls
        again = processor_seconds(file, folder / "killed", server.url)
        assert server.calls == calls, "a study that has everything asked a model"
        clean_from = server.calls
        finish(file, folder / "clean", server.url)
        clean = server.calls - clean_from
        one, other = (table(file, folder / name, server.url) for name in ("killed", "clean"))
    if one != other:
        sys.exit("the tables differ")
    cells = 2 * 3 * DATASETS
    empty = processor_seconds(None, folder / "killed", server.url)
    return "\n".join(
        [
            "# A study, killed twice",
            "",
            f"{date.today()}. `python perf/studies.py --write`: {len(STRATEGIES)} strategies x {len(MODELS)} models x "
            f"{DATASETS} datasets of {questions} questions x {EPOCHS} epochs through a server on loopback.",
            "",
            "| | |",
            "|---|---|",
            f"| cells, attempts | {cells}, {attempts:,} |",
            f"| `kill -9` | {len(KILLS)}, at {' and '.join(f'{share:.0%}' for share in KILLS)} of the answers |",
            f"| answers of the server, killed twice | {calls:,} (undisturbed: {clean:,}; "
            f"{calls - clean:,} were in flight when the process was killed) |",
            "| tables | equal in every cell: value, interval, sd over epochs, differences |",
            f"| wall time, killed twice | {disturbed:.0f} s |",
            f"| the same command when all is known: processor time | {again:.1f} s in all, of which {empty:.1f} s is "
            f"`ragrounds study ls`; {1000 * (again - empty) / cells:.0f} ms a cell |",
            "",
            "The table, as both printed it:",
            "",
            "```",
            shown(file, folder / "killed"),
            "```",
            "",
        ]
    )


def letter(prompt: str, before: int) -> str:
    """A letter that hangs on the prompt alone, so that both studies get the same."""
    return json.dumps({"answer_choice": "ABCD"[sum(map(ord, prompt)) % 4]})


def write_study(folder: Path, questions: int) -> Path:
    """Five datasets of the sample's choice questions, and the study's file."""
    from importlib.resources import files

    text = files("ragrounds").joinpath("sample", "questions.jsonl").read_text(encoding="utf-8")
    rows = [row for row in map(json.loads, text.splitlines()) if row["type"] == "choice"]
    parts = []
    for number in range(DATASETS):
        chosen = [rows[(number * questions + place) % len(rows)] for place in range(questions)]
        path = folder / f"set{number + 1}.jsonl"
        lines = [{**row, "id": f"s{number}-{place}-{row['id']}"} for place, row in enumerate(chosen)]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        parts.append(f'[[columns]]\nname = "set {number + 1}"\nbenchmark = "jsonl:{path}"\n')
    names = ", ".join(f'"set {number + 1}"' for number in range(DATASETS))
    agents = ", ".join(f'"{name}" = "{text}"' for name, text in STRATEGIES.items())
    models = ", ".join(f'"{name}" = "{text}"' for name, text in MODELS.items())
    study = (
        f'title = "Two strategies, three models"\nspread = "epochs"\nbaseline = "A, no retrieval"\n[settings]\n'
        f'corpus = "sample"\nepochs = {EPOCHS}\n[[rows]]\nname = "{{model}}, {{agent}}"\nagent = {{ {agents} }}\n'
        f"model = {{ {models} }}\n" + "\n".join(parts) + f'\n[[columns]]\nname = "Average"\nmean = [{names}]\n'
    )
    path = folder / "study.toml"
    path.write_text(study)
    return path


def command(file: Path | None, home: Path, url: str, *more: str) -> tuple[list[str], dict[str, str]]:
    """The command line and its environment."""
    environment = {**os.environ, "RAGROUNDS_HOME": str(home), "OPENAI_API_KEY": "none", "PYTHONPATH": str(ROOT)}
    if file is None:
        return [sys.executable, "-m", "ragrounds", "study", "ls"], environment
    return (
        [
            sys.executable,
            "-m",
            "ragrounds",
            "study",
            "run",
            str(file),
            "--base-url",
            url,
            "--alias",
            "here",
            "--yes",
            *more,
        ],
        environment,
    )


def killed(file: Path, home: Path, url: str, server: object, at: float) -> None:
    """Begin, and kill when the server has answered so many."""
    line, environment = command(file, home, url)
    process = subprocess.Popen(line, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and server.calls < at:  # type: ignore[attr-defined]
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()


def finish(file: Path, home: Path, url: str) -> None:
    """Carry it out to its end."""
    line, environment = command(file, home, url)
    subprocess.run(line, env=environment, check=True, capture_output=True)


def processor_seconds(file: Path | None, home: Path, url: str) -> float:
    """User and system time of one command."""
    before = os.times()
    line, environment = command(file, home, url)
    subprocess.run(line, env=environment, check=True, capture_output=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def table(file: Path, home: Path, url: str) -> list[dict[str, object]]:
    """The table without the ids of runs."""
    line, environment = command(file, home, url, "--json")
    done = subprocess.run(line, env=environment, check=True, capture_output=True, text=True)
    rows = json.loads(done.stdout)["table"]["rows"]
    return [{key: value for key, value in cell.items() if key != "runs"} for row in rows for cell in row["cells"]]


def shown(file: Path, home: Path) -> str:
    """What `study show` prints."""
    environment = {**os.environ, "RAGROUNDS_HOME": str(home), "PYTHONPATH": str(ROOT)}
    line = [sys.executable, "-m", "ragrounds", "study", "show", str(file)]
    done = subprocess.run(line, env=environment, check=True, capture_output=True, text=True)
    return done.stdout.strip("\n")


if __name__ == "__main__":
    main()
