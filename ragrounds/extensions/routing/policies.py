"""Policies that give each question to one of several agents, learned and scored on outcomes that are known already.

A router asks one agent; a cascade asks the cheapest first, reads its attempt, and may then pay another one too. Both
are learned as one ridge regression of each agent's scores, and are cross-fitted: folds hold whole clusters, and no
question is routed by a model that saw it or a duplicate of it. The oracle picks the best agent of each question; of one
epoch it takes noise for skill, so from two epochs on it picks by the others and is scored by the one left out.
After FrugalGPT (Chen et al., 2023) and RouteLLM (Ong et al., 2024).
"""

from __future__ import annotations

import importlib
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
_SHRINKAGE = np.array([0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0])
"""Strengths of the penalty that each model picks from, by its error where a question is left out: weak evidence leaves
every question with the agent that is best on average."""
_TOPICS, _WORDS = 12, 4000
"""Dimensions of the questions' words, and how many words count."""


class Outcomes(Struct, frozen=True, kw_only=True, dict=True):
    """What each agent made of each question."""

    scores: Floats
    """Questions × agents × epochs, shares of a right answer."""
    costs: Floats
    """Questions × agents, of one attempt."""
    known: Floats
    """Questions × features that are known before any agent is asked."""
    seen: Floats
    """Questions × features of the cheapest agent's attempt."""
    texts: tuple[str, ...]
    """The questions, without options."""
    clusters: tuple[str, ...]
    strata: tuple[str, ...]

    @cached_property
    def means(self) -> Floats:
        """Questions × agents: the mean score over epochs."""
        return np.asarray(self.scores.mean(axis=2))

    @cached_property
    def weights(self) -> Floats:
        """Of each question in a mean: datasets count alike, as in every table."""
        _, places, counts = np.unique(np.asarray(self.strata), return_inverse=True, return_counts=True)
        return np.asarray(1 / (counts[places] * len(counts)))

    @cached_property
    def prices(self) -> Floats:
        """Of each agent's attempt, on average."""
        return np.asarray(self.weights @ self.costs)

    @property
    def cheapest(self) -> int:
        """The agent whose attempts cost least on average."""
        return int(np.argmin(self.prices))


class Routed(Struct, frozen=True, kw_only=True):
    """A policy's outcome for each question."""

    values: Floats
    costs: Floats
    choices: Choices
    """The agents whose answers count: one a question, or one a question and epoch."""


def oracle(outcomes: Outcomes) -> Routed:
    """The best agent of each question, the cheaper among equals; from two epochs on without what noise adds."""
    scores, epochs = outcomes.scores, outcomes.scores.shape[2]
    if epochs == 1:
        return _taken(outcomes, _best(scores[:, :, 0], outcomes.prices))
    rows = np.arange(len(scores))
    values, costs, choices = np.zeros(len(scores)), np.zeros(len(scores)), []
    for epoch in range(epochs):
        chosen = _best(np.delete(scores, epoch, axis=2).mean(axis=2), outcomes.prices)
        values += scores[rows, chosen, epoch] / epochs
        costs += outcomes.costs[rows, chosen] / epochs
        choices.append(chosen)
    return Routed(values=values, costs=costs, choices=np.concatenate(choices))


def mixture_weights(accuracies: Floats, costs: Floats, budget: float) -> Floats:
    """Shares of the agents in the best mixture drawn at random that costs `budget` a question at most."""
    weights, best = np.zeros(len(costs)), -np.inf
    for one in range(len(costs)):
        for other in range(len(costs)):
            low, high = costs[one], costs[other]
            if low > budget * (1 + 1e-9) or (one == other) == (low < high):
                continue
            share = 0.0 if one == other else min(1.0, (budget - low) / (high - low))
            value = (1 - share) * accuracies[one] + share * accuracies[other]
            if value > best + 1e-12:
                best, weights = value, np.zeros(len(costs))
                weights[one] += 1 - share
                weights[other] += share
    return weights


class Chances(Struct, frozen=True, kw_only=True):
    """Questions × agents: how probably each is right, by models that did not see the question."""

    values: Floats
    cascade: bool
    """Whether the cheapest agent's attempt was read, and so is paid for."""

    def routed(self, outcomes: Outcomes, worth: float) -> Routed:
        """Give each question to the agent whose right answer is worth most over its price.

        Args:
            outcomes: those that the chances are of.
            worth: what a right answer is worth, in the unit of costs; infinite: the price breaks ties alone.
        """
        prices = outcomes.prices
        cheapest = outcomes.cheapest
        if self.cascade:
            prices = np.where(np.arange(len(prices)) == cheapest, 0.0, prices)
        gains = self.values if np.isinf(worth) else self.values * worth - prices
        routed = _taken(outcomes, _best(gains, prices))
        if not self.cascade:
            return routed
        extra = np.where(routed.choices == cheapest, 0.0, outcomes.costs[:, cheapest])
        return Routed(values=routed.values, costs=routed.costs + extra, choices=routed.choices)


def chances(outcomes: Outcomes, seed: int, *, cascade: bool = False, shuffled: bool = False) -> Chances:
    """Learn each agent's chances by cross-fitting.

    Args:
        outcomes: what is known.
        seed: of the folds.
        cascade: whether the cheapest agent's attempt is read.
        shuffled: the control: models learn from the outcomes of other questions of the same dataset.

    Raises:
        UserError: scikit-learn is not installed.
    """
    features = _features(outcomes, cascade)
    generator = np.random.default_rng(seed)
    learned_from = outcomes.means
    if shuffled:
        learned_from = learned_from[_within(outcomes.strata, generator)]
    folds = _folds(outcomes.clusters, generator)
    values = np.zeros_like(learned_from)
    for fold in range(int(folds.max()) + 1):
        out = folds == fold
        values[out] = _learned(features[~out], learned_from[~out], features[out])
    return Chances(values=values, cascade=cascade)


def _taken(outcomes: Outcomes, chosen: Choices) -> Routed:
    rows = np.arange(len(chosen))
    return Routed(values=outcomes.means[rows, chosen], costs=outcomes.costs[rows, chosen], choices=chosen)


def _best(values: Floats, prices: Floats) -> Choices:
    """The agent of the highest value in each row, the one of the lowest price among equals."""
    order = np.argsort(prices, kind="stable")
    near = values >= values.max(axis=1, keepdims=True) - 1e-12
    return np.asarray(order[np.argmax(near[:, order], axis=1)])


def _within(strata: Sequence[str], generator: np.random.Generator) -> Choices:
    """A random order in which every place keeps its stratum."""
    order, names = np.arange(len(strata)), np.asarray(strata)
    for name in np.unique(names):
        places = np.flatnonzero(names == name)
        order[places] = generator.permutation(places)
    return order


def _folds(clusters: Sequence[str], generator: np.random.Generator) -> Choices:
    """A fold for each question; questions of a cluster have the same one."""
    names, places = np.unique(np.asarray(clusters), return_inverse=True)
    return np.asarray(generator.permutation(len(names)) % min(FOLDS, len(names)))[places]


def _features(outcomes: Outcomes, cascade: bool) -> Floats:
    """Standardised features."""
    whole = _table(outcomes, cascade)[0]
    spread = whole.std(axis=0)
    return np.asarray((whole - whole.mean(axis=0))[:, spread > 1e-12] / spread[spread > 1e-12])


def _table(outcomes: Outcomes, cascade: bool) -> tuple[Floats, Any, Floats]:
    """Features, what counts the questions' words, and topics × words. The topics come from all questions: they know
    no outcome."""
    decomposition, text = _sklearn("decomposition"), _sklearn("feature_extraction.text")
    parts = [outcomes.known, *([outcomes.seen] if cascade else [])]
    counter, topics = None, np.zeros((0, 0))
    if len(set(outcomes.texts)) > 2 * _TOPICS:
        words = text.TfidfVectorizer(max_features=_WORDS, sublinear_tf=True, analyzer="char_wb", ngram_range=(3, 5))
        weights = words.fit_transform(outcomes.texts)
        if weights.shape[1] > 2 * _TOPICS:
            reduced = decomposition.TruncatedSVD(_TOPICS, random_state=0)
            parts.append(reduced.fit_transform(weights))
            counter, topics = words, reduced.components_
    return np.hstack(parts), counter, topics


class LinearModel(Struct, frozen=True, kw_only=True):
    """Each agent's chances as a linear function of a question's own features."""

    intercepts: Floats
    known: Floats
    """Agents × features of :attr:`Outcomes.known`."""
    pieces: dict[str, tuple[float, ...]]
    """A run of letters → its idf, then its weight for each agent."""


def learned(outcomes: Outcomes) -> LinearModel:
    """The router's model, learned from all questions.

    Raises:
        UserError: scikit-learn is not installed.
    """
    whole, counter, topics = _table(outcomes, False)
    mean, spread, size = whole.mean(axis=0), whole.std(axis=0), outcomes.known.shape[1]
    used = spread > 1e-12
    weights = np.zeros((outcomes.means.shape[1], whole.shape[1]))
    starts = outcomes.means.mean(axis=0)
    if used.any():
        model = _ridge((whole - mean)[:, used] / spread[used], outcomes.means)
        weights[:, used] = model.coef_ / spread[used]
        starts = model.intercept_ - weights @ mean
    of_pieces = weights[:, size:] @ topics if counter is not None else np.zeros((len(weights), 0))
    names = counter.get_feature_names_out() if counter is not None else ()
    pieces = {
        str(name): (float(idf), *map(float, column))
        for name, idf, column in zip(names, counter.idf_ if counter is not None else (), of_pieces.T, strict=True)
    }
    return LinearModel(intercepts=starts, known=weights[:, :size], pieces=pieces)


def _learned(features: Floats, right: Floats, asked: Floats) -> Floats:
    """Each agent's expected score of the questions `asked`; its average where nothing tells them apart."""
    if not features.shape[1]:
        return np.broadcast_to(right.mean(axis=0), (len(asked), right.shape[1]))
    return np.asarray(_ridge(features, right).predict(asked))


def _ridge(features: Floats, right: Floats) -> Any:
    return _sklearn("linear_model").RidgeCV(len(right) * _SHRINKAGE, alpha_per_target=True).fit(features, right)


def _sklearn(module: str) -> Any:
    try:
        return importlib.import_module(f"sklearn.{module}")
    except ImportError as error:
        raise UserError("Routing is learned by scikit-learn: pip install 'ragrounds[routing]'.") from error
