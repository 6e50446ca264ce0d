"""What a run answered to one question, how it was scored, what it took: read from the store, a line for each epoch."""

from __future__ import annotations

import sqlalchemy as sa
from msgspec import Struct

from ragrounds.evals.scorers import described, headline_of
from ragrounds.evals.store.attempt_facts import make_facts
from ragrounds.evals.store.schema import facts
from ragrounds.evals.store.store import Store
from ragrounds.records import Question, Run


class AnswerLine(Struct, frozen=True, kw_only=True):
    """What one run answered in one epoch."""

    run: str
    name: str
    """What the run is called."""
    epoch: int
    status: str
    scorer: str
    """The headline scorer; empty: it has no score."""
    score: float | None
    unit: str
    read: str
    """What the scorer read as the answer; empty: nothing."""
    searches: int | None
    """Searches that gave a result; ``None``: not known of this attempt."""
    gold_rank: int | None
    """Best rank of a gold document; ``None``: none was found, or none is known."""
    calls: int
    tokens: int | None
    cost_uncached: float | None
    seconds: float


def answer_line(store: Store, run: Run, asked: Question, epoch: int, name: str) -> AnswerLine | None:
    """What a run answered; ``None``: nothing yet."""
    attempt = store.attempt(run, asked.id, epoch)
    if attempt is None:
        return None
    headlines = headline_of([asked], store.scored_by(run, asked.id, epoch, store.score_codes(run)))
    scorer = headlines[0].scorer if headlines else ""
    here = (one for one in store.scores(run, scorer) if (one.question_id, one.epoch) == (asked.id, epoch))
    score = next(here, None) if scorer else None
    searches, rank = _searched(store, run, asked.id, epoch)
    return AnswerLine(
        run=run.id,
        name=name,
        epoch=epoch,
        status=attempt.status,
        scorer=scorer,
        score=score.value if score else None,
        unit=described(scorer).unit if scorer else "percent",
        read=score.prediction if score else "",
        searches=searches,
        gold_rank=rank,
        calls=attempt.calls,
        tokens=attempt.usage.input + attempt.usage.output if attempt.usage else None,
        cost_uncached=attempt.cost_uncached,
        seconds=attempt.seconds,
    )


def _searched(store: Store, run: Run, question_id: str, epoch: int) -> tuple[int | None, int | None]:
    """Searches of an attempt, and the best rank of a gold document."""
    make_facts(store, [run], among={(run.id, question_id, epoch)})
    here = (facts.c.run == store.number(run), facts.c.question_id == question_id, facts.c.epoch == epoch)
    with store.engine.connect() as connection:
        row = connection.execute(sa.select(facts.c.searches, facts.c.gold_rank).where(*here)).first()
    return (row.searches, row.gold_rank) if row else (None, None)
