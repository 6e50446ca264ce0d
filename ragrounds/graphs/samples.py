"""What wrappers share: samples of the agent inside, and the answer that most of them give."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from typing_extensions import TypedDict

from ragrounds.base.contracts import Attempted, Context
from ragrounds.graphs.state import Runtime, State, whole


class Samples(State, total=False):
    """What travels between a wrapper's nodes."""

    epoch: int
    """Of the sample that is drawn."""
    drawn: Annotated[list[Attempted], operator.add]


class Drawn(TypedDict):
    """What a sample adds."""

    drawn: list[Attempted]


def epochs(context: Context, samples: int) -> list[Samples]:
    """A state for each sample. Those of epoch 0 are the agent's own attempts of its first epochs, and the wrapper's
    further epochs go on from there: no sample is drawn twice, and each has the calls that the agent alone makes."""
    first = context.epoch * samples
    return [{"epoch": epoch} for epoch in range(first, first + samples)]


async def sample(runtime: Runtime[Context], state: Samples, parameter: str, *, likely: bool = False) -> Drawn:
    """Draw one."""
    return {"drawn": [await runtime.context.attempt_of(parameter, epoch=state["epoch"], likely=likely)]}


def attempts(state: Samples, context: Context) -> list[Samples]:
    """A state for each of `samples` attempts."""
    return epochs(context, whole(context, "samples", 5))


async def draw(state: Samples, runtime: Runtime[Context]) -> Drawn:
    """Draw a sample."""
    return await sample(runtime, state, "of")


def most_frequent(drawn: Sequence[Attempted]) -> tuple[Attempted, int]:
    """The first sample of the answer that most give, with how many do; the earlier answer of equals. What cannot be
    read has no voice."""
    votes = Counter(one.read for one in drawn if one.read)
    winner, count = votes.most_common(1)[0] if votes else ("", 0)
    return next(one for one in drawn if one.read == winner or not votes), count
