"""Policies that give each question to one of several agents, learned and scored on recorded outcomes.

A router asks one agent; a cascade asks the cheapest first, reads its attempt, and may then pay another one too. Both
are learned as one ridge regression of each agent's scores, and are cross-fitted: folds hold whole clusters, and no
question is routed by a model that saw it or a duplicate of it. The oracle picks the best agent of each question; of one
epoch it takes noise for skill, so from two epochs on it picks by the others and is scored by the one left out.
After FrugalGPT (Chen et al., 2023) and RouteLLM (Ong et al., 2024).
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragrounds.base.errors import UserError

Floats = NDArray[np.float64]
Choices = NDArray[np.int64]
FOLDS = 5
WIDER = math.sqrt(1 + FOLDS / (FOLDS - 1))
"""Factor of the intervals of cross-fitted differences.

The folds share most of what they are learned from, so that their differences vary together (Nadeau and Bengio 2003).
"""
_SHRINKAGE = np.array([0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0])
"""Penalty strengths that each model chooses from by its leave-one-out error.

With weak evidence a strong penalty leaves every question with the agent that is best on average.
"""
_TOPICS, _WORDS = 12, 4000
"""Number of dimensions of the questions' words, and number of words that are counted."""


class Outcomes(Struct, frozen=True, kw_only=True, dict=True):
    """Outcome of each agent on each question."""

    scores: Floats
    """Scores (questions, agents, epochs), as shares of a right answer."""
    costs: Floats
    """Costs of one attempt (questions, agents)."""
    prior_features: Floats
    """Features (questions, features) that are known before any agent is asked."""
    seen: Floats
    """Features (questions, features) of the cheapest agent's attempt."""
    texts: tuple[str, ...]
    """Texts of the questions, without options."""
    clusters: tuple[str, ...]
    strata: tuple[str, ...]

    @cached_property
    def means(self) -> Floats:
        """Mean scores over epochs (questions, agents)."""
        return np.asarray(self.scores.mean(axis=2))

    @cached_property
    def weights(self) -> Floats:
        """Weight of each question in a mean: all datasets have the same weight, as in every table."""
        _, stratum_indices, counts = np.unique(np.asarray(self.strata), return_inverse=True, return_counts=True)
        return np.asarray(1 / (counts[stratum_indices] * len(counts)))

    @cached_property
    def prices(self) -> Floats:
        """Mean cost of each agent's attempt."""
        return np.asarray(self.weights @ self.costs)

    @property
    def cheapest(self) -> int:
        """Index of the agent whose attempts cost least on average."""
        return int(np.argmin(self.prices))


class Routed(Struct, frozen=True, kw_only=True):
    """Outcome of a policy on each question."""

    values: Floats
    costs: Floats
    choices: Choices
    """Indices of the agents whose answers count: one a question, or one a question and epoch."""


def oracle(outcomes: Outcomes) -> Routed:
    """Give each question to its best agent, the cheaper among equals; from two epochs on without noise's gain."""
    scores, epochs = outcomes.scores, outcomes.scores.shape[2]
    if epochs == 1:
        return routed_to(outcomes, best_agents(scores[:, :, 0], outcomes.prices))
    rows = np.arange(len(scores))
    values, costs, choices = np.zeros(len(scores)), np.zeros(len(scores)), []
    for epoch in range(epochs):
        # The other epochs pick the agent, this one scores it.
        agents = best_agents(np.delete(scores, epoch, axis=2).mean(axis=2), outcomes.prices)
        values += scores[rows, agents, epoch] / epochs
        costs += outcomes.costs[rows, agents] / epochs
        choices.append(agents)
    return Routed(values=values, costs=costs, choices=np.concatenate(choices))


def mixture_weights(accuracies: Floats, costs: Floats, budget: float) -> Floats:
    """Return the shares of agents in the best random mixture that costs at most `budget` a question."""
    weights, best = np.zeros(len(costs)), -np.inf
    for first in range(len(costs)):
        for second in range(len(costs)):
            low, high = costs[first], costs[second]
            # One agent alone, or two of which the second costs more; the first must fit the budget, but for rounding.
            if low > budget * (1 + 1e-9) or (first != second and low >= high):
                continue
            share = 0.0 if first == second else min(1.0, (budget - low) / (high - low))
            value = (1 - share) * accuracies[first] + share * accuracies[second]
            if value > best + 1e-12:  # of mixtures that are equal but for rounding, the first
                best, weights = value, np.zeros(len(costs))
                weights[first] += 1 - share
                weights[second] += share
    return weights


class Chances(Struct, frozen=True, kw_only=True):
    """Probability that each agent is right on each question, by models that did not see the question."""

    values: Floats
    cascade: bool
    """True if the cheapest agent's attempt was read, and so is paid for."""

    def routed(self, outcomes: Outcomes, worth: float) -> Routed:
        """Give each question to the agent whose expected answer has the highest value minus its price.

        Args:
            outcomes: the outcomes that the chances belong to.
            worth: value of a right answer, in the unit of costs; infinite: the price only breaks ties.
        """
        prices = outcomes.prices
        cheapest = outcomes.cheapest
        if self.cascade:
            prices = np.where(np.arange(len(prices)) == cheapest, 0.0, prices)
        gains = self.values if np.isinf(worth) else self.values * worth - prices
        routed = routed_to(outcomes, best_agents(gains, prices))
        if not self.cascade:
            return routed
        extra = np.where(routed.choices == cheapest, 0.0, outcomes.costs[:, cheapest])
        return Routed(values=routed.values, costs=routed.costs + extra, choices=routed.choices)


def chances(outcomes: Outcomes, seed: int, *, cascade: bool = False, shuffled: bool = False) -> Chances:
    """Learn each agent's chances by cross-fitting.

    Args:
        outcomes: the recorded outcomes.
        seed: seed of the folds.
        cascade: whether the cheapest agent's attempt is read.
        shuffled: the control: models learn from the outcomes of other questions of the same dataset.

    Raises:
        UserError: scikit-learn is not installed.
    """
    features, folds = _features(outcomes, cascade), folds_of(outcomes, seed)
    learned_from = outcomes.means
    if shuffled:  # within folds: no question's own outcome may come among those that its fold is learned from
        groups = [f"{fold} {stratum}" for fold, stratum in zip(folds, outcomes.strata, strict=True)]
        learned_from = learned_from[_shuffle_within(groups, np.random.default_rng([seed, 1]))]
    values = np.zeros_like(learned_from)
    for fold in range(int(folds.max()) + 1):
        held_out = folds == fold
        if features.shape[1]:
            model = _ridge(features[~held_out], learned_from[~held_out])
            values[held_out] = model.predict(features[held_out])
        else:
            values[held_out] = learned_from[~held_out].mean(axis=0)
    return Chances(values=values, cascade=cascade)


def folds_of(outcomes: Outcomes, seed: int) -> Choices:
    """Return the fold of each question; all questions of a cluster are in one."""
    clusters, cluster_indices = np.unique(np.asarray(outcomes.clusters), return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(clusters))
    return np.asarray((order % min(FOLDS, len(clusters)))[cluster_indices])


def other_folds_means(outcomes: Outcomes, seed: int) -> Floats:
    """Return each agent's mean score on the other folds of a question, averaged over datasets (questions, agents)."""
    folds, strata, values = folds_of(outcomes, seed), np.asarray(outcomes.strata), np.zeros_like(outcomes.means)
    for fold in np.unique(folds):
        others = folds != fold
        by_stratum = [outcomes.means[others & (strata == name)].mean(axis=0) for name in np.unique(strata[others])]
        values[folds == fold] = np.mean(by_stratum, axis=0)
    return values


def routed_to(outcomes: Outcomes, agents: Choices) -> Routed:
    """Return the outcome of giving each question to the agent of the same index in `agents`."""
    rows = np.arange(len(agents))
    return Routed(values=outcomes.means[rows, agents], costs=outcomes.costs[rows, agents], choices=agents)


def best_agents(values: Floats, prices: Floats) -> Choices:
    """Return the index of the agent with the highest value in each row, the cheapest among equals."""
    order = np.argsort(prices, kind="stable")
    is_best = values >= values.max(axis=1, keepdims=True) - 1e-12
    return np.asarray(order[np.argmax(is_best[:, order], axis=1)])


def _shuffle_within(strata: Sequence[str], generator: np.random.Generator) -> Choices:
    """Return a random order in which every index keeps its stratum."""
    order, names = np.arange(len(strata)), np.asarray(strata)
    for name in np.unique(names):
        indices = np.flatnonzero(names == name)
        order[indices] = generator.permutation(indices)
    return order


def _features(outcomes: Outcomes, cascade: bool) -> Floats:
    """Return the standardised features."""
    table = _table(outcomes, cascade)[0]
    spread = table.std(axis=0)
    return np.asarray((table - table.mean(axis=0))[:, spread > 1e-12] / spread[spread > 1e-12])


def _table(outcomes: Outcomes, cascade: bool) -> tuple[Floats, Any, Floats]:
    """Return the features, the vectoriser of the questions' words, and the weights (topics, words).

    The topics come from all questions, because they use no outcome.
    """
    decomposition, text = _sklearn("decomposition"), _sklearn("feature_extraction.text")
    parts = [outcomes.prior_features, *([outcomes.seen] if cascade else [])]
    vectoriser, topics = None, np.zeros((0, 0))
    if len(set(outcomes.texts)) > 2 * _TOPICS:
        words = text.TfidfVectorizer(max_features=_WORDS, sublinear_tf=True, analyzer="char_wb", ngram_range=(3, 5))
        weights = words.fit_transform(outcomes.texts)
        if weights.shape[1] > 2 * _TOPICS:
            reduced = decomposition.TruncatedSVD(_TOPICS, random_state=0)
            parts.append(reduced.fit_transform(weights))
            vectoriser, topics = words, reduced.components_
    return np.hstack(parts), vectoriser, topics


class LinearModel(Struct, frozen=True, kw_only=True):
    """Chances of each agent as a linear function of a question's features."""

    intercepts: Floats
    prior_weights: Floats
    """Weights (agents, features) of :attr:`Outcomes.prior_features`."""
    pieces: dict[str, tuple[float, ...]]
    """Inverse document frequency of each character n-gram, followed by its weight for each agent."""


def learned(outcomes: Outcomes) -> LinearModel:
    """Learn the router's model from all questions.

    Raises:
        UserError: scikit-learn is not installed.
    """
    table, vectoriser, topics = _table(outcomes, False)
    mean, spread, size = table.mean(axis=0), table.std(axis=0), outcomes.prior_features.shape[1]
    used = spread > 1e-12
    weights = np.zeros((outcomes.means.shape[1], table.shape[1]))
    starts = outcomes.means.mean(axis=0)
    if used.any():
        model = _ridge((table - mean)[:, used] / spread[used], outcomes.means)
        weights[:, used] = model.coef_ / spread[used]
        starts = model.intercept_ - weights @ mean
    pieces = {}
    if vectoriser is not None:
        # Topics are linear in the n-grams, so that each n-gram gets a weight of its own.
        ngrams = zip(vectoriser.get_feature_names_out(), vectoriser.idf_, (weights[:, size:] @ topics).T, strict=True)
        pieces = {str(ngram): (float(idf), *map(float, column)) for ngram, idf, column in ngrams}
    return LinearModel(intercepts=starts, prior_weights=weights[:, :size], pieces=pieces)


def _ridge(features: Floats, right: Floats) -> Any:
    # Scaled by the number of questions, so that a penalty weighs the same whatever their number.
    return _sklearn("linear_model").RidgeCV(len(right) * _SHRINKAGE, alpha_per_target=True).fit(features, right)


def _sklearn(module: str) -> Any:
    try:
        return importlib.import_module(f"sklearn.{module}")
    except ImportError as error:
        raise UserError("Routing is learned by scikit-learn: pip install 'ragrounds[routing]'.") from error
