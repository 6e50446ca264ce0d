"""What a change did: the attempts of a run against the same attempts with the change, and against mere re-asking."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from statistics import fmean

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.contracts import Request
from ragrounds.base.errors import UserError
from ragrounds.base.records import Attempt, Call, Question, Reply, Run, Score
from ragrounds.base.specs import Spec, parse
from ragrounds.evals.benchmarks.benchmark import cluster_of
from ragrounds.evals.compare.figures import Figure, PairedFigure, figure, paired
from ragrounds.evals.compare.question_values import Values, scorer_values
from ragrounds.evals.scorers import described
from ragrounds.evals.stats import holm
from ragrounds.evals.stats.sequential import ConfidenceSequence
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import calls, searches_by
from ragrounds.extensions.counterfactual.changes import IDENTITY, Change, Target

AttemptKey = tuple[str, int]
"""Question id and epoch."""
Shares = Mapping[str, float]
"""Question id → the share of its attempts."""
LEVEL = 0.05


class Effect(Struct, frozen=True, kw_only=True):
    """What one change did to the attempts of one run."""

    run: str
    agent: str
    change: str
    """Its canonical text."""
    counterfactuals: tuple[str, ...]
    """The ids of the stored counterfactuals: one, or a sample of an identity each."""
    questions: int
    """Those of which every attempt was made again."""
    attempts: int
    failed: int
    """Attempts that failed with the change; they count as not correct."""
    settled: PairedFigure | None = None
    """`difference` where the change is taken to do nothing to those that failed with it or before; ``None``: none did.
    An effect that is in this
    one too does not come from their failing, and its p value is of this one."""
    touched: Figure | None
    """Share of attempts that have the search that is changed."""
    reached: Figure | None
    """Share of attempts whose last prompt is another one; ``None``: nothing is changed in any."""
    before: Figure
    after: Figure
    difference: PairedFigure
    """After minus before."""
    necessary: Figure | None = None
    """Of the attempts that were right, and that lose passages by the change: the share that is wrong without them."""
    sufficient: Figure | None = None
    """Of the attempts that were right, and that have the passages which alone are kept: the share that stays right."""
    cited: Figure | None = None
    """Share of the attempts that lose passages whose answer names one of these: its id, its title, or the number in
    brackets that stands before it in the last prompt."""
    cited_unmoved: Figure | None = None
    """Of the attempts that name one: the share whose answer stays the same without it. They cite it after the fact."""
    p: float | None = None
    """Of this difference, adjusted by Holm's procedure for all changes of all runs; ``None``: of an identity, or scores
    are not right-or-wrong (several epochs): then its interval alone says whether there is an effect."""
    lost: Figure | None
    """Share of attempts that were right and are wrong."""
    gained: Figure | None
    """Share of attempts that were wrong and are right."""
    changed: Figure | None
    """Share of attempts with another answer."""
    noise: Figure | None = None
    """The same where the model is asked again and nothing is changed; ``None``: that was not measured."""
    beyond: PairedFigure | None = None
    """`changed` minus `noise`, paired by question."""
    next_query: Figure | None
    """Share of the attempts that search again whose next search is another one, or is not made."""
    argued: Figure | None = None
    """Share of attempts that choose the wrong option that an added text argues for."""
    argued_before: Figure | None = None
    known: PairedFigure | None = None
    """`difference` on the questions that the agent without search gets right."""
    unknown: PairedFigure | None = None
    """The same on those that it gets wrong."""
    bought: int
    """Model calls that were made."""
    reused: int
    """Model calls that were answered from the journal."""
    paid: float | None
    """Dollars really paid; ``None``: not known."""

    @property
    def is_identity(self) -> bool:
        """Whether nothing was changed."""
        return parse(self.change).name == IDENTITY

    @property
    def verdict(self) -> str:
        """What can be said: an effect on the score, on the answers, or none beyond the noise floor."""
        if self.is_identity:
            return "noise floor"
        if self.p < LEVEL if self.p is not None else (self.settled or self.difference).leaves_out_0:
            return "effect"
        if self.settled is not None and self.difference.leaves_out_0:
            return "open: failures"
        if self.beyond is not None and self.beyond.low is not None and self.beyond.low > 0:
            return "answers change"
        return "within noise" if self.noise is not None else "not significant"


class _Made(Struct, frozen=True):
    """The attempts of a stored run or counterfactual, with their scores."""

    run: Run
    change: Change | None
    """``None``: it is the run itself."""
    attempts: Mapping[AttemptKey, Attempt]
    scores: Mapping[AttemptKey, Score]

    def values(self, questions: Sequence[Question], scorer: str) -> Mapping[str, float | None]:
        """Question id → its mean score."""
        wanted = {question.id for question in questions}
        scores = [score for (id, _), score in self.scores.items() if id in wanted]
        return scorer_values(questions, scores, self.run.epochs, described(scorer), {})


def _made(store: Store, run: Run, scorer: str) -> _Made:
    return _Made(
        run,
        Change.stored(run) if run.origin == "counterfactual" else None,
        {(one.question_id, one.epoch): one for one in store.attempts(run) if one.status != "not_run"},
        {(one.question_id, one.epoch): one for one in store.scores(run, scorer)},
    )


def effects(store: Store, runs: Sequence[Run], scorer: str, seed: int = 0) -> list[Effect]:
    """Every change that was made in some runs, the identities of each run first; one of no questions has not ended in
    any attempt.

    An agent among the runs that never searches says which questions are known without any evidence.

    Raises:
        UserError: no change was made in any of the runs.
    """
    stored = {run.id: store.counterfactuals(run) for run in runs}
    if not any(stored.values()):
        raise UserError(
            f"Nothing was changed in {', '.join(run.id for run in runs)}. `ragrounds counterfactual RUN --change "
            "'drop[passage=gold]'` makes its attempts again without the gold passages."
        )
    parents = {run.id: _made(store, run, scorer) for run in runs}
    alone = next((one for one in parents.values() if not any(made.searches for made in one.attempts.values())), None)
    found: list[Effect] = []
    for run in runs:
        parent = parents[run.id]
        floors: dict[str, list[_Made]] = {}
        changed: list[_Made] = []
        for other in stored[run.id]:
            made = _made(store, other, scorer)
            assert made.change is not None
            if made.change.is_identity:
                floors.setdefault(made.change.fork, []).append(made)
            else:
                changed.append(made)
        known = alone if alone is not parent else None
        found += [_effect(store, parent, samples, scorer, seed, None, None) for samples in floors.values()]
        for made in changed:
            assert made.change is not None
            noise = _noise(parent, floors.get(made.change.fork, []))
            found.append(_effect(store, parent, [made], scorer, seed, noise, known))
    tested = [(one, value) for one in found if not one.is_identity and (value := _p(one)) is not None]
    adjusted = holm([value for _, value in tested])
    p = {one.counterfactuals: value for (one, _), value in zip(tested, adjusted, strict=True)}
    return [replace(one, p=p.get(one.counterfactuals)) for one in found]


def drawn(questions: Sequence[Question], seed: int) -> list[Question]:
    """Questions in the order in which samples of any size take them; duplicates follow each other."""
    clusters: dict[str, list[Question]] = {}
    for question in questions:
        clusters.setdefault(cluster_of(question), []).append(question)
    order = sorted(clusters)
    random.Random(f"counterfactual {seed}").shuffle(order)
    return [question for name in order for question in clusters[name]]


def followed(asked: Sequence[Question], before: Values, after: Values, seed: int) -> PairedFigure:
    """The difference where questions were taken until it was known: its interval and its p value hold at whatever
    number that was (:class:`ragrounds.evals.stats.sequential.ConfidenceSequence`)."""
    sequence = ConfidenceSequence(null=0.0)
    for _, cluster in groupby(drawn(asked, seed), cluster_of):
        ends = [(before.get(question.id), after.get(question.id)) for question in cluster]
        values = [now - then for then, now in ends if then is not None and now is not None]
        if not values:
            break
        sequence.add(fmean(values))
    made = sequence.interval
    if made is None:
        return PairedFigure(n=0)
    return PairedFigure(difference=made.mean, low=made.low, high=made.high, n=made.n, p_always=made.p)


def _p(one: Effect) -> float | None:
    """The p value of an effect before it is adjusted; where attempts failed, of what there is without them."""
    held = one.settled or one.difference
    return held.p_mcnemar if held.p_always is None else held.p_always


def _effect(
    store: Store,
    parent: _Made,
    others: Sequence[_Made],
    scorer: str,
    seed: int,
    noise: Shares | None,
    alone: _Made | None,
) -> Effect:
    """The effect of one change, or of the samples of an identity taken together."""
    run, epochs, known = parent.run, parent.run.epochs, described(scorer)
    change = others[0].change
    assert change is not None
    whole = {id for id, _ in parent.scores}
    whole -= {
        id for id in whole for epoch in range(epochs) for one in (parent, *others) if (id, epoch) not in one.scores
    }
    asked, golds = store.questions(run)
    asked = [question for question in asked if (question.id, 0) in parent.scores]  # some have another scorer
    questions = [question for question in asked if question.id in whole]
    targets = {question.id: question for question in questions}
    keys = [(question.id, epoch) for question in questions for epoch in range(epochs)]
    values = [one.values(questions, scorer) for one in others]
    before = parent.values(questions, scorer)
    after = {question.id: _mean_of([one.get(question.id) for one in values]) for question in questions}

    def share(held: Iterable[tuple[AttemptKey, bool]]) -> Figure | None:
        """The share of attempts in which something holds, over the datasets as scores are."""
        shares = _by_question(held)
        among = [question for question in questions if question.id in shares]
        return figure(among, shares, {}, seed) if among else None

    seeds = [msgspec.msgpack.decode(body, type=int) for body in store.stops(others[0].run)]
    follows = seeds[0] if seeds and len(questions) < len(asked) and not change.is_identity else None

    def whole_difference(then: Values, now: Values) -> PairedFigure:
        """Of all questions; those of a sample that was followed have an interval that holds at any number."""
        if follows is not None:
            return followed(asked, then, now, follows)
        return paired(questions, then, now, seed, known, epochs)

    def difference(among: Sequence[Question]) -> PairedFigure:
        return paired(among, before, after, seed, known, epochs)

    pairs = [(key, parent.scores[key], one.scores[key]) for one in others for key in keys]
    traced = [(key, parent.attempts[key], one.attempts[key]) for one in others for key in keys
              if key in parent.attempts and key in one.attempts]  # fmt: skip
    places = {key: change.at(parent.attempts[key].searches) if key in parent.attempts else None for key in keys}
    changed = _by_question((key, one.prediction != other.prediction) for key, one, other in pairs)
    reached = [(key, _last(one) != _last(other)) for key, one, other in traced if places[key] is not None]
    later = [
        (key, _search(one, at + 1) != _search(other, at + 1))
        for key, one, other in traced
        if (place := places[key]) is not None and _search(one, at := place[0]) and _search(one, at + 1)
    ]
    asks = keys if "{wrong}" in change.template else []
    argued = {key: Target(targets[key[0]], golds[key[0]], f"{key[0]}#{key[1]}").wrong for key in asks}
    poisoned = any(argued.values())
    failures = {key for key, one, other in traced if "failed" in (one.status, other.status)}
    settled = None
    if failures and not change.is_identity:
        same = {key: parent.scores[key] for key in failures}
        settled = replace(others[0], scores={**others[0].scores, **same}).values(questions, scorer)
    shown = {key: (_given(one, place[0]), _given(other, place[0])) for key, one, other in traced
             if (place := places[key]) is not None and key not in failures}  # fmt: skip
    made = [call for _, _, other in traced for call in calls(other.events) if call.kind == "model"]
    costs = [other.cost_paid for _, _, other in traced]
    mine = noise is not None and all(question.id in noise for question in questions)
    split = _split(alone, questions, scorer) if alone is not None else None
    found = Effect(
        run=run.id,
        agent=run.agent,
        change=str(Spec(IDENTITY, {"search": change.fork}) if change.is_identity else change.spec),
        counterfactuals=tuple(one.run.id for one in others),
        questions=len(questions),
        attempts=len(traced),
        failed=sum(other.status == "failed" for _, _, other in traced),
        settled=whole_difference(before, settled) if settled is not None else None,
        touched=share((key, place is not None) for key, place in places.items()),
        reached=share(reached) if not change.is_identity else None,
        before=figure(questions, before, {}, seed, known, epochs),
        after=figure(questions, after, {}, seed, known, epochs),
        difference=whole_difference(before, after),
        lost=share((key, one.value == 1.0 != other.value) for key, one, other in pairs),
        gained=share((key, one.value != 1.0 == other.value) for key, one, other in pairs),
        changed=figure(questions, changed, {}, seed) if questions else None,
        noise=figure(questions, noise, {}, seed) if mine and noise is not None and questions else None,
        beyond=paired(questions, noise, changed, seed) if mine and noise is not None else None,
        next_query=share(later),
        argued=share((key, other.prediction == argued[key]) for key, _, other in pairs) if poisoned else None,
        argued_before=share((key, one.prediction == argued[key]) for key, one, _ in pairs) if poisoned else None,
        known=difference(split[0]) if split else None,
        unknown=difference(split[1]) if split else None,
        bought=sum(not call.cached for call in made),
        reused=sum(call.cached for call in made),
        paid=None if None in costs else sum(cost for cost in costs if cost is not None),
    )
    return replace(found, **{name: share(held) for name, held in _uses(store, parent, change, shown, pairs).items()})


def _uses(
    store: Store,
    parent: _Made,
    change: Change,
    shown: Mapping[AttemptKey, tuple[set[str], set[str]]],
    pairs: Iterable[tuple[AttemptKey, Score, Score]],
) -> dict[str, list[tuple[AttemptKey, bool]]]:
    """What answers made of passages that a change takes or leaves alone: figure → attempts, and whether it holds there.
    `shown`: the passages of the changed search before and after."""
    kind, scores = change.spec.name, [(key, one, other) for key, one, other in pairs if key in shown]
    lost = {key: then - now for key, (then, now) in shown.items() if kind in ("drop", "none") and then - now}
    cites = {key for key in lost if kind == "drop" and _cites(store, parent.attempts[key], lost[key])}
    right = [(key, other.value == 1.0) for key, one, other in scores if one.value == 1.0]
    return {
        "necessary": [(key, not held) for key, held in right if key in lost],
        "sufficient": [(key, held) for key, held in right if kind == "keep" and shown[key][1]],
        "cited": [(key, key in cites) for key in lost if kind == "drop"],
        "cited_unmoved": [(key, one.prediction == other.prediction) for key, one, other in scores if key in cites],
    }


def _noise(parent: _Made, identities: Sequence[_Made]) -> Shares | None:
    """Question id → the share of its attempts whose answer is another one when the model is asked again."""
    pairs = [
        (key, score.prediction != one.scores[key].prediction)
        for one in identities
        for key, score in parent.scores.items()
        if key in one.scores
    ]
    return _by_question(pairs) if pairs else None


def _split(alone: _Made, questions: Sequence[Question], scorer: str) -> tuple[list[Question], list[Question]]:
    """The questions that an agent gets right, in more than half of its attempts, and the others."""
    values = alone.values(questions, scorer)
    right = [question for question in questions if (values.get(question.id) or 0.0) > 0.5]
    return right, [question for question in questions if question not in right]


def _by_question(held: Iterable[tuple[AttemptKey, bool]]) -> dict[str, float]:
    found: dict[str, list[bool]] = {}
    for (id, _), holds in held:
        found.setdefault(id, []).append(holds)
    return {id: fmean(each) for id, each in found.items()}


def _mean_of(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None


def _of_kind(attempt: Attempt, kind: str) -> list[Call]:
    return [call for call in calls(attempt.events) if call.kind == kind]


def _last(attempt: Attempt) -> str:
    """The key of the last model call: all that it saw is in it."""
    made = _of_kind(attempt, "model")
    return made[-1].key if made else ""


def _given(attempt: Attempt, number: int) -> set[str]:
    """The passages that a search gave, counted from 1."""
    made = _of_kind(attempt, "search")
    return set(made[number - 1].passages) if 0 < number <= len(made) else set()


def _cites(store: Store, attempt: Attempt, passages: set[str]) -> bool:
    """Whether an attempt's answer names one of some passages that its searches found."""
    recorded = store.call(_last(attempt), Request, Reply)
    prompt = "\n".join(message.content for message in recorded[0].messages) if recorded else ""
    found = {one.id: one for search in searches_by(store, attempt) for one in search.passages if one.id in passages}
    for one in found.values():
        labels = re.findall(r"\[\d+\]", prompt.partition(one.text[:_BEGINS])[0][-_BEFORE:]) if one.text else []
        names = [*labels[-1:], *(name for name in (one.id, one.document, one.title) if len(name) >= _NAME)]
        if any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", attempt.text) for name in names):
            return True
    return False


_BEGINS, _BEFORE, _NAME = 60, 300, 5
"""Characters: by which a passage is found in a prompt, before it where its number stands, of the shortest name."""


def _search(attempt: Attempt, number: int) -> str:
    """The key of a search, counted from 1; empty: there is none."""
    made = _of_kind(attempt, "search")
    return made[number - 1].key if 0 < number <= len(made) else ""
