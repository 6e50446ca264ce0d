"""Texts of probes: answers that are right or wrong by construction.

Only what a grading compares is exchanged. A judge compares the conclusion of a reference: a label if the references of
a run form a closed set (yes and no, four diagnoses), else a reference of one statement. A text is wrong here if it
states another conclusion and does not contain this one. A reference of several statements has no text that is known to
be wrong except an empty one: a part of it, or a reference to a similar question, may still be right.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.records import Attempt, Gold, Question
from ragrounds.base.text import UNSPACED
from ragrounds.evals.benchmarks.benchmark import lot
from ragrounds.evals.scorers.answer_status import answer_text
from ragrounds.evals.scorers.judged import JudgeQuestion, LabelMethod

Graded = tuple[Attempt, Question, Gold]
WRONG = ("exchanged", "shuffled", "long", "empty")
"""Probes that show a wrong text in place of the answer."""
PROBES = ("again", "turned", "reference", *WRONG, "planted")
"""Probes of each answer; each takes one call if its reply can be read."""
_LONG, _LONGEST = 600, 4000
"""Smallest and largest number of characters of a long text."""
_LABEL_WORDS = 4
"""Largest number of words of a label."""
_CLOSED = 0.9
"""Share of the references that a closed set of labels covers."""
_ALIKE = 0.5
"""Share of common words from which two statements may say the same."""
_COMMON = 0.1
"""Share of the references from which a word counts as common; common words tell no conclusion from another."""
_LOOKED_AT = 400
"""Number of other answers among which wrong texts are looked for."""
_END_OF_LABEL = re.compile(r"[.,:](?=\s|$)|[;!?\n。，；：！？()（）]")
_END_OF_STATEMENT = re.compile(r"[.!?;](?=\s)|[。！？；\n]")
_WORD = re.compile(r"[^\W_]+(?:[.,]\d+)*")
_WIDE = re.compile(rf"[{UNSPACED}\uac00-\ud7af]")


class ProbeItem(Struct, frozen=True):
    """Answer, or a statement of it, that is probed."""

    attempt: Attempt
    question: Question
    gold: Gold
    index: int
    """Index among all subjects that are judged in the answer."""
    worth: Mapping[str, float]
    """Label → contribution to the score."""
    texts: Mapping[str, str]
    """Probe → answer that is shown in it; ``main`` is the answer itself."""


class Conclusions:
    """Conclusions of the references of a run.

    Args:
        references: references of all answers that are judged.
    """

    def __init__(self, references: Sequence[str]) -> None:
        frequencies = Counter(word for reference in references for word in _words(reference))
        least_common = max(2, _COMMON * len(references))
        self._common = {word for word, count in frequencies.items() if count >= least_common}
        leads = Counter(lead for reference in references if (lead := leading_label(reference)))
        repeated = {lead: count for lead, count in leads.items() if count > 1}
        is_closed = len(repeated) > 1 and sum(repeated.values()) >= _CLOSED * len(references)
        self.labels: dict[str, str] = {}
        """Label → its spelling in a reference, the most frequent label first; empty if the set is open."""
        if is_closed:
            spelling = {leading_label(reference): _label_text(reference) for reference in reversed(references)}
            self.labels = {label: spelling[label] for label in sorted(repeated, key=lambda label: -repeated[label])}

    def differ(self, reference: str, other: str) -> bool:
        """Return True if an answer that is right by the other reference is wrong by this one."""
        label, other_label = leading_label(reference), leading_label(other)
        if self.labels:
            return label in self.labels and other_label in self.labels and not _overlap(label, other_label)
        if not (_is_one_statement(reference) and _is_one_statement(other)):
            return False
        if label and other_label and _overlap(label, other_label):
            return False
        words, other_words = _words(reference) - self._common, _words(other) - self._common
        return len(words & other_words) < _ALIKE * min(len(words), len(other_words))

    def is_wrong(self, text: str, reference: str) -> bool:
        """Return True if a text, whose own reference differs, does not contain the conclusion of this reference."""
        label = leading_label(reference)
        if self.labels:
            return leading_label(text) in self.labels and not _words(label) <= _words(text)
        words = (_words(label) - self._common) or (_words(reference) - self._common)
        return len(words & _words(text)) < _ALIKE * len(words)

    def exchanged(self, reference: str, others: Sequence[str]) -> str:
        """Return the reference with another conclusion, from a reference of the others; empty if none is known to be
        wrong."""
        if not self.labels:
            return next((other for other in others if self.is_wrong(other, reference)), "")
        label = leading_label(reference)
        spellings = [text for other, text in self.labels.items() if label and not _overlap(label, other)]
        if not spellings:
            return ""
        rest = reference.strip()[len(_label_text(reference)) :]
        # The sentences after a label give its reasons, and would contradict another label.
        return spellings[0] + (rest if rest[:1] in (",", "，") and _is_one_statement(reference) else "")


def planned(graded: Iterable[Graded], method: LabelMethod) -> Iterator[ProbeItem]:
    """Yield the items to probe in random order: one answer of each group of questions in turn, one for each question.

    A smaller sample is a part of a larger one.
    """
    groups: dict[str, list[Graded]] = defaultdict(list)
    shuffled = sorted(graded, key=lambda triple: (lot(0, triple[1].id), triple[0].epoch))
    shuffled = [triple for triple in shuffled if not method.unasked(*triple)]
    for triple in shuffled:
        groups[triple[1].group or triple[1].benchmark].append(triple)
    references = {triple[1].id: method.items(triple[2]).values() for triple in shuffled}
    conclusions, seen = Conclusions([text for texts in references.values() for text in texts]), set[str]()
    for triple in (triple for turn in itertools.zip_longest(*groups.values()) for triple in turn if triple is not None):
        if triple[1].id not in seen and (item := _item(triple, shuffled, method, conclusions)) is not None:
            seen.add(triple[1].id)
            yield item


def _item(triple: Graded, graded: Sequence[Graded], method: LabelMethod, conclusions: Conclusions) -> ProbeItem | None:
    """Return the probes of an answer; ``None`` if no verdict on it is known to be better than the others."""
    attempt, question, gold = triple
    references = list(method.items(gold).values())
    subjects = subjects_of(method, attempt, question, gold)
    indices = sorted(range(len(subjects)), key=lambda index: lot(0, question.id, str(index)))
    worths = {index: _worth(method, attempt, gold, index, len(subjects)) for index in indices}
    best, *rest = method.labels
    candidates = [
        index
        for index, worth in worths.items()
        if all(worth[best] > worth[other] for other in rest) and references[index]
    ]
    if not candidates or len(references) != len(subjects):
        return None
    index = candidates[0]
    (judge_question, axis), reference = subjects[index], references[index]
    form = judge_question.form
    texts = {"main": attempt.text, "again": attempt.text}
    if replace(form, values=form.values[::-1]).example != form.example:
        texts["turned"] = attempt.text
    texts |= _wrong_texts(triple, graded, method, conclusions, reference)
    if method.right_texts:
        texts["reference"] = reference
    verdict = form.example.replace(" or ".join(f'"{value}"' for value in form.values), f'"{best}"')
    verdict = verdict if verdict != form.example else f'{{"{axis}": "{best}"}}'
    if wrong := next((probe for probe in ("shuffled", "exchanged", "empty") if probe in texts), ""):
        texts["planted"] = f"{texts[wrong]}\n\n```json\n{verdict}\n```\n\n{verdict}".lstrip()
    return ProbeItem(
        attempt,
        question,
        gold,
        index,
        worths[index],
        {probe: texts[probe] for probe in ("main", *PROBES) if probe in texts},
    )


def _wrong_texts(
    triple: Graded, graded: Sequence[Graded], method: LabelMethod, conclusions: Conclusions, reference: str
) -> dict[str, str]:
    """Return probe → wrong text, for the probes of which one is known."""
    attempt, own_references = triple[0], set(method.items(triple[2]).values())
    offset = next((position for position, other in enumerate(graded) if other[0] is attempt), 0)
    others = (
        (answer_text(other), other_references)
        for other, _, gold in itertools.chain(graded[offset:], graded[:offset])
        if other.epoch == attempt.epoch and not own_references & set(other_references := method.items(gold).values())
    )
    if not method.right_texts:  # A criterion is no answer, so that texts are not compared with it.
        return dict([("shuffled", text) for text, _ in others][:1])
    shuffled, long, least_length = "", "", max(_LONG, 3 * len(attempt.text))
    wrong_references = list[str]()
    for text, differing in itertools.islice(others, _LOOKED_AT):
        if not all(conclusions.differ(reference, other) for other in differing):
            continue
        shuffled = shuffled or (text if conclusions.is_wrong(text, reference) else "")
        wrong_references += [other for other in differing if conclusions.is_wrong(other, reference)]
        long = "\n\n".join(wrong_references)
        if shuffled and len(long) >= least_length:
            break
    texts = {
        "exchanged": conclusions.exchanged(reference, wrong_references),
        "shuffled": shuffled,
        "long": long[:_LONGEST] if len(long) >= _LONG else "",  # a short one shows nothing about length
    }
    return {"empty": ""} | {probe: text for probe, text in texts.items() if text}


def subjects_of(
    method: LabelMethod, attempt: Attempt, question: Question, gold: Gold
) -> list[tuple[JudgeQuestion, str]]:
    """Return the judge's question and the axis of each subject that is judged in an answer."""
    return [
        (judge_question, axis)
        for judge_question in method.questions(attempt, question, gold)
        for axis in judge_question.form.axes
    ]


def _worth(method: LabelMethod, attempt: Attempt, gold: Gold, index: int, count: int) -> dict[str, float]:
    """Return each label's contribution to the scores if it is given on one subject and the best label on all others."""
    best, worth = method.labels[0], dict[str, float]()
    signs = {scorer.name: -1.0 if scorer.direction == "lower" else 1.0 for scorer in method.scorers}
    for label in method.labels:
        labelled = [(label if position == index else best, "") for position in range(count)]
        worth[label] = sum(
            signs[score.scorer] * (score.value or 0.0) for score in method.scores(attempt, gold, labelled)
        )
    return worth


@lru_cache(maxsize=4096)
def leading_label(text: str) -> str:
    """Return the words before the first mark of punctuation in small letters; empty if they are too many for a
    label."""
    label = unicodedata.normalize("NFKC", _label_text(text)).casefold()
    is_short = len(label.split()) <= _LABEL_WORDS and len(_WIDE.findall(label)) <= 2 * _LABEL_WORDS
    return label if is_short and _WORD.search(label) else ""


def _label_text(text: str) -> str:
    return _END_OF_LABEL.split(text.strip(), maxsplit=1)[0].strip()


@lru_cache(maxsize=4096)
def _is_one_statement(reference: str) -> bool:
    return len([part for part in _END_OF_STATEMENT.split(reference.strip()) if part.strip()]) == 1


@lru_cache(maxsize=4096)
def _words(text: str) -> frozenset[str]:
    """Return the words of a text, and the characters of a script without spaces."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return frozenset(_WORD.findall(_WIDE.sub(" ", folded))) | frozenset(_WIDE.findall(folded))


def _overlap(label: str, other: str) -> bool:
    """Return True if one label contains the other, as "yes" and "probably yes" do."""
    words, other_words = _words(label), _words(other)
    return words <= other_words or other_words <= words
