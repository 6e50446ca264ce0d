"""The four kinds of report that are looked at and measured: `python perf/report_kinds.py DATA HOME [KIND …]`.

    search_o1     three agents on the sample benchmark, two of them with Search-o1's hops, costs known
    imported      15,326 attempts: MIRAGE's recorded predictions, two settings of 7,663 questions each
    kqa           K-QA's long answers of two agents, graded by two judges, and an arena; costs unknown
    interrupted   two agents on the sample benchmark, ended by Ctrl-C half-way, with attempts that failed

Each has its home at HOME/KIND and its page at HOME/KIND/report.html. What is there already is not made again; --force
writes the pages again. Nothing is sent but to a server on loopback that is no model, so no figure of it is a result.
DATA is a folder with `mirage/` (benchmark.json, predictions/) and `kqa/dataset/`.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODEL = "stand-in"
PRICES = f'["openai:{MODEL}"]\ninput = 0.15\noutput = 0.60\n'
INTERRUPTED_AFTER = 300
"""Requests of a run of some seven hundred until Ctrl-C is pressed."""

Options = Sequence[str]


def ragrounds(home: Path, *arguments: str, codes: Sequence[int] = (0, 3)) -> None:
    """One command in a process of its own; 3 says that some attempts failed."""
    home.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "RAGROUNDS_HOME": str(home)}
    done = subprocess.run([sys.executable, "-m", "ragrounds", *arguments], env=environment, cwd=home, check=False)
    if done.returncode not in codes:
        raise SystemExit(f"ragrounds {' '.join(arguments)} ended with {done.returncode}")


@contextmanager
def loopback_model(*options: str) -> Iterator[str]:
    """The base URL of the server beside this file, until the block ends."""
    command = [sys.executable, str(HERE / "loopback_model.py"), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.terminate()


def asked(url: str) -> int:
    """How many requests the loopback model has had."""
    with urllib.request.urlopen(f"{url.removesuffix('/v1')}/asked", timeout=10) as answer:
        return int(answer.read())


def asking(url: str) -> Options:
    """The options that name the loopback model."""
    return ("--model", f"openai:{MODEL}", "--base-url", url, "--alias", "loopback")


def search_o1(data: Path, home: Path) -> Options:
    """Three agents on the sample benchmark."""
    (home / "prices.toml").write_text(PRICES, encoding="utf-8")
    agents = ("vanilla_rag[top_k=8]", "search_o1[reading=false]", "search_o1")
    named = [word for agent in agents for word in ("--agent", agent)]
    with loopback_model() as url:
        ragrounds(home, "run", *named, *asking(url), "--corpus", "sample", "--display", "none", "--yes")
    return (*agents, "--group-by", "subject", "--analysis", "hops")


def imported(data: Path, home: Path) -> Options:
    """MIRAGE's own predictions."""
    predictions = sorted((data / "mirage/predictions").glob("*.jsonl.gz"))
    benchmark = f"mirage:{data / 'mirage/benchmark.json'}"
    ragrounds(home, "import", "--format", "mirage-predictions", *map(str, predictions), "--benchmark", benchmark)
    return (*run_ids(home), "--group-by", "dataset")


def kqa(data: Path, home: Path) -> Options:
    """Long answers, two judges and an arena."""
    agents = ("direct", "vanilla_rag[top_k=8]")
    named = [word for agent in agents for word in ("--agent", agent)]
    with loopback_model() as url:
        beside = asking(url)[2:]
        benchmark = f"kqa:{data / 'kqa/dataset'}"
        ragrounds(
            home, "run", "--benchmark", benchmark, *named, *asking(url), "--corpus", "sample", "--display", "none",
            "--yes",
        )  # fmt: skip
        judges = ("--judge", "openai:judge-one", "--judge", "openai:judge-two")
        ragrounds(home, "judge", "run", *agents, "--kind", "statements", *judges, *beside)
        ragrounds(home, "arena", "play", *agents, "--reference", *judges[:2], *beside)
    return agents


def interrupted(data: Path, home: Path) -> Options:
    """A run that Ctrl-C ended; what was in flight has been finished."""
    (home / "prices.toml").write_text(PRICES, encoding="utf-8")
    agents = ("direct_cot", "search_o1")
    named = [word for agent in agents for word in ("--agent", agent)]
    with loopback_model("--latency", "0.5", "--faults", "0.04") as url:
        command = [sys.executable, "-m", "ragrounds", "run", *named, *asking(url), "--corpus", "sample"]
        command += ["--display", "none", "--yes", "--concurrency", "8"]
        with subprocess.Popen(command, env={**os.environ, "RAGROUNDS_HOME": str(home)}, cwd=home) as process:
            while asked(url) < INTERRUPTED_AFTER and process.poll() is None:
                time.sleep(0.1)
            process.send_signal(signal.SIGINT)
            if (code := process.wait(120)) != 128 + signal.SIGINT:
                raise SystemExit(f"the run was to be interrupted, and ended with {code}")
    return agents


def run_ids(home: Path) -> list[str]:
    """The runs of a store."""
    from ragrounds.evals.store.store import Store

    with Store(home) as store:
        return [run.id for run in store.runs()]


KINDS: dict[str, Callable[[Path, Path], Options]] = {
    "search_o1": search_o1, "imported": imported, "kqa": kqa, "interrupted": interrupted,
}  # fmt: skip


def report_of(kind: str, data: Path, folder: Path, force: bool = False) -> Path:
    """The page of a kind, made where it is not there yet.

    Args:
        kind: its name.
        data: the data's folder.
        folder: where the homes are.
        force: write the page again; the runs are kept.
    """
    home = folder / kind
    page, given = home / "report.html", home / "report.options"
    if not given.is_file():
        home.mkdir(parents=True, exist_ok=True)
        given.write_text("\n".join(KINDS[kind](data, home)), encoding="utf-8")
    if force or not page.is_file():
        ragrounds(home, "report", *given.read_text(encoding="utf-8").splitlines(), "--out", str(page), "--force")
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("home", type=Path)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="none: all four")
    parser.add_argument("--force", action="store_true", help="write the pages again")
    options = parser.parse_args()
    if unknown := set(options.kinds) - set(KINDS):
        parser.error(f"no kind {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    for kind in options.kinds or KINDS:
        began = time.monotonic()
        page = report_of(kind, options.data.resolve(), options.home.resolve(), options.force)
        print(f"{page}  {page.stat().st_size / 1e6:.2f} MB  {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
