"""Runs that ended when a claim was decided: what is kept of that, and what may be said of them afterwards.

How many questions such a run has depends on its own results, so an interval or a test for a number of questions that
was fixed beforehand does not hold for it. In their place stands the interval by which it was watched: valid at every
number of questions at once, whatever made the run end. A run that went on to its last question is like any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from ragrounds.errors import UserError
from ragrounds.evals.compare.comparability import Ground, common_questions
from ragrounds.evals.compare.figures import Paired, Values
from ragrounds.evals.compare.watching import Watched
from ragrounds.evals.engine.question_order import QuestionRound, draw
from ragrounds.evals.scorers import scorers_for
from ragrounds.evals.stats.sequential import ConfidenceSequence, Tracked
from ragrounds.evals.store import schema
from ragrounds.evals.store.database import upsert, writing_failed
from ragrounds.evals.store.packing import compress, decompress
from ragrounds.evals.store.store import Store
from ragrounds.records import Question, Run


class Stopping(Struct, frozen=True, kw_only=True):
    """What is kept with each run that was watched for a claim."""

    runs: tuple[str, ...]
    """All that were watched together."""
    seed: int
    """Of the order in which questions were asked."""
    scorer: str
    """That accuracy is by."""
    watched: Watched
    """How the claim stood when the command ended; before that: at its beginning."""
    reason: str = ""
    """Why no further question was begun; empty: the claim was decided, or the command did not end by itself."""


def keep(store: Store, stopping: Stopping) -> None:
    """Write how a claim stands, with each of its runs.

    Raises:
        StopRun: the store cannot be written.
    """
    body = compress(msgspec.msgpack.encode(stopping))
    runs = {run.id: run for run in store.runs()}
    rows = [
        {
            "run": store.number(runs[id]),
            "claim": stopping.watched.claim,
            "seed": str(stopping.seed),
            "body": body,
        }
        for id in stopping.runs
    ]
    try:
        with store.engine.begin() as connection:
            connection.execute(upsert(store.engine, schema.stoppings), rows)
    except sa.exc.SQLAlchemyError as error:
        raise writing_failed(store.engine, error) from error


def stoppings(store: Store, run: Run) -> list[Stopping]:
    """What a run was ever watched for."""
    table = schema.stoppings
    with store.engine.connect() as connection:
        rows = connection.execute(sa.select(table.c.body).where(table.c.run == store.number(run)))
        return [msgspec.msgpack.decode(decompress(row.body), type=Stopping) for row in rows]


def decided(store: Store, runs: Sequence[Run], claim: str, seed: int) -> Stopping | None:
    """The decision of an earlier command on the same claim about the same runs: it stands.

    Raises:
        UserError: a run was watched in another order. Whoever may draw until an order suits finds what they look for.
    """
    ids = tuple(run.id for run in runs)
    for run in runs:
        for known in stoppings(store, run):
            if known.seed != seed:
                raise UserError(
                    f"{run.id} was watched with its questions in the order of --seed {known.seed}; an order is drawn "
                    f"once. Give --seed {known.seed}, or --new for another run."
                )
            if known.runs == ids and known.watched.claim == claim and known.watched.decision != "cannot tell":
                return known
    return None


def ended_early(store: Store, runs: Sequence[Run]) -> bool:
    """Whether one of these runs was watched, and has not gone on to its last question."""
    return any(stoppings(store, run) and _partial(store, run) for run in runs)


class Stopped:
    """Of some runs those that ended early by their own results, and the intervals that hold for them."""

    def __init__(self, store: Store, runs: Sequence[Run], ground: Ground) -> None:
        self._ground = ground
        self.by_run = {run.id: known[-1] for run in runs if (known := stoppings(store, run)) and _partial(store, run)}
        # Not only what all have answered: where a question is still out, those behind it do not count.
        self._shared = common_questions(store, runs, True)[0] if self.by_run else []
        made = {run.id: Counter(one.question_id for one in ground.summaries[run.id]) for run in runs}
        self._answered = {
            id: {question for question, count in counts.items() if count >= ground.epochs}
            for id, counts in made.items()
        }

    def __bool__(self) -> bool:
        return bool(self.by_run)

    @property
    def notes(self) -> list[str]:
        """What a reader must know."""
        together: dict[tuple[str, ...], Watched] = {}
        for known in self.by_run.values():
            together[tuple(run for run in known.runs if run in self.by_run)] = known.watched
        said = []
        for runs, watched in together.items():
            how = "is not decided" if watched.decision == "cannot tell" else watched.decision
            said.append(
                f"{', '.join(runs)}: how many questions are answered depends on the results, for {watched.claim!r} was "
                f"watched; it {how} after {watched.questions:,} questions. Intervals of differences are valid at any "
                "number of questions (confidence sequences); tests for a fixed number are left out; an interval of an "
                "accuracy by itself is for a fixed number."
            )
        return said

    def concerns(self, *runs: str) -> bool:
        """Whether one of these runs ended early by its results."""
        return any(run in self.by_run for run in runs)

    def rounds(self, scorer: str, *runs: str) -> list[QuestionRound]:
        """The draws that these runs have all answered, up to the first that is still out. At least one of them ended
        early."""
        seeds = {self.by_run[run].seed for run in runs if run in self.by_run}
        if len(seeds) != 1:
            return []  # each in an order of its own: there is no order that both went by
        seed = seeds.pop()
        asked = {question.id for question in self._ground.asked(scorer)}
        usual = [one for one in self._shared if _scores(scorer, one)] or [
            one for one in self._shared if one.id in asked
        ]
        kept: list[QuestionRound] = []
        for one in draw(usual, seed):
            if not all(question.id in self._answered[run] for run in runs for question in one.questions):
                break
            kept.append(one)
        return kept

    def paired(self, tests: Paired, scorer: str, first: str, second: str, values: Mapping[str, Values]) -> Paired:
        """`tests` of two runs, with what holds in place of what does not."""
        if not self.concerns(first, second):
            return tests
        tracked = _differences(self.rounds(scorer, first, second), values[first], values[second])
        return msgspec.structs.replace(
            tests,
            low=tracked.low if tracked else None,
            high=tracked.high if tracked else None,
            p_mcnemar=None,
            mde=None,
            p_always=tracked.p if tracked else None,
            watched=tracked.n if tracked else 0,
        )


def _partial(store: Store, run: Run) -> bool:
    return len(store.done(run)) < run.count * run.epochs


def _scores(scorer: str, question: Question) -> bool:
    return scorer in {made.scorer for made in scorers_for(question)}


def _differences(rounds: Sequence[QuestionRound], first: Values, second: Values) -> Tracked | None:
    """The confidence sequence of `second` minus `first`, over rounds where both have scores."""
    sequence = ConfidenceSequence(null=0.0)
    for drawn in rounds:
        sums = []
        for part in drawn.parts:
            pairs = [(first.get(question.id), second.get(question.id)) for question in part]
            known = [other - one for one, other in pairs if one is not None and other is not None]
            if known:
                sums.append(sum(known) / len(known))
        if len(sums) == len(drawn.parts):
            sequence.hear(sum(sums) / len(sums))
    return sequence.now
