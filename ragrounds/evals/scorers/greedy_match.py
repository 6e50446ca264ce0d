"""Scorer ``greedy-match``: a long answer against a reference by the vectors of their words. A secondary figure: it
measures likeness of wording and topic, not truth, and "not given" is as near to a reference that says "given" as the
same sentence without the not.

As BERTScore (Zhang et al. 2020) without its weights by rarity and without its rescaling: every token of one text is
matched with the token of the other that is nearest by cosine; precision is the mean over the answer's tokens, recall
over the reference's, the value their F1. Values of different embedders have nothing to do with each other, so the
embedder is a part of the scorer's name. Where it can, an embedder gives each token's vector in its context
(sentence-transformers, extra ``local``); any other gives one to each word by itself, and the scorer says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ragrounds.evals.scorers.answer_status import read_long
from ragrounds.evals.scorers.base import ScorerRecord
from ragrounds.records import Attempt, Gold, Kind, Question, Score
from ragrounds.specs import Spec, parse
from ragrounds.text import words
from ragrounds.tools.cards import NamedEmbedder
from ragrounds.tools.embedders import Embedder, TokenEmbedder, Vectors

_WINDOW = 400
"""Characters that are embedded together: within what the smallest models take, 256 tokens, also in Chinese."""
_CUT = re.compile(r"(?<=[.!?。！？;；\n])\s*")
_LONGEST = 4_000
"""Words of a text that are matched."""
_KEPT = 20_000
"""Words whose vectors are kept."""


class TokenVectors:
    """Turns a text into one vector of length 1 for each token, by an embedder; vectors of words are kept."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._words: dict[str, Vectors] = {}

    def __call__(self, text: str) -> Vectors:
        """A row a token; no row where the text has none."""
        if isinstance(self._embedder, TokenEmbedder):
            parts = windows(text)
            found = self._embedder.tokens(parts) if parts else []
            return _unit(np.concatenate(found)) if found else np.zeros((0, 1), dtype=np.float32)
        given = words(text)[:_LONGEST]
        new = [word for word in dict.fromkeys(given) if word not in self._words]
        if len(self._words) + len(new) > _KEPT:
            self._words.clear()
            new = list(dict.fromkeys(given))
        if new:
            self._words |= dict(zip(new, _unit(self._embedder.queries(new)), strict=True))
        return np.stack([self._words[word] for word in given]) if given else np.zeros((0, 1), dtype=np.float32)


class GreedyMatch(ScorerRecord, frozen=True, kw_only=True):
    """Scores a long answer by greedy matching with the reference, once :meth:`opened` with an embedder."""

    name: str = "greedy-match"
    summary: str = "secondary: words matched by this embedder's vectors, F1; likeness, not truth"
    method: str = "greedy matching of words by the vectors of the embedder named, a secondary figure"
    kinds: tuple[Kind, ...] = ("long",)
    beside: bool = False
    needs: str = "an embedder"
    vectors: TokenVectors | None = None

    def opened(self, named: NamedEmbedder) -> GreedyMatch:
        """The scorer with an embedder, which its name then holds."""
        tokens = "context" if isinstance(named.embedder, TokenEmbedder) else "words"
        name = str(Spec(self.name).having(embedder=parse(named.spec), tokens=tokens))
        return GreedyMatch(name=name, vectors=TokenVectors(named.embedder))

    def command(self, runs: Sequence[str]) -> str:
        """`ragrounds score` with an embedder."""
        return f"ragrounds score {' '.join(runs)} --embedder EMBEDDER"

    def score(self, attempt: Attempt, question: Question, gold: Gold) -> Score:
        """0.0 to 1.0; an attempt without text matches nothing; no value where there is no reference.

        Raises:
            ValueError: no embedder was named.
        """
        if self.vectors is None:
            raise ValueError("greedy-match scores nothing before it is opened with an embedder")
        read = read_long(attempt)
        if not gold.answer.strip():
            return self.scored(attempt, None, read, reason="the question has no reference answer")
        if attempt.status == "not_run":
            return self.scored(attempt, None, read)
        return self.scored(attempt, greedy_f1(self.vectors(attempt.text), self.vectors(gold.answer)), read)


def greedy_f1(answer: Vectors, reference: Vectors) -> float:
    """F1 of greedy matching; 0.0 where either side has no token, or nothing is alike."""
    if not len(answer) or not len(reference):
        return 0.0
    alike = answer @ reference.T
    precision, recall = (max(0.0, float(alike.max(axis=axis).mean())) for axis in (1, 0))
    return min(1.0, 2 * precision * recall / (precision + recall)) if precision + recall else 0.0


def windows(text: str) -> list[str]:
    """The text in pieces that are embedded together: sentences, as many as fit, a long one cut."""
    pieces: list[str] = []
    for sentence in _CUT.split(text):
        for start in range(0, len(sentence), _WINDOW):
            part = sentence[start : start + _WINDOW]
            if pieces and len(pieces[-1]) + 1 + len(part) <= _WINDOW:
                pieces[-1] = f"{pieces[-1]} {part}"
            elif part.strip():
                pieces.append(part)
    return pieces


def _unit(vectors: Vectors | Sequence[Vectors]) -> Vectors:
    made = np.asarray(vectors, dtype=np.float32)
    lengths = np.linalg.norm(made, axis=1, keepdims=True)
    return np.asarray(made / np.where(lengths > 0, lengths, 1), dtype=np.float32)


GREEDY_MATCH = GreedyMatch()
