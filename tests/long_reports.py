"""Made-up case reports of the form of OGCaReBench: long reports, a question from each, its next step as the answer.

Every sentence is drawn from frames of our own, so that reports share most of their words and differ in the few findings
of their case, as reports of one specialty do. The same seed gives the same files.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SPECIALTIES = ("Internal Medicine", "Surgical Studies", "Orthopedics", "Neurology", "Pediatrics")
KINDS = ("treatment", "test", "diagnosis")
_PLACES = "neck groin flank thigh forearm palate scalp ankle breastbone orbit hip shoulder jaw lumbar-spine".split()
_SIGNS = "swelling numbness rash itching weakness cramps bruising tremor redness stiffness hoarseness".split()
_FACTS = "potassium ferritin lactate sodium albumin creatinine bilirubin troponin calcium platelets".split()
_DRUGS = "colchicine rituximab doxycycline propranolol dapsone heparin octreotide prednisolone".split()
_STEPS = {
    "treatment": "a {drug} depot was placed beside the {place} by catheter, a route not described before",
    "test": "the fluid of the {place} was tested for {fact} under light of {number} nanometres",
    "diagnosis": "a wandering {fact} gland of the {place} was named as the cause, on its motion in breathing",
}
_FRAMES = (
    "On day {number} the {sign} of the {place} had spread by {small} centimetres.",
    "Serum {fact} was {number} on arrival and {more} after {small} days.",
    "Treatment with {drug} was begun and stopped after {small} days for want of effect.",
    "No {sign} was seen at the {place}, and imaging of the {other} showed nothing of note.",
    "The family reported {sign} in an uncle of {number} years, which had left him by itself.",
    "A consultant for the {place} advised to wait while {fact} was measured again.",
    "Cultures from the {place} stayed sterile for {small} days.",
    "Earlier authors saw {sign} of the {place} in {number} patients, most of whom were given {drug}.",
    "The dose of {drug} was raised to {number} milligrams and tolerated.",
    "Between rounds the patient walked {number} steps without {sign}.",
)


_NUMBER = re.compile(r"\d+")


class MadeReport(NamedTuple):
    """A report and what is asked of it."""

    id: str
    title: str
    text: str
    specialty: str
    kind: str
    question: str
    answer: str


def made_reports(count: int, words: tuple[int, int] = (3500, 7000), seed: int = 0) -> Iterator[MadeReport]:
    """Reports with about so many words each; a question has 150 to 500."""
    for number in range(1, count + 1):
        draw = random.Random(f"{seed}/{number}")
        place, sign, fact, drug = (draw.choice(words_) for words_ in (_PLACES, _SIGNS, _FACTS, _DRUGS))
        kind = KINDS[number % 3]
        own = {"place": place, "sign": sign, "fact": fact, "drug": drug, "number": draw.randint(300, 900)}
        mark = f"{draw.choice(_PLACES)}-to-{draw.choice(_PLACES)} fistula of {draw.randint(2, 99)} millimetres"
        case = [f"A patient of {draw.randint(3, 90)} years came with {sign} of the {place}; a {mark} was found."]
        case += [_sentence(draw, own if draw.random() < 0.5 else {}) for _ in range(40)]
        answer = f"{_STEPS[kind].format(**own)}."
        answer = answer[0].upper() + answer[1:]
        parts = [" ".join(case), answer, _filled(draw, draw.randint(*words))]
        named = f"The {mark} was still open. " if number % 2 else ""
        question = " ".join([*_asked(case[1:], draw), f"{named}What is the next step?"])
        title = f"{sign.capitalize()} of the {place}: case {number}"
        specialty = SPECIALTIES[number % len(SPECIALTIES)]
        yield MadeReport(f"PMC{9000000 + number}", title, "\n\n".join(parts), specialty, kind, question, answer)


def _sentence(draw: random.Random, own: dict[str, object]) -> str:
    values: dict[str, object] = {
        "place": draw.choice(_PLACES), "other": draw.choice(_PLACES), "sign": draw.choice(_SIGNS),
        "fact": draw.choice(_FACTS), "drug": draw.choice(_DRUGS), "number": draw.randint(10, 290),
        "more": draw.randint(10, 290), "small": draw.randint(2, 9),
    }  # fmt: skip
    return draw.choice(_FRAMES).format(**{**values, **own})


def _filled(draw: random.Random, length: int) -> str:
    """The discussion, which is of other cases: so many words, or some more."""
    parts, held = list[str](), 0
    while held < length:
        paragraph = " ".join(_sentence(draw, {}) for _ in range(draw.randint(4, 12)))
        parts.append(paragraph)
        held += len(paragraph.split())
    return "\n\n".join(parts)


def _asked(case: list[str], draw: random.Random) -> list[str]:
    """Part of the case, most of it with other numbers, and with what does not matter between."""
    parts: list[str] = []
    for sentence in case[: draw.randint(8, 30)]:
        parts.append(_NUMBER.sub(lambda _: str(draw.randint(2, 290)), sentence) if draw.random() < 0.9 else sentence)
        parts += [_sentence(draw, {})] if draw.random() < 0.5 else []
    return parts


def write_reports(folder: Path, count: int, words: tuple[int, int] = (3500, 7000), seed: int = 0) -> list[MadeReport]:
    """The reports and questions in BEIR's form and in OGCaReBench's: ``folder`` is both."""
    made = list(made_reports(count, words, seed))
    (folder / "qrels").mkdir(parents=True)
    _lines(folder / "corpus.jsonl", ({"_id": one.id, "title": one.title, "text": one.text} for one in made))
    _lines(folder / "queries.jsonl", ({"_id": one.id, "text": one.question} for one in made))
    judged = "".join(f"{one.id}\t{one.id}\t1\n" for one in made)
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}", encoding="utf-8")
    rows = (
        {
            "Title": one.title, "pmc_id": one.id, "Classification": one.specialty, "question": one.question,
            "answer": one.answer, "significance_type": one.kind,
        }
        for one in made
    )  # fmt: skip
    _lines(folder / "ogcarebench.jsonl", rows)
    return made


def _lines(path: Path, rows: Iterator[dict[str, str]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
