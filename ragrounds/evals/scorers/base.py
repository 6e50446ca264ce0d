"""The record that every scorer is made of: its name, its words, and how its scores become figures.

A scorer is one object in one file of this folder. :mod:`ragrounds.evals.scorers.catalogue` finds it there; the tables
of `ragrounds run` and `ragrounds compare`, the report and ``--json`` then show it without another edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ragrounds.contracts import Aggregation, Direction
from ragrounds.evals.scorers.answer_status import AnswerRead
from ragrounds.records import Attempt, Kind, Question, Score

MEAN = Aggregation()
CORPUS_RATIO = Aggregation(questions="ratio")
"""A figure of each dataset as a whole: numerators over denominators, both added up over its questions."""


class ScorerRecord(Struct, frozen=True, kw_only=True):
    """What is known of a scorer (contract: :class:`ragrounds.contracts.AnyScorer`). One that computes adds
    ``score``."""

    name: str
    summary: str
    method: str
    kinds: tuple[Kind, ...]
    reads: str = "the final answer"
    unit: str = "percent"
    direction: Direction = "higher"
    aggregation: Aggregation = MEAN
    beside: bool = True
    usual: bool = False
    """Whether it is the headline of such questions where the benchmark has no card."""
    needs: str = ""
    """What must be named before it can score: a judge, an embedder, expectations; empty: nothing."""
    needs_judge: bool = False
    on_request: bool = False
    """Whether it scores nothing unless it is asked for by name."""
    by_card: bool = False
    """Whether it leaves out questions of a benchmark whose card names other scorers and not this one."""
    accuracy: bool = False
    """Whether a score of 1 is a right answer: then its mean is called an accuracy, and right answers have a price."""
    letters: bool = False
    """Whether it scores by default no question but those whose options are all single letters."""

    def suits(self, question: Question) -> bool:
        """Whether the question is of one of its kinds: scorers of choices, extraction and long answers do not mix."""
        return question.kind in self.kinds

    def default(self, question: Question) -> bool:
        """Whether it scores this question wherever nothing else is asked for."""
        if self.needs or self.on_request or question.kind not in self.kinds:
            return False
        return not self.letters or all(len(label) == 1 and label.isalpha() for label in question.options)

    def parts(self, score: Score) -> tuple[float, float]:
        """The score's value, and 1: the figure is a mean.

        Raises:
            ValueError: the score has no value.
        """
        if score.value is None:
            raise ValueError(f"the score of {score.question_id} under {score.scorer} has no value")
        return score.value, 1.0

    def by_class(self, score: Score) -> Mapping[str, tuple[int, int, int]]:
        """Nothing: it counts no classes."""
        return {}

    def command(self, runs: Sequence[str]) -> str:
        """The command that makes its scores of these runs."""
        return f"ragrounds score {' '.join(runs)} --scorer {self.name}"

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
