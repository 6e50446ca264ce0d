"""Plant causes in wrong answers to MIRAGE questions without gold documents; print the share named rightly, by cause.

    python perf/option_signs.py MIRAGE/benchmark.json

Sixty questions of MedQA, fifteen a cause, in four phrasings each. Some phrasings use what the signs do not know (a
synonym for the option, a passage that names it to rule it out): they are counted like the others.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

from ragrounds.base.contracts import Request, SearchRequest
from ragrounds.base.records import Attempt, Call, Gold, Message, Passage, Question, Reply, Score
from ragrounds.evals.trace.causes import cause_of
from ragrounds.evals.trace.traces import TracedCall

QUESTIONS = 60
REASONS = (
    "The findings fit {}. {} would look different.",
    "{1} is unlikely here, so this must be {0}.",
    "Step 1: {1}? The history argues against it. Step 2: the most likely diagnosis is {0}, as the passage says.",
    "Of the choices the first that was named above fits best, and the others do not.",
)
PASSAGES = (
    "{0} is discussed with {1} in the chapter.",
    "In patients like this, {0} is common.",
    "Management: {0}, then observation.",
    "The condition, by its older name, is rare.",
)


def call(kind: str) -> Call:
    return Call(key="", kind=kind, role="answering", node="n", actor="x", at=1.0, seconds=1.0)  # type: ignore[arg-type]


def search(text: str) -> TracedCall:
    found = Passage(id="p#1", document="p", title="", text=text, corpus="c@1")
    return TracedCall(call("search"), searched=SearchRequest(corpus="c@1", query="?", k=1), passages=(found,))


def reply(text: str) -> TracedCall:
    return TracedCall(call("model"), asked=Request(messages=(Message("user", "?"),)), reply=Reply(text=text))


def planted(cause: str, phrasing: int, gold: str, other: str, letter: str) -> tuple[list[TracedCall], str]:
    """The calls and the answer of an attempt with a cause."""
    towards, away = REASONS[phrasing].format(gold, other), REASONS[phrasing].format(other, gold)
    names, silent = PASSAGES[phrasing].format(gold, other), PASSAGES[phrasing].format(other, "others")
    final = json.dumps({"step_by_step_thinking": towards if cause == "wrong letter" else away, "answer_choice": letter})
    calls = [search(names if cause == "named" else silent)]
    if cause == "turned away":
        calls = [reply(towards), *calls]
    return [*calls, reply(final)], final


def main() -> None:
    """Print a line a cause."""
    asked = json.loads(Path(sys.argv[1]).read_text())["medqa"]
    told = [one for one in asked.values() if min(map(len, one["options"].values())) >= 8][:QUESTIONS]
    expected = dict.fromkeys(("wrong letter", "turned away", "named"), "ignored") | {"never named": "never found"}
    right, said = Counter[str](), Counter[tuple[str, str]]()
    for at, one in enumerate(told):
        cause, gold = list(expected)[at % 4], one["answer"]
        other = next(letter for letter in one["options"] if letter != gold)
        calls, text = planted(cause, at // 4 % 4, one["options"][gold], one["options"][other], other)
        question = Question(id="q", benchmark="mirage", text=one["question"], options=one["options"])
        attempt = Attempt(run="r", question_id="q", epoch=0, status="completed", text=text)
        score = Score(question_id="q", epoch=0, scorer="s", value=0.0, answer_status="answered", prediction=other)
        found = cause_of(attempt, calls, question, Gold(question_id="q", answer=gold), [score])
        named = found.word if found else "none"
        right[cause] += named == expected[cause]
        said[cause, named] += 1
    for cause in expected:
        total = sum(count for (planted, _), count in said.items() if planted == cause)
        others = {named: n for (planted, named), n in said.items() if planted == cause and named != expected[cause]}
        wrong = ", ".join(f"{named} {n}" for named, n in others.items())
        print(f"{cause:<15} {right[cause]:>2} of {total}" + (f"  (else {wrong})" if wrong else ""))
    print(f"{'all':<15} {sum(right.values()):>2} of {len(told)}")


if __name__ == "__main__":
    main()
