"""Citations of a long answer, by ALCE (Gao et al. 2023; princeton-nlp/ALCE, eval.py): ``citation-recall``,
``citation-precision``, and also ``over-citing`` and ``fabricated-citations``.

An answer is split into sentences; ``[3]`` cites the passage that its prompts showed under this number. A sentence
counts for recall if the passages that it cites entail it together. A citation counts for precision if its sentence is
entailed, and the passage is needed for that or entails it alone. A sentence with a citation of a passage that was never
shown is void: its recall is 0, and its citations are in no denominator.

``--kind citations-published`` reads citations as ALCE's program does: ``[n]`` is the n-th retrieved passage, whatever
the prompt showed, so that ``[0]`` is the last one; three citations a sentence count; of ``[1, 2]`` only the 1.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence

from msgspec import Struct

from ragrounds.evals.scorers.claim_record import VerifiedMethod
from ragrounds.evals.scorers.judged import JudgedScorer

AT_MOST = 3
"""Largest number of citations of a sentence that count, in ALCE's own runs."""
_NAMED = r"(?:(?:document|doc|passage|source|ref)s?\.?\s*)?"
_RANGE = r"(?<!CI )(?<!IQR )(?<!range )"
"""Words before a range of numbers in brackets that cites nothing."""
_MARK = re.compile(rf"\s{{0,3}}{_RANGE}\[\s*{_NAMED}(\d{{1,3}}(?:\s*[,;]\s*{_NAMED}\d{{1,3}})*)\s*\]", re.I)
_BEHIND = re.compile(rf"([.!?。！？])((?:{_MARK.pattern})+)", re.I)


class CitedSentence(Struct, frozen=True):
    """Sentence with its citations."""

    text: str
    """Text without its citations."""
    places: tuple[int, ...] = ()
    """Indices of the passages, in the order of the citations; -1 is the last one, as in ALCE's program."""
    fabricated: tuple[int, ...] = ()
    """Numbers that match no passage: they make the sentence void, and `places` is empty."""
    void: int = 0
    """Number of citations of a void sentence."""


class CitationFigures(Struct, frozen=True, kw_only=True):
    """Counts and figures of ALCE for one answer."""

    sentences: int
    cited: int
    """Number of citations in sentences that are not void."""
    several: int
    """Number of sentences that cite several passages."""
    several_entailed: int
    """Number of `several` sentences that are entailed."""
    unneeded: int
    """Number of citations in them without which the others entail the sentence, and which do not entail it alone."""
    recall: float | None
    """Recall from 0 to 1; ``None`` if there is no sentence, or a verdict is missing."""
    precision: float | None
    """Precision from 0 to 1, 0 without citations; ``None`` as for `recall`."""


def published_citations(text: str, documents: int, at_most: int | None = AT_MOST) -> CitedSentence:
    """Return a sentence as ALCE's program reads it and passes it to its verifier."""
    numbers = [int(number) for number in re.findall(r"\[(\d+)", text)]
    plain = re.sub(r"\[\d+", "", re.sub(r" \[\d+", "", text)).replace(" |", "").replace("]", "")
    index_by_number = {number: number - 1 for number in range(documents + 1)}
    return _cited_sentence(plain.strip(), numbers, index_by_number, at_most)


def read_citations(text: str, shown_numbers: Mapping[int, int]) -> CitedSentence:
    """Return a sentence with its citations: ``[1]``, ``[1, 2]``, ``[Document 1]``, each passage once.

    Args:
        text: text of the sentence.
        shown_numbers: number that a prompt showed → index of its passage.
    """
    numbers = [int(number) for match in _MARK.finditer(text) for number in re.findall(r"\d+", match[1])]
    return _cited_sentence(_MARK.sub("", text).strip(), list(dict.fromkeys(numbers)), shown_numbers)


def _cited_sentence(
    plain: str, numbers: Sequence[int], index_by_number: Mapping[int, int], at_most: int | None = None
) -> CitedSentence:
    fabricated = tuple(number for number in numbers if number not in index_by_number)
    if fabricated:
        return CitedSentence(plain, fabricated=fabricated, void=len(numbers))
    return CitedSentence(plain, tuple(index_by_number[number] for number in numbers)[: at_most or None])


def marks_inside(text: str) -> str:
    """Return the text with citations after a sentence's full stop moved before it, because they belong to that
    sentence."""
    return _BEHIND.sub(lambda match: f" {match[2].strip()}{match[1]}", text)


def weigh_citations(
    sentences: Sequence[CitedSentence],
) -> Generator[tuple[int, tuple[int, ...]], bool | None, CitationFigures]:
    """Run ALCE's algorithm as a generator that asks for verdicts and returns the figures.

    It yields a sentence's index and indices of passages, and is sent whether these together entail that sentence, or
    ``None`` for a missing verdict.
    """
    cited = entailed = precise = several = several_entailed = unneeded = 0
    is_recall_unknown = is_precision_unknown = False
    for sentence_index, sentence in enumerate(sentences):
        passages = sentence.places
        cited, several = cited + len(passages), several + (len(passages) > 1 or sentence.void > 1)
        if not passages:
            continue
        is_entailed = yield sentence_index, passages
        is_recall_unknown, is_precision_unknown = (
            is_recall_unknown or is_entailed is None,
            is_precision_unknown or is_entailed is None,
        )
        entailed += bool(is_entailed)
        if len(passages) == 1 or not is_entailed:
            precise += bool(is_entailed)
            continue
        several_entailed += 1
        for passage in passages:
            is_needed = yield sentence_index, (passage,)
            if is_needed is False:
                index = passages.index(
                    passage
                )  # if a passage is cited twice, the other citation stays, as in ALCE's program
                rest_entails = yield sentence_index, (*passages[:index], *passages[index + 1 :])
                is_needed, unneeded = (
                    None if rest_entails is None else not rest_entails,
                    unneeded + (rest_entails is True),
                )
            is_precision_unknown = is_precision_unknown or is_needed is None
            precise += bool(is_needed)
    return CitationFigures(
        sentences=len(sentences),
        cited=cited,
        several=several,
        several_entailed=several_entailed,
        unneeded=unneeded,
        recall=entailed / len(sentences) if sentences and not is_recall_unknown else None,
        precision=None if is_precision_unknown or not sentences else precise / cited if cited else 0.0,
    )


def _scorer(
    name: str, description: str, kind: str = "citations", unit: str = "percent", lower: bool = False
) -> JudgedScorer:
    return JudgedScorer(
        name=name,
        judging=kind,
        summary=f"{description}{'; lower is better' if lower else ''}",
        method=f"{description}, after ALCE",
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
    """Judge method for an answer's citations."""

    published: bool = False
    """True if citations are read as ALCE's program does."""
    prompts: tuple[str, ...] = ("judge/supports",)


CITATIONS = CitationMethod(
    name="citations", scorers=(CITATION_RECALL, CITATION_PRECISION, OVER_CITING, FABRICATED_CITATIONS)
)
CITATIONS_PUBLISHED = CitationMethod(
    name="citations-published", scorers=(CITATION_RECALL_PUBLISHED, CITATION_PRECISION_PUBLISHED), published=True
)
