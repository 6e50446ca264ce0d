"""Relevance labels by several models (CMedTEB, Section 3.1): each grades each pair of query and passage from S to D,
and a pair is kept only where all of them agree.

S and A answer the query and make a passage relevant; B, C and D do not (Table 23). All relevant: a positive. None: a
negative. Anything between is dropped, as is a pair that some model gave no grade. The paper gives one Fleiss' kappa
without saying of which labels; here it stands for both, the five grades and the two classes.

Several passages are graded in one call, in an order drawn by the query. A reply that lacks a passage is malformed as a
whole: its other labels may have slipped to a neighbour. A passage that a model gave no readable label for, or refused,
has none of that model. Equal texts are labelled once.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from ragrounds.base.contracts import Context
from ragrounds.base.errors import UserError
from ragrounds.evals.scorers.judged import VerdictForm, fenced
from ragrounds.evals.stats.agreement import fleiss_kappa
from ragrounds.extensions.construction.outcome import REFUSED, JsonObject
from ragrounds.extensions.construction.stages import Rejected, none_left, of_part, verdict_on

GRADES = ("S", "A", "B", "C", "D")
"""Best first."""
RELEVANT = "SA"

PairFate = Literal["positive", "negative", "dropped", "unlabelled"]


class LabelledPair(Struct, frozen=True, kw_only=True):
    """A query and a passage with every model's grade."""

    query: str
    document: str
    grades: tuple[str | None, ...]
    """One of each model, in the models' order; ``None``: it gave none that can be read."""

    @property
    def similarity(self) -> float | None:
        """Mean grade as a number, D = 0 to S = 4; ``None`` where one is missing."""
        given = [grade for grade in self.grades if grade is not None]
        if len(given) < len(self.grades):
            return None
        return sum(len(GRADES) - 1 - GRADES.index(grade) for grade in given) / len(given)


class Consensus(Struct, frozen=True, kw_only=True):
    """What several models' labels came to."""

    models: tuple[str, ...]
    pairs: int
    counts: Mapping[PairFate, int]
    kappa: float | None
    """Fleiss' kappa of the five grades over the pairs that every model graded; ``None`` where it is not defined."""
    kappa_relevant: float | None
    """The same of the two classes, relevant and not."""
    grades: Mapping[str, Mapping[str, int]]
    """Model → grade → pairs; ``missing`` is a grade here."""


def check_relevant(relevant: str) -> str:
    """`relevant`, where it can split the grades.

    Raises:
        UserError: a letter that is no grade, none, or all of them.
    """
    letters = set(relevant)
    if not letters or not letters < set(GRADES) or len(letters) < len(relevant):
        raise UserError(f"relevant={relevant!r}: expected some of the grades {''.join(GRADES)}, each once, not all.")
    return relevant


def fate(grades: Sequence[str | None], relevant: str = RELEVANT) -> PairFate:
    """What becomes of a pair with these grades."""
    if not grades or None in grades:
        return "unlabelled"
    found = sum(grade in relevant for grade in grades if grade)
    return "positive" if found == len(grades) else "dropped" if found else "negative"


def consensus(models: Sequence[str], pairs: Sequence[LabelledPair], relevant: str = RELEVANT) -> Consensus:
    """Counts and agreement of labelled pairs."""
    whole = [pair.grades for pair in pairs if None not in pair.grades]
    enough = bool(whole) and len(models) > 1
    counts = Counter(fate(pair.grades, relevant) for pair in pairs)
    order: tuple[PairFate, ...] = ("positive", "negative", "dropped", "unlabelled")
    return Consensus(
        models=tuple(models),
        pairs=len(pairs),
        counts={each: counts[each] for each in order},
        kappa=fleiss_kappa(whole) if enough else None,
        kappa_relevant=fleiss_kappa([_classes(grades, relevant) for grades in whole]) if enough else None,
        grades={
            model: dict(Counter(pair.grades[place] or "missing" for pair in pairs))
            for place, model in enumerate(models)
        },
    )


def _classes(grades: Sequence[str | None], relevant: str) -> list[str]:
    return ["relevant" if grade and grade in relevant else "not" for grade in grades]


PROMPT = "build/relevance_labels"
NO_LABEL = "no model gave a label that can be read"


class Labels(Struct, frozen=True):
    """What the models said of some passages."""

    given: dict[str, list[str | None]]
    """Passage → every model's grade, in the models' order; ``None``: none that can be read."""
    faults: list[JsonObject]
    """Calls that gave no labels: labeller (from 1), number of passages, reason, detail."""


async def label_passages(context: Context, passages: Mapping[str, str], roles: Sequence[str], at_once: int) -> Labels:
    """Ask the model of each role for the grades of `passages` (id → text), `at_once` a call.

    Raises:
        Rejected: not one label could be read.
        CallFailed: the same, and calls failed.
    """
    window = Window.of(context, roles, at_once)
    texts = {id: window.fitted(context, text) for id, text in passages.items()}
    given: dict[str, list[str | None]] = {}
    faults: list[JsonObject] = []
    rejections: list[Rejected] = []
    for batch in batches(context, _drawn(context, texts), at_once, window):
        # One batch after another, its models side by side: the calls of a query keep one order whenever it is resumed.
        said = await asyncio.gather(*(_asked(context, batch, role) for role in roles))
        for place, text in enumerate(batch.texts):
            given[text] = [labels.get(batch.names[place]) for labels, _ in said]
        faults += [
            {"labeller": number, "passages": len(batch.texts), "reason": why.reason, "detail": why.detail}
            for number, (_, why) in enumerate(said, 1)
            if why
        ]
        rejections += [why for _, why in said if why]
    if not any(label for labels in given.values() for label in labels):
        none_left(rejections)
        refused = bool(rejections) and all(why.reason == REFUSED for why in rejections)
        raise Rejected(REFUSED if refused else NO_LABEL, rejections[-1].detail if rejections else "")
    return Labels({id: given[text] for id, text in texts.items()}, faults)


class Window(Struct, frozen=True):
    """The smallest of the models' windows."""

    role: str
    room: int | None
    """Tokens for passages; ``None``: no window is known, nothing is cut."""

    @classmethod
    def of(cls, context: Context, roles: Sequence[str], at_once: int) -> Window:
        """The room beside query and instructions."""
        frame = context.prompts.render(
            PROMPT, context.stem.language, query=context.stem.text, passages="", form=_FORM * at_once
        )
        rooms = {role: room for role in roles if (room := context.room(frame, role=role)) is not None}
        role = min(rooms, key=rooms.__getitem__, default=roles[0])
        return cls(role, rooms.get(role))

    def size(self, context: Context, text: str) -> int:
        """Tokens of a passage in the prompt; 0 where nobody asks."""
        return 0 if self.room is None else context.count(text, role=self.role) + _AROUND

    def fitted(self, context: Context, text: str) -> str:
        """A passage that is too long for the window alone loses its end, and the trace says so."""
        if self.room is None or self.size(context, text) <= self.room:
            return text
        context.note("cut", f"a passage is longer than the window of {self.role}")
        return context.cut(text, max(0, self.room - _AROUND), role=self.role)


class Batch(Struct, frozen=True):
    """Passages that are labelled in one call."""

    names: tuple[str, ...]
    """Of the passages, as the prompt has them: p1, p2, …"""
    texts: tuple[str, ...]

    @property
    def shown(self) -> str:
        """The passages' part of the prompt."""
        return "\n\n".join(
            f"{name}:\n<<<\n{fenced(text)}\n>>>" for name, text in zip(self.names, self.texts, strict=True)
        )


async def _asked(context: Context, batch: Batch, role: str) -> tuple[dict[str, str], Rejected | None]:
    """One model's labels, or why there are none."""
    contract = VerdictForm(batch.names, GRADES)
    values = {"query": fenced(context.stem.text), "passages": batch.shown, "form": contract.example}
    messages = context.prompts.render(PROMPT, context.stem.language, **values)
    try:
        labels, _ = await of_part(verdict_on(context, messages, contract, role=role))
    except Rejected as rejected:
        return {}, rejected
    return labels, None


def batches(context: Context, texts: Sequence[str], at_once: int, window: Window) -> list[Batch]:
    """Texts in order, `at_once` a call, fewer where the window has no room for them."""
    made: list[Batch] = []
    waiting: list[str] = []
    used = 0
    for text in texts:
        size = window.size(context, text)
        if waiting and (len(waiting) == at_once or (window.room is not None and used + size > window.room)):
            made.append(_batch(waiting))
            waiting, used = [], 0
        waiting.append(text)
        used += size
    return [*made, _batch(waiting)] if waiting else made


_AROUND = 16
"""Tokens of a passage's name and fence."""
_FORM = '"p10": "S" or "A" or "B" or "C" or "D", '


def _batch(texts: Sequence[str]) -> Batch:
    return Batch(tuple(f"p{number}" for number in range(1, len(texts) + 1)), tuple(texts))


def _drawn(context: Context, texts: Mapping[str, str]) -> list[str]:
    """Each text once, in an order that the query draws: the best found must not always stand first."""
    lots = {text: hashlib.sha256(f"{context.seed}\n{text}".encode()).digest() for text in texts.values()}
    return sorted(lots, key=lots.__getitem__)
