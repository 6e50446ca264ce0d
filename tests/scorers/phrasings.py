"""How people and models word an answer: templates in our own words, each with what a careful reader takes from it.

``@L`` is the label of the option that is meant, ``@l`` the same in lower case, ``@T`` its text and ``@t`` that text
with a small first letter; ``@W`` ``@w`` ``@V`` ``@v`` and ``@X`` ``@x`` ``@Y`` ``@y`` are two other options. A template
is expected to be read as ``@L``, or, in the lists of traps, as no option at all.

They stand in ``phrasings.txt``, in lists: ``TEXT``, ``STEP``, ``DECIDED`` and ``AMOUNT`` give an option's text in place
of its label, ``ZH_…`` are Chinese, ``ELSEWHERE`` are other languages, from ``…TRAPS`` nothing is to be read. ``LATE``
and ``LATE_TRAPS`` were written after the reader was, and read once, as they are, by the command of perf/reading.md.

Half of the templates (:func:`held_out`, by a hash of the template) are kept from whoever works at the reader: their
failures are counted and not looked at.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ragrounds.base.records import Question

NUTRITION = Question(
    id="phrasing/nutrition", benchmark="phrasing", text="Gums bleed after months at sea. What is it?",
    options={"A": "Rickets", "B": "Scurvy", "C": "Pellagra", "D": "Beriberi"},
)  # fmt: skip
PRESSURE = Question(
    id="phrasing/pressure", benchmark="phrasing", text="A loud second heart sound is heard. What is it?",
    options={"A": "Hypertension", "B": "Pulmonary hypertension", "C": "Aortic stenosis", "D": "Mitral stenosis"},
)  # fmt: skip
NEXT_STEP = Question(
    id="phrasing/step", benchmark="phrasing", text="What is done next?",
    options={
        "A": "Start intravenous heparin", "B": "Order a chest radiograph", "C": "Give oral amoxicillin",
        "D": "Reassure the patient", "E": "Refer to a surgeon",
    },
)  # fmt: skip
TRIAL = Question(
    id="phrasing/trial", benchmark="phrasing", text="Does zinc shorten a cold?",
    options={"A": "yes", "B": "no", "C": "maybe"},
)  # fmt: skip
DOSE = Question(
    id="phrasing/dose", benchmark="phrasing", text="Which dose is usual?",
    options={"A": "5 mg", "B": "10 mg", "C": "15 mg", "D": "50 mg"},
)  # fmt: skip
CHINESE = Question(
    id="phrasing/chinese", benchmark="phrasing", text="牙龈出血，最可能的诊断是？", language="zh",
    options={"A": "佝偻病", "B": "坏血病", "C": "糙皮病", "D": "脚气病"},
)  # fmt: skip


class Phrasing(NamedTuple):
    """One wording for one question, with the label that a careful reader takes from it (empty: none)."""

    template: str
    text: str
    question: Question
    label: str


def held_out(template: str) -> bool:
    """Whether a template is of the half that nobody who works at the reader looks at."""
    return hashlib.sha256(f"half:{template}".encode()).digest()[0] % 2 == 1


_ENGLISH = ((NUTRITION, "ABD"), (PRESSURE, "BC"), (NEXT_STEP, "AE"))
_SETS: tuple[tuple[str, bool, tuple[tuple[Question, str], ...]], ...] = (
    ("SAID", True, (*_ENGLISH, (TRIAL, "C"), (DOSE, "D"))),
    ("SMALL", True, ((NUTRITION, "BC"), (NEXT_STEP, "E"))),
    ("TEXT", True, ((NUTRITION, "AC"), (PRESSURE, "ABD"))),
    ("STEP", True, ((NEXT_STEP, "ABCDE"),)),
    ("DECIDED", True, ((TRIAL, "ABC"),)),
    ("AMOUNT", True, ((DOSE, "ABD"),)),
    ("ZH_SAID", True, ((CHINESE, "ABD"),)),
    ("ZH_TEXT", True, ((CHINESE, "ABC"),)),
    ("ELSEWHERE", True, ((NUTRITION, "BC"), (PRESSURE, "D"))),
    ("TRAPS", False, ((NUTRITION, "AC"), (PRESSURE, "B"), (NEXT_STEP, "D"))),
    ("TEXT_TRAPS", False, ((NUTRITION, "AC"), (PRESSURE, "BD"))),
    ("DECIDED_TRAPS", False, ((TRIAL, "AB"),)),
    ("ZH_TRAPS", False, ((CHINESE, "AC"),)),
)
_LATE_SETS: tuple[tuple[str, bool, tuple[tuple[Question, str], ...]], ...] = (
    ("LATE", True, ((NUTRITION, "AB"), (PRESSURE, "D"), (NEXT_STEP, "CE"))),
    ("LATE_TRAPS", False, ((NUTRITION, "B"), (PRESSURE, "AC"))),
)


def phrasings(late: bool = False) -> Iterator[Phrasing]:
    """Every template with every question and label of its list; each wording of a question once.

    Args:
        late: those of ``LATE`` and ``LATE_TRAPS`` alone, in place of all others.
    """
    seen: set[tuple[str, str]] = set()
    lists = _lists()
    for name, read, questions in _LATE_SETS if late else _SETS:
        for template in lists[name]:
            for question, labels in questions:
                for label in labels:
                    text = _worded(template, question, label)
                    if (question.id, text) not in seen:
                        seen.add((question.id, text))
                        yield Phrasing(template, text, question, label if read else "")


def _lists() -> dict[str, list[str]]:
    """The lists of ``phrasings.txt``, by their headings."""
    lists: dict[str, list[str]] = {}
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").split("\n"):
        if heading := re.fullmatch(r"\[([A-Z_]+)\]", line):
            found = lists.setdefault(heading[1], [])
        elif line:
            found.append(line)
    return lists


def _worded(template: str, question: Question, label: str) -> str:
    labels = list(question.options)
    place = labels.index(label)
    text = template.replace("\\n", "\n").replace("\\\\", "\\")
    for step, marks in enumerate(("LlTt", "WwVv", "XxYy")):
        one = labels[(place + step) % len(labels)]
        said = question.options[one]
        for mark, part in zip(
            marks, (one, one.lower(), said[:1].upper() + said[1:], said[:1].lower() + said[1:]), strict=True
        ):
            text = text.replace(f"@{mark}", part)
    return text
