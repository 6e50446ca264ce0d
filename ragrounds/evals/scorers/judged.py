"""Scorers whose scores a judge gives, and how it is asked for labels.

A way of judging is one object in one file of this folder: which questions it fits, what it puts to the judge, which
labels a verdict may be, and the scores that verdicts make. Pure data and functions: :mod:`ragrounds.evals.judges` asks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from shlex import join, quote

from msgspec import Struct

from ragrounds.base.errors import UserError
from ragrounds.base.records import Attempt, Gold, Kind, Question, Score
from ragrounds.evals.scorers.base import ScorerRecord

_FENCE = re.compile(r"<{3,}|>{3,}")


class JudgedScorer(ScorerRecord, frozen=True, kw_only=True):
    """A scorer whose scores a judge gives."""

    judging: str
    """The way of judging that gives its scores: `ragrounds judge --kind`."""
    kinds: tuple[Kind, ...] = ("long",)
    needs: str = "a judge"
    needs_judge: bool = True
    embedder: bool = False
    """Whether it compares vectors, so that an embedder must be named."""

    def command(self, runs: Sequence[str]) -> str:
        """`ragrounds judge`, with an embedder where it needs one."""
        embedder = " --embedder EMBEDDER" if self.embedder else ""
        return f"ragrounds judge {join(runs)} --kind {quote(self.judging)} --judge MODEL{embedder}"


class VerdictForm(Struct, frozen=True):
    """What a judge is asked to answer: a JSON object with every axis as a key, and one of `values` as its value."""

    axes: tuple[str, ...]
    values: tuple[str, ...]
    """In the prompt's spelling. Of a pair: the two labels and ``tie``; of one answer: the labels."""

    @property
    def example(self) -> str:
        """The form of the object, for the prompt."""
        choices = " or ".join(f'"{value}"' for value in self.values)
        return "{" + ", ".join(f'"{axis}": {choices}' for axis in self.axes) + "}"

    def strict(self, text: str) -> str | None:
        """The value in a reply by rules of the form's own, empty: none; ``None``: it is read as every other form."""
        return None


class JudgeQuestion(Struct, frozen=True, kw_only=True):
    """One thing to put to a judge."""

    prompt: str
    """Name of the template."""
    texts: Mapping[str, str]
    """What fills it; texts from outside are :func:`fenced`. The form of the verdict is filled in as ``form``."""
    form: VerdictForm
    subjects: tuple[str, ...]
    """What each axis is about, for the record of verdicts."""


Said = tuple[str, str]
"""A verdict: its label, or an empty text and why there is none."""


class JudgeMethod(Struct, frozen=True, kw_only=True):
    """A way of judging long answers: `ragrounds judge --kind`."""

    name: str
    scorers: tuple[JudgedScorer, ...]
    needs: str
    """What a question must have, in words."""
    verifiers: tuple[str, ...] = ()
    """What can say whether a text entails a claim, where it asks that; the first is the judge."""
    labels: tuple[str, ...] = ()
    """What a verdict may be; empty: verdicts are numbers."""
    prompts: tuple[str, ...] = ()
    """The package's prompts that its questions name."""
    asked_by: str = ""
    """``module:function`` that makes what asks in this way, from the method and what it may need
    (:class:`ragrounds.evals.judges.methods.JudgeMeans`); empty: by labels."""

    def fits(self, question: Question, gold: Gold) -> bool:
        """Whether a question has what is needed."""
        raise NotImplementedError


class LabelMethod(JudgeMethod, frozen=True, kw_only=True):
    """A way of judging by labels, so that people can give them too and several judges can vote. The scores of the last
    of its scorers hold the verdicts. The first label is the best for an answer, where its judges are probed."""

    probed_by: str = "ragrounds.evals.judges.probes"
    """The module that probes a judge of this kind; empty: none."""
    right_texts: bool = True
    """Whether what an item is set against, given as the answer, earns the first label."""

    def by_rubric(self, file: Path) -> LabelMethod:
        """This way of judging by a user's own rubric; an error where it takes none."""
        raise UserError(f"--kind {self.name} takes no rubric of your own; --kind rubric does.")

    def behind(self, scorer: str, scores: Callable[[], Iterable[Score]]) -> LabelMethod:
        """The way that gave scores: by the rubric that they hold, where `scorer` says that it is a user's own."""
        return self

    def unasked(self, attempt: Attempt, question: Question, gold: Gold) -> tuple[Score, ...]:
        """The scores of an attempt that needs no judge (it has no text, or there is nothing to set it against); empty:
        the judge is to be asked."""
        raise NotImplementedError

    def questions(self, attempt: Attempt, question: Question, gold: Gold) -> tuple[JudgeQuestion, ...]:
        """What to put to the judge, of an attempt with a text."""
        raise NotImplementedError

    def scores(self, attempt: Attempt, gold: Gold, said: Sequence[Said]) -> tuple[Score, ...]:
        """The scores of an attempt with a text, from the verdicts on all subjects, in their order."""
        raise NotImplementedError

    def items(self, gold: Gold) -> dict[str, str]:
        """Item → the text that an answer is set against: the reference, or a statement. In the subjects' order."""
        raise NotImplementedError

    def verdicts(self, score: Score) -> dict[str, str | None]:
        """Item → verdict (``None``: missing), from a score of the last scorer."""
        raise NotImplementedError


def fenced(text: str) -> str:
    """`text` without the marks that fence answers in prompts: no answer can end itself and begin another."""
    return _FENCE.sub(lambda match: " ".join(match.group()), text.strip())
