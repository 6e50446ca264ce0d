"""Scorer ``triplets``: extraction, by strict instance-level micro-F1 as in MRAG (Section 3), and partial credit.

A predicted triplet is right only where all three parts are. Each answer's triplets are a set: repeats count once.
Letters' case and spacing are no difference; where relations have no direction, neither is the order of the entities.

One answer's score is its own F1 (1.0 where nothing was to be found and nothing was), which is for traces and paired
differences. The paper's figure is :func:`micro_f1` over all answers' counts; it is not the mean of the scores.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence

from msgspec import Struct

from ragrounds.evals.scorers.answer_status import AnswerRead, no_text, without_answer
from ragrounds.evals.scorers.base import ScorerRecord
from ragrounds.records import Attempt, Gold, Kind, Question, Score

Triplet = tuple[str, str, str]

_MOST_TRIES = 200
"""Opening brackets at which a JSON value is looked for, from the end and from the beginning: the one that a list of
many triplets begins with is far from its end."""
_MOST_TRIPLETS = 2_000
_KEYS = (
    ("head", "subject", "entity1", "first", "first_entity", "h", "主体", "头实体"),
    ("relation", "predicate", "type", "relation_type", "r", "关系"),
    ("tail", "object", "entity2", "second", "second_entity", "t", "客体", "尾实体"),
)
_LINES = (
    re.compile(
        r"^[\s\-*•\d.]{0,9}[(<（]([^,，;；()]{1,300})[,，;；]([^,，;；]{1,200})[,，;；]([^,，;；]{1,300})[)>）]\W{0,3}$"
    ),
    re.compile(r"^[\s\-*•\d.]{0,9}\|?([^|]{1,300})\|([^|]{1,200})\|([^|]{1,300})\|?\s{0,9}$"),
)
"""A triplet a line, in brackets or between bars; a sentence with two commas is none."""


class TripletCounts(Struct, frozen=True):
    """Right, wrong and missed triplets."""

    true_positive: int = 0
    false_positive: int = 0
    false_negative: int = 0

    def __add__(self, other: TripletCounts) -> TripletCounts:
        return TripletCounts(
            self.true_positive + other.true_positive,
            self.false_positive + other.false_positive,
            self.false_negative + other.false_negative,
        )

    @property
    def f1(self) -> float:
        """2 TP / (2 TP + FP + FN); 1.0 where there is nothing to find and nothing was given."""
        all_ = 2 * self.true_positive + self.false_positive + self.false_negative
        return 2 * self.true_positive / all_ if all_ else 1.0

    @property
    def precision(self) -> float | None:
        """TP / (TP + FP); ``None`` where nothing was given."""
        given = self.true_positive + self.false_positive
        return self.true_positive / given if given else None

    @property
    def recall(self) -> float | None:
        """TP / (TP + FN); ``None`` where there is nothing to find."""
        wanted = self.true_positive + self.false_negative
        return self.true_positive / wanted if wanted else None


class TripletScorer(ScorerRecord, frozen=True, kw_only=True):
    """Scores an answer that should be a JSON list of triplets."""

    name: str = "triplets"
    summary: str = "mean F1 of an answer's triplets"
    method: str = "the mean F1 of an answer's triplets"
    kinds: tuple[Kind, ...] = ("extraction",)
    usual: bool = True
    reads: str = "the triplets in the final answer"

    def score(self, attempt: Attempt, question: Question, gold: Gold) -> Score:
        """The value is this answer's F1; the prediction is ``TP/FP/FN``, which :func:`counts` reads."""
        read = no_text(attempt)
        found: list[Triplet] | None = None
        if read is None:
            found = parse(attempt.text)
            read = AnswerRead("answered") if found is not None else without_answer(attempt.text, attempt.text)
        symmetric = question.metadata.get("symmetric") == "true"
        made = compare(found or [], parse(gold.answer) or [], symmetric=symmetric)
        # An answer that cannot be read finds nothing; it does not get the full mark where nothing was to be found.
        value = made.f1 if found is not None else 0.0
        prediction = f"{made.true_positive}/{made.false_positive}/{made.false_negative}"
        return self.scored(attempt, None if attempt.status == "not_run" else value, read, prediction)


def parse(text: str) -> list[Triplet] | None:
    """The last JSON list of triplets in a text, or one triplet a line; ``None`` where there is neither.

    A triplet is a list of three texts, or an object with head, relation and tail under one of their usual names.
    """
    starts = [match.start() for match in re.finditer(r"\[", text)]
    decoder = json.JSONDecoder()
    best: tuple[int, list[Triplet]] | None = None
    tried = starts if len(starts) < 2 * _MOST_TRIES else starts[:_MOST_TRIES] + starts[-_MOST_TRIES:]
    for start in reversed(tried):
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        found = _list(value)
        # The outermost list that ends where the last one does.
        if found is not None and (best is None or end >= best[0]):
            best = end, found
    if best is not None:
        return best[1]
    found = []
    for line in text.splitlines()[:_MOST_TRIPLETS]:
        match = next((match for pattern in _LINES if (match := pattern.match(line))), None)
        if match:
            one, relation, other = (part.strip() for part in match.groups())
            found.append((one, relation, other))
    return found or None


def compare(found: Iterable[Triplet], wanted: Iterable[Triplet], *, symmetric: bool = False) -> TripletCounts:
    """Count predicted triplets against the gold ones, as sets."""
    given = {_folded(triplet, symmetric) for triplet in found}
    right = {_folded(triplet, symmetric) for triplet in wanted}
    return TripletCounts(len(given & right), len(given - right), len(right - given))


def partial(found: Sequence[Triplet], wanted: Sequence[Triplet], *, symmetric: bool = False) -> float:
    """Partial credit, a second figure: F1 where each gold triplet is matched with at most one predicted triplet and
    earns the share of the three parts that agree. Matches are made greedily, the best first."""
    given = sorted({_folded(triplet, symmetric) for triplet in found})
    right = sorted({_folded(triplet, symmetric) for triplet in wanted})
    if not given and not right:
        return 1.0
    pairs = sorted(
        (
            (sum(a == b for a, b in zip(one, other, strict=True)), i, j)
            for i, one in enumerate(given)
            for j, other in enumerate(right)
        ),
        key=lambda pair: (-pair[0], pair[1], pair[2]),
    )
    used: tuple[set[int], set[int]] = (set(), set())
    credit = 0.0
    for same, i, j in pairs:
        if same and i not in used[0] and j not in used[1]:
            used[0].add(i)
            used[1].add(j)
            credit += same / 3
    return 2 * credit / (len(given) + len(right))


def counts(score: Score) -> TripletCounts:
    """The counts behind a score of this scorer."""
    return TripletCounts(*(int(number) for number in score.prediction.split("/")))


def micro_f1(scores: Iterable[Score]) -> TripletCounts:
    """The counts of all answers added up; their ``f1`` is the paper's figure."""
    return sum((counts(score) for score in scores), TripletCounts())


def _list(value: object) -> list[Triplet] | None:
    if not isinstance(value, list):
        return None
    if len(value) == 3 and all(isinstance(part, str) for part in value):
        return [(value[0], value[1], value[2])]
    made = [_triplet(entry) for entry in value[:_MOST_TRIPLETS]]
    # Entries that are no triplets are wrong predictions only where the list holds triplets at all.
    kept = [triplet for triplet in made if triplet is not None]
    return kept if kept or not value else None


def _triplet(value: object) -> Triplet | None:
    if isinstance(value, list) and len(value) == 3 and all(isinstance(part, str) for part in value):
        return value[0], value[1], value[2]
    if isinstance(value, dict):
        parts = [next((value[key] for key in keys if isinstance(value.get(key), str)), None) for keys in _KEYS]
        if None not in parts:
            return str(parts[0]), str(parts[1]), str(parts[2])
    return None


def _folded(triplet: Triplet, symmetric: bool) -> Triplet:
    one, relation, other = (" ".join(unicodedata.normalize("NFKC", part).casefold().split()) for part in triplet)
    return (min(one, other), relation, max(one, other)) if symmetric else (one, relation, other)


TRIPLETS = TripletScorer()
