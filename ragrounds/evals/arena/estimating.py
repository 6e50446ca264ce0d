"""What an arena will take, before anybody is asked: one call for all axes, and one for each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from ragrounds.contracts import Model
from ragrounds.evals.arena.arena import Arena
from ragrounds.evals.arena.field import Field
from ragrounds.evals.arena.schedules import Standing, open_schedule
from ragrounds.records import Reply, Usage

_PROMPT, _REPLY, _SAMPLE = 350, 200, 100
"""Tokens of a judge's prompt without question and answers, and of its reply, as assumed; answers that are counted."""


class Estimate(Struct, frozen=True, kw_only=True):
    """One way of asking."""

    calls: str
    matches: int
    at_most: bool
    """The schedule may end before."""
    judge_calls: int
    input: int
    cost_uncached: float | None
    """Dollars with an empty journal; ``None``: no known price."""


def estimate(arena: Arena, field: Field, judges: Sequence[Model]) -> tuple[Estimate, ...]:
    """Both ways; every match is taken to need a judge, and every reply to be parsable."""
    size = len(arena.systems)
    matches = _matches(arena, len(field.questions))
    tokens = _tokens(field, judges[0])
    found = []
    for calls in ("together", "apart"):
        parts = 1 if calls == "together" else len(arena.axes)
        each = matches * parts * (2 if arena.orders == "both" else 1)
        usage = Usage(input=each * tokens, output=each * _REPLY)
        prices = [judge.price(Reply(text="", usage=usage)) for judge in judges]
        known = [price for price in prices if price is not None]
        found.append(
            Estimate(
                calls=calls,
                matches=matches,
                at_most=arena.schedule == "adaptive" and size > 1,
                judge_calls=each * len(judges),
                input=each * tokens * len(judges),
                cost_uncached=sum(known) if len(known) == len(prices) else None,
            )
        )
    return tuple(found)


def _matches(arena: Arena, questions: int) -> int:
    size = len(arena.systems)
    pairs = size * (size - 1) // 2
    if arena.schedule == "adaptive":
        return pairs * questions
    schedule = open_schedule(arena.schedule, size, questions, seed=arena.seed, least=arena.least)
    zeros = np.zeros((1, size, size))
    return len(schedule.batch(Standing(zeros, zeros, np.zeros(pairs, dtype=np.int64))))


def _tokens(field: Field, judge: Model) -> int:
    """Tokens of a prompt, by a sample of questions and answers."""
    questions = field.questions[:_SAMPLE]
    lengths = [judge.count(question.text) for question in questions]
    answers = [judge.count(texts[question.id]) for texts in field.answers for question in questions]
    return _PROMPT + int(np.mean(lengths) + 2 * np.mean(answers))
