"""Effects of changes: a run's attempts compared with the changed attempts and with plain repetition."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.contracts import Request
from ragrounds.base.errors import UserError
from ragrounds.base.records import Attempt, AttemptKey, Call, Question, Reply, Run, Score
from ragrounds.base.specs import Spec, parse
from ragrounds.evals.benchmarks.benchmark import cluster_of
from ragrounds.evals.compare.figures import Figure, PairedFigure, figure, paired
from ragrounds.evals.compare.question_values import Values, scorer_values
from ragrounds.evals.scorers import described
from ragrounds.evals.stats import holm
from ragrounds.evals.store.ledger import ledger
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import calls, searches_by
from ragrounds.extensions.counterfactual.changes import IDENTITY, Change, Target

Shares = Mapping[str, float]
"""Share of a question's attempts, by question id."""
LEVEL = 0.05
_BATCHES, _BATCH = 20, 1000
"""Number of random exchanges, in batches."""


class Effect(Struct, frozen=True, kw_only=True):
    """Effect of one change on the attempts of one run."""

    run: str
    agent: str
    change: str
    """Canonical text of the change."""
    counterfactuals: tuple[str, ...]
    """Ids of the stored counterfactuals: one, or several samples of an identity."""
    questions: int
    """Number of questions whose attempts were all repeated."""
    attempts: int
    failed: int
    """Number of attempts that failed with the change; they count as not correct."""
    settled: PairedFigure | None = None
    """Difference without the failed attempts: the change is assumed to have no effect on them.

    ``None`` if no attempt failed, with the change or before. An effect that also shows here does not come from the
    failures, and its p value is taken from here.
    """
    touched: Figure | None
    """Share of attempts that have the changed search."""
    reached: Figure | None
    """Share of attempts whose last prompt has changed; ``None`` for an identity."""
    before: Figure
    after: Figure
    difference: PairedFigure
    """Mean score after the change minus before."""
    necessary: Figure | None = None
    """Share wrong without the passages, among attempts that were right and lose passages by the change."""
    sufficient: Figure | None = None
    """Share that stays right, among attempts that were right and have the passages that alone are kept."""
    cited: Figure | None = None
    """Share of attempts whose answer names a passage that the change removes, among attempts that lose passages.

    A name is the passage's id, its title, or the bracketed number before it in the last prompt.
    """
    cited_unmoved: Figure | None = None
    """Share with the same answer without the passage, among attempts that name one. They cite it after the fact."""
    p: float | None = None
    """P value of the difference, adjusted by Holm's procedure for all changes of all runs.

    ``None`` for an identity.
    """
    lost: Figure | None
    """Share of attempts that were right and are wrong after the change."""
    gained: Figure | None
    """Share of attempts that were wrong and are right after the change."""
    changed: Figure | None
    """Share of attempts with another answer."""
    noise: Figure | None = None
    """Share of attempts with another answer if the model is asked again with nothing changed; ``None``: not measured.
    """
    beyond: PairedFigure | None = None
    """`changed` minus `noise`, paired by question."""
    p_changed: float | None = None
    """P value that more answers change than by asking again, adjusted like `p`; ``None`` without a noise floor."""
    next_query: Figure | None
    """Share whose next search differs or is missing, among attempts that search again."""
    argued: Figure | None = None
    """Share of attempts that choose the wrong option that an added text argues for."""
    argued_before: Figure | None = None
    known: PairedFigure | None = None
    """`difference` on the questions that the agent without search answers correctly."""
    unknown: PairedFigure | None = None
    """`difference` on the questions that the agent without search answers wrongly."""
    bought: int
    """Number of model calls, of all attempts and of their judges, that were sent to a model."""
    reused: int
    """Number of these calls that were answered from the journal."""
    paid: float | None
    """Dollars really paid for them; ``None``: unknown."""

    @property
    def is_identity(self) -> bool:
        """True if nothing was changed."""
        return parse(self.change).name == IDENTITY

    @property
    def verdict(self) -> str:
        """Conclusion: an effect on the score, on the answers, or none beyond the noise floor."""
        if self.is_identity:
            return "noise floor"
        if self.p < LEVEL if self.p is not None else (self.settled or self.difference).leaves_out_0:
            return "effect"
        if self.settled is not None and self.difference.leaves_out_0:
            return "open: failures"
        beyond = self.beyond.low if self.beyond is not None else None
        if self.p_changed is not None and self.p_changed < LEVEL and beyond is not None and beyond > 0:
            return "answers change"
        return "within noise" if self.noise is not None else "not significant"


class _ScoredRun(Struct, frozen=True):
    """Attempts of a stored run or counterfactual, with their scores."""

    run: Run
    change: Change | None
    """Change of the counterfactual; ``None`` for the original run."""
    attempts: Mapping[AttemptKey, Attempt]
    scores: Mapping[AttemptKey, Score]

    def values(self, questions: Sequence[Question], scorer: str) -> Mapping[str, float | None]:
        """Return the mean score of each question, by id."""
        question_ids = {question.id for question in questions}
        scores = [score for (id, _), score in self.scores.items() if id in question_ids]
        return scorer_values(questions, scores, self.run.epochs, described(scorer), {})


def _scored_run(store: Store, run: Run, scorer: str) -> _ScoredRun:
    return _ScoredRun(
        run,
        Change.stored(run) if run.origin == "counterfactual" else None,
        {attempt.key: attempt for attempt in store.attempts(run) if attempt.status != "not_run"},
        {score.key: score for score in store.scores(run, scorer)},
    )


def effects(store: Store, runs: Sequence[Run], scorer: str, seed: int = 0) -> list[Effect]:
    """Measure every change that was made in the runs, the identities of each run first.

    A change with 0 questions has not ended in any attempt. If an agent among the runs never searches, its answers tell
    which questions are known without any evidence.

    Raises:
        UserError: no change was made in any of the runs.
    """
    counterfactuals = {run.id: store.counterfactuals(run) for run in runs}
    if not any(counterfactuals.values()):
        raise UserError(
            f"Nothing was changed in {', '.join(run.id for run in runs)}. `ragrounds counterfactual RUN --change "
            "'drop[passage=gold]'` makes its attempts again without the gold passages."
        )
    parents = {run.id: _scored_run(store, run, scorer) for run in runs}
    closed_book = next(
        (scored for scored in parents.values() if not any(attempt.searches for attempt in scored.attempts.values())),
        None,
    )
    measured: list[Effect] = []
    for run in runs:
        parent = parents[run.id]
        floors: dict[str, list[_ScoredRun]] = {}
        changed: list[_ScoredRun] = []
        for counterfactual in counterfactuals[run.id]:
            scored = _scored_run(store, counterfactual, scorer)
            assert scored.change is not None
            if scored.change.is_identity:
                floors.setdefault(scored.change.fork, []).append(scored)
            else:
                changed.append(scored)
        baseline = closed_book if closed_book is not parent else None
        measured += [_measure_effect(store, parent, samples, scorer, seed, (), None) for samples in floors.values()]
        for scored in changed:
            assert scored.change is not None
            noise = [_changed_shares(parent, sample) for sample in floors.get(scored.change.fork, [])]
            measured.append(_measure_effect(store, parent, [scored], scorer, seed, noise, baseline))
    p = _adjusted({effect.counterfactuals: _unadjusted_p(effect) for effect in measured if not effect.is_identity})
    p_changed = _adjusted({effect.counterfactuals: effect.p_changed for effect in measured})
    return [
        replace(effect, p=p.get(effect.counterfactuals), p_changed=p_changed.get(effect.counterfactuals))
        for effect in measured
    ]


def _adjusted(p_values: Mapping[tuple[str, ...], float | None]) -> dict[tuple[str, ...], float]:
    """Return the p values that are known, adjusted by Holm's procedure for all of them."""
    known = {key: value for key, value in p_values.items() if value is not None}
    return dict(zip(known, holm(list(known.values())), strict=True))


def sampling_order(questions: Sequence[Question], seed: int) -> list[Question]:
    """Return the questions in the order in which samples of any size take them; duplicates follow each other."""
    clusters: dict[str, list[Question]] = {}
    for question in questions:
        clusters.setdefault(cluster_of(question), []).append(question)
    order = sorted(clusters)
    random.Random(f"counterfactual {seed}").shuffle(order)
    return [question for name in order for question in clusters[name]]


def _unadjusted_p(effect: Effect) -> float | None:
    """Return the p value of an effect before Holm's correction.

    If attempts failed, the effect is measured without them.
    """
    return (effect.settled or effect.difference).p_mcnemar


def _measure_effect(
    store: Store,
    parent: _ScoredRun,
    samples: Sequence[_ScoredRun],
    scorer: str,
    seed: int,
    repeated_shares: Sequence[Shares],
    closed_book: _ScoredRun | None,
) -> Effect:
    """Measure the effect of one change, or of all samples of an identity together.

    `repeated_shares` are the shares of other answers in each sample of the identity, for the noise floor of a change.
    """
    run, epochs, scorer_record = parent.run, parent.run.epochs, described(scorer)
    change = samples[0].change
    assert change is not None
    complete_ids = {
        id
        for id, _ in parent.scores
        if all((id, epoch) in scored.scores for scored in (parent, *samples) for epoch in range(epochs))
    }
    scored_questions, golds = store.questions(run)
    # Questions without a score here have another scorer.
    scored_questions = [question for question in scored_questions if (question.id, 0) in parent.scores]
    questions = [question for question in scored_questions if question.id in complete_ids]
    targets = {question.id: question for question in questions}
    keys = [(question.id, epoch) for question in questions for epoch in range(epochs)]
    sample_means = [scored.values(questions, scorer) for scored in samples]
    before = parent.values(questions, scorer)
    after = {question.id: _mean_of([means.get(question.id) for means in sample_means]) for question in questions}

    def share(outcomes: Iterable[tuple[AttemptKey, bool]]) -> Figure | None:
        """Return the share of attempts for which the outcome is true, averaged over datasets as scores are."""
        shares = _by_question(outcomes)
        answered = [question for question in questions if question.id in shares]
        return figure(answered, shares, {}, seed) if answered else None

    def difference(new: Values, of: Sequence[Question] = questions) -> PairedFigure:
        """Return the difference from the scores before the change."""
        return paired(of, before, new, seed, scorer_record, epochs)

    pairs = [(key, parent.scores[key], scored.scores[key]) for scored in samples for key in keys]
    traced = [(key, parent.attempts[key], scored.attempts[key]) for scored in samples for key in keys
              if key in parent.attempts and key in scored.attempts]  # fmt: skip
    search_ranges = {
        key: change.changed_range(parent.attempts[key].searches) if key in parent.attempts else None for key in keys
    }
    changed = _by_question((key, original.prediction != repeated.prediction) for key, original, repeated in pairs)
    reached, next_query_changed = _changes_after_search(traced, search_ranges)
    poisoned_keys = keys if "{wrong}" in change.template else []
    argued_options = {key: Target(targets[key[0]], golds[key[0]], f"{key[0]}#{key[1]}").wrong for key in poisoned_keys}
    argued_pairs = pairs if any(argued_options.values()) else []
    failures = {key for key, original, repeated in traced if "failed" in (original.status, repeated.status)}
    after_without_failures = None
    if failures and not change.is_identity:
        original_scores = {**samples[0].scores, **{key: parent.scores[key] for key in failures}}
        after_without_failures = replace(samples[0], scores=original_scores).values(questions, scorer)
    search_passages = {key: (_search_passages(original, search_range[0]), _search_passages(repeated, search_range[0]))
             for key, original, repeated in traced
             if (search_range := search_ranges[key]) is not None and key not in failures}  # fmt: skip
    costs = ledger(store, [scored.run for scored in samples]).total
    complete_samples = [shares for shares in repeated_shares if all(question.id in shares for question in questions)]
    noise = {question.id: fmean(shares[question.id] for shares in complete_samples) for question in questions
             if complete_samples}  # fmt: skip
    known_split = _split_by_knowledge(closed_book, questions, scorer) if closed_book is not None else None
    effect = Effect(
        run=run.id,
        agent=run.agent,
        change=str(Spec(IDENTITY, {"search": change.fork}) if change.is_identity else change.spec),
        counterfactuals=tuple(scored.run.id for scored in samples),
        questions=len(questions),
        attempts=len(traced),
        failed=sum(repeated.status == "failed" for _, _, repeated in traced),
        settled=difference(after_without_failures) if after_without_failures is not None else None,
        touched=share((key, search_range is not None) for key, search_range in search_ranges.items()),
        reached=share(reached) if not change.is_identity else None,
        before=figure(questions, before, {}, seed, scorer_record, epochs),
        after=figure(questions, after, {}, seed, scorer_record, epochs),
        difference=difference(after),
        lost=share((key, original.value == 1.0 != repeated.value) for key, original, repeated in pairs),
        gained=share((key, original.value != 1.0 == repeated.value) for key, original, repeated in pairs),
        changed=figure(questions, changed, {}, seed) if questions else None,
        noise=figure(questions, noise, {}, seed) if noise else None,
        beyond=paired(questions, noise, changed, seed) if noise else None,
        p_changed=exchange_p(questions, changed, complete_samples, seed) if noise else None,
        next_query=share(next_query_changed),
        argued=share((key, repeated.prediction == argued_options[key]) for key, _, repeated in argued_pairs),
        argued_before=share((key, original.prediction == argued_options[key]) for key, original, _ in argued_pairs),
        known=difference(after, known_split[0]) if known_split else None,
        unknown=difference(after, known_split[1]) if known_split else None,
        bought=costs.model_calls - costs.reused,
        reused=costs.reused,
        paid=costs.cost_paid,
    )
    uses = _passage_uses(store, parent, change, search_passages, pairs).items()
    return replace(effect, **{name: share(outcomes) for name, outcomes in uses})


def _changes_after_search(
    traced: Iterable[tuple[AttemptKey, Attempt, Attempt]], search_ranges: Mapping[AttemptKey, tuple[int, int] | None]
) -> tuple[list[tuple[AttemptKey, bool]], list[tuple[AttemptKey, bool]]]:
    """Return, for each attempt with the changed search, whether its last prompt and its next query differ.

    The second list holds only attempts that search again.
    """
    reached: list[tuple[AttemptKey, bool]] = []
    next_query_changed: list[tuple[AttemptKey, bool]] = []
    for key, original, repeated in traced:
        if (search_range := search_ranges[key]) is None:
            continue
        reached.append((key, _last_prompt_key(original) != _last_prompt_key(repeated)))
        number = search_range[0]
        if _search_key(original, number) and (following := _search_key(original, number + 1)):
            next_query_changed.append((key, following != _search_key(repeated, number + 1)))
    return reached, next_query_changed


def _passage_uses(
    store: Store,
    parent: _ScoredRun,
    change: Change,
    search_passages: Mapping[AttemptKey, tuple[set[str], set[str]]],
    pairs: Iterable[tuple[AttemptKey, Score, Score]],
) -> dict[str, list[tuple[AttemptKey, bool]]]:
    """Return, per figure about passages, the attempts it is measured on and the outcome of each.

    `search_passages`: the passages of the changed search before and after.
    """
    kind, scores = (
        change.spec.name,
        [(key, original, repeated) for key, original, repeated in pairs if key in search_passages],
    )
    lost = {
        key: before - after
        for key, (before, after) in search_passages.items()
        if kind in ("drop", "none") and before - after
    }
    cites = {key for key in lost if kind == "drop" and _cites(store, parent.attempts[key], lost[key])}
    right = [(key, repeated.value == 1.0) for key, original, repeated in scores if original.value == 1.0]
    return {
        "necessary": [(key, not is_right) for key, is_right in right if key in lost],
        "sufficient": [(key, is_right) for key, is_right in right if kind == "keep" and search_passages[key][1]],
        "cited": [(key, key in cites) for key in lost if kind == "drop"],
        "cited_unmoved": [
            (key, original.prediction == repeated.prediction) for key, original, repeated in scores if key in cites
        ],
    }


def _changed_shares(parent: _ScoredRun, identity: _ScoredRun) -> Shares:
    """Return the share of attempts whose answer differs in a sample of the identity, by question id."""
    return _by_question(
        (key, score.prediction != identity.scores[key].prediction)
        for key, score in parent.scores.items()
        if key in identity.scores
    )


def exchange_p(questions: Sequence[Question], changed: Shares, repeated: Sequence[Shares], seed: int) -> float:
    """Return the p value that more answers change than by asking again: a permutation test of matched sets.

    Without an effect, the changed answers of a question could equally be those of any repetition. P is the share of
    random exchanges, a cluster's questions together, by which at least as many answers change.
    """
    sizes = Counter(question.benchmark for question in questions)
    rows: dict[str, np.ndarray[Any, np.dtype[np.float64]]] = {}
    for question in questions:
        shares = np.array([changed[question.id], *(sample[question.id] for sample in repeated)])
        rows[cluster_of(question)] = rows.get(cluster_of(question), 0.0) + shares / sizes[question.benchmark]
    table = np.array([row for row in rows.values() if np.ptp(row)]).reshape(-1, 1 + len(repeated))
    generator, reached = np.random.default_rng(seed), 1
    for _ in range(_BATCHES):
        exchanged = generator.integers(1 + len(repeated), size=(_BATCH, len(table)))
        sums = table[np.arange(len(table)), exchanged].sum(axis=1)
        reached += int((sums >= table[:, 0].sum() - 1e-9).sum())
    return reached / (1 + _BATCHES * _BATCH)


def _split_by_knowledge(
    closed_book: _ScoredRun, questions: Sequence[Question], scorer: str
) -> tuple[list[Question], list[Question]]:
    """Split questions into those the closed-book agent gets right in more than half of its attempts, and the rest."""
    mean_scores = closed_book.values(questions, scorer)
    right = [question for question in questions if (mean_scores.get(question.id) or 0.0) > 0.5]
    return right, [question for question in questions if question not in right]


def _by_question(outcomes: Iterable[tuple[AttemptKey, bool]]) -> dict[str, float]:
    outcomes_by_question: dict[str, list[bool]] = {}
    for (id, _), outcome in outcomes:
        outcomes_by_question.setdefault(id, []).append(outcome)
    return {id: fmean(question_outcomes) for id, question_outcomes in outcomes_by_question.items()}


def _mean_of(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return fmean(present) if len(present) == len(values) else None


def _calls_of_kind(attempt: Attempt, kind: str) -> list[Call]:
    return [call for call in calls(attempt.events) if call.kind == kind]


def _last_prompt_key(attempt: Attempt) -> str:
    """Return the key of the last model call; the key covers everything the model saw."""
    model_calls = _calls_of_kind(attempt, "model")
    return model_calls[-1].key if model_calls else ""


def _search_passages(attempt: Attempt, number: int) -> set[str]:
    """Return the ids of the passages that search `number` (from 1) returned."""
    search_calls = _calls_of_kind(attempt, "search")
    return set(search_calls[number - 1].passages) if 0 < number <= len(search_calls) else set()


def _cites(store: Store, attempt: Attempt, passages: set[str]) -> bool:
    """Return True if an attempt's answer names one of the passages that its searches returned."""
    recorded = store.call(_last_prompt_key(attempt), Request, Reply)
    prompt = "\n".join(message.content for message in recorded[0].messages) if recorded else ""
    retrieved = {
        passage.id: passage
        for search in searches_by(store, attempt)
        for passage in search.passages
        if passage.id in passages
    }
    for passage in retrieved.values():
        labels = (
            re.findall(r"\[\d+\]", prompt.partition(passage.text[:_PASSAGE_START])[0][-_LABEL_WINDOW:])
            if passage.text
            else []
        )
        names = [
            *labels[-1:],
            *(name for name in (passage.id, passage.document, passage.title) if len(name) >= _SHORTEST_NAME),
        ]
        if any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", attempt.text) for name in names):
            return True
    return False


_PASSAGE_START, _LABEL_WINDOW, _SHORTEST_NAME = 60, 300, 5
"""Numbers of characters for the search of citations.

Beginning of a passage that identifies it in a prompt; text before it that is searched for its number; shortest name
that counts as a citation.
"""


def _search_key(attempt: Attempt, number: int) -> str:
    """Return the key of search `number` (from 1), or an empty string if it was not made."""
    search_calls = _calls_of_kind(attempt, "search")
    return search_calls[number - 1].key if 0 < number <= len(search_calls) else ""
