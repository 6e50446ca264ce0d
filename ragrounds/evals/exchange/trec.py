"""TREC runs of what agents searched: for trec_eval, ir_measures and `ragrounds retrieve --run`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from ragrounds.errors import UserError
from ragrounds.evals.exchange.formats import Export, ExportFormat, ExportPart, run_file_name
from ragrounds.evals.retrieval.trec import write_run
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.traces import Trace, every_trace
from ragrounds.records import Gold, Passage, Run

Ranked = dict[str, list[tuple[str, float]]]
SEARCHES = ("first", "last", "all")


def searched(store: Store, run: Run, *, which: str = "all", documents: bool = True) -> Ranked:
    """Question id → what the searches of its first epoch found, best first.

    Args:
        store: where the run is.
        run: a run of an agent that searches.
        which: the ``first`` or the ``last`` search of an attempt, with its own scores; or ``all`` searches: results in
            the order in which the agent got them, each once, scored 1 / place, as scores of two searches cannot be
            compared.
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
    """The lines of a TREC judgement file, for the questions whose gold documents are known.

    Raises:
        UserError: an id holds blanks, which the format cannot carry.
    """
    lines = []
    for id, gold in golds.items():
        for document in gold.documents:
            if len(f"{id} {document}".split()) != 2:
                raise UserError(f"TREC judgements cannot carry the ids {id!r} and {document!r}: they have blanks.")
            lines.append(f"{id} 0 {document} 1")
    return lines


class TrecOptions(Struct, frozen=True):
    """Which searches of an attempt are written, and whose ids."""

    search: Annotated[str, Meta(description="Which searches of an attempt: first, last, or all in order.")] = "all"
    passages: Annotated[bool, Meta(description="Ids of passages instead of documents.")] = False


def _parts(export: Export[TrecOptions]) -> Iterator[ExportPart]:
    options = export.options
    rankings = [
        (run, searched(export.store, run, which=options.search, documents=not options.passages)) for run in export.runs
    ]
    names: list[str] = []
    for run, ranking in rankings:
        names.append(run_file_name(run, ".run", names))

        def _write(path: Path, run: Run = run, ranking: Ranked = ranking) -> str:
            write_run(path, ranking, run.agent)
            return f"{sum(map(bool, ranking.values())):,} of {len(ranking):,} questions with results"

        yield ExportPart(_write, names[-1])
    lines = judgements(export.store.questions(export.runs[0])[1])
    if lines and not options.passages:

        def _write_judgements(path: Path) -> str:
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
            return f"{len(lines):,} judgements"

        yield ExportPart(_write_judgements, "qrels.txt")


FORMAT = ExportFormat(
    name="trec",
    summary="TREC runs of what agents searched, and judgements where gold documents are known.",
    writes="folder",
    options=TrecOptions,
    parts=_parts,
)
