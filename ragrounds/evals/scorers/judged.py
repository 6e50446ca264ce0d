"""Scorers whose scores a judge gives, and the judge methods that ask it for labels.

A judge method is one object in one file of this folder: the questions it fits, the questions for the judge, the labels
of a verdict, and the scores from verdicts. These are pure data and functions: :mod:`ragrounds.evals.judges` asks the
judge.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from shlex import join, quote

from msgspec import Struct

from ragrounds.base.contracts import json_schema
from ragrounds.base.errors import UserError
from ragrounds.base.records import Attempt, Gold, Kind, Question, Score
from ragrounds.evals.scorers.base import ScorerRecord

_FENCE = re.compile(r"<{3,}|>{3,}")


class JudgedScorer(ScorerRecord, frozen=True, kw_only=True):
    """Scorer whose scores a judge gives."""

    judging: str
    """Name of the judge method that gives its scores: `ragrounds judge --kind`."""
    kinds: tuple[Kind, ...] = ("long",)
    needs: str = "a judge"
    needs_judge: bool = True
    embedder: bool = False
    """True if it compares vectors, so that an embedder must be named."""

    def command(self, runs: Sequence[str]) -> str:
        """Return the `ragrounds judge` command, with an embedder if it needs one."""
        embedder = " --embedder EMBEDDER" if self.embedder else ""
        return f"ragrounds judge {join(runs)} --kind {quote(self.judging)} --judge MODEL{embedder}"


class VerdictForm(Struct, frozen=True):
    """Form of a verdict: a JSON object with every axis as a key, and one of `values` as its value."""

    axes: tuple[str, ...]
    values: tuple[str, ...]
    """Values in the prompt's spelling: the two labels and ``tie`` for a pair, the labels for a single answer."""

    @property
    def example(self) -> str:
        """Form of the object, for the prompt."""
        choices = " or ".join(f'"{value}"' for value in self.values)
        return "{" + ", ".join(f'"{axis}": {choices}' for axis in self.axes) + "}"

    @property
    def schema(self) -> dict[str, object]:
        """`response_format` that demands the object."""
        properties = {axis: {"enum": list(self.values)} for axis in self.axes}
        return json_schema(
            "verdict",
            {"type": "object", "properties": properties, "required": list(self.axes), "additionalProperties": False},
        )

    def strict(self, text: str) -> str | None:
        """Return the value of a reply by the form's own rules, empty if no value is found; ``None`` to use the general
        parser."""
        return None


class JudgeQuestion(Struct, frozen=True, kw_only=True):
    """Question for a judge."""

    prompt: str
    """Name of the prompt template."""
    texts: Mapping[str, str]
    """Texts that fill the template. Texts from outside are :func:`fenced`. The form of the verdict is filled in as
    ``form``."""
    form: VerdictForm
    subjects: tuple[str, ...]
    """Subject of each axis, for the record of verdicts."""


Said = tuple[str, str]
"""Verdict: its label, or an empty text and the reason why it is missing."""


class JudgeMethod(Struct, frozen=True, kw_only=True):
    """Method of judging long answers: `ragrounds judge --kind`."""

    name: str
    scorers: tuple[JudgedScorer, ...]
    needs: str
    """Description of what a question must have."""
    verifiers: tuple[str, ...] = ()
    """Names of the verifiers that can decide whether a text entails a claim, if the method needs one; the first is the
    judge."""
    labels: tuple[str, ...] = ()
    """Allowed labels of a verdict; empty if verdicts are numbers."""
    prompts: tuple[str, ...] = ()
    """Names of the package's prompts that its questions use."""
    asked_by: str = ""
    """``module:function`` that makes the attempt judge from the method and
    :class:`ragrounds.evals.judges.methods.JudgeResources`; empty for judging by labels."""

    def fits(self, question: Question, gold: Gold) -> bool:
        """Return True if a question has what the method needs."""
        raise NotImplementedError


class LabelMethod(JudgeMethod, frozen=True, kw_only=True):
    """Judge method whose verdicts are labels, so that people can give them too and several judges can vote.

    The scores of its last scorer hold the verdicts. The first label is the best for an answer when its judges are
    probed.
    """

    probed_by: str = "ragrounds.evals.judges.probes"
    """Module that probes a judge of this kind; empty if none does."""
    right_texts: bool = True
    """True if an item's reference text, given as the answer, earns the first label."""

    def by_rubric(self, file: Path) -> LabelMethod:
        """Return this method with a user's own rubric, or raise UserError if it takes none."""
        raise UserError(f"--kind {self.name} takes no rubric of your own; --kind rubric does.")

    def behind(self, scorer: str, scores: Callable[[], Iterable[Score]]) -> LabelMethod:
        """Return the variant of this method that gave these scores.

        If `scorer` names a user's rubric, it is the rubric in the scores.
        """
        return self

    def unasked(self, attempt: Attempt, question: Question, gold: Gold) -> tuple[Score, ...]:
        """Return the scores of an attempt that needs no judge (no text, or nothing to compare it with); empty if the
        judge must be asked."""
        raise NotImplementedError

    def questions(self, attempt: Attempt, question: Question, gold: Gold) -> tuple[JudgeQuestion, ...]:
        """Return the questions for the judge about an attempt with a text."""
        raise NotImplementedError

    def scores(self, attempt: Attempt, gold: Gold, verdicts: Sequence[Said]) -> tuple[Score, ...]:
        """Return the scores of an attempt with a text from the verdicts on all subjects, in their order."""
        raise NotImplementedError

    def items(self, gold: Gold) -> dict[str, str]:
        """Return item → text that an answer is compared with (the reference, or a statement), in the order of the
        subjects."""
        raise NotImplementedError

    def verdicts(self, score: Score) -> dict[str, str | None]:
        """Return item → verdict (``None`` if missing) from a score of the last scorer."""
        raise NotImplementedError


def fenced(text: str) -> str:
    """Return `text` without the marks that fence answers in prompts, so that no answer can end itself and begin
    another."""
    return _FENCE.sub(lambda match: " ".join(match.group()), text.strip())
