"""TREC runs of what agents searched: for trec_eval, ir_measures and `ragrounds retrieve --run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragrounds.errors import UserError
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.traces import Trace, every_trace
from ragrounds.records import Gold, Passage, Run

Ranked = dict[str, list[tuple[str, float]]]
SEARCHES = ("first", "last", "all")


def searched(store: Store, run: Run, *, which: str = "all", documents: bool = True) -> Ranked:
    """Question id → what its first epoch's searches found, best first.

    Args:
        store: where the run is.
        run: a run of an agent that searches.
        which: the ``first`` or the ``last`` search of an attempt, with its own scores; or ``all``: in the order they
            came to the agent, each once, scored 1 / place (searches' own scores cannot be compared).
        documents: ids of documents, each by its best passage; else ids of passages.

    Raises:
        UserError: an unknown `which`, or a run that searched nothing.
    """
    if which not in SEARCHES:
        raise UserError(f"--search {which!r} is unknown. Known: {', '.join(SEARCHES)}.")
    found = {
        trace.question.id: _ranked(trace, which, documents)
        for trace in every_trace(store, run)
        if trace.attempt.epoch == 0
    }
    if not any(found.values()):
        raise UserError(f"The run {run.id} searched nothing: there is no TREC run to write.")
    return found


def _ranked(trace: Trace, which: str, documents: bool) -> list[tuple[str, float]]:
    searches = [call.passages for step in trace.steps for call in step.calls if call.searched is not None]
    if which != "all":
        searches = searches[:1] if which == "first" else searches[-1:]
    best: dict[str, float] = {}
    for passages in searches:
        for passage in passages:
            best.setdefault(_id(passage, documents), passage.score)
    if which == "all":
        return [(id, 1 / place) for place, id in enumerate(best, 1)]
    return list(best.items())


def _id(passage: Passage, documents: bool) -> str:
    return passage.document if documents else passage.id


def judgements(golds: Mapping[str, Gold]) -> list[str]:
    """Lines of a TREC judgement file, of the questions whose gold documents are known."""
    lines = []
    for id, gold in golds.items():
        for document in gold.documents:
            if len(f"{id} {document}".split()) != 2:
                raise UserError(f"TREC judgements cannot carry the ids {id!r} and {document!r}: they have blanks.")
            lines.append(f"{id} 0 {document} 1")
    return lines


def file_name(run: Run, taken: Sequence[str] = ()) -> str:
    """A file name for a run."""
    name = "".join(letter if letter.isalnum() or letter in "._=-" else "_" for letter in run.id)[:120].lstrip(".")
    candidate, number = f"{name}.run", 2
    while candidate in taken:
        candidate, number = f"{name}-{number}.run", number + 1
    return candidate
