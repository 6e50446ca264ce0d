"""Record that describes every scorer: its name, its wording in tables, and the way from scores to figures.

A scorer is one object in one file of this folder. :mod:`ragrounds.evals.scorers.catalogue` finds it there; the tables
of `ragrounds run` and `ragrounds compare`, the report and ``--json`` then show it without another edit.
"""

from __future__ import annotations

from collections.abc import Sequence
from shlex import join, quote
from typing import Literal

from msgspec import Struct

from ragrounds.base.records import Attempt, Gold, Kind, Question, Score
from ragrounds.evals.scorers.answer_status import AnswerRead

Direction = Literal["higher", "lower"]


class ScorerRecord(Struct, frozen=True, kw_only=True):
    """Description of a scorer, whether it computes its scores or a judge gives them.

    Tables, pictures, methods and messages use this object; no other module keeps a list of names.
    """

    name: str
    """Name under which its scores are stored, with parameters: ``robust``."""
    summary: str
    """Line shown next to the name in tables."""
    method: str
    """Noun phrase for the methods paragraph of a report."""
    kinds: tuple[Kind, ...]
    """Kinds of question that it applies to."""
    unit: str = "percent"
    """Unit of the scores. ``percent``: scores are shares from 0 to 1, shown times 100. Scores in other units are shown
    as they are."""
    direction: Direction = "higher"
    """Direction of better scores."""
    clipped: bool = False
    """True if a score may be below 0, and the mean of a figure is clipped to 0 to 1 (HealthBench)."""
    ratio: bool = False
    """True if the figure of a dataset is the sum of numerators over the sum of denominators (:meth:`parts`), as in a
    micro-F1, and not the mean of the questions' scores. Over datasets it is always the unweighted mean (MIRAGE, Section
    3.1), and over an attempt's epochs their mean."""
    beside: bool = True
    """True if it is shown next to the headline when the benchmark's card does not mention it."""
    usual: bool = False
    """True if it is the headline of such questions when the benchmark has no card."""
    truth: str = ""
    """Name of the scorer that measures whether such answers are right, if this one does not; empty if no remark is
    needed."""
    needs: str = ""
    """Requirement that must be given before it can score, such as a judge; empty if it needs nothing."""
    needs_judge: bool = False
    """True if a judge gives its scores. A judged score without a value is a failure of the judge. A computed score has
    no value if the question has nothing to score by."""
    on_request: bool = False
    """True if it is used only when it is requested by name."""
    elsewhere: bool = False
    """True if its scores were made by another tool: runs without such scores are compared without it."""
    by_card: bool = False
    """True if it leaves out questions of a benchmark whose card names other scorers and not this one."""
    accuracy: bool = False
    """True if a score of 1 is a right answer. Its mean is then called an accuracy, and right answers have a price."""
    shares: bool = False
    """True if a score is the share of what a right answer contains (its facts). Shares add up to right answers, so that
    these have a price, and answers with a score of 1 are counted as right."""
    letters: bool = False
    """True if by default it scores only questions whose options are all single letters."""

    @property
    def computes(self) -> bool:
        """True if it has its own method `score`."""
        return type(self).score is not ScorerRecord.score

    def score(self, attempt: Attempt, question: Question, gold: Gold) -> Score:
        """Return the score of one attempt, stored under :attr:`name`: a pure function of the attempt and its gold.

        Raises:
            NotImplementedError: a judge gives its scores, or the scorer's code is not installed.
        """
        raise NotImplementedError(f"{self.name} computes no score")

    def suits(self, question: Question) -> bool:
        """Return True if the question is of one of its kinds: scorers of choices, extraction and long answers do not
        mix."""
        return question.kind in self.kinds

    def default(self, question: Question) -> bool:
        """Return True if it scores this question when no scorer is requested."""
        if self.needs or self.on_request or question.kind not in self.kinds:
            return False
        # Two maps, since this is asked of every scorer for every question.
        return not self.letters or ({*map(len, question.options)} <= {1} and all(map(str.isalpha, question.options)))

    def parts(self, score: Score) -> tuple[float, float]:
        """Return numerator and denominator of a score. By default these are its value and 1: the figure is a mean.

        Raises:
            ValueError: the score has no value.
        """
        if score.value is None:
            raise ValueError(f"the score of {score.question_id} under {score.scorer} has no value")
        return score.value, 1.0

    def command(self, runs: Sequence[str]) -> str:
        """Return the command that makes its scores of these runs."""
        return f"ragrounds score {join(runs)} --scorer {quote(self.name)}"

    def scored(
        self, attempt: Attempt, value: float | None, read: AnswerRead, prediction: str = "", reason: str = ""
    ) -> Score:
        """Return a score of an attempt under this scorer's name. The default reason is that of the answer's status."""
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
    """Scorer whose code is not installed (another version's, a package's).

    Its wording can be shown, but it scores nothing.
    """

    def suits(self, question: Question) -> bool:
        """Return False: how it treats a question is not known."""
        return False

    def default(self, question: Question) -> bool:
        """Return False."""
        return False
