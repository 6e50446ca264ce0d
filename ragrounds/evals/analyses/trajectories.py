"""What agents did on their way to an answer: searches, what was new in them, tokens by role, where it ended; and what
that was worth, against the answers without search and the shortest right way of any agent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import comb
from statistics import fmean

from msgspec import Struct

from ragrounds.base.records import TOKENS_APART, Attempt, Gold, Noted, Run, Score, outcome
from ragrounds.evals.analyses.analysis import Analysis, AnalysisOptions, AnalysisTable
from ragrounds.evals.analyses.pictures import Picture, figure_mark, upwards
from ragrounds.evals.analyses.run_data import AttemptKey, ScoredRun, check_share, scored_runs, share_figure
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.hops import hops_of, plain_query, searches_unknown
from ragrounds.evals.trace.traces import calls, node_path, traced_calls


class Trajectory(Struct, frozen=True, kw_only=True):
    """One attempt."""

    searches: int | None
    """``None``: not known."""
    queries: int
    """Distinct ones, case and white space apart."""
    new: tuple[int, ...]
    """By search: the documents that no earlier search of the attempt found."""
    gold: int | None
    """The first search that found a gold document, from 1."""
    repeated: int
    """Searches that asked what was asked before, or found nothing but documents that were found before."""
    steps: int
    tokens: Mapping[str, int] | None
    """By role; ``None``: not known of all calls."""
    ended: str
    """``own limit``, or the outcome."""
    node: str
    """The last one entered."""
    right: bool
    prediction: str


class RunTrajectories(Struct, frozen=True, kw_only=True):
    """The attempts of a run, of the questions that the scorer scores. Means are over attempts; ``None``: not known."""

    run: str
    attempts: int
    right: Figure
    pass_k: tuple[float, ...]
    """By k: the chance that k attempts at a question are all right (τ-bench's pass^k), on average over questions."""
    unknown: int
    """Attempts of which it is not known whether they searched: in no figure of searches."""
    searches: float | None
    queries: float | None
    new_documents: tuple[float, ...]
    """By search, over the attempts that made it."""
    documents: float | None
    gold: Figure | None
    """Share of the attempts that found a gold document, where one is known."""
    gold_at: tuple[int, ...]
    """Attempts that found gold first by their first, second … search."""
    repeated: float | None
    """Share of the searches."""
    tokens: Mapping[str, float] | None
    """By role."""
    reference: str
    """The run without search that answers are set against; empty: none."""
    changed: Figure | None
    """Share of the answers that are another than the reference's."""
    gained: int
    """Answers that are wrong there and right here."""
    lost: int
    steps: float | None
    """Nodes entered."""
    over_shortest: float | None
    """Of right answers: the steps over the fewest in which any agent here answered the same question right."""
    ended: Mapping[str, Mapping[str, int]]
    """How attempts ended → the last node → attempts."""


def trajectory(store: Store, attempt: Attempt, gold: Gold, score: Score | None) -> Trajectory:
    """What an attempt did."""
    made, path = list(calls(attempt.events)), node_path(attempt.events)
    hops = hops_of(traced_calls(store, [call for call in made if call.kind == "search"], brief=True), gold, True)
    unknown = not hops and searches_unknown(attempt, traced_calls(store, made))
    known, new, repeated = set[str](), list[int](), 0
    for hop in hops:
        found = {one.passage.document for one in hop.found}
        new.append(len(found - known))
        repeated += hop.repeats is not None or bool(found and found <= known)
        known |= found
    asked = [call for call in made if call.kind == "model" and call.role not in TOKENS_APART and not call.error]
    tokens = Counter[str]()
    for call in asked:
        tokens[call.role] += call.usage.input + call.usage.output if call.usage else 0
    notes = [event.what for event in attempt.events if isinstance(event, Noted)]
    limited = attempt.status == "completed" and any(note.endswith("_limit") or note == "window_full" for note in notes)
    return Trajectory(
        searches=None if unknown else len(hops),
        queries=len({plain_query(hop.query) for hop in hops}),
        new=tuple(new),
        gold=next((hop.number for hop in hops if hop.gold_ranks), None),
        repeated=repeated,
        steps=len(path),
        tokens=tokens if made and all(call.usage for call in asked) else None,
        ended="own limit" if limited else outcome(attempt.status, score.answer_status if score else None),
        node=path[-1] if path else "",
        right=score is not None and score.value == 1.0,
        prediction=score.prediction if score else "",
    )


Done = dict[AttemptKey, Trajectory]


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> tuple[RunTrajectories, ...]:
    check_share("trajectories", options.scorer)
    made = []
    for run in scored_runs(store, runs, options.scorer):
        scores = {(score.question_id, score.epoch): score for score in run.scores}
        done = {
            (id, one.epoch): trajectory(store, one, run.golds[id], scores.get((id, one.epoch)))
            for one in store.attempts(run.run)
            if (id := one.question_id) in run.values
        }
        made.append((run, done))
    shortest: dict[str, int] = {}
    for (question, _), one in (pair for _, done in made for pair in done.items()):
        if one.right and one.steps:
            shortest[question] = min(one.steps, shortest.get(question, one.steps))
    plain: dict[str, tuple[str, Done]] = {}  # by models: the first run without search
    for run, done in made:
        known = run.run.identity
        without = known.get("retriever", "") is None and not known.get("oracle")
        if without and "models" in known and not any(one.searches for one in done.values()):
            plain.setdefault(str(known["models"]), (run.run.id, done))
    return tuple(_of_run(run, done, plain, shortest, options.seed) for run, done in made)


def _of_run(
    run: ScoredRun, done: Done, plain: Mapping[str, tuple[str, Done]], shortest: Mapping[str, int], seed: int
) -> RunTrajectories:
    questions, identity = {question.id: question for question in run.questions}, run.run.identity
    known = {key: one for key, one in done.items() if one.searches is not None}
    searches = sum(one.searches or 0 for one in known.values())
    most = max((len(one.new) for one in known.values()), default=0)
    golden = [(questions[id], float(one.gold is not None)) for (id, _), one in known.items() if run.golds[id].documents]
    told = str(identity.get("models")) if searches or identity.get("oracle") else ""
    reference, without = plain.get(told, ("", {}))
    both = [(questions[key[0]], one, without[key]) for key, one in done.items() if key in without]
    both = [each for each in both if each[0].options]  # long answers are never the same twice
    tokens, ended = Counter[str](), dict[str, Counter[str]]()
    for one in done.values():
        tokens.update(one.tokens or {})
        ended.setdefault(one.ended, Counter())[one.node] += 1
    right, epochs = Counter(id for (id, _), one in done.items() if one.right), run.run.epochs
    steps = [(id, one) for (id, _), one in done.items() if one.steps]
    return RunTrajectories(
        run=run.run.id,
        attempts=len(done),
        right=run.figure(seed=seed),
        pass_k=tuple(fmean(comb(right[id], k) / comb(epochs, k) for id in questions) for k in range(1, epochs + 1)),
        unknown=len(done) - len(known),
        searches=_mean(one.searches or 0 for one in known.values()),
        queries=_mean(one.queries for one in known.values()),
        new_documents=tuple(fmean(one.new[at] for one in known.values() if at < len(one.new)) for at in range(most)),
        documents=_mean(sum(one.new) for one in known.values()),
        gold=share_figure(golden, seed) if searches else None,
        gold_at=tuple(sum(one.gold == at for one in known.values()) for at in range(1, most + 1)),
        repeated=sum(one.repeated for one in known.values()) / searches if searches else None,
        tokens={role: count / len(done) for role, count in tokens.items()}
        if all(one.tokens is not None for one in done.values())
        else None,
        reference=reference,
        changed=share_figure([(asked, float(one.prediction != other.prediction)) for asked, one, other in both], seed),
        gained=sum(one.right and not other.right for _, one, other in both),
        lost=sum(other.right and not one.right for _, one, other in both),
        steps=_mean(one.steps for _, one in steps),
        over_shortest=_mean(one.steps / shortest[id] for id, one in steps if one.right),
        ended=ended,
    )


def _mean(values: Iterable[float]) -> float | None:
    return fmean(known) if (known := list(values)) else None


_COLUMNS = ("searches", "queries", "new docs", "gold found", "repeated %", "tokens", "changed", "× shortest", "ended")


def _title(options: AnalysisOptions) -> str:
    return f"What agents did on their way ({options.scorer})"


def _table(made: tuple[RunTrajectories, ...], options: AnalysisOptions) -> AnalysisTable:
    epochs = max(len(one.pass_k) for one in made)
    rows = []
    for one in made:
        alike = 100 * one.pass_k[-1] if len(one.pass_k) == epochs else None
        tokens = None if one.tokens is None else round(sum(one.tokens.values()))
        counts = (one.searches, one.queries, one.documents, one.gold, one.repeated and 100 * one.repeated, tokens)
        ends = sorted(((sum(nodes.values()), end) for end, nodes in one.ended.items()), reverse=True)
        said = ", ".join(f"{count:,} {end.replace('_', ' ')}" for count, end in ends)
        rows.append((one.run, one.right, *([alike] * (epochs > 1)), *counts, one.changed, one.over_shortest, said))
    note = "Counts are of an attempt. × shortest: steps to a right answer, over the fewest that any agent here needed."
    for reference in dict.fromkeys(one.reference for one in made if one.reference):
        note += f" changed: another answer than without search, by {reference}."
    for one in made:
        if one.unknown:
            note += f" {one.run}: of {one.unknown:,} attempts it is not known whether they searched."
    columns = ("run", "right", *([f"pass^{epochs} %"] * (epochs > 1)), *_COLUMNS)
    return AnalysisTable(title=_title(options), columns=columns, rows=tuple(rows), note=note)


def _picture(made: tuple[RunTrajectories, ...], options: AnalysisOptions) -> Picture:
    marks = tuple(figure_mark(one.run, one.right, x=one.searches) for one in made)
    return Picture(title=_title(options), marks=marks, words=upwards(options.scorer), x="searches of an attempt")


TRAJECTORIES = Analysis(
    name="trajectories",
    summary="searches, new documents, repeated work, tokens by role, answers changed, pass^k, and how attempts ended",
    needs="scores, and recorded attempts",
    measure=_measure,
    table=_table,
    picture=_picture,
)
