"""``rejected.jsonl``: everything that was drawn or dropped before, and did not become a part of the benchmark, with
stage, reason and the case itself.

What passed the intake and was not drawn is only counted, in the card: a store of reports may hold millions. A `detail`
is empty where the reason says it all (an empty text, a fact that is not known).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ragrounds.build.intake import Dropped, Intake
from ragrounds.build.running import Result
from ragrounds.build.writing import Lines, json_lines

FILE = "rejected.jsonl"


def rejections(intake: Intake, results: Sequence[Result], later: Iterable[Dropped] = ()) -> Iterator[Dropped]:
    """What the intake dropped, what the graph rejected, what later stages dropped; then what has no outcome yet."""
    yield from intake.dropped
    for result in results:
        if result.outcome is not None and not result.outcome.kept:
            outcome = result.outcome
            yield Dropped(id=result.question.id, stage=outcome.stage, reason=outcome.reason, detail=outcome.detail)
    yield from later
    for result in results:
        if result.outcome is None:
            yield Dropped(id=result.question.id, stage="run", reason=result.status, detail=result.reason)


def rejection_file(intake: Intake, results: Sequence[Result], later: Iterable[Dropped] = ()) -> dict[str, Lines]:
    """The file, to join those of a benchmark."""
    return {FILE: json_lines(rejections(intake, results, later))}


def not_listed(intake: Intake) -> list[str]:
    """What the card says of items that the file does not hold."""
    undrawn = intake.passed - len(intake.items)
    return [f"{undrawn:,} items that were not drawn are only counted: {FILE} does not list them."] if undrawn else []
