"""Facts of an attempt: what can be asked of it without reading its steps (``hops>3 and gold not seen``).

They are derived from its events and from what its calls asked and answered, when it is written. Where they are missing
(an imported run) they are made from the journal.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragrounds.evals.store import schema
from ragrounds.evals.store.hops import Hop, hops_of
from ragrounds.evals.store.schema import Row
from ragrounds.evals.store.traces import TracedCall
from ragrounds.records import Attempt, Entered, Gold, Noted


def facts_row(
    attempt: Attempt, traced: Sequence[TracedCall], gold: Gold, number: int, hops: Sequence[Hop] | None = None
) -> Row:
    """The row of an attempt's facts.

    Args:
        attempt: with its events.
        traced: its calls in their order.
        gold: of the question.
        number: the run's in this store.
        hops: as :func:`ragrounds.evals.store.hops.hops_of` gives them; ``None``: they are derived here.
    """
    hops = hops_of(traced, gold, only_gold=True) if hops is None else hops
    golden = set(gold.documents)
    found = [one for hop in hops for one in hop.found if one.gold]
    ranks = [one.rank for one in found]
    names = {name for one in found for name in (one.passage.document, one.passage.id)}
    seen = {name for one in found if one.fate in ("seen", "cut") for name in (one.passage.document, one.passage.id)}
    # Where prompts are not recorded, what stood in them is not known.
    recorded = attempt.replayable and (attempt.status != "completed" or any(call.asked for call in traced))
    shown = len(golden & seen)
    unclear = {name for one in found if one.fate == "not known" for name in (one.passage.document, one.passage.id)}
    recorded = recorded and not golden & unclear - seen
    whole = {name for one in found if one.fate == "seen" for name in (one.passage.document, one.passage.id)}
    kinds = sorted({event.what for event in attempt.events if isinstance(event, Noted)})
    failed = [call for call in traced if call.call.error]
    row: dict[str, object] = {
        "run": number,
        "question_id": attempt.question_id,
        "epoch": attempt.epoch,
        "steps": sum(isinstance(event, Entered) for event in attempt.events),
        "searches": sum(not hop.error for hop in hops),
        "repeated": sum(hop.repeats is not None for hop in hops),
        "model_calls": sum(call.call.kind == "model" for call in traced),
        "failed_calls": len(failed),
        "failed_searches": sum(bool(hop.error) for hop in hops),
        "faults": sum(len(call.call.faults) for call in traced),
        "gold": len(golden) or None,
        "gold_found": len(golden & names) if golden else None,
        "gold_seen": shown if golden and (recorded or shown == len(golden)) else None,
        "gold_cut": len(golden & seen) - len(golden & whole) if golden and recorded else None,
        "gold_rank": min(ranks, default=None),
        "gold_hop": next((hop.number for hop in hops if hop.gold_ranks), None),
        "notes": f" {' '.join(kinds)} " if kinds else "",
    }
    return schema.facts, row
