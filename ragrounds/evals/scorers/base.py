"""The record that every scorer is made of: its name, its words, and how its scores become figures.

A scorer is one object in one file of this folder. :mod:`ragrounds.evals.scorers.catalogue` finds it there; the tables
of `ragrounds run` and `ragrounds compare`, the report and ``--json`` then show it without another edit."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import join, quote
from typing import Literal

from msgspec import Struct

from ragrounds.base.records import Attempt, Gold, Kind, Question, Score
from ragrounds.evals.scorers.answer_status import AnswerRead

Direction = Literal["higher", "lower"]


class ScorerRecord(Struct, frozen=True, kw_only=True):
    """What is known of a scorer, whether it computes its scores or a judge gives them. Tables, pictures, methods and
    messages ask this object; no other place keeps a list of names."""

    name: str
    """What its scores are stored under, with parameters: ``robust``."""
    summary: str
    """One line beside the name in tables."""
    method: str
    """A noun phrase for the methods paragraph of a report."""
    kinds: tuple[Kind, ...]
    """The kinds of question that it is for."""
    unit: str = "percent"
    """``percent``: scores are shares from 0 to 1, shown times 100. Any other unit: scores are shown as they are."""
    direction: Direction = "higher"
    """Which scores are better."""
    clipped: bool = False
    """Whether a score may be below 0, and the mean of a figure is clipped to 0 to 1 (HealthBench)."""
    ratio: bool = False
    """Whether the figure of a dataset is the sum of numerators over the sum of denominators (:meth:`parts`), as a
    micro-F1 is, and not the mean of the questions' scores. Over datasets it is always their unweighted mean (MIRAGE,
    Section 3.1), over an attempt's epochs theirs."""
    beside: bool = True
    """Whether it stands beside the headline where the benchmark's card says nothing of it."""
    usual: bool = False
    """Whether it is the headline of such questions where the benchmark has no card."""
    truth: str = ""
    """The scorer that says whether such answers are right, where this one does not; empty: nothing is to be said."""
    needs: str = ""
    """What must be named before it can score, a judge; empty: nothing."""
    needs_judge: bool = False
    """Whether a judge gives its scores. Such a score without a value is a failure of the judge; a computed one has no
    value where the question has nothing to score by."""
    on_request: bool = False
    """Whether it scores nothing unless it is asked for by name."""
    elsewhere: bool = False
    """Whether its scores were made by another tool: runs that have none are compared without it."""
    by_card: bool = False
    """Whether it leaves out questions of a benchmark whose card names other scorers and not this one."""
    accuracy: bool = False
    """Whether a score of 1 is a right answer: then its mean is called an accuracy, and right answers have a price."""
    shares: bool = False
    """Whether a score is the share of what a right answer holds (its facts): shares add up to right answers, so that
    these have a price, and right answers are counted as those of 1."""
    letters: bool = False
    """Whether it scores by default no question but those whose options are all single letters."""

    @property
    def computes(self) -> bool:
        """Whether it has a method `score` of its own."""
        return type(self).score is not ScorerRecord.score

    def score(self, attempt: Attempt, question: Question, gold: Gold) -> Score:
        """The score of one attempt, stored under :attr:`name`: a pure function of the stored attempt and its gold.

        Raises:
            NotImplementedError: it computes nothing; a judge gives its scores, or only its words are here.
        """
        raise NotImplementedError(f"{self.name} computes no score")

    def suits(self, question: Question) -> bool:
        """Whether the question is of one of its kinds: scorers of choices, extraction and long answers do not mix."""
        return question.kind in self.kinds

    def default(self, question: Question) -> bool:
        """Whether it scores this question wherever nothing else is asked for."""
        if self.needs or self.on_request or question.kind not in self.kinds:
            return False
        return not self.letters or all(len(label) == 1 and label.isalpha() for label in question.options)

    def parts(self, score: Score) -> tuple[float, float]:
        """Numerator and denominator of a score. Here its value, and 1: the figure is a mean.

        Raises:
            ValueError: the score has no value.
        """
        if score.value is None:
            raise ValueError(f"the score of {score.question_id} under {score.scorer} has no value")
        return score.value, 1.0

    def command(self, runs: Sequence[str]) -> str:
        """The command that makes its scores of these runs."""
        return f"ragrounds score {join(runs)} --scorer {quote(self.name)}"

    def scored(
        self, attempt: Attempt, value: float | None, read: AnswerRead, prediction: str = "", reason: str = ""
    ) -> Score:
        """A score of an attempt under this scorer's name; the reason is by default that of the answer's status."""
        return Score(
            question_id=attempt.question_id,
            epoch=attempt.epoch,
            scorer=self.name,
            value=value,
            answer_status=read.status,
            prediction=prediction,
            reason=reason or read.reason,
        )


class StoredScorer(ScorerRecord, frozen=True, kw_only=True):
    """A scorer whose code is not here (another version's, a package's): its words can be shown, and it scores
    nothing."""

    def suits(self, question: Question) -> bool:
        """Never: what it does with a question is not known."""
        return False

    def default(self, question: Question) -> bool:
        """Never."""
        return False
