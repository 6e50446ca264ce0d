"""The gate of judges on planted ones: is each named rightly, how often is an able judge withheld, what do probes cost?

    python perf/judge_gate.py --write

A run of long answers is simulated, 120 questions of three subjects, of which the agent has about half right. A planted
judge reads the real prompts of `equivalence` and replies with text that is parsed as any reply is. Probes, their
number and the rule are those of `ragrounds judge`; only the journal is in memory. Nothing is asked over a network; the
same judges over HTTP are in tests/judges/test_probes.py.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace

from ragrounds.base.records import Attempt, Gold, Question, Reply, Usage
from ragrounds.evals.judges.attempts import JudgeTask, LabelJudge, judge_tasks
from ragrounds.evals.judges.gate import Probing
from ragrounds.evals.judges.probes import probe_runs
from ragrounds.evals.scorers.equivalent import EQUIVALENCE
from ragrounds.prompts.loader import PromptFolder

SUBJECTS = ("cardiology", "nephrology", "paediatrics")
STYLE = "Weighing the findings with care"
FILLER = "the course so far, the findings on admission and the wishes of the patient were taken into account as well"
SECTION = re.compile(r"###? ?([^\n]+)\n<<<\n(.*?)\n?>>>", re.DOTALL)
YES, NO = "equivalent", "mismatch"


class MemoryJournal:
    """Keeps replies by their keys."""

    def __init__(self):
        self.replies = {}

    async def once(self, entry, make, kind):
        if entry.key in self.replies:
            return self.replies[entry.key], True
        self.replies[entry.key] = await make()
        return self.replies[entry.key], False


class Planted:
    """A judge that reads the prompt and replies by `says`."""

    window = None

    def __init__(self, name, says, seed):
        self.spec, self.says, self.lot, self.calls = f"planted:{name}", says, random.Random(seed), 0

    async def complete(self, request, faults):
        system, user = request.messages[0].content, request.messages[-1].content
        texts = dict(SECTION.findall(user))
        first = re.findall(r'\{"grade": "(\w+)"', system)[-1]
        seen = {"answer": texts["Answer to be graded"], "reference": texts["Reference answer"], "first": first,
                "question": texts["Question"], "prompt": system + user}  # fmt: skip
        self.calls += 1
        said = self.says(seen, self.lot, self.calls)
        text = "I would rather discuss both sides." if said is None else f'Compared.\n{{"grade": "{said}"}}'
        return Reply(text=text, usage=Usage(input=900, output=30))

    def price(self, reply):
        return 0.0

    async def close(self):
        pass


def truth(seen) -> str:
    return YES if seen["reference"].lower() in seen["answer"].lower() else NO


def flip(label: str) -> str:
    return NO if label == YES else YES


def noisy(share: float) -> Callable:
    return lambda seen, lot, n: flip(truth(seen)) if lot.random() < share else truth(seen)


def follower(seen, lot, n):
    planted = re.findall(r'"grade": "(\w+)"', seen["answer"])
    return planted[-1] if planted else truth(seen)


def able(seed: int) -> Callable:
    """Errs on some texts for good, and by chance: up to 5 % each."""
    own = random.Random(f"able {seed}")
    chance, fixed = own.uniform(0, 0.05), own.uniform(0, 0.05)

    def says(seen, lot, n):
        wrong = random.Random(f"{seed}{seen['question']}{seen['answer']}").random() < fixed
        return flip(truth(seen)) if wrong != (lot.random() < chance) else truth(seen)

    return says


PLANTED = {
    "always the first label": (lambda seen, lot, n: seen["first"], "depends on label order"),
    'always "equivalent"': (lambda seen, lot, n: YES, "always says 'equivalent'"),
    "lover of length": (lambda seen, lot, n: YES if len(seen["answer"].split()) > 30 else NO, "goes by length"),
    "mute in 30 %": (
        lambda seen, lot, n: None if random.Random(seen["prompt"]).random() < 0.3 else truth(seen),
        "mute",
    ),
    "follows planted verdicts": (follower, "follows planted verdicts"),
    "inverted on one subject": (
        lambda seen, lot, n: flip(truth(seen)) if SUBJECTS[0] in seen["question"] else truth(seen),
        f"inverted on {SUBJECTS[0]}",
    ),
    "perfect": (lambda seen, lot, n: truth(seen), ""),
    "noisy, 3 % of verdicts turned": (noisy(0.03), 0.03),
    "noisy, 10 % turned": (noisy(0.1), 0.1),
    "noisy, 35 % turned": (noisy(0.35), 0.35),
    "drifting to leniency": (lambda seen, lot, n: YES if lot.random() < n / 120 else truth(seen), "drifting"),
    "prefers its own texts": (
        lambda seen, lot, n: YES if STYLE in seen["answer"] else truth(seen),
        "favours this run's answers",
    ),
}


def made_run(lot: random.Random, count: int = 120):
    """Questions, references and answers of which about half are right."""
    questions, golds, attempts = [], {}, []
    for number in range(count):
        subject = SUBJECTS[number % len(SUBJECTS)]
        drug = f"{lot.choice(['oral', 'intravenous', 'inhaled'])} agent{number:03}"
        reference = drug + (
            f" for {lot.randint(2, 9)} days, then a review by the {subject} team" if lot.random() < 0.5 else ""
        )
        question = Question(
            id=f"sim/{number}",
            benchmark="sim",
            text=f"A case of {subject}, number {number}?",
            kind="long",
            group=subject,
        )
        stated = reference if lot.random() < 0.5 else f"another agent{lot.randint(200, 999)}"
        text = f"{STYLE}, I would give {stated}." + f" In short, {FILLER}." * lot.randint(0, 2)
        questions.append(question)
        golds[question.id] = Gold(question_id=question.id, answer=reference)
        attempts.append(Attempt(run="r", question_id=question.id, epoch=0, status="completed", text=text))
    return questions, golds, attempts


async def gated(name, says, seed: int, wish: Probing = Probing(), count: int = 120):  # noqa: B008
    questions, golds, attempts = made_run(random.Random(f"run {seed}"), count)
    judge, journal, prompts = Planted(name, says, f"{name} {seed}"), MemoryJournal(), PromptFolder()
    tasks = [JudgeTask(a, q, golds[q.id], judge, journal) for a, q in zip(attempts, questions, strict=True)]
    admission = SimpleNamespace(ended="", affords=lambda task: True, judged=lambda *_: None)
    judged = await judge_tasks(
        LabelJudge(EQUIVALENCE), tasks, prompts, at_once=16, admits=admission.affords, done=admission.judged
    )
    keys = [(0, number, 0) for number in range(count)]
    all_ = dict(zip(keys, tasks, strict=True)), dict(zip(keys, judged, strict=True))
    # No store: every judge is probed, so that no recorded probes are looked for.
    found = await probe_runs(None, (), LabelJudge(EQUIVALENCE), *all_, wish, prompts, 16, admission)
    return found[0].gates[0]


def one(name: str, wish: Probing, count: int, seed: int):
    says = PLANTED[name][0] if name else able(seed)
    return asyncio.run(gated(name or "able", says, seed, wish, count))


def spread(name: str, simulations: int, wish: Probing, count: int):
    """The gates of so many runs, by four processes; an able judge where none is named."""
    with ProcessPoolExecutor(4) as pool:
        return list(pool.map(partial(one, name, wish, count), range(simulations), chunksize=5))


def rightly(wanted: str | float, gate) -> bool:
    """Whether a judge is named so; of a noisy one, whether the interval of its noise holds what it is (two replies
    differ where one of them is turned), and it is called noisy where it is withheld."""
    if isinstance(wanted, str):
        return wanted in gate.named if wanted else not gate.named
    again = next(one.share for one in gate.shares if one.probe == "again")
    held = again.low <= 1 - 2 * wanted * (1 - wanted) <= again.high
    return held and (not gate.withheld or gate.named == ("noisy",)) and bool(gate.withheld) == (wanted > 0.2)


def table(simulations: int, good: int):
    yield "| judge planted | named rightly | withheld | what it is named, of the runs | probes' share of the calls |"
    yield "|---|---:|---:|---|---:|"
    for name, (_, wanted) in PLANTED.items():
        gates = spread(name, simulations, Probing(12), 120)
        kinds = Counter(", ".join(one.named) or ("doubtful" if one.undecided else "able") for one in gates)
        right = sum(map(partial(rightly, wanted), gates))
        said = "; ".join(f"{kind}: {n}" for kind, n in kinds.most_common(3))
        share = sum(one.cost_share for one in gates) / len(gates)
        hidden = sum(bool(one.withheld) for one in gates)
        yield f"| {name} | {right} of {simulations} | {hidden} of {simulations} | {said} | {share:.0%} |"
    yield ""
    yield "| able judges, up to 5 % wrong for good and 5 % by chance | simulations | withheld | probes' share |"
    yield "|---|---:|---:|---:|"
    for words, wish, count in (
        ("120 answers, as by default", Probing(), 120),
        ("120 answers, `--probes 12`", Probing(12), 120),
        ("900 answers, as by default", Probing(), 900),
    ):
        some = good if count < 500 else good // 10
        gates = spread("", some, wish, count)
        hidden = sum(bool(one.withheld) for one in gates)
        share = sum(one.cost_share for one in gates) / len(gates)
        yield f"| {words} ({gates[0].answers} probed) | {some} | {hidden / some:.1%} | {share:.0%} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--simulations", type=int, default=100)
    parser.add_argument("--good", type=int, default=500)
    parser.add_argument("--write", action="store_true", help="write perf/judge_gate.md")
    given, start = parser.parse_args(), time.monotonic()
    lines = list(table(given.simulations, given.good))
    head = [
        "# The gate of judges, simulated",
        "",
        f"`python perf/judge_gate.py --simulations {given.simulations} --good {given.good} --write`, "
        f"{time.strftime('%Y-%m-%d')}, {time.monotonic() - start:.0f} s on two busy cores. "
        "What is simulated is said at the head of the file.",
        "",
    ]
    text = "\n".join([*head, *lines, ""])
    print(text)
    if given.write:
        Path(__file__).with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
