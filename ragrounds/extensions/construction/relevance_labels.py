"""Relevance labels by several models (CMedTEB, Section 3.1): each grades each pair of query and passage from S to D,
and a pair is kept only if all of them agree.

S and A answer the query and make a passage relevant; B, C and D do not (Table 23). A pair is a positive if all grades
are relevant, a negative if none is. Other pairs are dropped, as is a pair without a grade by some model. The paper
reports one Fleiss' kappa without stating for which labels; here it is computed for both, the five grades and the two
classes.

Several passages are graded in one call, in a random order that depends on the query. A reply without a label for some
passage is malformed as a whole: its other labels may be those of neighbouring passages. A passage for which a model
gave no readable label, or which it refused, has no label of that model. Equal texts are labelled once.
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
"""Grades, best first."""
RELEVANT = "SA"

PairFate = Literal["positive", "negative", "dropped", "unlabelled"]


class LabelledPair(Struct, frozen=True, kw_only=True):
    """A query and a passage with every model's grade."""

    query: str
    document: str
    grades: tuple[str | None, ...]
    """Grade by each model, in the models' order; ``None`` if it could not be read."""

    @property
    def similarity(self) -> float | None:
        """Mean grade as a number, D = 0 to S = 4; ``None`` if a grade is missing."""
        known_grades = [grade for grade in self.grades if grade is not None]
        if len(known_grades) < len(self.grades):
            return None
        return sum(len(GRADES) - 1 - GRADES.index(grade) for grade in known_grades) / len(known_grades)


class Consensus(Struct, frozen=True, kw_only=True):
    """Agreement of several models' labels."""

    models: tuple[str, ...]
    pairs: int
    counts: Mapping[PairFate, int]
    kappa: float | None
    """Fleiss' kappa of the five grades over the pairs that every model graded; ``None`` if it is not defined."""
    kappa_relevant: float | None
    """Fleiss' kappa of the two classes, relevant and not."""
    grades: Mapping[str, Mapping[str, int]]
    """Model → grade → number of pairs; ``missing`` is a grade here."""


def check_relevant(relevant: str) -> str:
    """Return `relevant` if it can split the grades.

    Raises:
        UserError: a letter that is no grade, no letter, or all grades.
    """
    letters = set(relevant)
    if not letters or not letters < set(GRADES) or len(letters) < len(relevant):
        raise UserError(f"relevant={relevant!r}: expected some of the grades {''.join(GRADES)}, each once, not all.")
    return relevant


def fate(grades: Sequence[str | None], relevant: str = RELEVANT) -> PairFate:
    """Return the fate of a pair with these grades."""
    if not grades or None in grades:
        return "unlabelled"
    relevant_count = sum(grade in relevant for grade in grades if grade)
    return "positive" if relevant_count == len(grades) else "dropped" if relevant_count else "negative"


def consensus(models: Sequence[str], pairs: Sequence[LabelledPair], relevant: str = RELEVANT) -> Consensus:
    """Return counts and agreement of labelled pairs."""
    complete = [pair.grades for pair in pairs if None not in pair.grades]
    classes = [["relevant" if grade and grade in relevant else "not" for grade in grades] for grades in complete]
    enough = bool(complete) and len(models) > 1
    counts = Counter(fate(pair.grades, relevant) for pair in pairs)
    order: tuple[PairFate, ...] = ("positive", "negative", "dropped", "unlabelled")
    return Consensus(
        models=tuple(models),
        pairs=len(pairs),
        counts={fate_name: counts[fate_name] for fate_name in order},
        kappa=fleiss_kappa(complete) if enough else None,
        kappa_relevant=fleiss_kappa(classes) if enough else None,
        grades={
            model: dict(Counter(pair.grades[index] or "missing" for pair in pairs))
            for index, model in enumerate(models)
        },
    )


PROMPT = "build/relevance_labels"
NO_LABEL = "no model gave a label that can be read"


class Labels(Struct, frozen=True):
    """Labels that the models gave to some passages."""

    grades: dict[str, list[str | None]]
    """Passage → grade by each model, in the models' order; ``None`` if it could not be read."""
    faults: list[JsonObject]
    """Calls without labels: labeller (from 1), number of passages, reason, detail."""


async def label_passages(context: Context, passages: Mapping[str, str], roles: Sequence[str], at_once: int) -> Labels:
    """Request the grades of `passages` (id → text) from the model of each role, `at_once` per call.

    Raises:
        Rejected: not one label could be read.
        CallFailed: not one label could be read, and calls failed.
    """
    window = Window.of(context, roles, at_once)
    texts = {id: window.fitted(context, text) for id, text in passages.items()}
    grades_by_text: dict[str, list[str | None]] = {}
    faults: list[JsonObject] = []
    rejections: list[Rejected] = []
    # Each text once, in a random order that depends on the query: the best result must not always be first.
    shuffle_keys = {text: hashlib.sha256(f"{context.seed}\n{text}".encode()).digest() for text in texts.values()}
    for batch in batches(context, sorted(shuffle_keys, key=shuffle_keys.__getitem__), at_once, window):
        # Batches follow one another, each goes to all models at once: a resumed query keeps the order of its calls.
        replies = await asyncio.gather(*(_request_labels(context, batch, role) for role in roles))
        for index, text in enumerate(batch.texts):
            grades_by_text[text] = [labels.get(batch.names[index]) for labels, _ in replies]
        faults += [
            {"labeller": number, "passages": len(batch.texts), "reason": rejection.reason, "detail": rejection.detail}
            for number, (_, rejection) in enumerate(replies, 1)
            if rejection
        ]
        rejections += [rejection for _, rejection in replies if rejection]
    if not any(label for labels in grades_by_text.values() for label in labels):
        none_left(rejections)
        refused = bool(rejections) and all(rejection.reason == REFUSED for rejection in rejections)
        raise Rejected(REFUSED if refused else NO_LABEL, rejections[-1].detail if rejections else "")
    return Labels({id: grades_by_text[text] for id, text in texts.items()}, faults)


class Window(Struct, frozen=True):
    """The smallest context window among the models."""

    role: str
    room: int | None
    """Tokens available for passages; ``None`` if no window is known, so nothing is cut."""

    @classmethod
    def of(cls, context: Context, roles: Sequence[str], at_once: int) -> Window:
        """Return the window, with the tokens left by query and instructions."""
        frame = context.prompts.render(
            PROMPT, context.stem.language, query=context.stem.text, passages="", form=_FORM * at_once
        )
        rooms = {role: available for role in roles if (available := context.room(frame, role=role)) is not None}
        role = min(rooms, key=rooms.__getitem__, default=roles[0])
        return cls(role, rooms.get(role))

    def size(self, context: Context, text: str) -> int:
        """Return the tokens of a passage in the prompt; 0 if no window is known."""
        return 0 if self.room is None else context.count(text, role=self.role) + _AROUND

    def fitted(self, context: Context, text: str) -> str:
        """Return a passage. One that is too long for the window loses its end, with a note in the trace."""
        if self.room is None or self.size(context, text) <= self.room:
            return text
        context.note("cut", f"a passage is longer than the window of {self.role}")
        return context.cut(text, max(0, self.room - _AROUND), role=self.role)


class Batch(Struct, frozen=True):
    """Passages that are labelled in one call."""

    names: tuple[str, ...]
    """Names of the passages in the prompt: p1, p2, …"""
    texts: tuple[str, ...]

    @property
    def prompt_text(self) -> str:
        """Part of the prompt with the passages."""
        return "\n\n".join(
            f"{name}:\n<<<\n{fenced(text)}\n>>>" for name, text in zip(self.names, self.texts, strict=True)
        )


async def _request_labels(context: Context, batch: Batch, role: str) -> tuple[dict[str, str], Rejected | None]:
    """Return one model's labels, or the rejection if it gave none."""
    contract = VerdictForm(batch.names, GRADES)
    values = {"query": fenced(context.stem.text), "passages": batch.prompt_text, "form": contract.example}
    messages = context.prompts.render(PROMPT, context.stem.language, **values)
    try:
        labels, _ = await of_part(verdict_on(context, messages, contract, role=role))
    except Rejected as rejected:
        return {}, rejected
    return labels, None


def batches(context: Context, texts: Sequence[str], at_once: int, window: Window) -> list[Batch]:
    """Return batches of texts in order, `at_once` per call, or fewer if the window has no space for them."""
    finished: list[Batch] = []
    waiting: list[str] = []
    used = 0
    for text in texts:
        size = window.size(context, text)
        if waiting and (len(waiting) == at_once or (window.room is not None and used + size > window.room)):
            finished.append(_batch(waiting))
            waiting, used = [], 0
        waiting.append(text)
        used += size
    return [*finished, _batch(waiting)] if waiting else finished


_AROUND = 16
"""Number of tokens of a passage's name and fence."""
_FORM = '"p10": "S" or "A" or "B" or "C" or "D", '


def _batch(texts: Sequence[str]) -> Batch:
    return Batch(tuple(f"p{number}" for number in range(1, len(texts) + 1)), tuple(texts))
