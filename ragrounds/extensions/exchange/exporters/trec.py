"""TREC runs of agents' searches: for trec_eval, ir_measures and `ragrounds retrieve --run`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ragrounds.base.errors import UserError
from ragrounds.base.records import Gold, Run
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import every_trace
from ragrounds.extensions.exchange.formats import Export, ExportFormat, ExportPart, NoOptions, run_file_name
from ragrounds.extensions.retrieval.trec import write_run

Ranked = dict[str, list[tuple[str, float]]]


def searched(store: Store, run: Run) -> Ranked:
    """Return the documents that the searches of the first epoch found, by question id, in the order in which the agent
    got them.

    Every document occurs once, at the rank of its first passage. Its score is 1 / rank, because the scores of two
    searches cannot be compared.

    Raises:
        UserError: a run that searched nothing.
    """
    ranking: Ranked = {}
    for trace in every_trace(store, run):
        if trace.attempt.epoch == 0:
            calls = (call for step in trace.steps for call in step.calls if call.searched is not None)
            documents = dict.fromkeys(passage.document for call in calls for passage in call.passages)
            ranking[trace.question.id] = [(id, 1 / rank) for rank, id in enumerate(documents, 1)]
    if not any(ranking.values()):
        raise UserError(f"The run {run.id} searched nothing: there is no TREC run to write.")
    return ranking


def judgements(golds: Mapping[str, Gold]) -> list[str]:
    """Return the lines of a TREC judgement file, for the questions with known gold documents.

    Raises:
        UserError: an id contains blanks, which the format cannot represent.
    """
    lines = []
    for id, gold in golds.items():
        for document in gold.documents:
            if len(f"{id} {document}".split()) != 2:
                raise UserError(f"TREC judgements cannot carry the ids {id!r} and {document!r}: they have blanks.")
            lines.append(f"{id} 0 {document} 1")
    return lines


def _parts(export: Export[NoOptions]) -> Iterator[ExportPart]:
    rankings = [(run, searched(export.store, run)) for run in export.runs]
    names: list[str] = []
    for run, ranking in rankings:
        names.append(run_file_name(run, ".run", names))

        def _write(path: Path, run: Run = run, ranking: Ranked = ranking) -> str:
            write_run(path, ranking, run.agent)
            return f"{sum(map(bool, ranking.values())):,} of {len(ranking):,} questions with results"

        yield ExportPart(_write, names[-1])
    lines = judgements(export.store.questions(export.runs[0])[1])
    if lines:

        def _write_judgements(path: Path) -> str:
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
            return f"{len(lines):,} judgements"

        yield ExportPart(_write_judgements, "qrels.txt")


FORMAT = ExportFormat(
    name="trec",
    summary="TREC runs of what agents searched, and judgements where gold documents are known.",
    writes="folder",
    options=NoOptions,
    parts=_parts,
)
