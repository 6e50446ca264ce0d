"""Scorer ``triplets``: extraction, by strict instance-level micro-F1 as in MRAG (Section 3).

A predicted triplet is right only where all three parts are. Each answer's triplets are a set: repeats count once.
Letters' case and spacing are no difference; where relations have no direction, neither is the order of the entities.

The figure of a run is the micro-F1 of the corpus, 2 TP / (2 TP + FP + FN) with the counts of all answers added up; it
is not the mean of the answers' own F1, which favours texts with little or nothing to find. A score's value is its
answer's own F1, for traces; its prediction holds the counts that the figure is made of.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from msgspec import Struct

from ragrounds.base.records import Attempt, Gold, Kind, Question, Score
from ragrounds.base.text import normalized
from ragrounds.evals.scorers.answer_status import AnswerRead, no_text, without_answer
from ragrounds.evals.scorers.base import ScorerRecord

Triplet = tuple[str, str, str]

_MOST_TRIES = 200
"""Opening brackets at which a JSON value is looked for, from the end and from the beginning: the one that a list of
many triplets begins with is far from its end."""
MOST_TRIPLETS = 5_000
"""Triplets (or lines) that are read of one answer; an answer of more says so in its score."""
_KEYS = (
    ("head", "subject", "entity1", "first", "first_entity", "h", "主体", "头实体"),
    ("relation", "predicate", "type", "relation_type", "r", "关系"),
    ("tail", "object", "entity2", "second", "second_entity", "t", "客体", "尾实体"),
)
_IN_BRACKETS = re.compile(
    r"[(<（【［]([^,，;；()（）\[\]<【［]{1,300})[,，;；]([^,，;；]{1,200})[,，;；]([^,，;；()（）\[\]]{1,300})[)>）】］]"
)
_BETWEEN = re.compile(r"[\s\-*•\d.,，;；、。]*")
"""What may stand before, between and behind triplets in brackets: a sentence with two commas in brackets is none."""
_IN_BARS = re.compile(r"^[\s\-*•\d.]{0,9}\|?([^|]{1,300})\|([^|]{1,200})\|([^|]{1,300})\|?\s{0,9}$")
_LONGEST_LINE = 100_000
_TRIPLET_BEGINS = re.compile(r'[\[{]\s{0,20}"')
_FULL_WIDTH = re.compile("[［］【】｛｝“”＂]")
_HALF_WIDTH = str.maketrans("［］【】｛｝“”＂，：", '[][]{}""",:')


class TripletCounts(Struct, frozen=True):
    """Right, wrong and missed triplets."""

    true_positive: int = 0
    false_positive: int = 0
    false_negative: int = 0

    @property
    def f1(self) -> float:
        """2 TP / (2 TP + FP + FN); 1.0 where there is nothing to find and nothing was given."""
        all_ = 2 * self.true_positive + self.false_positive + self.false_negative
        return 2 * self.true_positive / all_ if all_ else 1.0


class TripletScorer(ScorerRecord, frozen=True, kw_only=True):
    """Scores an answer that should be a JSON list of triplets."""

    name: str = "triplets"
    summary: str = "strict micro-F1 of the triplets, all answers together"
    method: str = "the strict micro-F1 of the triplets of all answers together"
    kinds: tuple[Kind, ...] = ("extraction",)
    usual: bool = True
    ratio: bool = True

    def score(self, attempt: Attempt, question: Question, gold: Gold) -> Score:
        """The value is this answer's F1; the prediction is ``TP/FP/FN``, which :func:`counts` reads."""
        read, found = read_triplets(attempt)
        symmetric = is_symmetric(question)
        made = compare(found or [], parse(gold.answer) or [], symmetric=symmetric)
        # An answer that cannot be read finds nothing; it does not get the full mark where nothing was to be found.
        value = made.f1 if found is not None else 0.0
        prediction = f"{made.true_positive}/{made.false_positive}/{made.false_negative}"
        return self.scored(attempt, None if attempt.status == "not_run" else value, read, prediction)

    def parts(self, score: Score) -> tuple[float, float]:
        """2 TP, and 2 TP + FP + FN: added up over the answers of a dataset they make its micro-F1.

        Raises:
            ValueError: the score has no counts.
        """
        made = counts(score)
        above = 2.0 * made.true_positive
        return above, above + made.false_positive + made.false_negative


def read_triplets(attempt: Attempt) -> tuple[AnswerRead, list[Triplet] | None]:
    """How an answer was read, and its triplets; ``None``: it has none to read."""
    read = no_text(attempt)
    if read is not None:
        return read, None
    found = parse(attempt.text)
    if found is None:
        return without_answer(attempt.text, attempt.text), None
    if len(found) >= MOST_TRIPLETS:
        return AnswerRead("answered", reason=f"only the first {MOST_TRIPLETS:,} triplets were read"), found
    return AnswerRead("answered"), found


def is_symmetric(question: Question) -> bool:
    """Whether the question's relations have no direction."""
    return question.metadata.get("symmetric") == "true"


def parse(text: str) -> list[Triplet] | None:
    """The last JSON list of triplets in a text, or one triplet a line; ``None`` where there is neither.

    A triplet is a list of three texts, or an object with head, relation and tail under one of their usual names. Of a
    list that was cut off every whole triplet counts, and so do triplets one after the other without a list around them.
    JSON with full-width punctuation is read as JSON.
    """
    found = _json(text)
    if found is None and _FULL_WIDTH.search(text):
        found = _json(text.translate(_HALF_WIDTH))
    if found is not None:
        return found
    lines = [triplet for line in text.splitlines()[:MOST_TRIPLETS] for triplet in _in_line(line)]
    return lines[:MOST_TRIPLETS] or None


def _json(text: str) -> list[Triplet] | None:
    starts = [match.start() for match in re.finditer(r"\[", text)]
    decoder = json.JSONDecoder()
    best: tuple[int, object] | None = None
    tried = starts if len(starts) < 2 * _MOST_TRIES else starts[:_MOST_TRIES] + starts[-_MOST_TRIES:]
    for start in reversed(tried):
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        # The outermost list that ends where the last one does.
        if _list(value) is not None and (best is None or end >= best[0]):
            best = end, value
    if best is not None and _triplet(best[1]) is None:
        return _list(best[1])
    return _in_a_row(text, decoder)


def _in_a_row(text: str, decoder: json.JSONDecoder) -> list[Triplet] | None:
    """The last triplets that stand one after the other, with nothing but commas and space between them."""
    rows: list[list[Triplet]] = []
    end = failed = 0
    for match in _TRIPLET_BEGINS.finditer(text):
        if match.start() < end:
            continue
        try:
            value, stop = decoder.raw_decode(text, match.start())
            triplet = _triplet(value)
        except (ValueError, RecursionError):
            triplet = None
        if triplet is None:
            failed += 1
            if failed > 2 * _MOST_TRIES:
                break
            continue
        if sum(map(len, rows[-1:])) >= MOST_TRIPLETS:
            break
        if rows and not text[end : match.start()].strip(" \t\r\n,;，；、"):
            rows[-1].append(triplet)
        else:
            rows.append([triplet])
        end = stop
    return rows[-1][:MOST_TRIPLETS] if rows else None


def _in_line(line: str) -> list[Triplet]:
    """The triplets of a line that holds nothing else: several in brackets, or one between bars."""
    rest, found = "", []
    if len(line) <= _LONGEST_LINE:
        rest = _IN_BRACKETS.sub("", line)
        found = [match.groups() for match in _IN_BRACKETS.finditer(line)]
    if not found or _BETWEEN.fullmatch(rest) is None:
        bars = _IN_BARS.match(line)
        found = [bars.groups()] if bars else []
    return [(one.strip(), relation.strip(), other.strip()) for one, relation, other in found]


def compare(found: Iterable[Triplet], wanted: Iterable[Triplet], *, symmetric: bool = False) -> TripletCounts:
    """Count predicted triplets against the gold ones, as sets."""
    given = {folded(triplet, symmetric) for triplet in found}
    right = {folded(triplet, symmetric) for triplet in wanted}
    return TripletCounts(len(given & right), len(given - right), len(right - given))


def counts(score: Score) -> TripletCounts:
    """The counts behind a score of this scorer.

    Raises:
        ValueError: it has none.
    """
    numbers = score.prediction.split("/")
    if len(numbers) != 3:
        raise ValueError(f"the score of {score.question_id} under {score.scorer} has no counts: {score.prediction!r}")
    return TripletCounts(*(int(number) for number in numbers))


def _list(value: object) -> list[Triplet] | None:
    if not isinstance(value, list):
        return None
    if len(value) == 3 and all(isinstance(part, str) for part in value):
        return [(value[0], value[1], value[2])]
    made = [_triplet(entry) for entry in value[:MOST_TRIPLETS]]
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


def folded(triplet: Triplet, symmetric: bool) -> Triplet:
    """A triplet as it is compared: widths, case and spacing apart; without a direction where it has none."""
    one, relation, other = (" ".join(normalized("NFKC", part).casefold().split()) for part in triplet)
    return (min(one, other), relation, max(one, other)) if symmetric else (one, relation, other)


TRIPLETS = TripletScorer()
