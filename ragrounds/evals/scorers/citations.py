"""Citations of a long answer, by ALCE (Gao et al. 2023; princeton-nlp/ALCE, eval.py): ``citation-recall``,
``citation-precision``, and also ``over-citing`` and ``fabricated-citations``.

An answer is split into sentences; ``[3]`` cites the passage that its prompts showed under this number, in an imported
answer the third context of its row. Text that looks like a citation and was not read is counted in the score's reason.
A sentence counts for recall if the passages that it cites entail it together. A citation counts for precision if its
sentence is entailed, and the passage is needed for that or entails it alone. A sentence with a citation of a passage
that was never shown is void: its recall is 0, and its citations are in no denominator.

``--kind citations-published`` reads citations as ALCE's program does: ``[n]`` is the n-th retrieved passage, whatever
the prompt showed, so that ``[0]`` is the last one; three citations a sentence count; of ``[1, 2]`` only the 1.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.text import UNSPACED, normalized, without_entities, without_invisible
from ragrounds.evals.scorers.claim_record import VerifiedMethod
from ragrounds.evals.scorers.judged import JudgedScorer

AT_MOST = 3
"""Largest number of citations of a sentence that count, in ALCE's own runs."""
_NAMES = r"(?:document|doc|passage|source|src|reference|ref|citation|cite|context|来源|文档|文献|资料|参考|片段)s?"
_NAME = rf"(?:{_NAMES}\.?\s?[:：]?\s?)"
_NUMBERS = r"[\^#]?\d{1,3}(?:\s?[-–—]\s?[\^#]?\d{1,3})?"
_AND = r"\s{0,3}(?:[,;，；、/&+]|\b(?:and|or|und|et|y)\b|和|及)\s{0,3}"
_LIST = rf"{_NUMBERS}(?:{_AND}{_NAME}?{_NUMBERS})*"
_OPEN, _CLOSE = r"[\[［【〔]", r"[\]］】〕]"
_PMIDS = rf"PMID\s?[:：#]?\s?\d{{4,9}}(?:{_AND}(?:PMID\s?[:：#]?\s?)?\d{{4,9}})*"
_SUPERSCRIPTS = r"[⁰¹²³⁴-⁹]{1,3}(?:[,⁻˒ʼ][⁰¹²³⁴-⁹]{1,3})*"
_MARK = re.compile(
    rf"\s{{0,3}}(?:{_OPEN}{{1,2}}\s{{0,3}}{_NAME}?{_LIST}\s{{0,3}}(?:†[^\[\]【】\n]{{0,60}})?{_CLOSE}{{1,2}}(?:\(https?://[^()\s]{{1,300}}\))?"
    rf"|[(（]\s?(?:see |cf\. ?)?{_NAME}{_LIST}\s?[)）]|[(（\[［【]\s?{_PMIDS}\s?[)）\]］】]"
    rf"|<(?:sup|cite)>\s?[\[(]?{_LIST}[\])]?\s?</(?:sup|cite)>|{_SUPERSCRIPTS})",
    re.I,
)
"""Citation: ``[1]``, ``[1, 2]``, ``[1-3]``, ``[^1]``, ``【1】``, ``［1］``, ``[Document 1]``, ``(Source 9)``,
``[PMID: 123]``, ``<sup>1</sup>``, ``¹``. :func:`_is_citation` decides by the text around it."""
_BEHIND = re.compile(rf"([.!?。！？])((?:{_MARK.pattern})+)", re.I)
_INTERVAL = re.compile(
    r"(?:\b(?:CI|CrI|KI|IC|IQR|range|ranges|limits?|intervals?|between)|区间|范围)\W{0,3}(?:of|was|is)?\W{0,2}$", re.I
)
"""Words before two numbers in brackets that are the limits of an interval."""
_VALUE = re.compile(
    r"(?<![\d.,])(\d{1,9}(?:[.,]\d{1,9})?)\s?(?:%|‰|percent|days?|weeks?|months?|years?|hours?|h|min|[mkµ]?g|mcg|[md]?l|"
    r"mmol(?:/l)?|mmhg|[cm]?m|points?)?$",
    re.I,
)
"""Value before two numbers in brackets, which are the limits of its interval if it lies between them."""
_WORD_END = re.compile(rf"(?:[^\W\d_]{{3}}|[^\w\s/]|[{UNSPACED}])$")
_RANGE_OF_MARKS = re.compile(r"(?<=\d)\]\s?[-–—]\s?\[(?=\d)")
_LOOKS_CITED = re.compile(
    rf"{_OPEN}(?![^\[\]］【】〔〕\n]{{0,60}}(?:%|\bCI\b|\d\.\d))[^\[\]［］【】〔〕\n]{{0,60}}\d[^\[\]［］【】〔〕\n]{{0,60}}{_CLOSE}"
    r"|\([^()\n]{1,60}\bet al\.?,? ?\d{4}[a-z]?\)"
)
"""Text that looks like a citation."""
_DEFINITION = re.compile(r"^[ \t]{0,9}\[\^\d{1,3}\]:[^\n]*$", re.M)
"""Line that says what a footnote is."""
_STRONG = re.compile(r"(?<=\[)\*{1,2}(\d{1,3})\*{1,2}(?=\])")
_MOST = 30
"""Largest number of passages that a range cites."""


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
    unread: tuple[str, ...] = ()
    """Texts that look like citations and were not read."""


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
    """Return a sentence with its citations, each passage once, and the texts that look like citations and were not
    read.

    Limits of an interval (``4 [2, 9] days``) and exponents are no citations.

    Args:
        text: text of the sentence.
        shown_numbers: number that a prompt showed, or PMID → index of its passage.
    """
    numbers, intervals = list[int](), list[str]()

    def read_mark(match: re.Match[str]) -> str:
        if not _is_citation(match):
            intervals.append(match[0].strip())
            return match[0]
        mark_numbers = _numbers(match[0])
        numbers.extend(mark_numbers)
        return "" if mark_numbers else match[0]

    plain = _MARK.sub(read_mark, _RANGE_OF_MARKS.sub("-", text)).strip()
    cited = _cited_sentence(plain, list(dict.fromkeys(numbers)), shown_numbers)
    unread = tuple(match[0] for match in _LOOKS_CITED.finditer(plain) if match[0] not in intervals)
    return replace(cited, unread=unread)


def _is_citation(match: re.Match[str]) -> bool:
    mark, before = match[0].strip(), match.string[max(0, match.start() - 40) : match.start()].rstrip()
    if re.match(_SUPERSCRIPTS, mark):
        after = match.string[match.end() : match.end() + 1]
        return bool(_WORD_END.search(before)) and not (after.isalnum() or after in ("⁺", "⁻", "⁾", "/"))
    if len(pair := re.findall(r"\d+", mark)) != 2 or re.search(_NAMES, mark, re.I):
        return True
    value = _VALUE.search(before)
    low, high = map(int, pair)
    is_between = value is not None and low < high and low <= float(value[1].replace(",", ".")) <= high
    return not is_between and not _INTERVAL.search(before)


def _numbers(mark: str) -> list[int]:
    """Return the numbers that a citation names; an empty list if one of its ranges is none."""
    plain, numbers = normalized("NFKC", mark.replace("⁻", "-").replace("ʼ", ",")).partition("†")[0], list[int]()
    for first, last in re.findall(r"(\d+)(?:\s?[-–—−]\s?[\^#]?(\d+))?", plain):
        if last and not int(first) < int(last) <= int(first) + _MOST:
            return []
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


def _cited_sentence(
    plain: str, numbers: Sequence[int], index_by_number: Mapping[int, int], at_most: int | None = None
) -> CitedSentence:
    fabricated = tuple(number for number in numbers if number not in index_by_number)
    if fabricated:
        return CitedSentence(plain, fabricated=fabricated, void=len(numbers))
    return CitedSentence(plain, tuple(index_by_number[number] for number in numbers)[: at_most or None])


def marks_inside(text: str) -> str:
    """Return the text with citations after a sentence's full stop moved before it, because they belong to that
    sentence. Lines that say what a footnote is are left out."""
    text = _STRONG.sub(r"\1", without_entities(without_invisible(_DEFINITION.sub("", text))))
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
        summary=description,
        method=f"{description}{', by a judge' if unit == 'percent' else ''}, after ALCE",
        unit=unit,
        direction="lower" if lower else "higher",
    )


_RECALL = "share of sentences that what they cite entails"
_PRECISION = "share of citations that their sentence needs"
CITATION_RECALL = _scorer("citation-recall", _RECALL)
CITATION_PRECISION = _scorer("citation-precision", _PRECISION)
OVER_CITING = _scorer("over-citing", "share of citations that are not needed", lower=True)
FABRICATED_CITATIONS = _scorer(
    "fabricated-citations", "citations of passages that were never shown", unit="citations", lower=True
)
CITATION_RECALL_PUBLISHED = _scorer(
    "citation-recall-published", "share of entailed sentences, as ALCE reads them", "citations-published"
)
CITATION_PRECISION_PUBLISHED = _scorer(
    "citation-precision-published", "share of needed citations, as ALCE reads them", "citations-published"
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
