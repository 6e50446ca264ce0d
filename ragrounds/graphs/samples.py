"""Shared parts of wrappers: samples of the agent inside, and the answer that most of them give."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from typing_extensions import TypedDict

from ragrounds.base.contracts import Attempted, Context
from ragrounds.graphs.state import Runtime, State, int_parameter


class Samples(State, total=False):
    """State between a wrapper's nodes."""

    epoch: int
    """Epoch of the current sample."""
    drawn: Annotated[list[Attempted], operator.add]


class SampleUpdate(TypedDict):
    """Update of the state by a sample."""

    drawn: list[Attempted]


def epochs(context: Context, samples: int) -> list[Samples]:
    """Return a state for each sample.

    The samples of epoch 0 are the agent's own attempts of its first epochs, and the wrapper's further epochs continue
    after them. So no sample is used twice, and each has the calls that the agent alone makes.
    """
    first = context.epoch * samples
    return [{"epoch": epoch} for epoch in range(first, first + samples)]


async def sample(runtime: Runtime[Context], state: Samples, parameter: str, *, likely: bool = False) -> SampleUpdate:
    """Run an attempt of the agent inside."""
    return {"drawn": [await runtime.context.attempt_of(parameter, epoch=state["epoch"], likely=likely)]}


def attempts(state: Samples, context: Context) -> list[Samples]:
    """Return a state for each of `samples` attempts."""
    return epochs(context, int_parameter(context, "samples", 5))


async def draw(state: Samples, runtime: Runtime[Context]) -> SampleUpdate:
    """Run a sample."""
    return await sample(runtime, state, "of")


def most_frequent(samples: Sequence[Attempted]) -> tuple[Attempted, int]:
    """Return the first sample of the most frequent answer, and that answer's count.

    Of equally frequent answers the earlier wins. An unreadable answer does not vote.
    """
    votes = Counter(sample.read for sample in samples if sample.read)
    winner, count = votes.most_common(1)[0] if votes else ("", 0)
    return next(sample for sample in samples if sample.read == winner or not votes), count
