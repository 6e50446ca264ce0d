"""Where searches stand that a system told of at its end: in the node that wrote what they found, where one did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ragrounds.evals.store.hops import Hop
from ragrounds.records import Called, Step


def writers(steps: Iterable[Step], called: Sequence[Called], hops: Mapping[int, Hop]) -> dict[int, int]:
    """The places of searches in no node, whose time is not known → the first step that wrote any of their passages.
    Left behind the answer they would seem to have come last.

    Args:
        steps: of the attempt.
        called: its calls in their order.
        hops: its searches, each by its call's place.
    """
    homes: dict[int, int] = {}
    inner = sorted((step for step in steps if step.index >= 0), key=lambda step: (step.at, step.index))
    for place, hop in hops.items():
        if not hop.untimed or place >= len(called) or called[place].step != -1:
            continue
        known = {text for one in hop.found for text in (one.passage.id, one.passage.text.strip()) if text}
        home = next((step.index for step in inner if _holds(step.changes, known)), None)
        if home is not None:
            homes[place] = home
    return homes


def _holds(value: object, known: set[str]) -> bool:
    """Whether any of these texts stands in what a node wrote to the state."""
    if isinstance(value, str):
        return value.strip() in known
    if isinstance(value, Mapping):
        return any(_holds(one, known) for one in value.values())
    return isinstance(value, list | tuple) and any(_holds(one, known) for one in value)
