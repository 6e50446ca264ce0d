"""Counterfactuals on a model with a known rule: do the intervals hold, is the identity called an effect, what is asked.

    python perf/counterfactual.py [--simulations 1000] [--questions 200] [--forks 10000] [--kills 2]

The model answers what a document says with probability `p` where its prompt holds that document, else draws; with rate
`r` a reply is drawn anew each time that it is asked for. So the truth of each change is known. Simulations answer each
attempt by that rule without HTTP, through the functions that the tables use (`effects` on a store); the kill test and
the table run through a real server on loopback, which counts what it is asked.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[0] = str(HERE.parent)

import numpy as np  # noqa: E402

from ragrounds.evals.compare.figures import paired  # noqa: E402
from ragrounds.evals.scorers import described  # noqa: E402
from ragrounds.records import Question  # noqa: E402
from tests.servers.http_script import Asked, HttpScript, Told  # noqa: E402

LETTERS = "ABCD"
RULES = {  # kind of strategy: probability that the gold is found, followed, chance without it, rate of noise
    "one search": (0.8, 0.9, 0.4, 0.1),
    "several searches": (0.95, 0.8, 0.5, 0.2),
    "a vote": (0.8, 0.95, 0.4, 0.05),
}


def simulated(rule: tuple[float, float, float, float], n: int, draw: np.random.Generator) -> dict[str, np.ndarray]:
    """Right or wrong of `n` questions: without change, asked again, without gold, in the opposite order."""
    found, followed, chance, noise = rule
    has = draw.random(n) < found
    known = draw.random(n) < chance
    follows = draw.random(n) < followed

    def asked(evidence: np.ndarray) -> np.ndarray:
        steady = np.where(evidence & follows, True, known)
        return np.where(draw.random(n) < noise, draw.random(n) < 0.25, steady)

    before = asked(has)
    same = np.where(has, False, True)  # without gold in the prompt nothing changes: the journal answers
    dropped = np.where(same, before, asked(np.zeros(n, bool)))
    return {"before": before, "identity": asked(has), "drop": dropped, "reverse": asked(has)}


def truth(rule: tuple[float, float, float, float]) -> float:
    """What dropping the gold does on average."""
    found, followed, chance, noise = rule
    return -found * (1 - noise) * followed * (1 - chance)


def coverage(simulations: int, n: int) -> None:
    """How often the interval of each change holds its truth, and how often the identity is called an effect."""
    questions = [Question(id=f"q{place}", benchmark="t", text="") for place in range(n)]
    scorer = described("robust")
    print("| strategy | truth of drop | its interval holds it | reverse (truth 0) | identity called an effect |")
    print("|---|---|---|---|---|")
    for name, rule in RULES.items():
        held, still, called = 0, 0, 0
        for number in range(simulations):
            made = simulated(rule, n, np.random.default_rng([number, len(name)]))
            values = {
                change: {question.id: float(value) for question, value in zip(questions, each, strict=True)}
                for change, each in made.items()
            }
            drop = paired(questions, values["before"], values["drop"], 0, scorer)
            reverse = paired(questions, values["before"], values["reverse"], 0, scorer)
            identity = paired(questions, values["before"], values["identity"], 0, scorer)
            held += drop.low <= truth(rule) <= drop.high
            still += reverse.low <= 0 <= reverse.high
            called += identity.leaves_out_0
        shares = " | ".join(f"{100 * count / simulations:.1f} %" for count in (held, still, called))
        print(f"| {name} | {100 * truth(rule):+.1f} | {shares} |", flush=True)


FACT = re.compile(r"FACT(\d+): the right option of it is ([A-D])")
NUMBER = re.compile(r"case number (\d+)\b")


class Rule:
    """The server: follows the document in nine of ten questions, is steady, and counts every prompt."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.script = HttpScript(self.answer)

    def answer(self, asked: Asked, before: int) -> Told:
        """A chat completion."""
        if asked.method == "GET":
            return Told({"object": "list", "data": [{"id": "m", "object": "model"}]})
        prompt = asked.body["messages"][-1]["content"]
        self.asked[json.dumps(asked.body["messages"])] += 1
        numbers = NUMBER.findall(prompt)
        number = numbers[-1] if numbers else "0"
        said = next((letter for one, letter in FACT.findall(prompt) if one == number), None)
        letter = said if said and int(number) % 10 else LETTERS[int(number) * 7 % 4]
        text = json.dumps({"answer_choice": letter})
        message = {"role": "assistant", "content": text}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        return Told({"model": "m", "choices": choices, "usage": {"prompt_tokens": 300, "completion_tokens": 20}})


def made_benchmark(folder: Path, n: int) -> None:
    """Questions with a document each that says the answer."""
    (folder / "corpus" / "qrels").mkdir(parents=True)
    with (folder / "corpus" / "corpus.jsonl").open("w") as corpus, (folder / "q.jsonl").open("w") as questions:
        for place in range(n):
            right = LETTERS[random.Random(place).randrange(4)]
            text = f"Report on case number {place}. FACT{place}: the right option of it is {right}."
            print(json.dumps({"_id": f"d{place}", "title": f"Case {place}", "text": text}), file=corpus)
            options = {letter: f"finding {letter}{place}" for letter in LETTERS}
            question = f"What holds for case number {place}?"
            row = {"id": f"q{place}", "question": question, "options": options, "answer": right}
            print(json.dumps({**row, "documents": [f"d{place}"]}), file=questions)


def forks(count: int, kills: int) -> None:
    """Forks that are killed in between and resumed: what was asked before them is asked never again."""
    n = count // 5  # five counterfactuals of each attempt
    with tempfile.TemporaryDirectory() as folder:
        place, server = Path(folder), Rule()
        made_benchmark(place, n)
        environment = {**os.environ, "RAGROUNDS_HOME": str(place / "home")}
        ragrounds = [sys.executable, "-m", "ragrounds"]
        where = ["--display", "none", "--yes", "--concurrency", "32"]
        what = ["-b", f"jsonl:{place}/q.jsonl", "-a", "plan_search[rounds=1]", "-c", f"beir:{place}/corpus"]
        run = [*ragrounds, "run", *what, "-m", "openai:m", "--base-url", f"{server.script.url}/v1", *where]
        subprocess.run(run, env=environment, check=True, stdout=subprocess.DEVNULL)
        parent = Counter(server.asked)
        planning = {text for text in parent if "FACT" not in text and "finding" not in text}
        changes = ["drop[passage=gold]", "none", "reverse"]
        command = [
            *ragrounds,
            "counterfactual",
            "plan_search",
            *(word for one in changes for word in ("--change", one)),
            *where,
        ]
        began = time.monotonic()
        for number in range(kills):
            aim = sum(server.asked.values()) + n * (number + 1)
            process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while sum(server.asked.values()) < aim and process.poll() is None:
                time.sleep(0.02)
            process.send_signal(signal.SIGKILL)
            process.wait()
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        seconds = time.monotonic() - began
        again = sum(server.asked[text] - parent[text] for text in planning)
        more = sum(server.asked.values()) - sum(parent.values())
        before = sum(server.asked.values())
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        once_more = sum(server.asked.values()) - before
        print(f"\n{5 * n:,} forks, {kills} kills (SIGKILL), {seconds:.0f} s: {more:,} calls;")
        print(f"of {len(planning):,} calls before their fork {again} were asked again.")
        print(f"The same command once more: {once_more} calls.")


def main() -> None:
    """Run all parts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--simulations", type=int, default=1000)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--forks", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=2)
    given = parser.parse_args()
    coverage(given.simulations, given.questions)
    forks(given.forks, given.kills)


if __name__ == "__main__":
    main()
