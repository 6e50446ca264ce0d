"""Questions that two benchmarks share: training on one then answers the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.errors import UserError
from ragrounds.evals.benchmarks.audit.duplicates import SIMILAR, Near, exact, near
from ragrounds.evals.benchmarks.benchmark import Benchmark
from ragrounds.records import Question


class Shared(Struct, frozen=True, kw_only=True):
    """What two benchmarks have in common."""

    first: str
    second: str
    same: tuple[tuple[str, str], ...]
    """Ids of questions with equal text and options, of the first and of the second."""
    near: tuple[Near, ...]
    """Pairs that are nearly the same, of the first and of the second."""
    golds_differ: tuple[tuple[str, str], ...]
    """Of `same`, those with different right answers."""


def across(benchmarks: Sequence[Benchmark], threshold: float = SIMILAR) -> tuple[Shared, ...]:
    """Compare every two benchmarks. Duplicates inside one of them are left to its own audit.

    Raises:
        UserError: fewer than two benchmarks, or one of them twice.
    """
    names = [benchmark.name for benchmark in benchmarks]
    if len(names) < 2 or len(set(names)) < len(names):
        raise UserError(f"Name two or more different benchmarks to compare, got {', '.join(names) or 'none'}.")
    return tuple(_shared(first, second, threshold) for first, second in combinations(benchmarks, 2))


def _shared(first: Benchmark, second: Benchmark, threshold: float) -> Shared:
    # Ids are unique inside a benchmark only, so each is marked with its side.
    questions = [*_marked(first, "1"), *_marked(second, "2")]
    golds = {
        f"{side}:{question.id}": question.options.get(benchmark.golds[question.id].answer, "")
        for side, benchmark in (("1", first), ("2", second))
        for question in benchmark.questions
    }
    same, differ = [], []
    for twins in exact(questions, golds):
        ours, theirs = ([id for id in twins.questions if id.startswith(f"{side}:")] for side in "12")
        for one in ours:
            for other in theirs:
                same.append((one[2:], other[2:]))
                if golds[one].casefold().split() != golds[other].casefold().split():
                    differ.append((one[2:], other[2:]))
    pairs = [pair for pair in near(questions, threshold) if pair.first[0] != pair.second[0]]
    return Shared(
        first=first.name,
        second=second.name,
        same=tuple(same),
        near=tuple(replace(pair, first=pair.first[2:], second=pair.second[2:]) for pair in pairs),
        golds_differ=tuple(differ),
    )


def _marked(benchmark: Benchmark, side: str) -> list[Question]:
    return [replace(question, id=f"{side}:{question.id}") for question in benchmark.questions]
