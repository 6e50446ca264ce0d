"""Verifiers of hard negatives: by the scores' margin, by a cross-encoder, or by a language model.

* ``margin[share=0.95]``: a candidate is negative where its score is below that share of the relevant text's own
  (positive-aware mining, TopK-PercPos: Moreira et al. 2024). Needs nothing.
* ``cross-encoder[model=PATH,positive=0.7,negative=0.3]``: by a reranker (`ragrounds retrievers`) or a folder; what
  scores between the two numbers, on that model's own scale, is not used.
* ``model[name=openai:NAME,base_url=URL]``: a language model grades each candidate, as the paper's GPT-4o does (Section
  4.1): D and C are negative, S and A relevant, B is not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ragrounds.errors import UserError, unknown
from ragrounds.specs import Spec, parse
from ragrounds.tools.retrievers.rerank import PairScorer, scorer_of
from ragrounds.train.mining import Asked, Verifier


class Margin:
    """By the scores that mining has anyway."""

    def __init__(self, share: float) -> None:
        self._share = share

    def negatives(self, asked: Sequence[Asked]) -> list[list[bool | None]]:
        """See :class:`.mining.Verifier`."""
        return [[one.score < self._share * each.positive for one in each.candidates] for each in asked]


class CrossEncoded:
    """By a cross-encoder."""

    def __init__(self, scorer: PairScorer, positive: float, negative: float) -> None:
        self._scorer = scorer
        self._positive = positive
        self._negative = negative

    def negatives(self, asked: Sequence[Asked]) -> list[list[bool | None]]:
        """See :class:`.mining.Verifier`."""
        return [self._of(each) if each.candidates else [] for each in asked]

    def _of(self, asked: Asked) -> list[bool | None]:
        scores = self._scorer(asked.example.query, [one.text for one in asked.candidates])
        return [False if score >= self._positive else True if score <= self._negative else None for score in scores]


def open_verifier(text: str, home: Path) -> Verifier:
    """Open a verifier by its spec.

    Args:
        text: As above.
        home: Where a language model's calls are journaled, so that none is paid for twice.

    Raises:
        UserError: no such verifier or parameter, or what it needs is not there.
    """
    spec = parse(text)
    known = {"margin": ("share",), "cross-encoder": ("model", "positive", "negative"), "model": ("name", "base_url")}
    if spec.name not in known:
        raise unknown("verifier", spec.name, known, "docs/training.md")
    for key in spec.parameters:
        if key not in known[spec.name]:
            raise unknown(f"parameter of {spec.name}", key, known[spec.name], "docs/training.md")
    if spec.name == "margin":
        return Margin(_number(spec, "share", 0.95))
    if spec.name == "cross-encoder":
        return _cross_encoder(spec)
    from ragrounds.train.asking import open_asking

    return open_asking(str(spec.parameters.get("name", "")), str(spec.parameters.get("base_url", "")), home)


def _cross_encoder(spec: Spec) -> Verifier:
    scorer = scorer_of(Spec("rerank", {"model": spec.parameters.get("model", "")}))
    return CrossEncoded(scorer, _number(spec, "positive", 0.7), _number(spec, "negative", 0.3))


def _number(spec: Spec, key: str, default: float) -> float:
    value = spec.parameters.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError(f"{spec.name}[{key}={value}]: expected a number.")
    return float(value)
