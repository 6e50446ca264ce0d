"""Which texts of an attempt are in the full-text index, by field.

What a reader looks for: the question, queries, passages found, replies, what tools were asked and gave, the answer, why
it failed, and notes. Of systems that are not our own also what users and tools said in their prompts, as far as no
prompt before held it. Instructions are left out: our own prompts are the same in every attempt, and ``/`` inside an
attempt finds them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from ragrounds.evals.store import schema
from ragrounds.evals.store.text_folding import joined
from ragrounds.evals.store.traces import TracedCall
from ragrounds.records import TOKENS_APART, Attempt, Left, Noted, Question, Run

Placed = tuple[str, int | None]
"""A text, and the place among the attempt's calls of the one that it is from; ``None``: of none."""


def is_foreign_run(run: Run) -> bool:
    """Whether a run is of a system that is not our own, whose prompts nobody here has written."""
    return "system" in run.identity


class AttemptTexts(Struct, frozen=True):
    """What of an attempt joins the index."""

    question: str
    """Folded."""
    passages: tuple[tuple[str, str], ...]
    """Titles and texts, as they were found."""
    own: Mapping[str, str]
    """Field → folded texts."""


def attempt_texts(attempt: Attempt, traced: Sequence[TracedCall], question: Question, run: Run) -> AttemptTexts:
    """The texts of an attempt; `traced` are its calls in order, with what was asked and answered."""
    fields = attempt_fields(attempt, traced, is_foreign_run(run))
    return AttemptTexts(
        question=joined(text for text, _ in question_texts(question)),
        passages=tuple(dict.fromkeys((one.title, one.text) for call in traced for one in call.passages)),
        own={name: joined(text for text, _ in found) for name, found in fields.items() if found},
    )


def question_texts(question: Question) -> list[Placed]:
    """What of a question is found: its text and its options."""
    return [(question.text, None), *((option, None) for option in question.options.values())]


def passage_texts(traced: Sequence[TracedCall]) -> list[Placed]:
    """What of the passages that an attempt found is found: their titles and texts."""
    return [
        (text, place) for place, call in enumerate(traced) for one in call.passages for text in (one.title, one.text)
    ]


def attempt_fields(attempt: Attempt, traced: Sequence[TracedCall], foreign: bool) -> dict[str, list[Placed]]:
    """The texts of an attempt that are its own, by field (:data:`ragrounds.evals.store.schema.TEXT_FIELDS`)."""
    fields: dict[str, list[Placed]] = {name: [] for name in schema.TEXT_FIELDS if name not in ("question", "passage")}
    fields["answer"].append((attempt.text, None))
    fields["reason"].append((attempt.reason, None))
    prompts = _NewTurns()
    for place, call in enumerate(traced):
        fields["reason"] += [(text, place) for text in (call.call.error, *(one.message for one in call.call.faults))]
        if call.call.error or call.call.role in TOKENS_APART:
            continue
        if call.searched is not None:
            fields["query"].append((call.searched.query, place))
        said = "tool" if call.call.kind == "tool" else "reply"
        if call.reply is not None:
            asked = (text for one in call.reply.calls for text in (one.name, one.arguments))
            fields[said] += [(text, place) for text in (call.reply.reasoning, call.reply.text, *asked)]
        fields["tool"] += [(text, place) for value in (call.used, call.gave) for text in _strings(value)]
        if foreign and call.asked is not None:
            spoken = [message.content for message in call.asked.messages if message.role in ("user", "tool")]
            field = "tool" if call.call.kind == "tool" else "prompt"
            fields[field] += [(text, place) for text in prompts.of(spoken)]
    for event in attempt.events:
        if isinstance(event, Noted):
            fields["tool" if event.what == "tool" else "note"] += [(event.what, None), (event.text, None)]
        elif isinstance(event, Left):
            fields["reason"].append((event.error, None))
    return fields


class _NewTurns:
    """Turns of prompts that no earlier prompt held. Of one that has grown at its end, only what is new."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._last: list[str] = []

    def of(self, turns: Iterable[str]) -> Iterator[str]:
        now = list(turns)
        for place, text in enumerate(now):
            if text in self._known:
                continue
            self._known.add(text)
            before = self._last[place] if place < len(self._last) else ""
            yield text[len(before) :] if before and text.startswith(before) else text
        self._last = now


def _strings(value: object) -> Iterator[str]:
    """The texts in a value made of dictionaries and lists."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            left.extend(reversed(list(one.values())))
        elif isinstance(one, list | tuple):
            left.extend(reversed(one))
