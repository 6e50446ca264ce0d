"""Counterfactuals on a model with a known rule: do the intervals hold, is the identity called an effect, what is asked.

    python perf/counterfactual.py [--simulations 1000] [--questions 200] [--forks 10000] [--kills 2] [--data FOLDER]
    python perf/counterfactual.py --tables 300 [--settings 0 1]      # only: how often a table says that answers change

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
from collections.abc import Callable, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[0] = str(HERE.parent)

import numpy as np  # noqa: E402

import ragrounds as rr  # noqa: E402
from ragrounds.base.records import Question  # noqa: E402
from ragrounds.evals.compare.figures import paired  # noqa: E402
from ragrounds.evals.scorers import described  # noqa: E402
from ragrounds.evals.stats import holm  # noqa: E402
from ragrounds.extensions.counterfactual.effects import exchange_p  # noqa: E402
from tests.extensions.counterfactual.test_recorded_systems import SYSTEM  # noqa: E402
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


SETTINGS = ((1, 100, 0.1), (1, 100, 0.3), (1, 200, 0.1), (1, 200, 0.3), (5, 200, 0.2))
"""Agents, questions, and share of the replies that are drawn anew."""


def answers_changed(tables: int, settings: Sequence[int]) -> None:
    """How often a table of nine changes says that answers change: without any effect, and with one of 15 points."""
    print("| agents | questions | redrawn | false verdicts: cells, alone | tables, alone | tables, Holm | "
          "found of a change of 15 points, alone | Holm |")  # fmt: skip
    print("|---:|---:|---:|---:|---:|---:|---:|---:|")
    for agents, n, rate in [SETTINGS[place] for place in settings]:
        cells, alone, corrected, found, found_corrected = 0, 0, 0, 0, 0
        for number in range(tables):
            draw = np.random.default_rng([number, n, agents])
            significant, p_values = list[bool](), list[float]()
            for agent in range(agents):
                letters = draw.integers(4, size=n)
                # The stored answers, two that are asked for again, nine changes without an effect, and one with one.
                redrawn = draw.random((12 + (agent == 0), n)) < rate
                answers = np.where(redrawn, draw.integers(4, size=redrawn.shape), letters)
                if agent == 0:
                    moved = draw.random(n) < 0.2
                    answers[12, moved] = draw.integers(4, size=moved.sum())
                other = [
                    {str(place): float(value) for place, value in enumerate(row)} for row in answers[1:] != answers[0]
                ]
                questions = [Question(id=str(place), benchmark="t", text="") for place in range(n)]
                for changed in other[2:]:
                    p_values.append(exchange_p(questions, changed, other[:2], number))
                    noise = {id: (other[0][id] + other[1][id]) / 2 for id in changed}
                    differences = np.array([changed[id] - noise[id] for id in changed])
                    # An interval that leaves out 0 is never reached by less than 1.5 standard errors.
                    near = differences.mean() > 1.5 * differences.std() / n**0.5
                    significant.append(near and (paired(questions, noise, changed, 0).low or 0.0) > 0)
            # The change with an effect is the tenth of the first agent; without it the table has none.
            without = [place for place in range(len(p_values)) if place != 9]
            by_holm = holm([p_values[place] for place in without])
            cells += sum(significant[place] for place in without)
            alone += any(significant[place] for place in without)
            corrected += any(significant[place] and p < 0.05 for place, p in zip(without, by_holm, strict=True))
            found += significant[9]
            found_corrected += significant[9] and holm(p_values)[9] < 0.05
        shares = [count / tables for count in (cells / 9 / agents, alone, corrected, found, found_corrected)]
        print(
            f"| {agents} | {n} | {rate:.0%} | " + " | ".join(f"{100 * share:.1f} %" for share in shares) + " |",
            flush=True,
        )


FACT = re.compile(r"FACT(\d+): the right option of it is ([A-D])")
NUMBER = re.compile(r"case number (\d+)\b")


def nine_of_ten(prompt: str) -> str:
    """Follows the document in nine of ten questions."""
    number = (NUMBER.findall(prompt) or ["0"])[-1]
    said = next((letter for one, letter in FACT.findall(prompt) if one == number), None)
    return said if said and int(number) % 10 else LETTERS[int(number) * 7 % 4]


class Rule:
    """The server: answers the letter that its rule gives for a prompt, and counts every prompt."""

    def __init__(self, rule: Callable[[str], str]) -> None:
        self.rule = rule
        self.asked: Counter[str] = Counter()
        self.script = HttpScript(self.answer)

    def answer(self, asked: Asked, before: int) -> Told:
        """A chat completion."""
        if asked.method == "GET":
            return Told({"object": "list", "data": [{"id": "m", "object": "model"}]})
        prompt = asked.body["messages"][-1]["content"]
        self.asked[json.dumps(asked.body["messages"])] += 1
        letter = self.rule(prompt)
        text = json.dumps({"answer_choice": letter}) if len(letter) == 1 else letter
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


def forks(count: int, kills: int, *, graph: bool = False) -> None:
    """Forks that are killed in between and resumed: what was asked before them is asked never again. `graph`: of a
    LangGraph graph that makes its calls itself, with a retriever of LangChain's."""
    n = count // 5  # five counterfactuals of each attempt
    with tempfile.TemporaryDirectory() as folder:
        place, server = Path(folder), Rule(nine_of_ten)
        made_benchmark(place, n)
        environment = {**os.environ, "RAGROUNDS_HOME": str(place / "home")}
        ragrounds = [sys.executable, "-m", "ragrounds"]
        where = ["--display", "none", "--yes", "--concurrency", "32"]
        what = ["-b", f"jsonl:{place}/q.jsonl", "-a", "plan_search[rounds=1]", "-c", f"beir:{place}/corpus"]
        named, code = "plan_search", list[str]()
        asks = ["-m", "openai:m", "--base-url", f"{server.script.url}/v1"]
        if graph:
            made = SYSTEM.replace("URL", f"{server.script.url}/v1").replace("CORPUS", f"{place}/corpus/corpus.jsonl")
            (place / "mine.py").write_text(made)
            agent = f"{place}/mine.py:by_retriever"
            named, asks, code = f'{agent}[input.question="prompt",output=answer]', [], ["--code", agent]
            what = ["-b", f"jsonl:{place}/q.jsonl", "-a", named]
        run = [*ragrounds, "run", *what, *asks, *where]
        subprocess.run(run, env=environment, check=True, stdout=subprocess.DEVNULL)
        parent = Counter(server.asked)
        planning = {text for text in parent if "PLAN " in text or not ("FACT" in text or "finding" in text)}
        changes = ["drop[passage=gold]", "none", "reverse"]
        command = [
            *ragrounds,
            "counterfactual",
            named,
            *(word for one in changes for word in ("--change", one)),
            *code,
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
        whose = "a recorded graph" if graph else named
        print(f"\n{5 * n:,} forks of {whose}, {kills} kills (SIGKILL), {seconds:.0f} s: {more:,} calls;")
        print(f"of {len(planning):,} calls before their fork {again} were asked again.")
        print(f"The same command once more: {once_more} calls.")


def conflicts(n: int, flips: float = 0.18) -> None:
    """Two documents contradict each other; a model with a known rate follows the one that it reads first, else the same
    whatever their order. Reversed, its answers to that share of the questions are other ones."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        made_benchmark(place, n)
        with (place / "corpus" / "corpus.jsonl").open("a") as corpus:
            for number in range(n):
                text = f"Note on case number {number}. FACT{number}: the right option of it is {LETTERS[number % 4]}."
                print(json.dumps({"_id": f"n{number}", "title": f"Case {number}", "text": text}), file=corpus)
        steady = {str(number) for number in range(n) if random.Random(f"flip {number}").random() >= flips}

        def follows(prompt: str) -> str:
            number = NUMBER.findall(prompt)[-1]
            said = [letter for one, letter in FACT.findall(prompt) if one == number]
            return (sorted(said) if number in steady else said or ["A"])[0] if said else "A"

        home, server = place / "home", Rule(follows)
        made = rr.run(f"jsonl:{place}/q.jsonl", "vanilla_rag[top_k=2]", corpus=f"beir:{place}/corpus", model="openai:m",
                      base_url=f"{server.script.url}/v1", home=home, progress=False, confirmed=True)  # fmt: skip
        found = rr.counterfactual(made, changes=["reverse"], home=home, progress=False, confirmed=True)
        effect = next(one for one in found.result.record.effects if not one.is_identity)
        conflicting = n - sum(random.Random(one).randrange(4) == one % 4 for one in range(n))
        true = sum(str(one) not in steady and random.Random(one).randrange(4) != one % 4 for one in range(n)) / n
        low, high = (f"{100 * end:.1f}" for end in (effect.changed.low, effect.changed.high))
        print(
            f"\nOrder of two conflicting documents reversed, {n} questions ({conflicting} conflict): other answers in"
        )
        print(f"{100 * effect.changed.value:.1f} % ({low} to {high}); true {100 * true:.1f} %; by re-asking "
              f"{100 * effect.noise.value:.1f} %; {effect.verdict}.")  # fmt: skip


STRATEGIES = (
    "vanilla_rag[top_k=4] iter_retgen[top_k=4] chain_of_note[top_k=4] ircot[top_k=4] plan_search[top_k=4]".split()
)
CHANGES = (
    "drop[passage=gold] drop[passage=1] keep[passage=gold] none swap[passage=1] duplicate[passage=1] reverse "
    "truncate[share=0.5] none[search=last]"
).split()


def table(data: Path, n: int) -> None:
    """Five strategies, nine changes, PubMedQA*'s questions over their own abstracts: one command."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "corpus" / "qrels").mkdir(parents=True)
        rows = json.loads((data / "pubmedqa" / "data" / "ori_pqal.json").read_text())
        drawn = random.Random(0).sample(sorted(rows), n)
        with (place / "corpus" / "corpus.jsonl").open("w") as corpus:
            for id, row in rows.items():
                text = " ".join(row["CONTEXTS"])
                print(json.dumps({"_id": id, "title": "", "text": text}), file=corpus)
        with (place / "q.jsonl").open("w") as questions:
            for id in drawn:
                options = {"A": "yes", "B": "no", "C": "maybe"}
                right = {"yes": "A", "no": "B", "maybe": "C"}[rows[id]["final_decision"]]
                row = {
                    "id": id,
                    "question": rows[id]["QUESTION"],
                    "options": options,
                    "answer": right,
                    "documents": [id],
                }
                print(json.dumps(row), file=questions)
        golds = {" ".join(rows[id]["CONTEXTS"])[:60]: rows[id] for id in drawn}

        def reads(prompt: str) -> str:
            """Answers from the gold abstract where the prompt holds it, in nine of ten questions; else yes. Without
            options it notes how that abstract begins."""
            held = ((start, row) for start, row in golds.items() if start in prompt and row["QUESTION"] in prompt)
            start, row = next(held, ("Nothing was found.", None))
            if "maybe" not in prompt:
                return start
            if row is None or random.Random(row["QUESTION"]).random() < 0.1:
                return "A"
            return {"yes": "A", "no": "B", "maybe": "C"}[row["final_decision"]]

        server = Rule(reads)
        environment = {**os.environ, "RAGROUNDS_HOME": str(place / "home")}
        ragrounds = [sys.executable, "-m", "ragrounds"]
        where = ["--display", "none", "--yes", "--concurrency", "32"]
        agents = [word for one in STRATEGIES for word in ("-a", one)]
        run = ["run", "-b", f"jsonl:{place}/q.jsonl", *agents, "-c", f"beir:{place}/corpus", "-m", "openai:m"]
        started = [*ragrounds, *run, "--base-url", f"{server.script.url}/v1", *where]
        subprocess.run(started, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        asked = [
            *ragrounds,
            "counterfactual",
            *STRATEGIES,
            *(word for one in CHANGES for word in ("--change", one)),
            *where,
        ]
        began, before = time.monotonic(), sum(server.asked.values())
        done = subprocess.run(asked, env=environment, check=True, capture_output=True, text=True)
        seconds = time.monotonic() - began
        print(f"\n{len(STRATEGIES)} strategies, {len(CHANGES)} changes, {n} questions: {seconds:.0f} s, "
              f"{sum(server.asked.values()) - before:,} calls at the server.\n\n{done.stdout}")  # fmt: skip


def main() -> None:
    """Run all parts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", type=int, default=0)
    parser.add_argument("--settings", type=int, nargs="*", default=range(len(SETTINGS)), help="places in SETTINGS")
    parser.add_argument("--simulations", type=int, default=1000)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--forks", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--data", type=Path, default=os.environ.get("RAGROUNDS_TEST_DATA"))
    given = parser.parse_args()
    if given.tables:
        answers_changed(given.tables, given.settings)
        return
    if given.simulations:
        coverage(given.simulations, given.questions)
    if given.forks:
        forks(given.forks, given.kills)
        forks(given.forks, given.kills, graph=True)
    conflicts(2 * given.questions)
    if given.data:
        table(given.data, given.questions)


if __name__ == "__main__":
    main()
