"""What a vLLM server's prefix cache finds, by the order in which calls reach it.

    python perf/prefix_order.py [--rounds 3] [--mix rag] [--replicas 1]

Three mixes and a variant, each through `ragrounds run` (and `judge run`) against `perf/loopback_model.py`, which has
the memory of a vLLM server in blocks of 16 tokens (`tests/servers/prefixes.py`), too small for what is in flight:

    rag        three agents with the 4 best of 60 passages, 600 questions in random order, 10 about each passage
    unmarked   the same, where the questions do not say which document holds their answer
    search_o1  Search-o1 over these passages, 400 questions, 64 attempts in flight
    rubric     one judge on 12 to 20 statements about each of the answers of three agents to 60 questions

*Submission* is `--order given` at an `openai:` address, with as many attempts in flight as may be; *ours* is what a
`vllm:` model has by default. The *optimum* is a memory without end: every block is computed once, however the same
prompts are ordered. No order of a finite memory finds more. Two replicas have half of that memory each, and the
optimum of one; there *submission* too sends a call to where its beginning was.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[0] = str(HERE.parent)  # and not this folder, whose coverage.py numba would take for the package

from perf.made_texts import MadeTexts  # noqa: E402

PASSAGES, EACH = 60, 10
Options = tuple[str, ...]


def write_mix(folder: Path, marked: bool) -> None:
    """Passages, questions about them, and K-QA's form of questions with statements."""
    texts, drawn = MadeTexts(3), random.Random(5)
    passages = [{"id": f"p{i}", "title": texts.words(4), "text": texts.words(220)} for i in range(PASSAGES)]
    lines = []
    for number in range(PASSAGES * EACH):
        passage = passages[number % PASSAGES]
        words = [word for word in str(passage["text"]).replace(".", "").split() if len(word) > 6]
        asked = f"In case {number}, which is true of {' '.join(drawn.sample(words, 9))}?"
        line = {"id": f"q{number}", "question": asked, "options": ["one", "two", "three"], "answer": "A"}
        lines.append({**line, "documents": [passage["id"]]} if marked else line)
    drawn.shuffle(lines)
    for name, rows in (("corpus", passages), ("questions", lines)):
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    graded = [
        {
            "Question": f"{texts.words(25)}?",
            "Free_form_answer": texts.words(60),
            "Must_have": [texts.words(12) for _ in range(drawn.randint(12, 20))],
            "Nice_to_have": [],
        }
        for _ in range(60)
    ]
    text = "".join(f"{json.dumps(row)}\n" for row in graded)
    (folder / "questions_w_answers.jsonl").write_text(text, encoding="utf-8")


@contextmanager
def loopback(*options: str) -> Iterator[str]:
    """The base URL of a loopback model, until the block ends."""
    command = [sys.executable, str(HERE / "loopback_model.py"), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.terminate()


def found(urls: Sequence[str]) -> list[int]:
    """Blocks that the memories found, all that were looked for, and what one without end would have found."""
    totals = [0, 0, 0]
    for url in urls:
        with urllib.request.urlopen(f"{url.removesuffix('/v1')}/blocks", timeout=10) as answer:
            totals = [total + one for total, one in zip(totals, json.loads(answer.read()), strict=True)]
    return totals


def ragrounds(home: Path, *arguments: str) -> None:
    """Run a command; its table is not wanted."""
    environment = {**os.environ, "RAGROUNDS_HOME": str(home), "PYTHONPATH": str(HERE.parent)}
    command = [sys.executable, "-m", "ragrounds", *arguments]
    done = subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stdout[-800:]} {done.stderr[-800:]}")


def asked_of(urls: Sequence[str], ours: bool) -> Options:
    """The options that name the servers."""
    model = "vllm:loopback" if ours else "openai:loopback"
    return (f'{model}[base_url="{",".join(urls)}",alias=loopback,continues=prefix]',)


def run(home: Path, urls: Sequence[str], ours: bool, agents: Sequence[str], *options: str) -> None:
    """Ask the questions of the mix."""
    named = [word for agent in agents for word in ("--agent", agent)]
    order = ("--order", "shared" if ours else "given")
    ragrounds(home, "run", *named, *order, "--model", *asked_of(urls, ours), "--display", "none", "--yes", *options)


QUESTIONS = ("--benchmark", "jsonl:questions.jsonl", "--corpus", "jsonl:corpus.jsonl")
RAG = ("vanilla_rag[top_k=4]", "vanilla_rag[top_k=4,prompting=direct]", "cot_refine_rag[top_k=4]")
ANSWERS = ("direct", "direct_cot", "vanilla_rag[top_k=2]")


def rag(home: Path, urls: Sequence[str], ours: bool) -> list[int]:
    """Three agents over few documents."""
    run(home, urls, ours, RAG, *QUESTIONS)
    return found(urls)


def search_o1(home: Path, urls: Sequence[str], ours: bool) -> list[int]:
    """Reasoning that is continued after every search."""
    run(home, urls, ours, ["search_o1[top_k=4]"], *QUESTIONS, "--limit", "400", "--concurrency", "64")
    return found(urls)


def rubric(home: Path, urls: Sequence[str], ours: bool) -> list[int]:
    """One answer judged on many statements; what answering found is left out."""
    options = ("--benchmark", "kqa:.", "--corpus", "jsonl:corpus.jsonl")
    run(home, urls, ours, ANSWERS, *options)
    before = found(urls)
    judge = ("--kind", "statements", "--judge", *asked_of(urls, ours), "--concurrency", "32")
    ragrounds(home, "judge", "run", *ANSWERS, *judge)
    return [now - then for now, then in zip(found(urls), before, strict=True)]


MIXES: dict[str, tuple[Callable[[Path, Sequence[str], bool], list[int]], int, int]] = {
    # mix, blocks of a memory, characters of reasoning a reply
    "rag": (rag, 2_000, 0),
    "unmarked": (rag, 2_000, 0),
    "search_o1": (search_o1, 2_000, 1_500),
    "rubric": (rubric, 1_000, 1_500),
}


def measured(mix: str, ours: bool, replicas: int) -> list[int]:
    """One run of a mix."""
    ask, size, thought = MIXES[mix]
    options = ("--blocks", str(size // replicas), "--thought", str(thought), "--latency", "0.15")
    with tempfile.TemporaryDirectory(prefix="prefix-order-") as folder, ExitStack() as held:
        write_mix(Path(folder), mix != "unmarked")
        return ask(Path(folder), [held.enter_context(loopback(*options)) for _ in range(replicas)], ours)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mix", choices=MIXES, action="append")
    parser.add_argument("--replicas", type=int, action="append")
    options = parser.parse_args()
    print("| mix | replicas | hit tokens: submission | ours | optimum | submission / optimum | ours / optimum |")
    print("|---|---|---|---|---|---|---|")
    for mix in options.mix or MIXES:
        single = 0.0
        for replicas in options.replicas or (1, 2):
            rounds = [[measured(mix, ours, replicas) for ours in (False, True)] for _ in range(options.rounds)]
            before, after = (statistics.median(one[ours][0] for one in rounds) for ours in (0, 1))
            best = statistics.median(one[1][2] for one in rounds)
            single = best if replicas == 1 else single or best
            row = [mix, replicas, *(f"{16 * value:,.0f}" for value in (before, after, single))]
            cells = map(str, [*row, f"{before / single:.0%}", f"{after / single:.0%}"])
            print(f"| {' | '.join(cells)} |")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
