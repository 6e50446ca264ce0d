"""Pairs of answers to one question before a judge: blind, with neutral labels, in a given order.

Verdicts on both orders of a pair, and by several judges, are combined into one.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ragrounds.base.contracts import Prompts
from ragrounds.base.digests import code_digest, text_digest
from ragrounds.base.records import Message
from ragrounds.evals.judges.verdict import TIE
from ragrounds.evals.scorers.judged import VerdictForm, fenced

PROMPT = "judge/pair"
LABELS = ("A", "B")


class ShownPair(Struct, frozen=True):
    """Pair of answers as the judge sees it."""

    messages: tuple[Message, ...]
    form: VerdictForm
    labels: tuple[str, str]
    """Labels of the answer shown first and of the one shown second."""

    def outcome(self, value: str) -> str:
        """Return ``first``, ``second`` or ``tie`` for a value of the form."""
        if value == TIE:
            return TIE
        return "first" if value == self.labels[0] else "second"


def random_labels(seed: str) -> tuple[str, str]:
    """Return the labels of the answer that is shown first and of the other one, chosen at random by `seed`."""
    return LABELS if hashlib.sha256(f"labels {seed}".encode()).digest()[0] % 2 else LABELS[::-1]


def show_pair(
    prompts: Prompts, question: str, answers: tuple[str, str], axes: Mapping[str, str], seed: str, language: str = "en"
) -> ShownPair:
    """Return the messages for `answers` in this order; `axes` are names with the meaning of each.

    The answer called A is chosen at random by `seed`, so that a judge that prefers the letter A favours no answer. For
    both orders of a pair use the same seed and exchange the answers alone: the label then goes with the position.
    """
    labels = random_labels(seed)
    form = VerdictForm(tuple(axes), (*sorted(labels), TIE))
    messages = prompts.render(
        PROMPT,
        language,
        question=fenced(question),
        one=labels[0],
        first=fenced(answers[0]),
        two=labels[1],
        second=fenced(answers[1]),
        axes="\n".join(f"- {name}: {text}" for name, text in axes.items()),
        form=form.example,
    )
    return ShownPair(messages, form, labels)


def tampers(texts: Sequence[str], axes: Sequence[str]) -> list[bool]:
    """Return for each text whether it contains something like a verdict, or the prompt's fences."""
    names = "|".join(re.escape(axis) for axis in (*axes, "winner", "verdict"))
    stated_verdict = r"\b(?:winner|verdict|better answer)\b[^.\n]{0,20}\b(?:is|:)\s*\"?[AB]\b"
    pattern = re.compile(rf"<{{3}}|>{{3}}|\"(?:{names})\"\s*:|{stated_verdict}", re.IGNORECASE)
    return [bool(pattern.search(text)) for text in texts]


def pairs_code() -> str:
    """Return the digest of the code that shows pairs to judges and reads their replies."""
    return text_digest(*map(code_digest, (__name__, "ragrounds.evals.judges.verdict")))


def both_orders(first_order: str | None, other: str | None) -> str | None:
    """Return the combined outcome of two orders, both given from the same side (``first``, ``second``, ``tie``).

    Orders that disagree are a tie. ``None``: one of the two is missing, so the match is.
    """
    if first_order is None or other is None:
        return None
    return first_order if first_order == other else "tie"


def majority(outcomes: Sequence[str | None]) -> str | None:
    """Return the outcome that more than half of the judges gave, or a tie without such a majority.

    Missing verdicts (``None``) make the match missing only if they could change it.
    """
    if len(outcomes) == 1:
        return outcomes[0]
    counts = Counter(outcome for outcome in outcomes if outcome is not None)
    missing = len(outcomes) - sum(counts.values())
    if not counts:
        return None
    half = len(outcomes) / 2
    best, top_count = counts.most_common(1)[0]
    if top_count > half:
        return best
    if missing and top_count + missing > half:
        return None
    return "tie"
