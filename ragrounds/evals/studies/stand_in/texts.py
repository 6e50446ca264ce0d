"""Made-up texts for the stand-in, in ``made_up.json``: twelve common conditions, Chinese questions, sentences with
relations, and two small knowledge graphs.

All in this project's own words. Drugs and genes of the sentences are invented; the rest is textbook knowledge in plain
sentences. No source was copied, and nothing here is advice.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

import msgspec
from msgspec import Struct

Row = dict[str, object]


class Disease(Struct, frozen=True, kw_only=True):
    """One condition, in English and Chinese. The stories do not name it."""

    key: str
    name: str
    system: str
    story: str
    """How a patient describes it and what is found, without the name."""
    test: str
    treatment: str
    mechanism: str
    chinese: str
    """The name."""
    chinese_question: str
    chinese_answer: str
    chinese_synonym: tuple[str, str, str]
    """A sentence, one of the same meaning, and one of another."""


class _MadeUp(Struct, frozen=True):
    conditions: tuple[Disease, ...]
    tcm: list[Row]
    clfqa: list[Row]
    chemprot: list[tuple[str, str, str, str]]
    ddi: list[tuple[str, str, str, str]]
    cmeie: list[tuple[str, str, str, str]]
    adint: list[tuple[str, str, str]]
    drkg: list[tuple[str, str, str]]


MADE_UP = msgspec.json.decode(files(__package__).joinpath("made_up.json").read_bytes(), type=_MadeUp)
CONDITIONS = MADE_UP.conditions
"""What the made-up retrieval sets and case reports are written from."""


def chemprot() -> dict[str, list[str]]:
    """The lines of the organisers' three files."""
    made: dict[str, list[str]] = {"abstracts": [], "entities": [], "gold_standard": []}
    for number, (chemical, group, gene, text) in enumerate(MADE_UP.chemprot, start=101):
        title = f"Effects of {chemical}"
        made["abstracts"].append(f"{number}\t{title}\t{text}")
        whole = f"{title} {text}"
        for id, kind, name in (("T1", "CHEMICAL", chemical), ("T2", "GENE-Y", gene)):
            start = whole.rindex(name)
            made["entities"].append(f"{number}\t{id}\t{kind}\t{start}\t{start + len(name)}\t{name}")
        made["gold_standard"].append(f"{number}\t{group}\tArg1:T1\tArg2:T2")
    return made


def ddi() -> Iterator[dict[str, object]]:
    """The corpus's documents, one sentence each."""
    for number, (first, kind, second, text) in enumerate(MADE_UP.ddi, start=1):
        pair = {"e1": "e0", "e2": "e1", "ddi": "true" if kind else "false", "type": kind or None}
        names = [{"id": "e0", "text": first}, {"id": "e1", "text": second}]
        sentence = {"id": f"s{number}", "text": text, "entities": names, "pairs": [pair]}
        yield {"id": f"made-up-{number}", "split": "Test/Test for DDI Extraction task", "sentences": [sentence]}


def cmeie() -> Iterator[dict[str, object]]:
    """The lines of the set's file."""
    for subject, relation, value, text in MADE_UP.cmeie:
        stated = {"subject": subject, "predicate": relation, "object": {"@value": value}}
        yield {"text": text, "spo_list": [stated]}
