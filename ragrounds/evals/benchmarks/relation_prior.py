"""The prior-only baseline of link prediction: what is right if one looks at no entity, and takes of the options the
relation that is most frequent in the graph, or most frequent between entities of the same two types.

A benchmark on which it does well measures little of what a system knows about the entities.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ragrounds.records import Gold, Question


class RelationPrior(Struct, frozen=True, kw_only=True):
    """How often relations occur in a graph."""

    by_types: Mapping[str, Mapping[str, int]]
    """Types of the two entities (empty: not known) → relation in words → triplets that are not asked."""
    itself: bool
    """Whether the triplets that are asked are counted too, since there are no others: each is then left out of its own
    counts."""
    metadata: str
    """Where a question names its types."""


class PriorAudit(Struct, frozen=True, kw_only=True):
    """The accuracy of a baseline that knows how frequent relations are, and nothing else."""

    dataset: str
    questions: int
    chance: float
    """Accuracy of a guess among the options."""
    frequency: float
    """Of the most frequent relation among the options; equal ones share."""
    frequency_low: float
    frequency_high: float
    """Its 95 % interval."""
    by_types: float | None
    """Of the one that is most frequent between entities of these two types; ``None``: types are not known."""
    by_types_low: float | None
    by_types_high: float | None
    other_triplets: bool
    """Whether it learns from other triplets than those that are asked; else each is left out in its turn."""


def audit_prior(
    dataset: str, questions: Sequence[Question], golds: Mapping[str, Gold], prior: RelationPrior
) -> PriorAudit:
    """Answer one dataset's questions by frequencies alone."""
    from ragrounds.evals.stats import stratified_mean

    every: Counter[str] = Counter()
    for counts in prior.by_types.values():
        every.update(counts)
    alone, typed, chance = [], [], []
    clusters = [question.cluster or question.id for question in questions]
    for question in questions:
        answer = golds[question.id].answer
        types = question.metadata.get(prior.metadata, "")
        alone.append(_credit(question.options, answer, every, prior.itself))
        typed.append(_credit(question.options, answer, prior.by_types.get(types, {}), prior.itself))
        chance.append(1 / len(question.options))
    first = stratified_mean(alone, clusters=clusters)
    known = any(question.metadata.get(prior.metadata) for question in questions)
    second = stratified_mean(typed, clusters=clusters) if known else None
    return PriorAudit(
        dataset=dataset,
        questions=len(questions),
        chance=sum(chance) / len(chance),
        frequency=first.value,
        frequency_low=first.value if first.low is None else first.low,
        frequency_high=first.value if first.high is None else first.high,
        by_types=second.value if second else None,
        by_types_low=second.low if second else None,
        by_types_high=second.high if second else None,
        other_triplets=not prior.itself,
    )


def _credit(options: Mapping[str, str], answer: str, counts: Mapping[str, int], itself: bool) -> float:
    """1 where the most frequent option is right; of several most frequent ones each has its share."""
    known = {label: counts.get(text, 0) - (itself and label == answer) for label, text in options.items()}
    most = max(known.values())
    best = [label for label, count in known.items() if count == most]
    return 1 / len(best) if answer in best else 0.0
