"""Hard negatives: texts that the document encoder finds for a query and a verifier does not take for relevant.

In medicine many texts answer the same question, so that the best-ranked unlabelled text is often a false negative
(*topic intensity*, CMedTEB + CARE, Section 4.1): candidates are verified, and only those that do not answer are kept.
Verifiers:

* ``margin[share=0.95]``: a candidate is negative where its score is below that share of the relevant text's own
  (positive-aware mining, TopK-PercPos: Moreira et al. 2024). It asks no other model.
* ``model[name=openai:NAME,base_url=URL]``: a language model grades each candidate, as the paper's GPT-4o does (Section
  4.1): D and C are negative, S and A relevant, B is not used. Every call is journaled, and none is paid for twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec
import numpy as np
from msgspec import Struct

from ragrounds.base.contracts import Journal, Model, Prompts
from ragrounds.base.errors import UserError, unknown
from ragrounds.base.specs import parse
from ragrounds.evals.judges.verdict import ask
from ragrounds.evals.scorers.judged import VerdictForm, fenced
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.extensions.training.data import Example
from ragrounds.extensions.training.spec import Mining
from ragrounds.models.options import with_defaults
from ragrounds.models.prices import read_prices
from ragrounds.models.providers import open_model
from ragrounds.prompts.loader import PromptFolder
from ragrounds.tools.index.embedders import Vectors

_BLOCK = 256


class NegativeCandidate(Struct, frozen=True):
    """A text that was found for a query."""

    text: str
    score: float
    """Cosine to the query."""


class MinedCandidates(Struct, frozen=True):
    """What a verifier is asked about one query."""

    example: Example
    positive: float
    """Cosine of the query and its relevant text."""
    candidates: tuple[NegativeCandidate, ...]
    """Best first."""


class Verifier(Protocol):
    """Says which candidates do not answer a query."""

    def negatives(self, asked: Sequence[MinedCandidates]) -> list[list[bool | None]]:
        """For each candidate of each query: true, it does not answer; false, it does; ``None``: it cannot be said."""


class MinedExamples(Struct, frozen=True, kw_only=True):
    """Examples with their negatives, and what was found."""

    examples: list[Example]
    verifier: str
    candidates: int
    negative: int
    positive: int
    """Candidates that the verifier took for relevant: false negatives, had nobody asked."""
    unsaid: int
    without: int
    """Examples for which no negative was found."""


def mine(
    examples: Sequence[Example],
    queries: Vectors,
    positives: Vectors,
    pool: Sequence[str],
    vectors: Vectors,
    mining: Mining,
    verifier: Verifier,
    progress: Callable[[int], None] | None = None,
) -> MinedExamples:
    """Find hard negatives for every example; those it came with stand first.

    Args:
        examples: In the order of `queries` and `positives`.
        queries: Their unit vectors by the document encoder.
        positives: Likewise, of their relevant texts.
        pool: Texts to choose from.
        vectors: Of the pool.
        mining: Settings.
        verifier: Asked about some hundred queries at a time.
        progress: Called with the number of examples that are done.
    """
    made: list[Example] = []
    counts = {True: 0, False: 0, None: 0}
    for start in range(0, len(examples), _BLOCK):
        scores = queries[start : start + _BLOCK] @ vectors.T
        depth = min(mining.candidates + 1, len(pool))  # the relevant text itself is usually among them
        nearest = np.argpartition(-scores, depth - 1, axis=1)[:, :depth]
        asked = []
        for row, positions in enumerate(nearest):
            example = examples[start + row]
            ranked = sorted(positions.tolist(), key=lambda position: (-scores[row, position], position))
            own = {example.query, example.positive, *example.negatives}
            found = [
                NegativeCandidate(pool[each], float(scores[row, each])) for each in ranked if pool[each] not in own
            ]
            positive = float(queries[start + row] @ positives[start + row])
            asked.append(MinedCandidates(example, positive, tuple(found[: mining.candidates])))
        for one, said in zip(asked, verifier.negatives(asked), strict=True):
            for verdict in said:
                counts[verdict] += 1
            chosen = [found.text for found, verdict in zip(one.candidates, said, strict=True) if verdict]
            kept = (*one.example.negatives, *chosen)[: mining.keep]
            made.append(msgspec.structs.replace(one.example, negatives=kept))
        if progress:
            progress(len(made))
    return MinedExamples(
        examples=made,
        verifier=mining.verifier,
        candidates=sum(counts.values()),
        negative=counts[True],
        positive=counts[False],
        unsaid=counts[None],
        without=sum(not example.negatives for example in made),
    )


class MarginVerifier:
    """By the scores that mining has anyway."""

    def __init__(self, share: float) -> None:
        self._share = share

    def negatives(self, asked: Sequence[MinedCandidates]) -> list[list[bool | None]]:
        """See :class:`Verifier`."""
        return [[one.score < self._share * each.positive for one in each.candidates] for each in asked]


def open_verifier(text: str, home: Path) -> Verifier:
    """Open a verifier by its spec.

    Args:
        text: As above.
        home: Where a language model's calls are journaled, so that none is paid for twice.

    Raises:
        UserError: no such verifier or parameter, or what it needs is not there.
    """
    spec = parse(text)
    known = {"margin": ("share",), "model": ("name", "base_url")}
    if spec.name not in known:
        raise unknown("verifier", spec.name, known, "docs/reference/training.md")
    for key in spec.parameters:
        if key not in known[spec.name]:
            raise unknown(f"parameter of {spec.name}", key, known[spec.name], "docs/reference/training.md")
    given = spec.parameters
    if spec.name == "margin":
        share = given.get("share", 0.95)
        if isinstance(share, bool) or not isinstance(share, int | float):
            raise UserError(f"margin[share={share}]: expected a number.")
        return MarginVerifier(float(share))
    if not given.get("name"):
        raise UserError("The verifier model[…] has no model: give, for example, model[name=openai:gpt-4o-mini].")
    return ModelVerifier(str(given["name"]), str(given.get("base_url", "")), home)


PROMPT = "build/relevance_labels"
GRADES = ("S", "A", "B", "C", "D")
_NEGATIVE, _RELEVANT = frozenset("CD"), frozenset("SA")
_TOGETHER = 10
"""Candidates a call."""
_AT_ONCE = 16


class ModelVerifier:
    """Grades by a language model (Section 4.1): C and D do not answer, S and A do, B is not used. Of a reply that
    lacks a candidate nothing is used."""

    def __init__(self, model: str, base_url: str, home: Path) -> None:
        self._name = model
        self._base_url = base_url
        self._home = home

    def negatives(self, asked: Sequence[MinedCandidates]) -> list[list[bool | None]]:
        """See :class:`Verifier`.

        Raises:
            StopRun: the model cannot be asked at all.
        """
        return asyncio.run(self._all(asked))

    async def _all(self, asked: Sequence[MinedCandidates]) -> list[list[bool | None]]:

        named = with_defaults(self._name, {"base_url": self._base_url or None})
        model = open_model(named, read_prices(self._home / "prices.toml"))
        prompts, free = PromptFolder(), asyncio.Semaphore(_AT_ONCE)
        with Store(self._home) as store:
            journal = StoreJournal(store)

            async def one(each: MinedCandidates) -> list[bool | None]:
                """Verdicts on one query's candidates, several a call."""
                said: list[bool | None] = []
                texts = [candidate.text for candidate in each.candidates]
                for start in range(0, len(texts), _TOGETHER):
                    async with free:
                        part = texts[start : start + _TOGETHER]
                        said += await grade_texts(model, journal, prompts, each.example.query, part)
                return said

            try:
                return await asyncio.gather(*(one(each) for each in asked))
            finally:
                await model.close()
                journal.close()


async def grade_texts(
    model: Model, journal: Journal, prompts: Prompts, query: str, texts: Sequence[str]
) -> list[bool | None]:
    """Of each text: whether it does not answer the query; ``None``: it cannot be said."""
    names = tuple(f"passage_{number}" for number in range(1, len(texts) + 1))
    contract = VerdictForm(names, GRADES)
    shown = "\n\n".join(f"{name}:\n<<<\n{fenced(text)}\n>>>" for name, text in zip(names, texts, strict=True))
    messages = prompts.render(PROMPT, _language(query), query=fenced(query), passages=shown, form=contract.example)
    judgement = await ask(model, journal, messages, contract, node="hard negatives")
    if len(judgement.values) < len(names):  # what is there may have slipped to a neighbour
        return [None] * len(names)
    grades = [judgement.values[name] for name in names]
    return [True if grade in _NEGATIVE else False if grade in _RELEVANT else None for grade in grades]


def _language(text: str) -> str:
    return "zh" if any("\u4e00" <= letter <= "\u9fff" for letter in text) else "en"
