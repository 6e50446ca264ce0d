"""Scorers ``comprehensiveness``, ``hallucination-rate`` and ``contradiction``: K-QA's judge (Manes et al. 2024), which
compares the answer with each of the physicians' statements.

``comprehensiveness`` is the share of must-have statements that the answer entails, higher is better. Contradicted
statements are counted in two ways, **lower is better** for both. ``hallucination-rate`` is the paper's figure: the
number of statements that an answer contradicts, averaged over the questions (``Hall`` of the authors' program, whose
denominator is every question; an unanswered one counts 0). ``contradiction`` is this package's own figure: the share of
the statements, so that a question with many statements weighs no more than another. Its prediction holds the verdict on
each statement.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragrounds.base.records import Attempt, Gold, Question, Score, blank
from ragrounds.evals.benchmarks.benchmark import STATEMENTS, must_have, nice_to_have
from ragrounds.evals.scorers.answer_status import answer_text, read_long
from ragrounds.evals.scorers.judged import JudgedScorer, JudgeQuestion, LabelMethod, Said, VerdictForm, fenced

ENTAILED, NEUTRAL, CONTRADICTED = "entailment", "neutral", "contradiction"
_MISSING = "?"

COMPREHENSIVENESS = JudgedScorer(
    name="comprehensiveness",
    judging="statements",
    shares=True,
    summary="share of the must-have statements in the answer",
    method="the share of must-have statements that an answer entails, by a judge",
)
HALLUCINATION_RATE = JudgedScorer(
    name="hallucination-rate",
    judging="statements",
    summary="statements that an answer contradicts (K-QA)",
    method="how many statements an answer contradicts (K-QA's hallucination rate), by a judge; lower is better",
    unit="statements",
    direction="lower",
)
CONTRADICTION = JudgedScorer(
    name="contradiction",
    judging="statements",
    summary="share of statements that the answer contradicts",
    method="the share of statements that an answer contradicts, by a judge; lower is better",
    direction="lower",
)


class Statements(LabelMethod, frozen=True, kw_only=True):
    """Judge method that judges an answer statement by statement; a figure is missing if one of its verdicts is."""

    name: str = "statements"
    scorers: tuple[JudgedScorer, ...] = (COMPREHENSIVENESS, HALLUCINATION_RATE, CONTRADICTION)
    labels: tuple[str, ...] = (ENTAILED, NEUTRAL, CONTRADICTED)
    needs: str = "statements for a judge"
    prompts: tuple[str, ...] = ("judge/entails",)

    def fits(self, question: Question, gold: Gold) -> bool:
        """Return True for questions whose facts are statements for a judge."""
        return question.metadata.get("facts") == STATEMENTS and bool(must_have(gold))

    def unasked(self, attempt: Attempt, question: Question, gold: Gold) -> tuple[Score, ...]:
        """Return the scores of an attempt without a text, which entails and contradicts nothing, and costs nothing."""
        reading = read_long(attempt, question)
        if attempt.status == "not_run" or not must_have(gold):
            reason = reading.reason or "the question has no statements"
            return tuple(scorer.scored(attempt, None, reading, reason=reason) for scorer in self.scorers)
        if not blank(answer_text(attempt, question)):
            return ()
        return tuple(scorer.scored(attempt, 0.0, reading) for scorer in self.scorers)

    def questions(self, attempt: Attempt, question: Question, gold: Gold) -> tuple[JudgeQuestion, ...]:
        """Return one question for each statement, as in the paper, the must-have ones first."""
        form = VerdictForm(("s1",), self.labels)
        texts = {"question": question.text, "answer": answer_text(attempt, question)}
        fences = {name: fenced(text) for name, text in texts.items()}
        return tuple(
            JudgeQuestion(
                prompt=self.prompts[0],
                texts={**fences, "statements": f"s1:\n<<<\n{fenced(text)}\n>>>"},
                form=form,
                subjects=(text,),
            )
            for text in _statements(gold)
        )

    def scores(self, attempt: Attempt, gold: Gold, verdicts: Sequence[Said]) -> tuple[Score, ...]:
        """Return the shares and the number, each missing if a verdict on one of its own statements is."""
        labels = [label for label, _ in verdicts]
        contradicted = _share(CONTRADICTION, attempt, labels, CONTRADICTED)
        count = None if contradicted.value is None else float(labels.count(CONTRADICTED))
        reading, reason = read_long(attempt), contradicted.reason
        return (
            _share(COMPREHENSIVENESS, attempt, labels[: len(must_have(gold))], ENTAILED),
            HALLUCINATION_RATE.scored(attempt, count, reading, contradicted.prediction.partition(":")[0], reason),
            contradicted,
        )

    def items(self, gold: Gold) -> dict[str, str]:
        """Return the question's id with ``#1``, ``#2``, … → statement, in the benchmark's order, the must-have ones
        first."""
        return {f"{gold.question_id}#{number}": text for number, text in enumerate(_statements(gold), 1)}

    def verdicts(self, score: Score) -> dict[str, str | None]:
        """Return the verdict on each statement; empty if the judge was not asked."""
        label_list = score.prediction.partition(": ")[2]
        labels = [None if label == _MISSING else label for label in label_list.split(", ")] if label_list else []
        return {f"{score.question_id}#{number}": label for number, label in enumerate(labels, 1)}


def _statements(gold: Gold) -> tuple[str, ...]:
    return *must_have(gold), *nice_to_have(gold)


def _share(scorer: JudgedScorer, attempt: Attempt, labels: list[str], counted: str) -> Score:
    missing, count = labels.count(""), labels.count(counted)
    prediction = f"{count}/{len(labels)}: {', '.join(label or _MISSING for label in labels)}"
    if missing:
        reason = f"judge: no verdict on {missing} of {len(labels)} statements"
        return scorer.scored(attempt, None, read_long(attempt), prediction, reason)
    return scorer.scored(attempt, count / len(labels), read_long(attempt), prediction)


STATEMENT_METHOD = Statements()
