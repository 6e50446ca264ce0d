"""`ragrounds run --until`: what is watched, what is kept of it, what is said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragrounds.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragrounds.evals.compare.stopped import Stopping
    from ragrounds.evals.compare.until import Until
    from ragrounds.evals.store.store import Store
    from ragrounds.records import Question, Run


def follow(
    store: Store, runs: Sequence[Run], questions: Sequence[Question], claim: str | None, seed: int, most: int | None
) -> Until | None:
    """What watches these runs; it knows what they have already. ``None``: nothing was asked to be watched.

    Raises:
        UserError: as :class:`ragrounds.evals.compare.until.Until`, or `most` without a claim.
    """
    if claim is None:
        if most is not None:
            raise UserError("--max-questions goes with --until; --limit draws a part of the benchmark.")
        return None
    if not -(2**63) <= seed < 2**63:
        raise UserError(f"--seed {seed}: with --until it is kept with the run, and has 64 bits at most.")
    from ragrounds.evals.compare.stopped import decided, keep
    from ragrounds.evals.compare.until import Until

    until = Until(claim, runs, questions, seed=seed, most=most)
    earlier = decided(store, runs, claim, seed)
    if earlier is not None:
        until.settled = earlier.watched
        return until
    until.read(store)
    # From here on the runs' length may depend on their results, also where this process is killed.
    keep(store, _stopping(until, ""))
    return until


def settle(store: Store, until: Until, ended: str) -> Stopping:
    """Keep how the claim stands at the end, and say it on stderr."""
    from ragrounds.cli.common import say
    from ragrounds.evals.compare.stopped import keep
    from ragrounds.ui.progress import told

    reason = ended or until.last
    if until.reached():
        reason = ""
    stopping = _stopping(until, reason)
    if until.settled is None:
        keep(store, stopping)
    say(told(stopping))
    return stopping


def _stopping(until: Until, reason: str) -> Stopping:
    from ragrounds.evals.compare.stopped import Stopping

    return Stopping(
        runs=tuple(run.id for run in until.runs),
        seed=until.seed,
        scorer=until.scorer,
        watched=until.now,
        reason=reason,
    )
