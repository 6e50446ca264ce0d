"""The figure of a run that is being made: the table's own figure, over the questions answered so far."""

from __future__ import annotations

from ragrounds.evals.compare.figures import Figure, figure
from ragrounds.evals.compare.question_values import Parts, QuestionValues
from ragrounds.evals.engine.live_score import LiveScore
from ragrounds.evals.scorers import described


def figure_so_far(score: LiveScore, epochs: int = 1, seed: int = 0) -> Figure:
    """The figure with its 95 % interval, as the run's table would have it if these questions were all.

    Where questions have been asked in different numbers of epochs, a mean is known with less precision than its epochs
    would say: its interval is then made from the questions alone.

    Args:
        score: the score so far.
        epochs: of the run.
        seed: of a bootstrap.
    """
    made = score.made()
    known = described(score.scorer) if score.scorer else None
    if known is None or not made:
        return Figure(n=0, missing=0)
    counts = {len(parts) for _, parts in made}
    whole = counts == {epochs}
    values: dict[str, float | None] = {}
    parts: dict[str, Parts] = {}
    for question, each in made:
        found = [part for part in each if part is not None]
        if len(found) < len(each):
            values[question.id] = None
            continue
        values[question.id] = sum(above for above, _ in found) / len(found)
        parts[question.id] = tuple(found)
    questions = [question for question, _ in made]
    if not score.is_ratio:
        return figure(questions, values, {}, seed, known, epochs if whole else 1)
    if len(counts) > 1:
        return Figure(value=score.average, n=len(parts), missing=len(values) - len(parts), pooled=score.pooled)
    return figure(questions, QuestionValues(values, parts, parts), {}, seed, known, epochs)
