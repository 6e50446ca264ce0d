"""Citations of a long answer, by ALCE (Gao et al. 2023; princeton-nlp/ALCE, eval.py): ``citation-recall``,
``citation-precision``, and beside them ``over-citing`` and ``fabricated-citations``.

An answer is split into sentences; ``[3]`` cites the passage that its prompts showed under this number. A sentence
counts for recall where the passages that it cites entail it together. A citation counts for precision where its
sentence is entailed, and the passage is needed for that or does it alone. A sentence with a citation of a passage that
was never shown is void: recall 0, and its citations are in no denominator.

``--kind citations-published`` reads as ALCE's program does: ``[n]`` is the n-th passage found, whatever the prompt
showed, so that ``[0]`` is the last one; three citations a sentence count; of ``[1, 2]`` only the 1.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence

from msgspec import Struct

from ragrounds.evals.scorers.claim_record import VerifiedMethod
from ragrounds.evals.scorers.judged import JudgedScorer

AT_MOST = 3
"""Citations of a sentence that count, in ALCE's own runs."""
_NAMED = r"(?:(?:document|doc|passage|source|ref)s?\.?\s*)?"
_RANGE = r"(?<!CI )(?<!IQR )(?<!range )"
"""What stands before a range of numbers in brackets, which cites nothing."""
_MARK = re.compile(rf"\s{{0,3}}{_RANGE}\[\s*{_NAMED}(\d{{1,3}}(?:\s*[,;]\s*{_NAMED}\d{{1,3}})*)\s*\]", re.I)
_BEHIND = re.compile(rf"([.!?。！？])((?:{_MARK.pattern})+)", re.I)


class CitedSentence(Struct, frozen=True):
    """A sentence, and what it cites."""

    text: str
    """Without its citations."""
    places: tuple[int, ...] = ()
    """Of the passages, in the order of the citations; -1 is the last one, as in ALCE's program."""
    fabricated: tuple[int, ...] = ()
    """Numbers that stand for no passage: they make the sentence void, and `places` is empty."""
    void: int = 0
    """Citations of a sentence that is void."""


class CitationFigures(Struct, frozen=True, kw_only=True):
    """What ALCE counts in one answer."""

    sentences: int
    cited: int
    """Citations in sentences that are not void."""
    several: int
    """Sentences that cite several passages."""
    several_entailed: int
    """Of these, entailed."""
    unneeded: int
    """Citations in them without which the others entail the sentence, and which do not do so alone."""
    recall: float | None
    """From 0 to 1; ``None``: there is no sentence, or a verdict is missing."""
    precision: float | None
    """The same; 0 of no citations."""


def published_citations(text: str, documents: int, at_most: int | None = AT_MOST) -> CitedSentence:
    """A sentence as ALCE's program reads it and leaves it for its verifier."""
    numbers = [int(found) for found in re.findall(r"\[(\d+)", text)]
    plain = re.sub(r"\[\d+", "", re.sub(r" \[\d+", "", text)).replace(" |", "").replace("]", "")
    places = {number: number - 1 for number in range(documents + 1)}
    return _cited(plain.strip(), numbers, places, at_most)


def read_citations(text: str, shown: Mapping[int, int]) -> CitedSentence:
    """A sentence with the citations in it: ``[1]``, ``[1, 2]``, ``[Document 1]``, each passage once.

    Args:
        text: of the sentence.
        shown: number that a prompt showed → place of its passage.
    """
    numbers = [int(number) for found in _MARK.finditer(text) for number in re.findall(r"\d+", found[1])]
    return _cited(_MARK.sub("", text).strip(), list(dict.fromkeys(numbers)), shown)


def _cited(plain: str, numbers: Sequence[int], shown: Mapping[int, int], at_most: int | None = None) -> CitedSentence:
    fabricated = tuple(number for number in numbers if number not in shown)
    if fabricated:
        return CitedSentence(plain, fabricated=fabricated, void=len(numbers))
    return CitedSentence(plain, tuple(shown[number] for number in numbers)[: at_most or None])


def marks_inside(text: str) -> str:
    """A text with the citations that stand behind a sentence's full stop moved before it: they are that sentence's."""
    return _BEHIND.sub(lambda found: f" {found[2].strip()}{found[1]}", text)


def weigh_citations(
    sentences: Sequence[CitedSentence],
) -> Generator[tuple[int, tuple[int, ...]], bool | None, CitationFigures]:
    """ALCE's algorithm. It yields what it needs to know, a sentence's place and places of passages, and is sent whether
    these together entail that sentence; ``None``: no verdict. What it returns are the figures."""
    cited = entailed = precise = several = several_entailed = unneeded = 0
    unknown = vague = False
    for number, sentence in enumerate(sentences):
        places = sentence.places
        cited, several = cited + len(places), several + (len(places) > 1 or sentence.void > 1)
        if not places:
            continue
        together = yield number, places
        unknown, vague = unknown or together is None, vague or together is None
        entailed += bool(together)
        if len(places) == 1 or not together:
            precise += bool(together)
            continue
        several_entailed += 1
        for place in places:
            needed = yield number, (place,)
            if needed is False:
                first = places.index(place)  # of one cited twice the other stays, as there
                rest = yield number, (*places[:first], *places[first + 1 :])
                needed, unneeded = None if rest is None else not rest, unneeded + (rest is True)
            vague = vague or needed is None
            precise += bool(needed)
    return CitationFigures(
        sentences=len(sentences),
        cited=cited,
        several=several,
        several_entailed=several_entailed,
        unneeded=unneeded,
        recall=entailed / len(sentences) if sentences and not unknown else None,
        precision=None if vague or not sentences else precise / cited if cited else 0.0,
    )


def _scorer(name: str, what: str, kind: str = "citations", unit: str = "percent", lower: bool = False) -> JudgedScorer:
    return JudgedScorer(
        name=name,
        judging=kind,
        summary=f"{what}{'; lower is better' if lower else ''}",
        method=f"{what}, after ALCE",
        unit=unit,
        direction="lower" if lower else "higher",
    )


_RECALL = "share of the sentences that what they cite entails, by the judge"
_PRECISION = "share of the citations that their sentence needs, by the judge"
CITATION_RECALL = _scorer("citation-recall", _RECALL)
CITATION_PRECISION = _scorer("citation-precision", _PRECISION)
OVER_CITING = _scorer(
    "over-citing", "share of the citations that their sentence does not need, by the judge", lower=True
)
FABRICATED_CITATIONS = _scorer(
    "fabricated-citations", "citations of passages that were never shown", unit="citations", lower=True
)
CITATION_RECALL_PUBLISHED = _scorer("citation-recall-published", f"{_RECALL}; ALCE's reading", "citations-published")
CITATION_PRECISION_PUBLISHED = _scorer(
    "citation-precision-published", f"{_PRECISION}; ALCE's reading", "citations-published"
)


class CitationMethod(VerifiedMethod, frozen=True, kw_only=True):
    """Judges an answer by what it cites."""

    published: bool = False
    """Whether citations are read as ALCE's program does."""
    prompts: tuple[str, ...] = ("judge/supports",)


CITATIONS = CitationMethod(
    name="citations", scorers=(CITATION_RECALL, CITATION_PRECISION, OVER_CITING, FABRICATED_CITATIONS)
)
CITATIONS_PUBLISHED = CitationMethod(
    name="citations-published", scorers=(CITATION_RECALL_PUBLISHED, CITATION_PRECISION_PUBLISHED), published=True
)
