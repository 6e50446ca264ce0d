"""Questions that stand in a benchmark more than once, exactly or nearly."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from msgspec import Struct

from ragrounds.evals.benchmarks.benchmark import fold
from ragrounds.records import Question

SIMILAR = 0.8
"""Jaccard similarity of two questions' words from which they are near duplicates."""
_FEWEST_WORDS = 6
"""Questions with fewer different words, options included, are too short to be near duplicates of anything."""
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")


class Twins(Struct, frozen=True, kw_only=True):
    """Questions with the same content."""

    questions: tuple[str, ...]
    """Ids, in the benchmark's order."""
    groups: tuple[str, ...]
    """Datasets, with the subject where there is one, that they stand in; sorted, each once."""
    golds_differ: bool


class Near(Struct, frozen=True, kw_only=True):
    """Two questions that are nearly the same."""

    first: str
    second: str
    similarity: float
    """Jaccard similarity of their words, options included; below 1 or in another order."""


def exact(questions: Sequence[Question], golds: dict[str, str]) -> tuple[Twins, ...]:
    """Sets of questions with equal text and options, case and spacing apart.

    Args:
        questions: of one benchmark or of several.
        golds: the text of each question's right answer, by question id.
    """
    same: dict[tuple[str, ...], list[Question]] = defaultdict(list)
    for question in questions:
        same[fold(question.text), *(fold(option) for option in question.options.values())].append(question)
    return tuple(
        Twins(
            questions=tuple(question.id for question in found),
            groups=tuple(sorted({place(question) for question in found})),
            golds_differ=len({fold(golds[question.id]) for question in found}) > 1,
        )
        for found in same.values()
        if len(found) > 1
    )


def near(questions: Sequence[Question], threshold: float = SIMILAR) -> tuple[Near, ...]:
    """Pairs of questions whose words are nearly the same, most similar first; exact duplicates are left out.

    A set-similarity join with prefix filtering (Chaudhuri et al. 2006): two sets with Jaccard similarity t share one of
    their rarest words, so only such pairs are compared. Equal to comparing all pairs.
    """
    words = [frozenset(_words(question)) for question in questions]
    often = Counter(word for found in words for word in found)
    texts = [(fold(q.text), *(fold(option) for option in q.options.values())) for q in questions]
    holding: dict[str, list[int]] = defaultdict(list)
    pairs: list[Near] = []
    for index in sorted(range(len(questions)), key=lambda index: (len(words[index]), index)):
        mine = words[index]
        if len(mine) < _FEWEST_WORDS:
            continue
        rarest = sorted(mine, key=lambda word: (often[word], word))[: len(mine) - math.ceil(threshold * len(mine)) + 1]
        candidates = {other for word in rarest for other in holding[word] if len(words[other]) >= threshold * len(mine)}
        for word in rarest:
            holding[word].append(index)
        for other in candidates:
            common = len(mine & words[other])
            similarity = common / (len(mine) + len(words[other]) - common)
            if similarity >= threshold and texts[index] != texts[other]:
                first, second = sorted((index, other))
                pairs.append(Near(first=questions[first].id, second=questions[second].id, similarity=similarity))
    return tuple(sorted(pairs, key=lambda pair: (-pair.similarity, pair.first, pair.second)))


def place(question: Question) -> str:
    """Where a question stands: its dataset, and its subject where there is one."""
    return f"{question.benchmark} ({question.group})" if question.group else question.benchmark


def _words(question: Question) -> list[str]:
    return _WORD.findall(" ".join((question.text, *question.options.values())).casefold())
