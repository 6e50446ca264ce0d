"""Which agent for which question: what an oracle, a mixture and learned policies reach over runs of the same questions.

The gain is a policy's score less that of the best single agent, which is picked with hindsight: so the gain is rather
too small than too large. The control learns from shuffled outcomes; what it reaches is no knowledge.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import msgspec
import numpy as np
from msgspec import Struct

from ragrounds.base.digests import text_digest
from ragrounds.base.errors import UserError
from ragrounds.base.records import Attempt, Question, Run
from ragrounds.base.specs import Listed, parse
from ragrounds.evals.analyses.analysis import Analysis, AnalysisOptions, AnalysisTable
from ragrounds.evals.analyses.pictures import Mark, Picture, Unit, figure_mark, upwards
from ragrounds.evals.analyses.run_data import (
    ScoredRun,
    check_share,
    headline_scorer,
    points,
    scored_runs,
    searches,
)
from ragrounds.evals.benchmarks.benchmark import cluster_of
from ragrounds.evals.compare.figures import Figure, PairedFigure, figure, paired
from ragrounds.evals.compare.frontier import CostMeasure, costs_of
from ragrounds.evals.scorers import described
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import calls
from ragrounds.extensions.routing.policies import (
    Chances,
    Floats,
    Outcomes,
    Routed,
    chances,
    learned,
    mixture_weights,
    oracle,
)
from ragrounds.graphs.router import Policy, question_features

FEWEST = 10
"""Questions that a policy is learned from at least."""
_MEASURES: dict[CostMeasure, tuple[str, Unit, float]] = {
    "cost_uncached": ("$ per 100 questions", "dollars", 100.0),
    "tokens": ("tokens a question", "tokens", 1.0),
    "seconds": ("seconds a question", "seconds", 1.0),
}
_WORTHS = 12
"""Points of a policy's curve."""


class PolicyResult(Struct, frozen=True, kw_only=True):
    """What giving each question to the agent that a policy names comes to."""

    name: str
    score: Figure
    cost: float
    """Of one question, in the measure."""
    gain: PairedFigure
    """Over the best single agent."""
    over_mixture: PairedFigure
    """Over the mixture of two agents, drawn at random, that costs the same."""
    shares: Mapping[str, float]
    """Run id → share of the questions that it answers."""


class Routing(Struct, frozen=True, kw_only=True):
    """Single agents and policies over the same questions."""

    scorer: str
    measure: CostMeasure | None
    """``None``: no measure is known of all runs; policies go by scores alone, and a cascade begins with the first."""
    best: str
    """The run of the best single agent."""
    cheapest: str
    singles: tuple[PolicyResult, ...]
    router: PolicyResult
    cascade: PolicyResult
    control: PolicyResult
    oracle: PolicyResult
    curves: Mapping[str, tuple[tuple[float, float], ...]]
    """Policy → cost and score of a question, as a right answer is worth more and more."""
    epochs: int
    without: int
    """Questions without a score in some run; they are left out."""
    own: tuple[PolicyResult, ...] = ()
    """Systems that route by themselves, each to the models of the single agents."""

    @property
    def gains(self) -> list[PolicyResult]:
        """The policies that are better than the best single agent."""
        return [one for one in (self.router, self.cascade) if (one.gain.low or 0.0) > 0]


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> Routing:
    read = _outcomes(store, runs, options)
    return routed(read.outcomes, read.questions, read.arms, options, read.measure, without=read.without, own=read.own)


class _RunsRead(Struct, frozen=True, kw_only=True):
    """What runs know of each question that all have scored."""

    outcomes: Outcomes
    arms: tuple[str, ...]
    """The runs of single agents."""
    questions: list[Question]
    measure: CostMeasure | None
    without: int
    own: Mapping[str, Routed]
    """Run of a system that routes by itself → what it came to."""


def _outcomes(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> _RunsRead:
    check_share("routing", options.scorer)
    if len(runs) < 2:
        raise UserError("Routing needs two runs or more of the same questions; one was given.")
    scored = scored_runs(store, runs, options.scorer)
    if len({run.epochs for run in runs}) > 1:
        raise UserError("Routing needs runs of equally many epochs: " + ", ".join(f"{r.id} {r.epochs}" for r in runs))
    attempts = {run.id: list(store.attempts(run)) for run in runs}
    shared = set.intersection(*({question.id for question in one.questions} for one in scored))
    asked = [question for question in scored[0].questions if question.id in shared]
    known = [question for question in asked if all(one.values.get(question.id) is not None for one in scored)]
    if len(known) < FEWEST:
        raise UserError(f"Routing is learned from {FEWEST} questions at least; these runs share {len(known)}.")
    measure, costs = _costs(runs, attempts)
    taken = _models_taken(attempts)
    arms = [one for one in scored if one.run.id not in taken]
    places = {next(iter(_last_models(attempts[one.run.id]).values()), ""): place for place, one in enumerate(arms)}
    paid = {id: np.array([cost.get(question.id, 0.0) for question in known]) for id, cost in costs.items()}
    cheapest = min(arms, key=lambda one: paid[one.run.id].sum())
    own = {
        one.run.id: Routed(
            values=_by_epoch(one, known).mean(axis=1),
            costs=paid[one.run.id],
            choices=np.array([places[taken[one.run.id][question.id]] for question in known]),
        )
        for one in scored
        if one.run.id in taken
    }
    outcomes = Outcomes(
        scores=np.stack([_by_epoch(one, known) for one in arms], axis=1),
        costs=np.stack([paid[one.run.id] for one in arms], axis=1),
        known=np.array([question_features(question, feature_names(known)) for question in known]),
        seen=_after(store, cheapest, attempts[cheapest.run.id], known),
        texts=tuple(question.text for question in known),
        clusters=tuple(cluster_of(question) for question in known),
        strata=tuple(question.benchmark for question in known),
    )
    return _RunsRead(
        outcomes=outcomes,
        arms=tuple(one.run.id for one in arms),
        questions=known,
        measure=measure,
        without=len(asked) - len(known),
        own=own,
    )


def _last_models(attempts: Sequence[Attempt]) -> dict[str, str]:
    """The model that each question's first attempt called last: question → its name."""
    return {
        attempt.question_id: parse(actors[-1]).name
        for attempt in attempts
        if attempt.epoch == 0 and (actors := [one.actor for one in calls(attempt.events) if one.kind == "model"])
    }


def _models_taken(attempts: Mapping[str, Sequence[Attempt]]) -> dict[str, dict[str, str]]:
    """The runs whose system gives questions to several models, each of which is the only one of exactly one other run:
    run → question → model. That is a router, LangChain's ``ModelRouterMiddleware`` or any other."""
    called = {id: _last_models(some) for id, some in attempts.items()}
    single = [next(iter(found.values())) for found in called.values() if len(set(found.values())) == 1]
    alone = {name for name in single if single.count(name) == 1}
    return {
        id: found
        for id, found in called.items()
        if len(set(found.values())) > 1 and set(found.values()) <= alone and len(found) == len(attempts[id])
    }


def _costs(
    runs: Sequence[Run], attempts: Mapping[str, Sequence[Attempt]]
) -> tuple[CostMeasure | None, dict[str, dict[str, float]]]:
    """The first measure that is known of all runs, with each run's costs by question; without one, none."""
    for measure in _MEASURES:
        found = {run.id: costs_of(run, attempts[run.id], measure, run.epochs) for run in runs}
        costs = {id: cost for id, cost in found.items() if cost is not None}
        if len(costs) == len(runs) and any(sum(cost.values()) > 0 for cost in costs.values()):
            return measure, costs
    return None, {run.id: {} for run in runs}


def _by_epoch(run: ScoredRun, questions: Sequence[Question]) -> Floats:
    """Questions × epochs; an attempt without a score counts as 0, as in every table."""
    values = {(score.question_id, score.epoch): score.value or 0.0 for score in run.scores}
    epochs = range(run.run.epochs)
    return np.array([[values.get((question.id, epoch), 0.0) for epoch in epochs] for question in questions])


def feature_names(questions: Sequence[Question]) -> list[str]:
    """The datasets, languages and subjects of some questions."""
    return sorted({name for one in questions for name in (one.benchmark, one.language, one.group)})


def saved(store: Store, runs: Sequence[Run], options: AnalysisOptions, file: Path) -> dict[Path, str]:
    """The router as an agent: what stands in its file, and in that of its policy beside it.

    Raises:
        UserError: as the analysis itself.
    """
    scorer = options.scorer or headline_scorer(store, runs)
    read = _outcomes(store, runs, msgspec.structs.replace(options, scorer=scorer))
    model = learned(read.outcomes)
    arms = _arms([run for run in runs if run.id in read.arms])
    policy = Policy(
        arms=read.arms,
        measure=read.measure or "",
        prices=tuple(map(float, read.outcomes.prices)),
        names=tuple(feature_names(read.questions)),
        intercepts=tuple(map(float, model.intercepts)),
        known=tuple(tuple(map(float, row)) for row in model.known),
        pieces=model.pieces,
    )
    text = msgspec.json.encode(policy).decode()
    beside = file.with_suffix(".policy.json")
    words = {"arms": str(arms), "policy": f"./{beside.name}", "digest": text_digest(text)}
    quoted = "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in words.items())
    summary = f"One of {len(read.arms)} agents for each question, learned from {len(read.questions)} questions."
    agent = f'graph = "router"\nsummary = "{summary}"\n\n[parameters]\n{quoted}worth = 0.0\n'
    return {beside: text, file: agent}


def _arms(runs: Sequence[Run]) -> Listed:
    """The runs' agents, with their models where these are not the same for all."""
    models = [dict(models) if isinstance(models := run.identity.get("models"), Mapping) else {} for run in runs]
    specs = [parse(run.agent) for run in runs]
    if any(one != models[0] for one in models):
        specs = [
            spec.having(**{role: parse(str(text)) for role, text in own.items() if role not in spec.parameters})
            if run.identity.get("tier") != "own"
            else spec
            for run, spec, own in zip(runs, specs, models, strict=True)
        ]
    return Listed.of(specs)


def _after(store: Store, cheap: ScoredRun, attempts: Sequence[Attempt], questions: Sequence[Question]) -> Floats:
    """What an attempt of the cheapest agent shows: whether and how it answered, how much it wrote and called, and the
    scores of its first search. Not whether it is right."""
    firsts = {attempt.question_id: attempt for attempt in attempts if attempt.epoch == 0}
    read = {score.question_id: score for score in cheap.scores if score.epoch == 0}
    found = searches(store, cheap.run)
    table = np.zeros((len(questions), 9))
    for row, question in zip(table, questions, strict=True):
        attempt, score = firsts.get(question.id), read.get(question.id)
        if attempt is None or score is None:
            continue
        ranked = [passage.score for first in found.get((question.id, 0), ())[:1] for passage in first.passages]
        row[:] = (
            score.answer_status == "answered",
            ord(score.prediction[0]) if question.options and score.prediction else 0,
            math.log1p(len(attempt.text)),
            math.log1p(attempt.usage.output if attempt.usage else 0),
            attempt.model_calls,
            attempt.searches,
            len(ranked),
            ranked[0] if ranked else 0.0,
            ranked[0] - ranked[-1] if ranked else 0.0,
        )
    return table


def routed(
    outcomes: Outcomes,
    questions: Sequence[Question],
    names: Sequence[str],
    options: AnalysisOptions,
    measure: CostMeasure | None,
    without: int = 0,
    own: Mapping[str, Routed] = MappingProxyType({}),
) -> Routing:
    """Every policy's outcome beside the single agents'.

    Args:
        outcomes: what is known of each question and agent.
        questions: of these outcomes.
        names: the agents' runs.
        options: the scorer, and the seed of folds and intervals.
        measure: of the costs.
        without: questions that were left out.
        own: what systems that route by themselves came to.

    Raises:
        UserError: scikit-learn is not installed.
    """
    scorer, epochs = described(options.scorer), outcomes.scores.shape[2]
    figures = [
        figure(questions, _by_question(questions, column), {}, options.seed, scorer, epochs)
        for column in outcomes.means.T
    ]
    accuracies, prices = np.array([one.value or 0.0 for one in figures]), outcomes.prices
    best = max(range(len(names)), key=lambda place: (accuracies[place], -prices[place]))

    def result(name: str, found: Routed) -> PolicyResult:
        cost = float(outcomes.weights @ found.costs)
        weights = mixture_weights(accuracies, prices, max(cost, float(prices.min())))
        values = _by_question(questions, found.values)
        counts = np.bincount(found.choices, minlength=len(names)) / len(found.choices)
        return PolicyResult(
            name=name,
            score=figure(questions, values, {}, options.seed, scorer, epochs),
            cost=cost,
            gain=paired(
                questions, _by_question(questions, outcomes.means[:, best]), values, options.seed, scorer, epochs
            ),
            over_mixture=paired(
                questions, _by_question(questions, outcomes.means @ weights), values, options.seed, scorer, epochs
            ),
            shares={name: float(share) for name, share in zip(names, counts, strict=True) if share},
        )

    router, cascade = chances(outcomes, options.seed), chances(outcomes, options.seed, cascade=True)
    control = chances(outcomes, options.seed, shuffled=True)
    return Routing(
        scorer=options.scorer,
        measure=measure,
        best=names[best],
        cheapest=names[outcomes.cheapest],
        singles=tuple(result(name, _alone(outcomes, place)) for place, name in enumerate(names)),
        router=result("router", router.routed(outcomes, math.inf)),
        cascade=result("cascade", cascade.routed(outcomes, math.inf)),
        control=result("control", control.routed(outcomes, math.inf)),
        oracle=result("oracle", oracle(outcomes)),
        curves={"router": _curve(router, outcomes), "cascade": _curve(cascade, outcomes)} if measure else {},
        epochs=epochs,
        without=without,
        own=tuple(result(name, found) for name, found in own.items()),
    )


def _alone(outcomes: Outcomes, place: int) -> Routed:
    chosen = np.full(len(outcomes.costs), place)
    return Routed(values=outcomes.means[:, place], costs=outcomes.costs[:, place], choices=chosen)


def _by_question(questions: Sequence[Question], values: Floats) -> dict[str, float | None]:
    return {question.id: float(value) for question, value in zip(questions, values, strict=True)}


def _curve(learned: Chances, outcomes: Outcomes) -> tuple[tuple[float, float], ...]:
    prices = outcomes.prices
    worths = [*np.geomspace(max(prices.min(), prices.max() / 100), 300 * prices.max(), _WORTHS), math.inf]
    weights = outcomes.weights
    routed = [learned.routed(outcomes, worth) for worth in worths]
    return tuple(sorted({(float(weights @ one.costs), float(weights @ one.values)) for one in routed}))


def _rows(made: Routing) -> list[tuple[str, PolicyResult]]:
    kind = "oracle" if made.epochs > 1 else "oracle, an upper bound (one epoch)"
    return [
        *((one.name, one) for one in made.singles),
        *((one.name, one) for one in made.own),
        ("router: by the question", made.router),
        (f"cascade: {made.cheapest} first", made.cascade),
        ("control: router of shuffled outcomes", made.control),
        (kind, made.oracle),
    ]


def _table(made: Routing, options: AnalysisOptions) -> AnalysisTable:
    words, _, factor = _MEASURES[made.measure] if made.measure else ("", "", 0.0)
    priced = (words, "to a mixture of that cost") if made.measure else ()

    def row(name: str, one: PolicyResult) -> tuple[str | float | Figure, ...]:
        alone = name == made.best
        gains = "best" if alone else points(one.gain), "" if alone else points(one.over_mixture)
        return (name, one.score, gains[0], *((factor * one.cost, gains[1]) if priced else ()))

    return AnalysisTable(
        title=conclusion(made),
        columns=("policy", upwards(made.scorer), "to the best", *priced),
        rows=tuple(row(name, one) for name, one in _rows(made)),
        note=_note(made),
    )


def conclusion(made: Routing) -> str:
    """What follows, in a sentence."""
    if not made.gains:
        nearest = max((made.router, made.cascade), key=lambda one: one.gain.difference or -1.0)
        return (
            f"Routing gains nothing that can be shown over {made.best}: {points(nearest.gain)} points by the "
            f"better policy ({nearest.name})."
        )
    one = max(made.gains, key=lambda found: found.gain.difference or 0.0)
    price = ""
    if made.measure:
        words, _, factor = _MEASURES[made.measure]
        best = next(single for single in made.singles if single.name == made.best)
        price = f", at {factor * one.cost:.4g} {words} in place of {factor * best.cost:.4g}"
    return f"Routing gains {points(one.gain)} points over {made.best}, by the {one.name}{price}."


def _note(made: Routing) -> str:
    parts = [
        f"{made.best} is the best single agent of these questions.",
        "Policies are cross-fitted: no question is routed by what was learned from it. A cascade pays for the first "
        "answer too.",
    ]
    for one in made.own:
        shares = ", ".join(f"{100 * share:.0f} % to {name}" for name, share in one.shares.items())
        parts.append(f"{one.name} routes by itself: {shares}.")
    if made.without:
        parts.append(f"{made.without:,} questions without a score in some run are left out.")
    if made.epochs == 1:
        parts.append("The oracle of one epoch takes luck for skill; runs of two epochs (--epochs 2) correct it.")
    return " ".join(parts)


def _picture(made: Routing, options: AnalysisOptions) -> Picture:
    words, unit, factor = _MEASURES[made.measure] if made.measure else ("", "number", 0.0)
    marks = [
        figure_mark(name, one.score, x=factor * one.cost if made.measure else None)
        for name, one in _rows(made)
        if one not in (made.router, made.cascade) or not made.measure
    ]
    for name, curve in made.curves.items():
        marks += [Mark(name=name, group=name, value=value, x=factor * cost, named=False) for cost, value in curve]
    title = "Which agent for which question"
    return Picture(title=title, marks=tuple(marks), words=upwards(made.scorer), x=words, x_unit=unit)


ROUTING: Analysis[Routing] = Analysis(
    name="routing",
    summary="what routing each question to one of the agents gains over the best of them",
    needs="two runs or more of the same 10 questions or more, with scores and costs; scikit-learn",
    measure=_measure,
    table=_table,
    picture=_picture,
    save=saved,
)
