"""Scorer ``triplets``: extraction, by strict instance-level micro-F1 as in MRAG (Section 3).

A predicted triplet is right only if all three parts are. Each answer's triplets are a set: repeats count once. Case and
spacing are ignored; if relations have no direction, so is the order of the entities.

The figure of a run is the micro-F1 of the corpus, 2 TP / (2 TP + FP + FN) with the counts of all answers added up. It
is not the mean of the answers' own F1, which favours texts with little or nothing to find. A score's value is the F1 of
its answer, for traces; its prediction holds the counts that the figure is computed from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from ragrounds.base.records import Attempt, Gold, Kind, Question, Score, blank
from ragrounds.base.text import normalized
from ragrounds.evals.scorers.answer_status import AnswerRead, answer_text, no_text, read_long, without_answer
from ragrounds.evals.scorers.base import ScorerRecord

Triplet = tuple[str, str, str]

_MOST_TRIES = 200
"""Number of opening brackets, counted from the end and from the beginning, at which a JSON value is tried. The first
bracket of a list of many triplets is far from its end."""
_TOO_DEEP = re.compile(r"(?:[\[{][^\[\]{}]*){50}")
"""Fifty opening brackets without a closing one: no list of triplets is as deep."""
MOST_TRIPLETS = 5_000
"""Largest number of triplets (or lines) that are read from one answer; a longer answer is marked in its score."""
_KEYS = (
    ("head", "subject", "entity1", "first", "first_entity", "h", "主体", "头实体"),
    ("relation", "predicate", "type", "relation_type", "r", "关系"),
    ("tail", "object", "entity2", "second", "second_entity", "t", "客体", "尾实体"),
)
_IN_BRACKETS = re.compile(
    r"[(<（【［]([^,，;；()（）\[\]<【［]{1,300})[,，;；]([^,，;；]{1,200})[,，;；]([^,，;；()（）\[\]]{1,300})[)>）】］]"
)
_BETWEEN = re.compile(r"[\s\-*•\d.,，;；、。]*")
"""Characters allowed before, between and after triplets in brackets. Any other text, such as a sentence with two commas
in brackets, is not a triplet."""
_IN_BARS = re.compile(r"^[\s\-*•\d.]{0,9}\|?([^|]{1,300})\|([^|]{1,200})\|([^|]{1,300})\|?\s{0,9}$")
_LONGEST_LINE = 100_000
_TRIPLET_BEGINS = re.compile(r'[\[{]\s{0,20}"')
_FULL_WIDTH = re.compile("[［］【】｛｝“”＂]")
_HALF_WIDTH = str.maketrans("［］【】｛｝“”＂，：", '[][]{}""",:')


class TripletCounts(Struct, frozen=True):
    """Numbers of right, wrong and missed triplets."""

    true_positive: int = 0
    false_positive: int = 0
    false_negative: int = 0

    @property
    def f1(self) -> float:
        """Value of 2 TP / (2 TP + FP + FN); 1.0 if there is nothing to find and nothing was given."""
        denominator = 2 * self.true_positive + self.false_positive + self.false_negative
        return 2 * self.true_positive / denominator if denominator else 1.0


class TripletScorer(ScorerRecord, frozen=True, kw_only=True):
    """Scorer of an answer that should be a JSON list of triplets."""

    name: str = "triplets"
    summary: str = "strict micro-F1 of the triplets, all answers together"
    method: str = "the strict micro-F1 of the triplets of all answers together"
    kinds: tuple[Kind, ...] = ("extraction",)
    usual: bool = True
    ratio: bool = True

    def score(self, attempt: Attempt, question: Question, gold: Gold) -> Score:
        """Return a score whose value is this answer's F1 and whose prediction is ``TP/FP/FN``, which :func:`counts`
        reads."""
        reading, triplets = read_triplets(attempt)
        symmetric = is_symmetric(question)
        answer_counts = compare(triplets or [], parse(gold.answer) or [], symmetric=symmetric)
        # An unreadable answer contains no triplet. It must not get full marks if there is nothing to find.
        value = answer_counts.f1 if triplets is not None else 0.0
        prediction = f"{answer_counts.true_positive}/{answer_counts.false_positive}/{answer_counts.false_negative}"
        return self.scored(attempt, None if attempt.status == "not_run" else value, reading, prediction)

    def parts(self, score: Score) -> tuple[float, float]:
        """Return 2 TP, and 2 TP + FP + FN: added up over the answers of a dataset they yield its micro-F1.

        Raises:
            ValueError: the score has no counts.
        """
        answer_counts = counts(score)
        numerator = 2.0 * answer_counts.true_positive
        return numerator, numerator + answer_counts.false_positive + answer_counts.false_negative


def read_triplets(attempt: Attempt) -> tuple[AnswerRead, list[Triplet] | None]:
    """Return how an answer was read, and its triplets; ``None`` if it has none to read."""
    reading = no_text(attempt)
    if reading is not None:
        return reading, None
    text = answer_text(attempt)
    triplets = parse(text)
    if triplets is None:
        return read_long(attempt) if blank(text) else without_answer(text, text), None
    if len(triplets) >= MOST_TRIPLETS:
        return AnswerRead("answered", reason=f"only the first {MOST_TRIPLETS:,} triplets were read"), triplets
    return AnswerRead("answered"), triplets


def is_symmetric(question: Question) -> bool:
    """Return True if the question's relations have no direction."""
    return question.metadata.get("symmetric") == "true"


def parse(text: str) -> list[Triplet] | None:
    """Return the last JSON list of triplets in a text, or one triplet a line; ``None`` if it has neither.

    A triplet is a list of three texts, or an object with head, relation and tail under one of their usual names. In a
    list that was cut off every complete triplet counts. So do consecutive triplets without a list around them. JSON
    with full-width punctuation is read as JSON.
    """
    triplets = _read_json(text)
    if triplets is None and _FULL_WIDTH.search(text):
        triplets = _read_json(text.translate(_HALF_WIDTH))
    if triplets is not None:
        return triplets
    lines = [triplet for line in text.splitlines()[:MOST_TRIPLETS] for triplet in _line_triplets(line)]
    return lines[:MOST_TRIPLETS] or None


def _decode(decoder: json.JSONDecoder, text: str, start: int) -> tuple[Any, int]:
    """Return a JSON value and its end.

    Raises:
        ValueError: there is none, or it is too deep.
        RecursionError: it is too deep.
    """
    # From Python 3.13 on the reader goes 10,000 levels deep, which takes long if a hostile answer has many such places.
    if _TOO_DEEP.match(text, start):
        raise ValueError("it is too deep")
    return decoder.raw_decode(text, start)


def _read_json(text: str) -> list[Triplet] | None:
    starts = [match.start() for match in re.finditer(r"\[", text)]
    decoder = json.JSONDecoder()
    best: tuple[int, object] | None = None
    tried_starts = starts if len(starts) < 2 * _MOST_TRIES else starts[:_MOST_TRIES] + starts[-_MOST_TRIES:]
    for start in reversed(tried_starts):
        try:
            value, end = _decode(decoder, text, start)
        except (ValueError, RecursionError):
            continue
        # Keep the outermost list that ends at the same position as the last list.
        if _list_triplets(value) is not None and (best is None or end >= best[0]):
            best = end, value
    if best is not None and _triplet(best[1]) is None:
        return _list_triplets(best[1])
    return _consecutive_triplets(text, decoder)


def _consecutive_triplets(text: str, decoder: json.JSONDecoder) -> list[Triplet] | None:
    """Return the last run of consecutive triplets, with nothing but commas and space between them."""
    rows: list[list[Triplet]] = []
    end = failures = 0
    for match in _TRIPLET_BEGINS.finditer(text):
        if match.start() < end:
            continue
        try:
            value, value_end = _decode(decoder, text, match.start())
            triplet = _triplet(value)
        except (ValueError, RecursionError):
            triplet = None
        if triplet is None:
            failures += 1
            if failures > 2 * _MOST_TRIES:
                break
            continue
        if sum(map(len, rows[-1:])) >= MOST_TRIPLETS:
            break
        if rows and not text[end : match.start()].strip(" \t\r\n,;，；、"):
            rows[-1].append(triplet)
        else:
            rows.append([triplet])
        end = value_end
    return rows[-1][:MOST_TRIPLETS] if rows else None


def _line_triplets(line: str) -> list[Triplet]:
    """Return the triplets of a line that holds nothing else: several in brackets, or one between bars."""
    rest, groups = "", []
    if len(line) <= _LONGEST_LINE:
        rest = _IN_BRACKETS.sub("", line)
        groups = [match.groups() for match in _IN_BRACKETS.finditer(line)]
    if not groups or _BETWEEN.fullmatch(rest) is None:
        bars = _IN_BARS.match(line)
        groups = [bars.groups()] if bars else []
    return [(head.strip(), relation.strip(), tail.strip()) for head, relation, tail in groups]


def compare(
    predicted_triplets: Iterable[Triplet], gold_triplets: Iterable[Triplet], *, symmetric: bool = False
) -> TripletCounts:
    """Count predicted triplets against the gold ones, as sets."""
    predicted = {folded(triplet, symmetric) for triplet in predicted_triplets}
    gold = {folded(triplet, symmetric) for triplet in gold_triplets}
    return TripletCounts(len(predicted & gold), len(predicted - gold), len(gold - predicted))


def counts(score: Score) -> TripletCounts:
    """Return the counts behind a score of this scorer.

    Raises:
        ValueError: the score has no counts.
    """
    numbers = score.prediction.split("/")
    if len(numbers) != 3:
        raise ValueError(f"the score of {score.question_id} under {score.scorer} has no counts: {score.prediction!r}")
    return TripletCounts(*(int(number) for number in numbers))


def _list_triplets(value: object) -> list[Triplet] | None:
    if not isinstance(value, list):
        return None
    if len(value) == 3 and all(isinstance(part, str) for part in value):
        return [(value[0], value[1], value[2])]
    entries = [_triplet(entry) for entry in value[:MOST_TRIPLETS]]
    # Entries that are not triplets are ignored; a list without any triplet is not a list of triplets.
    triplets = [triplet for triplet in entries if triplet is not None]
    return triplets if triplets or not value else None


def _triplet(value: object) -> Triplet | None:
    if isinstance(value, list) and len(value) == 3 and all(isinstance(part, str) for part in value):
        return value[0], value[1], value[2]
    if isinstance(value, dict):
        parts = [next((value[key] for key in keys if isinstance(value.get(key), str)), None) for keys in _KEYS]
        if None not in parts:
            return str(parts[0]), str(parts[1]), str(parts[2])
    return None


def folded(triplet: Triplet, symmetric: bool) -> Triplet:
    """Return a triplet in the form in which it is compared: without widths, case and spacing, and without a direction
    if it has none."""
    head, relation, tail = (" ".join(normalized("NFKC", part).casefold().split()) for part in triplet)
    return (min(head, tail), relation, max(head, tail)) if symmetric else (head, relation, tail)


TRIPLETS = TripletScorer()
