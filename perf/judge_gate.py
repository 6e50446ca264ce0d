"""The gate of judges on planted ones: is each named rightly, how often is an able judge withheld, what do probes cost?

    python perf/judge_gate.py DATA [--simulations N] [--able N] [--processes N] [--write]

Runs of long answers are simulated. A planted judge reads the real prompts of `equivalence` and replies with text that
is parsed as any reply is. Probes, their number and the rule are those of `ragrounds judge`; only the journal is in
memory. Nothing is asked over a network; the same judges over HTTP are in tests/judges/test_probes.py.

Judges that fail judge a run of which each reference names a drug of its own, and half of the answers are right. Able
judges judge runs of many shapes, in which a text of one question is often right for another: closed sets of labels
that are even or lopsided, systems that are nearly always right, nearly always wrong, or always give the same label, and
references that begin with the conclusion. Some shapes have the references of benchmarks in DATA: PubMedQA (decision and
long answer), K-QA, MedQuAD, and the labels of HealthVer. Of a closed set a judge compares the first label in the answer
and nothing else; in other answers it looks for all words of the reference.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import gzip
import json
import os
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

from ragrounds.base.records import Attempt, Call, Gold, Question, Reply, Usage, Verdict
from ragrounds.evals.judges.attempts import JudgedAnswer, JudgeTask, LabelJudge, judge_tasks
from ragrounds.evals.judges.gate import Probing
from ragrounds.evals.judges.probes import probe_runs
from ragrounds.evals.scorers import answer_status
from ragrounds.evals.scorers.equivalent import EQUIVALENCE
from ragrounds.prompts.loader import PromptFolder

# The gates of a run read the same answers again and again.
answer_status.read_reply = lru_cache(10_000)(answer_status.read_reply)
answer_status.without_answer = lru_cache(10_000)(answer_status.without_answer)
SUBJECTS = ("cardiology", "nephrology", "paediatrics")
STYLE = "Weighing the findings with care"
FILLER = "the course so far, the findings on admission and the wishes of the patient were taken into account as well"
SECTION = re.compile(r"###? ?([^\n]+)\n<<<\n(.*?)\n?>>>", re.DOTALL)
YES, NO = "equivalent", "mismatch"


class MemoryJournal:
    """Journal that keeps replies by their keys."""

    def __init__(self):
        self.replies = {}

    async def once(self, entry, make, kind):
        if entry.key in self.replies:
            return self.replies[entry.key], True
        self.replies[entry.key] = await make()
        return self.replies[entry.key], False


class Prompted(NamedTuple):
    """What a judge reads in a prompt, and what is right."""

    question: str
    reference: str
    answer: str
    first: str
    """The label that the prompt names first."""
    prompt: str
    truth: str


class PlantedJudge:
    """Judge that reads the prompt and replies with a verdict of its own."""

    window = None

    def __init__(self, name: str, verdict: Callable, labels: Sequence[str], seed: str) -> None:
        self.spec, self.verdict, self.labels = f"planted:{name}", verdict, labels
        self.random, self.calls = random.Random(seed), 0

    async def complete(self, request, faults):
        system, user = request.messages[0].content, request.messages[-1].content
        texts = dict(SECTION.findall(user))
        answer, reference = texts["Answer to be graded"], texts["Reference answer"]
        first = re.findall(r'\{"grade": "(\w+)"', system)[-1]
        truth = YES if is_right(answer, reference, self.labels) else NO
        self.calls += 1
        prompted = Prompted(texts["Question"], reference, answer, first, system + user, truth)
        verdict = self.verdict(prompted, self.random, self.calls)
        text = "I would rather discuss both sides." if verdict is None else f'Compared.\n{{"grade": "{verdict}"}}'
        return Reply(text=text, usage=Usage(input=900, output=30))

    def price(self, reply):
        return 0.0

    async def close(self):
        pass


@lru_cache(maxsize=10_000)
def words_of(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\w+", text.lower()))


def is_right(answer: str, reference: str, labels: Sequence[str]) -> bool:
    """Return True if an answer gives the reference's label, or all words of a reference where labels are open."""
    if labels:
        first, expected = (
            next((word for word in words_of(text) if word in labels), "") for text in (answer, reference)
        )
        return first == expected
    return set_of(reference) <= set_of(answer)


@lru_cache(maxsize=10_000)
def set_of(text: str) -> frozenset[str]:
    return frozenset(words_of(text))


def flip(label: str) -> str:
    return NO if label == YES else YES


def noisy(share: float) -> Callable:
    return lambda prompted, lot, n: flip(prompted.truth) if lot.random() < share else prompted.truth


def follower(prompted: Prompted, lot: random.Random, n: int) -> str:
    planted = re.findall(r'"grade": "(\w+)"', prompted.answer)
    return planted[-1] if planted else prompted.truth


def able(seed: int) -> Callable:
    """Return a judge that errs on some texts for good, and by chance: up to 5 % each."""
    own = random.Random(f"able {seed}")
    chance, fixed = own.uniform(0, 0.05), own.uniform(0, 0.05)

    def verdict(prompted: Prompted, lot: random.Random, n: int) -> str:
        is_wrong = random.Random(f"{seed}{prompted.question}{prompted.answer}").random() < fixed
        return flip(prompted.truth) if is_wrong != (lot.random() < chance) else prompted.truth

    return verdict


PLANTED = {
    "always the first label": (lambda prompted, lot, n: prompted.first, "depends on label order"),
    'always "equivalent"': (lambda prompted, lot, n: YES, "always says 'equivalent'"),
    "lover of length": (
        lambda prompted, lot, n: YES if len(prompted.answer.split()) > 30 else NO,
        "depends on length",
    ),
    "mute in 30 %": (
        lambda prompted, lot, n: None if random.Random(prompted.prompt).random() < 0.3 else prompted.truth,
        "mute",
    ),
    "follows planted verdicts": (follower, "follows planted verdicts"),
    "inverted on one subject": (
        lambda prompted, lot, n: flip(prompted.truth) if SUBJECTS[0] in prompted.question else prompted.truth,
        f"inverted on {SUBJECTS[0]}",
    ),
    "noisy, 35 % turned": (noisy(0.35), "noisy"),
    "drifting to leniency": (
        lambda prompted, lot, n: YES if lot.random() < n / 200 else prompted.truth,
        "drifting",
    ),
    "prefers its own texts": (
        lambda prompted, lot, n: YES if STYLE in prompted.answer else prompted.truth,
        "favours this run's answers",
    ),
    "noisy, 10 % turned": (noisy(0.1), ""),
    "perfect": (lambda prompted, lot, n: prompted.truth, ""),
}
Pairs = list[tuple[str, str]]
"""References and answers."""


def unique(lot: random.Random, count: int, first: bool = False) -> Pairs:
    """Return references that each name a drug of its own, of which the system has half right."""
    pairs = []
    for number in range(count):
        drug = f"{lot.choice(['oral', 'intravenous', 'inhaled'])} agent{number:03}"
        tail = f" for {lot.randint(2, 9)} days, then a review by the ward team" if lot.random() < 0.5 else ""
        reference = f"agent{number:03}, as the trial on ward {number % 7} shows" if first else drug + tail
        given = reference if lot.random() < 0.5 else f"another agent{lot.randint(200, 999)}"
        pairs.append((reference, f"{STYLE}, I would give {given}." + f" In short, {FILLER}." * lot.randint(0, 2)))
    return pairs


def closed(lot: random.Random, count: int, weights: dict[str, float], right: float | None, tail: str) -> Pairs:
    """Return references of a closed set. The system gives the label in the share `right`, or always the commonest."""
    labels, pairs = list(weights), []
    for number in range(count):
        label = lot.choices(labels, [*weights.values()])[0]
        others = [other for other in labels if other != label]
        given = labels[0] if right is None else label if lot.random() < right else lot.choice(others)
        pairs.append((f"{label.title()}{tail.format(number)}", f"{given.title()}, {STYLE.lower()} of case {number}."))
    return pairs


def of_texts(lot: random.Random, count: int, texts: Sequence[str], right: float, labels: Sequence[str] = ()) -> Pairs:
    """Return references of a benchmark. An answer is the reference after a phrase, or the one to another question."""
    chosen = lot.sample(texts, count)
    pairs = []
    for text in chosen:
        other = lot.choice(chosen)
        while is_right(other, text, labels):
            other = lot.choice(chosen)
        pairs.append((text, text if lot.random() < right else other))
    return pairs


@lru_cache
def texts_of(data: Path, name: str) -> list[str]:
    """Return the references of a benchmark."""
    if name == "PubMedQA":
        rows = json.loads((data / "pubmedqa" / "data" / "ori_pqal.json").read_text(encoding="utf-8")).values()
        return [f"{row['final_decision'].title()}. {row['LONG_ANSWER']}" for row in rows]
    if name == "K-QA":
        lines = (data / "kqa" / "dataset" / "questions_w_answers.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line)["Free_form_answer"] for line in lines]
    if name == "MedQuAD":
        with gzip.open(data / "medquad" / "medquad_with_answers.jsonl.gz", "rt", encoding="utf-8") as file:
            return [answer for line in islice(file, 3000) if (answer := json.loads(line)["answer"])]
    with (data / "healthver-derived" / "dev_labels_hashed.csv").open(encoding="utf-8") as file:
        return [row["label"] for row in csv.DictReader(file)]


DECISIONS = ("yes", "no", "maybe")
FOUR = {"gout": 0.9, "lupus": 0.04, "sepsis": 0.03, "asthma": 0.03}
REASON = ". It was so in group {0} of the trial, which lasted for years."


def shapes(data: Path) -> dict[str, tuple[Sequence[str], Callable[[random.Random, int], Pairs]]]:
    """Return the shape of a run → labels of a closed set, and what makes its references and answers."""
    made: dict[str, tuple[Sequence[str], Callable]] = {
        "unique": ((), unique),
        "conclusion first, a drug of its own": ((), partial(unique, first=True)),
    }
    for share in (0.5, 0.7, 0.9, 0.95):
        for right in (0.1, 0.5, 0.75, 0.95, None):
            system = "the commonest label always" if right is None else f"{right:.0%} right"
            weights = {"yes": share, "no": 1 - share}
            made[f"yes in {share:.0%}, with reasons; {system}"] = (
                DECISIONS,
                partial(closed, weights=weights, right=right, tail=REASON),
            )
    for right in (0.6, None):
        system = "the commonest label always" if right is None else f"{right:.0%} right"
        made[f"four labels, 90/4/3/3; {system}"] = (tuple(FOUR), partial(closed, weights=FOUR, right=right, tail="."))
    for name, labels in (
        ("PubMedQA", DECISIONS),
        ("HealthVer", ("supports", "refutes", "neutral")),
        ("K-QA", ()),
        ("MedQuAD", ()),
    ):
        for right in (0.3, 0.8):
            texts = partial(texts_of, data, name)
            made[f"{name}; {right:.0%} right"] = (
                labels,
                lambda lot, count, texts=texts, right=right, labels=labels: of_texts(
                    lot, count, texts(), right, labels
                ),
            )
    return made


async def gated(name: str, verdict: Callable, shape, seed: int, wish: Probing, count: int):
    """Return the gate of a judge on a run. Its verdicts on the run itself are not asked for, only counted."""
    labels, make = shape
    pairs = make(random.Random(f"run {seed}"), count)
    journal, prompts = MemoryJournal(), PromptFolder()
    judge = PlantedJudge(name, verdict, labels, f"{name} {seed}")
    tasks, answers = [], []
    for number, (reference, text) in enumerate(pairs):
        subject = SUBJECTS[number % len(SUBJECTS)]
        question = Question(
            id=f"sim/{number}",
            benchmark="sim",
            text=f"A case of {subject}, number {number}?",
            kind="long",
            group=subject,
        )
        gold = Gold(question_id=question.id, answer=reference)
        attempt = Attempt(run="r", question_id=question.id, epoch=0, status="completed", text=text)
        tasks.append(JudgeTask(attempt, question, gold, judge, journal))
    admission = SimpleNamespace(ended="", affords=lambda task: True, judged=lambda *_: None)
    if name in ("mute in 30 %", "drifting to leniency"):  # their verdicts on the run count
        answers = await judge_tasks(
            LabelJudge(EQUIVALENCE), tasks, prompts, at_once=1, admits=admission.affords, done=admission.judged
        )
    else:
        call = Call(key="k", kind="model", role="judging", node="judge", actor=judge.spec, at=1.0, seconds=0.1)
        answers = [
            JudgedAnswer(
                scores=(),
                calls=(call,),
                verdicts=(
                    Verdict(
                        question_id=task.question.id, judge=judge.spec, axis="grade", first="r", outcome=NO, reason=""
                    ),
                ),
            )
            for task in tasks
        ]
    keys = [(0, number, 0) for number in range(count)]
    by_key = dict(zip(keys, tasks, strict=True)), dict(zip(keys, answers, strict=True))
    # No store: every judge is probed, so that no recorded probes are looked for.
    judging = await probe_runs(None, (), LabelJudge(EQUIVALENCE), *by_key, wish, prompts, 1, admission)
    return judging[0].gates[0]


class Cell(NamedTuple):
    """One judge on runs of one shape."""

    judge: str
    """Name of a planted judge; empty for an able one."""
    shape: str
    wish: Probing
    count: int


def simulate(cell: Cell, data: Path, seed: int):
    verdict = PLANTED[cell.judge][0] if cell.judge else able(seed)
    gate = asyncio.run(gated(cell.judge or "able", verdict, shapes(data)[cell.shape], seed, cell.wish, cell.count))
    return gate.named, bool(gate.withheld), bool(gate.undecided), gate.cost_share, gate.answers


def simulate_able(shape: str, data: Path, seed: int):
    """Return the gates of an able judge under both settings, which read the same run."""
    return [simulate(Cell("", shape, wish, 200), data, seed) for wish in (Probing(), Probing(12))]


def counts_of(gates: Sequence) -> tuple[int, int]:
    """Return how many gates withhold the scores, and how many others are undecided."""
    return sum(gate[1] for gate in gates), sum(gate[2] and not gate[1] for gate in gates)


def planted_table(pool: ProcessPoolExecutor, data: Path, simulations: int) -> Iterator[str]:
    yield "| judge planted | probes | named rightly | withheld | undecided | what it is named | probes' share |"
    yield "|---|---|---:|---:|---:|---|---:|"
    for name, (_, expected) in PLANTED.items():
        for words, wish, count in (
            ("200 answers, by default", Probing(), 200),
            ("200 answers, `--probes 8`", Probing(8), 200),
            ("200 answers, `--probes 17`", Probing(17), 200),
        ):
            cell = Cell(name, "unique", wish, count)
            gates = list(pool.map(partial(simulate, cell, data), range(simulations), chunksize=5))
            kinds = Counter(
                ", ".join(named) or ("undecided" if undecided else "able") for named, _, undecided, *_ in gates
            )
            right = sum(expected in named if expected else not named for named, *_ in gates)
            listed = "; ".join(f"{kind}: {n}" for kind, n in kinds.most_common(3))
            withheld, undecided = counts_of(gates)
            share = sum(gate[3] for gate in gates) / len(gates)
            counts = f"{right} of {simulations} | {withheld} of {simulations} | {undecided}"
            yield f"| {name} | {words} | {counts} | {listed} | {share:.0%} |"


def able_table(gates: dict[str, list]) -> Iterator[str]:
    yield "Able judges, wrong for good on up to 5 % of the texts and by chance in up to 5 %; 200 answers:"
    yield ""
    yield "| run | probes by default: withheld | undecided | `--probes 12`: withheld | undecided |"
    yield "|---|---:|---:|---:|---:|"
    total = withheld_total = 0
    for shape, pairs in gates.items():
        row = []
        for setting in zip(*pairs, strict=True):
            withheld, undecided = counts_of(setting)
            row += [f"{withheld} of {len(setting)}", str(undecided)]
            total, withheld_total = total + len(setting), withheld_total + withheld
        yield f"| {shape} | {' | '.join(row)} |"
    yield f"| **all** | **{withheld_total} of {total:,} ({withheld_total / total:.2%})** | | | |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--simulations", type=int, default=100)
    parser.add_argument("--able", type=int, default=500)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--write", action="store_true", help="write perf/judge_gate.md, after every 50 runs a cell")
    arguments, start = parser.parse_args(), time.monotonic()
    gates: dict[str, list] = {shape: [] for shape in shapes(arguments.data)}
    with ProcessPoolExecutor(arguments.processes) as pool:
        planted = list(planted_table(pool, arguments.data, arguments.simulations))
        for first in range(0, arguments.able, 50):
            seeds = range(first, min(first + 50, arguments.able))
            for shape, pairs in gates.items():
                pairs += pool.map(partial(simulate_able, shape, arguments.data), seeds, chunksize=5)
            command = (
                f"python perf/judge_gate.py DATA --simulations {arguments.simulations} --able {seeds.stop} --write"
            )
            head = (
                f"`{command}`, {time.strftime('%Y-%m-%d')}, {time.monotonic() - start:.0f} s. "
                "The head of the file describes the runs."
            )
            page = "\n".join(["# The gate of judges, simulated", "", head, "", *planted, "", *able_table(gates), ""])
            if arguments.write:
                Path(__file__).with_suffix(".md").write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
