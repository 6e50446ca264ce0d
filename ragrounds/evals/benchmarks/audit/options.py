"""What can be guessed from the options alone: letters that are right too often, long right answers, repeats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from ragrounds.evals.benchmarks.benchmark import fold
from ragrounds.evals.stats.intervals import wilson
from ragrounds.records import Gold, Question


class Options(Struct, frozen=True, kw_only=True):
    """The options of one dataset's multiple-choice questions."""

    dataset: str
    questions: int
    letters: dict[str, int]
    """How often each label is right."""
    letters_p: float | None
    """Chi-squared p of equally frequent labels, given how many options each question has; ``None`` where a label has
    an expected count below 5."""
    best_constant: float
    """Accuracy of always answering the most frequent label."""
    longest: float
    """Share of questions whose right option is the single longest one."""
    longest_low: float
    longest_high: float
    """95 % Wilson interval of `longest`."""
    longest_expected: float
    """The same share if the right option were drawn at random: the mean of 1/options over questions that have a single
    longest option, over all questions."""
    repeated: tuple[str, ...]
    """Ids of questions with two equal options."""
    repeated_gold: tuple[str, ...]
    """Those where the right option is one of them: another letter is as right."""


def options(dataset: str, questions: Sequence[Question], golds: Sequence[Gold]) -> Options | None:
    """Audit one dataset's options; ``None`` where it has no multiple-choice question."""
    chosen = [(question, gold) for question, gold in zip(questions, golds, strict=True) if question.kind == "choice"]
    if not chosen:
        return None
    letters = Counter(gold.answer for _, gold in chosen)
    labels = dict.fromkeys(label for question, _ in chosen for label in question.options)
    expected = dict.fromkeys(labels, 0.0)
    longest, chance = 0, 0.0
    repeated, repeated_gold = [], []
    for question, gold in chosen:
        for label in question.options:
            expected[label] += 1 / len(question.options)
        lengths = {label: len(text) for label, text in question.options.items()}
        top = [label for label, length in lengths.items() if length == max(lengths.values())]
        if len(top) == 1:
            longest += top[0] == gold.answer
            chance += 1 / len(question.options)
        texts = Counter(fold(text) for text in question.options.values())
        if max(texts.values()) > 1:
            repeated.append(question.id)
            if texts[fold(question.options[gold.answer])] > 1:
                repeated_gold.append(question.id)
    low, high = wilson(longest, len(chosen))
    return Options(
        dataset=dataset,
        questions=len(chosen),
        letters={label: letters[label] for label in labels},
        letters_p=_chi_squared([letters[label] for label in labels], list(expected.values())),
        best_constant=max(letters.values()) / len(chosen),
        longest=longest / len(chosen),
        longest_low=low,
        longest_high=high,
        longest_expected=chance / len(chosen),
        repeated=tuple(repeated),
        repeated_gold=tuple(repeated_gold),
    )


def _chi_squared(seen: Sequence[int], expected: Sequence[float]) -> float | None:
    if len(seen) < 2 or min(expected) < 5:
        return None
    from scipy.special import chdtrc

    statistic = sum((one - other) ** 2 / other for one, other in zip(seen, expected, strict=True))
    return float(chdtrc(len(seen) - 1, statistic))
