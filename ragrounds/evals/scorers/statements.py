"""Scorers ``comprehensiveness`` and ``contradiction``: K-QA's judge (Manes et al. 2024). What does the answer say of
each of the physicians' statements?

``comprehensiveness`` is the share of must-have statements that the answer entails, higher is better; ``contradiction``
is the share of all statements that it contradicts, **lower is better**; its prediction gives the number, which the
paper averages as the hallucination figure, and the verdict on each statement."""

from __future__ import annotations

from ragrounds.evals.scorers.judged import JudgedScorer

COMPREHENSIVENESS = JudgedScorer(
    name="comprehensiveness",
    judging="statements",
    summary="share of the must-have statements that the answer entails, by the judge",
    method="the share of must-have statements that an answer entails, by a judge",
)
CONTRADICTION = JudgedScorer(
    name="contradiction",
    judging="statements",
    summary="share of the statements that the answer contradicts, by the judge; lower is better",
    method="the share of statements that an answer contradicts, by a judge; lower is better",
    direction="lower",
)
