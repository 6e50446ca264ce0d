"""What whole reports cost in tokens, beside chunks and the oracle; and two-level MaxP against a computation of its own.

    python perf/parent_documents.py [--reports N] [--questions N]

Makes N long reports with a question each (tests/long_reports.py), cuts them into windows of 512 tokens, a new one
every 128, and gives the commands that a user gives: `ragrounds index build`, `run` with six agents, `retrieve`. The
model is a server on loopback that answers a fixed text. Tokens are those of the documents' part of the prompts that the
server was sent, counted by cl100k_base. Writes perf/parent_documents.md.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import every_trace
from ragrounds.models.tokens import count
from ragrounds.tools.index.analysers import analyser
from ragrounds.tools.index.chunkers import splitter
from ragrounds.tools.index.collection import open_named
from tests.long_reports import MadeReport, write_reports
from tests.servers.process import Running, openai_server

WINDOWS = "tokens[size=512,stride=128]"
PARENT = "retriever=parent[of=maxp[of=bm25]]"
AGENTS = {
    "chunk, k = 1": "vanilla_rag[top_k=1]",
    "chunk, k = 5": "vanilla_rag[top_k=5]",
    "parent, k = 1": f"vanilla_rag[top_k=1,{PARENT}]",
    "parent, k = 3": f"vanilla_rag[top_k=3,{PARENT}]",
    "parent, k = 5": f"vanilla_rag[top_k=5,{PARENT}]",
    "oracle": "oracle",
    "oracle, its chunks (as before)": "oracle[retriever=bm25]",
}
MEASURES = ("R@1", "R@3", "R@5", "R@10", "R@100", "R@1000", "MRR@5", "nDCG@10")
"""OGCaReBench, Table 5."""


class Commands:
    """The command line in one home folder, with the time and the memory that each command took."""

    def __init__(self, home: Path) -> None:
        self.environment = {**os.environ, "RAGROUNDS_HOME": str(home / "home"), "OPENAI_API_KEY": "k"}
        self.folder = home

    def __call__(self, *words: str) -> tuple[str, str, float, float]:
        """What it printed, what it told, seconds, and the greatest MB of any child so far."""
        begun = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "ragrounds", *words],
            cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        return done.stdout, done.stderr, time.perf_counter() - begun, most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reports", type=int, default=200)
    parser.add_argument("--questions", type=int, default=200)
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="ragrounds-parents-"))
    try:
        text = "\n".join(measured(options, home)) + "\n"
    finally:
        shutil.rmtree(home, ignore_errors=True)
    Path(__file__).with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)


def measured(options: argparse.Namespace, home: Path) -> Iterator[str]:
    """The page, line by line."""
    made, give = write_reports(home / "rare", options.reports), Commands(home)
    lengths = [count(one.text) for one in made]
    _, _, built, built_most = give("index", "build", "cases", "--from", "beir:rare", "--chunker", WINDOWS)
    chunks = open_named("cases", Path(give.environment["RAGROUNDS_HOME"])).manifest.passages
    yield "# Whole reports in the context\n"
    yield (
        f"`python perf/parent_documents.py`: {len(made)} made-up case reports of {min(lengths):,} to {max(lengths):,} "
        f"tokens (mean {fmean(lengths):,.0f}), {chunks:,} windows of 512 tokens, a new one every 128; "
        f"{options.questions} questions; {platform.machine()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}. Building the index: {built:.0f} s, {built_most:.0f} MB.\n"
    )
    with openai_server() as server:
        yield from shown_tokens(give, server, made, options.questions)
    yield from maxp_checked(give, made)


def shown_tokens(give: Commands, server: Running, made: Sequence[MadeReport], questions: int) -> Iterator[str]:
    """Tokens of documents in the prompts, by agent."""
    yield (
        "| shown | tokens of documents a question | source report whole | its text stands there, times "
        "(where it does) | seconds of the run | most MB of a command so far |"
    )
    yield "|---|---|---|---|---|---|"
    where = (
        "--benchmark",
        "ogcarebench:rare",
        "--corpus",
        "cases",
        "--base-url",
        server.url,
        "--limit",
        str(questions),
    )
    for name, agent in AGENTS.items():
        printed, _, seconds, most = give(
            *("run", *where, "--model", "openai:any", "--agent", agent, "--display", "none", "--json")
        )
        (row,) = json.loads(printed)["rows"]
        prompts = sent(Path(give.environment["RAGROUNDS_HOME"]), row["run"])
        tokens = [count(text) for text, _ in prompts]
        whole = [text.count(made[number].text) for text, number in prompts]
        times = [repeated(text, made[number].text) for text, number in prompts]
        shown = [each for each in times if each]
        yield (
            f"| {name}: `{agent}` | {fmean(tokens):,.0f} | {100 * fmean(map(bool, whole)):.0f} % | "
            f"{fmean(shown) if shown else 0:.2f} | {seconds:.1f} | {most:.0f} |"
        )
    yield ""


def repeated(shown: str, report: str) -> float:
    """How often a report's text stands in what is shown: the mean over every twentieth place of it, 60 characters
    each."""
    places = range(0, len(report) - 60, max(1, len(report) // 20))
    return fmean(shown.count(report[place : place + 60]) for place in places)


def sent(home: Path, run: str) -> list[tuple[str, int]]:
    """The documents' part of every prompt of a run, with the number of its question, from 0."""
    found = []
    with Store(home) as store:
        for trace in every_trace(store, store.run(run)):
            (asked,) = [each.asked for step in trace.steps for each in step.calls if each.asked is not None]
            text = "\n".join(message.content for message in asked.messages)
            begin, end = text.index("Document [0]"), text.rindex(trace.question.text)
            found.append((text[begin : end if end > begin else None], int(trace.question.id.rpartition("/")[2]) - 1))
    return found


def maxp_checked(give: Commands, made: Sequence[MadeReport]) -> Iterator[str]:
    """`ragrounds retrieve` with two-level MaxP, and the same ranking computed from the definition alone."""
    words = [word for measure in MEASURES for word in ("--measure", measure)]
    printed, _, seconds, most = give(
        *("retrieve", "--benchmark", "beir:rare", "--corpus", "cases", "--retriever", "maxp[of=bm25]", "--json"),
        *(*words, "--write-runs", "runs"),
    )
    entry: dict[str, Any] = json.loads(printed)
    ranking: dict[str, list[str]] = defaultdict(list)
    for line in Path(give.folder, entry["run"]).read_text(encoding="utf-8").splitlines():
        ranking[line.split()[0]].append(line.split()[2])
    begun = time.perf_counter()
    scores = independent(made)
    took = time.perf_counter() - begun
    equal = sum(same_order(ranking[query], found) for query, found in scores.items())
    yield "Two-level MaxP over BM25, `ragrounds retrieve --retriever 'maxp[of=bm25]'`, against the source report:\n"
    yield "| " + " | ".join(MEASURES) + " |"
    yield "|" + "---|" * len(MEASURES)
    yield "| " + " | ".join(f"{100 * entry[measure]:.1f}" for measure in MEASURES) + " |\n"
    yield (
        f"Rankings of all {len(made)} reports equal to those of a computation of its own (BM25's formula over every "
        f"window and every piece of every question, the best of both): {equal} of {len(scores)} questions, reports "
        f"whose scores differ by less than 1e-5 of their size apart. The command took {seconds:.1f} s and "
        f"{most:.0f} MB, the other computation {took:.1f} s."
    )


def same_order(ranking: Sequence[str], scores: dict[str, float]) -> bool:
    """Whether a ranking goes by these scores, and holds every report that has one."""
    if set(ranking) != set(scores):
        return False
    values = [scores[document] for document in ranking]
    return all(later <= before * (1 + 1e-5) for before, later in pairwise(values))


def independent(made: Sequence[MadeReport]) -> dict[str, dict[str, float]]:
    """Question → report → the best BM25 score of any of its windows for any piece of the question. Lucene's formula
    with k1 0.9 and b 0.4, written out over plain dictionaries."""
    analyse, split = analyser("lucene-english"), splitter(WINDOWS)
    windows = [(one.id, Counter(analyse(f"{one.title}\n{text}"))) for one in made for text in split(one.text)]
    mean = fmean(sum(terms.values()) for _, terms in windows)
    holders: Counter[str] = Counter(term for _, terms in windows for term in terms)
    postings: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for number, (_, terms) in enumerate(windows):
        norm = 0.9 * (1 - 0.4 + 0.4 * sum(terms.values()) / mean)
        for term, times in terms.items():
            postings[term].append((number, times / (times + norm)))
    best: dict[str, dict[str, float]] = {}
    for one in made:
        best[one.id] = {}
        for piece in split(one.question):
            scores: dict[int, float] = defaultdict(float)
            for term, times in Counter(analyse(piece)).items():
                held = holders[term]
                weight = times * math.log(1 + (len(windows) - held + 0.5) / (held + 0.5))
                for number, part in postings.get(term, ()):
                    scores[number] += weight * part
            for number, score in scores.items():
                report = windows[number][0]
                best[one.id][report] = max(best[one.id].get(report, 0.0), score)
    return best


if __name__ == "__main__":
    main()
