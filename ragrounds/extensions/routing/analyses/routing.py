"""Analysis "routing": scores of an oracle, a mixture and learned policies that choose an agent for each question.

The gain is a policy's score minus that of the best single agent. Like the policies, that agent is picked for each
question by the other folds: with hindsight, the best of equal agents would look better than any policy. The control
learns from shuffled outcomes; its gain is chance.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

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
    WIDER,
    Chances,
    Floats,
    Outcomes,
    Routed,
    best_agents,
    chances,
    learned,
    mixture_weights,
    oracle,
    other_folds_means,
    routed_to,
)
from ragrounds.graphs.router import Policy, question_features

FEWEST = 10
"""Smallest number of questions that a policy is learned from."""
_MEASURES: dict[CostMeasure, tuple[str, Unit, float]] = {
    "cost_uncached": ("$ per 100 questions", "dollars", 100.0),
    "tokens": ("tokens a question", "tokens", 1.0),
    "seconds": ("seconds a question", "seconds", 1.0),
}
_BUDGET_STEPS = 200
"""Number of worths of a right answer that are tried for a budget."""
_CURVE_POINTS = 12
"""Number of points of a policy's curve."""


class PolicyResult(Struct, frozen=True, kw_only=True):
    """Result of giving each question to the agent that a policy chooses."""

    name: str
    score: Figure
    cost: float
    """Cost of one question, in the measure."""
    gain: PairedFigure
    """Difference from the best single agent, picked for each question by the other folds. For a single agent: from the
    best of all questions."""
    over_mixture: PairedFigure
    """Difference from the random mixture of two agents that costs the same, chosen by the other folds."""
    shares: Mapping[str, float]
    """Share of the questions that each run answers."""


class Routing(Struct, frozen=True, kw_only=True):
    """Results of single agents and policies on the same questions."""

    scorer: str
    measure: CostMeasure | None
    """Measure of costs; ``None`` if no measure is known for all runs.

    Policies then use only scores, and a cascade begins with the first run.
    """
    best: str
    """Run of the best single agent of all questions."""
    picked: PolicyResult
    """Best single agent of the other folds."""
    cheapest: str
    singles: tuple[PolicyResult, ...]
    router: PolicyResult
    cascade: PolicyResult
    control: PolicyResult
    oracle: PolicyResult
    curves: Mapping[str, tuple[tuple[float, float], ...]]
    """Cost and score of a question for each policy, with an increasing value of a right answer."""
    epochs: int
    without: int
    """Number of questions without a score in some run; they are left out."""
    affordable: tuple[PolicyResult, ...] = ()
    """Best single agent of the other folds, and router, that cost at most the budget; empty without one."""
    worth: float = math.inf
    """Worth of a right answer by which the router keeps to the budget."""
    own: tuple[PolicyResult, ...] = ()
    """Results of systems that route by themselves, each to the models of the single agents."""

    @property
    def gains(self) -> list[PolicyResult]:
        """Policies that are better than the best single agent."""
        return [policy for policy in (self.router, self.cascade) if (policy.gain.low or 0.0) > 0]


class RoutingData(Struct, frozen=True, kw_only=True):
    """Recorded outcomes of the questions that all runs have scored."""

    outcomes: Outcomes
    arms: tuple[str, ...]
    """Runs of single agents."""
    questions: list[Question]
    measure: CostMeasure | None
    without: int = 0
    self_routed: Mapping[str, Routed] = {}
    """Outcome of each run whose system routes by itself."""


def _outcomes(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> RoutingData:
    check_share("routing", options.scorer)
    if len(runs) < 2:
        raise UserError("Routing needs two runs or more of the same questions; one was given.")
    scored = scored_runs(store, runs, options.scorer)
    if len({run.epochs for run in runs}) > 1:
        raise UserError("Routing needs runs of equally many epochs: " + ", ".join(f"{r.id} {r.epochs}" for r in runs))
    attempts = {run.id: list(store.attempts(run)) for run in runs}
    shared = set.intersection(*({question.id for question in run.questions} for run in scored))
    shared_questions = [question for question in scored[0].questions if question.id in shared]
    scored_questions = [
        question for question in shared_questions if all(run.values.get(question.id) is not None for run in scored)
    ]
    if len(scored_questions) < FEWEST:
        raise UserError(
            f"Routing is learned from {FEWEST} questions at least; these runs share {len(scored_questions)}."
        )
    measure, costs = _costs(runs, attempts)
    routed_models = _models_taken(attempts)
    arms = [run for run in scored if run.run.id not in routed_models]
    arm_by_model = {
        next(iter(_last_models(attempts[arm.run.id]).values()), ""): index for index, arm in enumerate(arms)
    }
    run_costs = {
        id: np.array([cost.get(question.id, 0.0) for question in scored_questions]) for id, cost in costs.items()
    }
    cheapest = min(arms, key=lambda arm: run_costs[arm.run.id].sum())
    self_routed = {
        run.run.id: Routed(
            values=_by_epoch(run, scored_questions).mean(axis=1),
            costs=run_costs[run.run.id],
            choices=np.array([arm_by_model[routed_models[run.run.id][question.id]] for question in scored_questions]),
        )
        for run in scored
        if run.run.id in routed_models
    }
    outcomes = Outcomes(
        scores=np.stack([_by_epoch(arm, scored_questions) for arm in arms], axis=1),
        costs=np.stack([run_costs[arm.run.id] for arm in arms], axis=1),
        prior_features=np.array(
            [question_features(question, feature_names(scored_questions)) for question in scored_questions]
        ),
        seen=_attempt_features(store, cheapest, attempts[cheapest.run.id], scored_questions),
        texts=tuple(question.text for question in scored_questions),
        clusters=tuple(cluster_of(question) for question in scored_questions),
        strata=tuple(question.benchmark for question in scored_questions),
    )
    return RoutingData(
        outcomes=outcomes,
        arms=tuple(arm.run.id for arm in arms),
        questions=scored_questions,
        measure=measure,
        without=len(shared_questions) - len(scored_questions),
        self_routed=self_routed,
    )


def _last_models(attempts: Sequence[Attempt]) -> dict[str, str]:
    """Return the name of the model that each question's first attempt called last, by question."""
    return {
        attempt.question_id: parse(actors[-1]).name
        for attempt in attempts
        if attempt.epoch == 0 and (actors := [call.actor for call in calls(attempt.events) if call.kind == "model"])
    }


def _models_taken(attempts: Mapping[str, Sequence[Attempt]]) -> dict[str, dict[str, str]]:
    """Return the model of each question for each run of a self-routing system: run → question → model.

    A system routes by itself if it gives questions to several models, each of which is the only model of exactly one
    other run. This is a router, such as LangChain's ``ModelRouterMiddleware``.
    """
    models_by_run = {id: _last_models(run_attempts) for id, run_attempts in attempts.items()}
    single_models = [next(iter(models.values())) for models in models_by_run.values() if len(set(models.values())) == 1]
    unique_models = {name for name in single_models if single_models.count(name) == 1}
    return {
        id: models
        for id, models in models_by_run.items()
        if len(set(models.values())) > 1 and set(models.values()) <= unique_models and len(models) == len(attempts[id])
    }


def _costs(
    runs: Sequence[Run], attempts: Mapping[str, Sequence[Attempt]]
) -> tuple[CostMeasure | None, dict[str, dict[str, float]]]:
    """Return the first measure that is known for all runs, with each run's costs by question.

    Without such a measure it is ``None``, and the costs are empty.
    """
    for measure in _MEASURES:
        measured = {run.id: costs_of(run, attempts[run.id], measure, run.epochs) for run in runs}
        costs = {id: cost for id, cost in measured.items() if cost is not None}
        if len(costs) == len(runs) and any(sum(cost.values()) > 0 for cost in costs.values()):
            return measure, costs
    return None, {run.id: {} for run in runs}


def _by_epoch(run: ScoredRun, questions: Sequence[Question]) -> Floats:
    """Return the scores (questions, epochs); an attempt without a score counts as 0, as in every table."""
    values = {score.key: score.value or 0.0 for score in run.scores}
    epochs = range(run.run.epochs)
    return np.array([[values.get((question.id, epoch), 0.0) for epoch in epochs] for question in questions])


def feature_names(questions: Sequence[Question]) -> list[str]:
    """Return the datasets, languages and subjects of some questions."""
    return sorted({name for question in questions for name in (question.benchmark, question.language, question.group)})


def saved(store: Store, runs: Sequence[Run], options: AnalysisOptions, file: Path) -> dict[Path, str]:
    """Return the contents of the router's agent file, and of the policy file next to it.

    Raises:
        UserError: as the analysis itself.
    """
    scorer = options.scorer or headline_scorer(store, runs)
    routing_data = _outcomes(store, runs, msgspec.structs.replace(options, scorer=scorer))
    model = learned(routing_data.outcomes)
    arms = _arms([run for run in runs if run.id in routing_data.arms])
    policy = Policy(
        arms=routing_data.arms,
        measure=routing_data.measure or "",
        prices=tuple(map(float, routing_data.outcomes.prices)),
        names=tuple(feature_names(routing_data.questions)),
        intercepts=tuple(map(float, model.intercepts)),
        known=tuple(tuple(map(float, row)) for row in model.prior_weights),
        pieces=model.pieces,
        questions=tuple(question.id for question in routing_data.questions),
    )
    text = msgspec.json.encode(policy).decode()
    policy_file = file.with_suffix(".policy.json")
    parameters = {"arms": str(arms), "policy": f"./{policy_file.name}", "digest": text_digest(text)}
    parameter_lines = "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in parameters.items())
    summary = (
        f"One of {len(routing_data.arms)} agents for each question, "
        f"learned from {len(routing_data.questions)} questions."
    )
    agent = f'graph = "router"\nsummary = "{summary}"\n\n[parameters]\n{parameter_lines}worth = 0.0\n'
    return {policy_file: text, file: agent}


def _arms(runs: Sequence[Run]) -> Listed:
    """Return the runs' agents, with their models if these differ between runs."""
    models = [dict(models) if isinstance(models := run.identity.get("models"), Mapping) else {} for run in runs]
    specs = [parse(run.agent) for run in runs]
    if any(run_models != models[0] for run_models in models):
        specs = [
            spec.having(**{role: parse(str(text)) for role, text in run_models.items() if role not in spec.parameters})
            if run.identity.get("tier") != "own"
            else spec
            for run, spec, run_models in zip(runs, specs, models, strict=True)
        ]
    return Listed.from_values(specs)


def _attempt_features(
    store: Store, cheapest: ScoredRun, attempts: Sequence[Attempt], questions: Sequence[Question]
) -> Floats:
    """Return the features of the cheapest agent's attempts.

    These are whether and how it answered, how much it wrote and called, and the scores of its first search; not whether
    it is right.
    """
    firsts = {attempt.question_id: attempt for attempt in attempts if attempt.epoch == 0}
    first_scores = {score.question_id: score for score in cheapest.scores if score.epoch == 0}
    search_results = searches(store, cheapest.run)
    table = np.zeros((len(questions), 9))
    for row, question in zip(table, questions, strict=True):
        attempt, score = firsts.get(question.id), first_scores.get(question.id)
        if attempt is None or score is None:
            continue
        ranked = [passage.score for first in search_results.get((question.id, 0), ())[:1] for passage in first.passages]
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


def routed(routing_data: RoutingData, options: AnalysisOptions) -> Routing:
    """Compute the outcomes of every policy, of the single agents and of systems that route by themselves.

    Args:
        routing_data: recorded outcomes.
        options: the scorer, and the seed of folds and intervals.

    Raises:
        UserError: scikit-learn is not installed; no agent costs as little as the budget.
    """
    outcomes, questions, names = routing_data.outcomes, routing_data.questions, routing_data.arms
    scorer, epochs = described(options.scorer), outcomes.scores.shape[2]
    figures = [
        figure(questions, _by_question(questions, column), {}, options.seed, scorer, epochs)
        for column in outcomes.means.T
    ]
    accuracies, prices = np.array([agent_figure.value or 0.0 for agent_figure in figures]), outcomes.prices
    best = max(range(len(names)), key=lambda index: (accuracies[index], -prices[index]))
    trained = other_folds_means(outcomes, options.seed)
    distinct, fold_of_question = np.unique(trained, axis=0, return_inverse=True)
    picked = routed_to(outcomes, best_agents(trained, prices))

    def gain(first: Floats, second: Floats, wider: float) -> PairedFigure:
        """Return a difference, whose interval is `wider` times as wide if it is cross-fitted."""
        pair = paired(
            questions, _by_question(questions, first), _by_question(questions, second), options.seed, scorer, epochs
        )
        low, high, middle = pair.low, pair.high, pair.difference
        if low is None or high is None or middle is None or wider == 1:
            return pair
        low, high = max(-1.0, middle - wider * (middle - low)), min(1.0, middle + wider * (high - middle))
        return PairedFigure(difference=middle, low=low, high=high, n=pair.n)

    def result(name: str, outcome: Routed, reference: Floats = picked.values, wider: float = WIDER) -> PolicyResult:
        cost = float(outcomes.weights @ outcome.costs)
        budget = max(cost, float(prices.min()))
        weights = np.array([mixture_weights(means, prices, budget) for means in distinct])[fold_of_question.reshape(-1)]
        values = _by_question(questions, outcome.values)
        counts = np.bincount(outcome.choices, minlength=len(names)) / len(outcome.choices)
        return PolicyResult(
            name=name,
            score=figure(questions, values, {}, options.seed, scorer, epochs),
            cost=cost,
            gain=gain(reference, outcome.values, wider),
            over_mixture=gain((outcomes.means * weights).sum(axis=1), outcome.values, WIDER),
            shares={name: float(share) for name, share in zip(names, counts, strict=True) if share},
        )

    router, cascade = chances(outcomes, options.seed), chances(outcomes, options.seed, cascade=True)
    control = chances(outcomes, options.seed, shuffled=True)
    affordable, worth = list[PolicyResult](), math.inf
    if options.budget is not None:
        words, _, factor = _MEASURES[routing_data.measure] if routing_data.measure else ("", "", 0.0)
        limit = options.budget / factor * (1 + 1e-9) if factor else -math.inf  # costs are sums, and round
        if limit < prices.min():
            least = f"the cheapest costs {factor * prices.min():.4g} {words}" if factor else "costs are not known"
            raise UserError(f"No agent keeps to --budget {options.budget:g}: {least}.")
        single = routed_to(outcomes, best_agents(np.where(prices <= limit, trained, -math.inf), prices))
        # The worth is chosen by costs alone, so that no question's own score has a part in it.
        worths = [0.0, *np.geomspace(prices.max() / 1000, 1000 * prices.max(), _BUDGET_STEPS), math.inf]
        worth = max(worth for worth in worths if outcomes.weights @ router.routed(outcomes, worth).costs <= limit)
        affordable = [
            result("best single agent", single),
            result("router", router.routed(outcomes, worth), single.values),
        ]
    return Routing(
        scorer=options.scorer,
        measure=routing_data.measure,
        best=names[best],
        picked=result("best of other folds", picked),
        affordable=tuple(affordable),
        worth=worth,
        cheapest=names[outcomes.cheapest],
        singles=tuple(
            result(name, routed_to(outcomes, np.full(len(questions), index)), outcomes.means[:, best], wider=1.0)
            for index, name in enumerate(names)
        ),
        router=result("router", router.routed(outcomes, math.inf)),
        cascade=result("cascade", cascade.routed(outcomes, math.inf)),
        control=result("control", control.routed(outcomes, math.inf)),
        oracle=result("oracle", oracle(outcomes)),
        curves={"router": _curve(router, outcomes), "cascade": _curve(cascade, outcomes)}
        if routing_data.measure
        else {},
        epochs=epochs,
        without=routing_data.without,
        own=tuple(result(name, outcome) for name, outcome in routing_data.self_routed.items()),
    )


def _by_question(questions: Sequence[Question], values: Floats) -> dict[str, float | None]:
    return {question.id: float(value) for question, value in zip(questions, values, strict=True)}


def _curve(learned: Chances, outcomes: Outcomes) -> tuple[tuple[float, float], ...]:
    prices = outcomes.prices
    answer_values = [*np.geomspace(max(prices.min(), prices.max() / 100), 300 * prices.max(), _CURVE_POINTS), math.inf]
    weights = outcomes.weights
    outcomes_by_worth = [learned.routed(outcomes, worth) for worth in answer_values]
    return tuple(
        sorted({(float(weights @ outcome.costs), float(weights @ outcome.values)) for outcome in outcomes_by_worth})
    )


def _rows(routing: Routing) -> list[tuple[str, PolicyResult]]:
    return [
        *((single.name, single) for single in routing.singles),
        (routing.picked.name, routing.picked),
        *((system.name, system) for system in routing.own),
        ("router", routing.router),
        ("cascade", routing.cascade),
        ("shuffled control", routing.control),
        ("oracle", routing.oracle),
        *((f"{policy.name} within the budget", policy) for policy in routing.affordable),
    ]


def _table(routing: Routing, options: AnalysisOptions) -> AnalysisTable:
    words, _, factor = _MEASURES[routing.measure] if routing.measure else ("", "", 0.0)
    priced = (words,) if routing.measure else ()
    best = {routing.best, routing.picked.name}

    def row(name: str, policy: PolicyResult) -> tuple[str | float | Figure, ...]:
        gain = "" if name in best else points(policy.gain)
        return (name, policy.score, gain, *((factor * policy.cost,) if priced else ()))

    return AnalysisTable(
        title=conclusion(routing),
        columns=("policy", upwards(routing.scorer), "to the best", *priced),
        rows=tuple(row(name, policy) for name, policy in _rows(routing)),
        note=_note(routing),
    )


def conclusion(routing: Routing) -> str:
    """Return a conclusion in one sentence, or in two with a budget."""
    if routing.affordable:
        single, router = routing.affordable
        names = " or ".join(sorted(single.shares, key=lambda name: -single.shares[name]))
        is_shown = (router.gain.low or 0.0) > 0
        return (
            f"Within the budget {names} is the best single agent. A router "
            f"{'gains' if is_shown else 'gains nothing that can be shown:'} {points(router.gain)} points."
        )
    if not routing.gains:
        nearest = max((routing.router, routing.cascade), key=lambda policy: policy.gain.difference or -1.0)
        return (
            f"Routing gains nothing that can be shown over the best single agent: {points(nearest.gain)} points by the "
            f"better policy ({nearest.name})."
        )
    winner = max(routing.gains, key=lambda policy: policy.gain.difference or 0.0)
    price = ""
    if routing.measure:
        words, _, factor = _MEASURES[routing.measure]
        price = f", at {factor * winner.cost:.4g} {words} in place of {factor * routing.picked.cost:.4g}"
    return f"Routing gains {points(winner.gain)} points over the best single agent, by the {winner.name}{price}."


def _note(routing: Routing) -> str:
    parts = [
        f"Agents are compared with {routing.best}, the best on these questions. Policies are cross-fitted and compared "
        f"with the best agent of the other folds; the cascade asks {routing.cheapest} first and pays for it too.",
    ]
    if routing.measure:
        gains = (routing.router, routing.cascade, routing.oracle)
        over_mixture = ", ".join(f"{policy.name} {points(policy.over_mixture)}" for policy in gains)
        parts.append(f"Points vs. random mix of two agents at the same cost: {over_mixture}.")
    if routing.affordable and math.isfinite(routing.worth):
        parts.append(f"The router keeps to the budget by [worth={routing.worth:.3g}].")
    for system in routing.own:
        shares = ", ".join(f"{100 * share:.0f} % to {name}" for name, share in system.shares.items())
        parts.append(f"{system.name} routes by itself: {shares}.")
    if routing.without:
        parts.append(f"{routing.without:,} questions without a score in some run are left out.")
    if routing.epochs == 1:
        parts.append("The oracle is an upper bound: with one epoch it takes luck for skill (--epochs 2 corrects it).")
    return " ".join(parts)


def _picture(routing: Routing, options: AnalysisOptions) -> Picture:
    words, unit, factor = _MEASURES[routing.measure] if routing.measure else ("", "number", 0.0)
    marks = [
        figure_mark(name, policy.score, x=factor * policy.cost if routing.measure else None)
        for name, policy in _rows(routing)
        if policy not in (routing.router, routing.cascade) or not routing.measure
    ]
    for name, curve in routing.curves.items():
        marks += [Mark(name=name, group=name, value=value, x=factor * cost, is_labelled=False) for cost, value in curve]
    title = "Which agent for which question"
    return Picture(title=title, marks=tuple(marks), words=upwards(routing.scorer), x=words, x_unit=unit)


ROUTING: Analysis[Routing] = Analysis(
    name="routing",
    summary="what routing each question to one of the agents gains over the best of them",
    needs="two runs or more of the same 10 questions or more, with scores and costs; scikit-learn",
    measure=lambda store, runs, options: routed(_outcomes(store, runs, options), options),
    table=_table,
    picture=_picture,
    save=saved,
)
