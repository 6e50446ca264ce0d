"""Tables by a property of the questions: their subject, dataset, kind, language, or a field of their metadata."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.errors import UserError, nearest
from ragrounds.evals.compare.figures import Figure, Paired, Values, figure, paired
from ragrounds.evals.stats import holm
from ragrounds.records import Question

_PROPERTIES: dict[str, Callable[[Question], str]] = {
    "subject": lambda question: question.group,
    "dataset": lambda question: question.benchmark,
    "kind": lambda question: question.kind,
    "language": lambda question: question.language,
    "split": lambda question: question.split,
}
NONE = "(none)"
"""The group of questions that do not have the property."""


class GroupPair(Struct, frozen=True, kw_only=True):
    """Two runs inside one group: `second` minus `first`."""

    first: str
    second: str
    tests: Paired
    p_holm: float | None
    """McNemar's p after Holm's correction over all groups and pairs of the table."""


class Group(Struct, frozen=True, kw_only=True):
    """The questions of one group."""

    name: str
    questions: int
    figures: dict[str, Figure]
    """By run."""
    pairs: tuple[GroupPair, ...]


class GroupTable(Struct, frozen=True, kw_only=True):
    """Runs by groups of questions."""

    by: str
    groups: tuple[Group, ...]


def property_named(name: str, questions: Sequence[Question]) -> Callable[[Question], str]:
    """What `--group-by NAME` reads of a question.

    Raises:
        UserError: no such property, or one that no question has.
    """
    if name in _PROPERTIES:
        read = _PROPERTIES[name]
    else:
        known = sorted({key for question in questions for key in question.metadata})
        if name not in known:
            names = [*_PROPERTIES, *known]
            raise UserError(
                f"Questions cannot be grouped by {name!r}.{nearest(name, names)} These can be grouped by "
                f"{', '.join(names)}."
            )

        def read(question: Question) -> str:
            return question.metadata.get(name, "")

    if not any(read(question) for question in questions):
        raise UserError(f"None of these questions has a {name}; group by another property.")
    return read


def group_table(
    by: str,
    questions: Sequence[Question],
    values: Mapping[str, Values],
    open_: Mapping[str, Mapping[str, float]],
    seed: int,
    stopped: Callable[[str, str], bool] = lambda first, second: False,
) -> GroupTable:
    """Figures and paired tests inside each group, the largest group first.

    Args:
        by: a property of questions.
        questions: those a scorer scores.
        values: run id → question id → score.
        open_: run id → question id → share of attempts whose result is open.
        seed: of the bootstrap.
        stopped: of two run ids, whether one ended by its own results: their differences get no interval and no test
            here, as both would be for a number of questions that was fixed beforehand.
    """
    read = property_named(by, questions)
    members: dict[str, list[Question]] = {}
    for question in questions:
        members.setdefault(read(question) or NONE, []).append(question)
    tests = {
        (name, first, second): _tested(paired(inside, values[first], values[second], seed), stopped(first, second))
        for name, inside in members.items()
        for first, second in itertools.combinations(values, 2)
    }
    known = {key: test.p_mcnemar for key, test in tests.items() if test.p_mcnemar is not None}
    corrected = dict(zip(known, holm(list(known.values())), strict=True))
    groups = [
        Group(
            name=name,
            questions=len(inside),
            figures={run: figure(inside, values[run], open_[run], seed) for run in values},
            pairs=tuple(
                GroupPair(first=first, second=second, tests=test, p_holm=corrected.get((name, first, second)))
                for (group, first, second), test in tests.items()
                if group == name
            ),
        )
        for name, inside in members.items()
    ]
    return GroupTable(by=by, groups=tuple(sorted(groups, key=lambda group: (-group.questions, group.name))))


def _tested(tests: Paired, stopped: bool) -> Paired:
    return replace(tests, low=None, high=None, p_mcnemar=None, mde=None) if stopped else tests
