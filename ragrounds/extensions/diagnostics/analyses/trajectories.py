"""Trajectories of agents: searches, new documents in them, tokens by role, outcomes, and their benefit.

The benefit is measured against the answers without search and against the shortest right trajectory of any agent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import comb
from statistics import fmean

from msgspec import Struct

from ragrounds.base.records import TOKENS_APART, Attempt, AttemptKey, Gold, Noted, Run, Score, outcome
from ragrounds.evals.analyses.analysis import Analysis, AnalysisOptions, AnalysisTable
from ragrounds.evals.analyses.pictures import Picture, figure_mark, upwards
from ragrounds.evals.analyses.run_data import ScoredRun, check_share, scored_runs, share_figure
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.hops import hops_of, plain_query, searches_unknown
from ragrounds.evals.trace.traces import calls, node_path, traced_calls


class Trajectory(Struct, frozen=True, kw_only=True):
    """Trajectory of one attempt."""

    searches: int | None
    """Number of searches; ``None`` if not known."""
    queries: int
    """Number of distinct queries, ignoring case and white space."""
    documents: int
    """Number of distinct documents that its searches found."""
    gold: bool
    """True if a search found a gold document."""
    repeated: int
    """Number of searches that repeated a query, or found only documents that were found before."""
    steps: int
    tokens: Mapping[str, int] | None
    """Role → tokens; ``None`` if not known for all calls."""
    ended: str
    """Reason of the end: ``own limit``, or the outcome."""
    right: bool
    prediction: str


class RunTrajectories(Struct, frozen=True, kw_only=True):
    """Trajectories of a run at the questions that the scorer scores. Means are over attempts; ``None`` if not known."""

    run: str
    attempts: int
    right: Figure
    pass_k: tuple[float, ...]
    """For each k, the chance that k attempts at a question are all right (τ-bench's pass^k), averaged over
    questions."""
    unknown: int
    """Number of attempts for which it is not known whether they searched; they are in no figure of searches."""
    searches: float | None
    queries: float | None
    documents: float | None
    gold: Figure | None
    """Share of the attempts that found a gold document, if one is known."""
    repeated: float | None
    """Share of repeated searches in all searches."""
    tokens: Mapping[str, float] | None
    """Role → mean tokens."""
    reference: str
    """Id of the run without search that answers are compared with; empty if there is no such run."""
    changed: Figure | None
    """Share of the answers that differ from the reference's."""
    over_shortest: float | None
    """Mean ratio of the steps of right answers to the fewest steps in which any agent here answered the question
    right."""
    ended: Mapping[str, int]
    """Reason of the end → number of attempts."""


def trajectory(store: Store, attempt: Attempt, gold: Gold, score: Score | None) -> Trajectory:
    """Return what an attempt did on its way to an answer."""
    all_calls = list(calls(attempt.events))
    hops = hops_of(traced_calls(store, [call for call in all_calls if call.kind == "search"], brief=True), gold, True)
    unknown = not hops and searches_unknown(attempt, traced_calls(store, all_calls))
    known_documents, repeated = set[str](), 0
    for hop in hops:
        hop_documents = {hit.passage.document for hit in hop.found}
        repeated += hop.repeats is not None or bool(hop_documents and hop_documents <= known_documents)
        known_documents |= hop_documents
    model_calls = [
        call for call in all_calls if call.kind == "model" and call.role not in TOKENS_APART and not call.error
    ]
    tokens = Counter[str]()
    for call in model_calls:
        tokens[call.role] += call.usage.total if call.usage else 0
    notes = [event.what for event in attempt.events if isinstance(event, Noted)]
    hit_limit = attempt.status == "completed" and any(
        note.endswith("_limit") or note == "window_full" for note in notes
    )
    return Trajectory(
        searches=None if unknown else len(hops),
        queries=len({plain_query(hop.query) for hop in hops}),
        documents=len(known_documents),
        gold=any(hop.gold_ranks for hop in hops),
        repeated=repeated,
        steps=len(node_path(attempt.events)),
        tokens=tokens if all_calls and all(call.usage for call in model_calls) else None,
        ended="own limit" if hit_limit else outcome(attempt.status, score.answer_status if score else None),
        right=score is not None and score.value == 1.0,
        prediction=score.prediction if score else "",
    )


Done = dict[AttemptKey, Trajectory]


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> tuple[RunTrajectories, ...]:
    check_share("trajectories", options.scorer)
    run_trajectories = []
    for run in scored_runs(store, runs, options.scorer):
        scores = {score.key: score for score in run.scores}
        done = {
            (id, attempt.epoch): trajectory(store, attempt, run.golds[id], scores.get((id, attempt.epoch)))
            for attempt in store.attempts(run.run)
            if (id := attempt.question_id) in run.values
        }
        run_trajectories.append((run, done))
    shortest: dict[str, int] = {}
    for (question, _), attempt in (pair for _, done in run_trajectories for pair in done.items()):
        if attempt.right and attempt.steps:
            shortest[question] = min(attempt.steps, shortest.get(question, attempt.steps))
    references: dict[str, tuple[str, Done]] = {}  # by models: the first run without search
    for run, done in run_trajectories:
        identity = run.run.identity
        is_without_search = identity.get("retriever", "") is None and not identity.get("oracle")
        if is_without_search and "models" in identity and not any(attempt.searches for attempt in done.values()):
            references.setdefault(str(identity["models"]), (run.run.id, done))
    return tuple(_summarise_run(run, done, references, shortest, options.seed) for run, done in run_trajectories)


def _summarise_run(
    run: ScoredRun, done: Done, references: Mapping[str, tuple[str, Done]], shortest: Mapping[str, int], seed: int
) -> RunTrajectories:
    questions, identity = {question.id: question for question in run.questions}, run.run.identity
    known_attempts = {key: attempt for key, attempt in done.items() if attempt.searches is not None}
    searches = sum(attempt.searches or 0 for attempt in known_attempts.values())
    found_gold = [
        (questions[id], float(attempt.gold)) for (id, _), attempt in known_attempts.items() if run.golds[id].documents
    ]
    models = str(identity.get("models")) if searches or identity.get("oracle") else ""
    reference, reference_done = references.get(models, ("", {}))
    compared = [
        (questions[key[0]], attempt, reference_done[key]) for key, attempt in done.items() if key in reference_done
    ]
    compared = [triple for triple in compared if triple[0].options]  # long answers are never the same twice
    tokens = Counter[str]()
    for attempt in done.values():
        tokens.update(attempt.tokens or {})
    right_counts, epochs = Counter(id for (id, _), attempt in done.items() if attempt.right), run.run.epochs
    return RunTrajectories(
        run=run.run.id,
        attempts=len(done),
        right=run.figure(seed=seed),
        pass_k=tuple(
            fmean(comb(right_counts[id], k) / comb(epochs, k) for id in questions) for k in range(1, epochs + 1)
        ),
        unknown=len(done) - len(known_attempts),
        searches=_mean(attempt.searches or 0 for attempt in known_attempts.values()),
        queries=_mean(attempt.queries for attempt in known_attempts.values()),
        documents=_mean(attempt.documents for attempt in known_attempts.values()),
        gold=share_figure(found_gold, seed) if searches else None,
        repeated=sum(attempt.repeated for attempt in known_attempts.values()) / searches if searches else None,
        tokens={role: count / len(done) for role, count in tokens.items()}
        if all(attempt.tokens is not None for attempt in done.values())
        else None,
        reference=reference,
        changed=share_figure(
            [
                (question, float(attempt.prediction != reference_attempt.prediction))
                for question, attempt, reference_attempt in compared
            ],
            seed,
        ),
        over_shortest=_mean(
            attempt.steps / shortest[id] for (id, _), attempt in done.items() if attempt.right and attempt.steps
        ),
        ended=Counter(attempt.ended for attempt in done.values()),
    )


def _mean(values: Iterable[float]) -> float | None:
    return fmean(value_list) if (value_list := list(values)) else None


_COLUMNS = ("searches", "queries", "new docs", "gold found", "repeated %", "tokens", "changed", "× shortest", "ended")


def _title(options: AnalysisOptions) -> str:
    return f"What agents did on their way ({options.scorer})"


def _table(records: tuple[RunTrajectories, ...], options: AnalysisOptions) -> AnalysisTable:
    epochs = max(len(record.pass_k) for record in records)
    rows = []
    for record in records:
        all_right = 100 * record.pass_k[-1] if len(record.pass_k) == epochs else None
        tokens = None if record.tokens is None else round(sum(record.tokens.values()))
        end_counts = sorted(((count, end) for end, count in record.ended.items()), reverse=True)
        end_text = ", ".join(f"{count:,} {end.replace('_', ' ')}" for count, end in end_counts)
        rows.append(
            (
                *(record.run, record.right),
                *([all_right] * (epochs > 1)),
                *(record.searches, record.queries, record.documents, record.gold),
                *(record.repeated and 100 * record.repeated, tokens),
                *(record.changed, record.over_shortest, end_text),
            )
        )
    note = "Counts are of an attempt. × shortest: steps to a right answer, over the fewest that any agent here needed."
    for reference in dict.fromkeys(record.reference for record in records if record.reference):
        note += f" changed: another answer than without search, by {reference}."
    for record in records:
        if record.unknown:
            note += f" {record.run}: of {record.unknown:,} attempts it is not known whether they searched."
    columns = ("run", "right", *([f"pass^{epochs} %"] * (epochs > 1)), *_COLUMNS)
    return AnalysisTable(title=_title(options), columns=columns, rows=tuple(rows), note=note)


TRAJECTORIES = Analysis(
    name="trajectories",
    summary="searches, new documents, repeated work, tokens by role, answers changed, pass^k, and how attempts ended",
    needs="scores, and recorded attempts",
    measure=_measure,
    table=_table,
    picture=lambda records, options: Picture(
        title=_title(options),
        marks=tuple(figure_mark(record.run, record.right, x=record.searches) for record in records),
        words=upwards(options.scorer),
        x="searches of an attempt",
    ),
)
