"""Hard negatives: texts that the document encoder finds for a query, and that a verifier grades as not relevant.

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

from ragrounds.base.chunks import chunks
from ragrounds.base.contracts import Journal, Model, Prompts
from ragrounds.base.errors import UserError, unknown
from ragrounds.base.specs import parse
from ragrounds.base.text import language_of
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

_QUERIES_PER_BLOCK = 256


class NegativeCandidate(Struct, frozen=True):
    """Text that was found for a query."""

    text: str
    score: float
    """Cosine to the query."""


class MinedCandidates(Struct, frozen=True):
    """Candidates of one query, for a verifier."""

    example: Example
    positive: float
    """Cosine of the query and its relevant text."""
    candidates: tuple[NegativeCandidate, ...]
    """Candidates, best first."""


class Verifier(Protocol):
    """Interface that decides which candidates do not answer a query."""

    def negatives(self, candidates: Sequence[MinedCandidates]) -> list[list[bool | None]]:
        """Return a verdict for each candidate of each query.

        True if it does not answer, False if it does, ``None`` if unknown.
        """


class NegativeCounts(Struct, frozen=True, kw_only=True):
    """Numbers of candidates and of verdicts on them."""

    verifier: str = ""
    candidates: int = 0
    negative: int = 0
    positive: int = 0
    """Number of candidates that the verifier took for relevant: false negatives without verification."""
    unsaid: int = 0
    without: int = 0
    """Number of examples without a hard negative."""


def mine(
    examples: Sequence[Example],
    queries: Vectors,
    positives: Vectors,
    pool: Sequence[str],
    vectors: Vectors,
    mining: Mining,
    verifier: Verifier,
    progress: Callable[[int], None] | None = None,
) -> tuple[list[Example], NegativeCounts]:
    """Find hard negatives for every example; negatives that an example already has come first.

    Args:
        examples: In the order of `queries` and `positives`.
        queries: Their unit vectors by the document encoder.
        positives: Unit vectors of their relevant texts.
        pool: Texts to choose from.
        vectors: Unit vectors of the pool.
        mining: Settings.
        verifier: Asked about some hundred queries at a time.
        progress: Called with the number of examples that are done.
    """
    mined: list[Example] = []
    counts = {True: 0, False: 0, None: 0}
    for start in range(0, len(examples), _QUERIES_PER_BLOCK):
        scores = queries[start : start + _QUERIES_PER_BLOCK] @ vectors.T
        depth = min(mining.candidates + 1, len(pool))  # the relevant text itself is usually among them
        nearest = np.argpartition(-scores, depth - 1, axis=1)[:, :depth]
        unverified = []
        for row, positions in enumerate(nearest):
            example = examples[start + row]
            ranked = sorted(positions.tolist(), key=lambda position: (-scores[row, position], position))
            excluded_texts = {example.query, example.positive, *example.negatives}
            candidates = [
                NegativeCandidate(pool[position], float(scores[row, position]))
                for position in ranked
                if pool[position] not in excluded_texts
            ]
            positive = float(queries[start + row] @ positives[start + row])
            unverified.append(MinedCandidates(example, positive, tuple(candidates[: mining.candidates])))
        for query_candidates, verdicts in zip(unverified, verifier.negatives(unverified), strict=True):
            for verdict in verdicts:
                counts[verdict] += 1
            negatives = [
                candidate.text
                for candidate, verdict in zip(query_candidates.candidates, verdicts, strict=True)
                if verdict
            ]
            all_negatives = (*query_candidates.example.negatives, *negatives)[: mining.keep]
            mined.append(msgspec.structs.replace(query_candidates.example, negatives=all_negatives))
        if progress:
            progress(len(mined))
    return mined, NegativeCounts(
        verifier=mining.verifier,
        candidates=sum(counts.values()),
        negative=counts[True],
        positive=counts[False],
        unsaid=counts[None],
        without=sum(not example.negatives for example in mined),
    )


class MarginVerifier:
    """Verifier that compares the cosines from mining."""

    def __init__(self, share: float) -> None:
        self._share = share

    def negatives(self, candidates: Sequence[MinedCandidates]) -> list[list[bool | None]]:
        """Return the verdicts as described in :class:`Verifier`."""
        return [
            [candidate.score < self._share * query_candidates.positive for candidate in query_candidates.candidates]
            for query_candidates in candidates
        ]


def open_verifier(text: str, home: Path) -> Verifier:
    """Open a verifier by its spec.

    Args:
        text: Spec, as in the module's documentation.
        home: Folder of the journal of a language model's calls, so that none is paid for twice.

    Raises:
        UserError: no such verifier or parameter, or one of its requirements is missing.
    """
    spec = parse(text)
    parameters_by_verifier = {"margin": ("share",), "model": ("name", "base_url")}
    if spec.name not in parameters_by_verifier:
        raise unknown("verifier", spec.name, parameters_by_verifier, "docs/reference/training.md")
    for key in spec.parameters:
        if key not in parameters_by_verifier[spec.name]:
            raise unknown(
                f"parameter of {spec.name}", key, parameters_by_verifier[spec.name], "docs/reference/training.md"
            )
    parameters = spec.parameters
    if spec.name == "margin":
        share = parameters.get("share", 0.95)
        if isinstance(share, bool) or not isinstance(share, int | float):
            raise UserError(f"margin[share={share}]: expected a number.")
        return MarginVerifier(float(share))
    if not parameters.get("name"):
        raise UserError("The verifier model[…] has no model: give, for example, model[name=openai:gpt-4o-mini].")
    return ModelVerifier(str(parameters["name"]), str(parameters.get("base_url", "")), home)


PROMPT = "build/relevance_labels"
GRADES = ("S", "A", "B", "C", "D")
_NEGATIVE, _RELEVANT = frozenset("CD"), frozenset("SA")
_CANDIDATES_PER_CALL = 10
"""Number of candidates in a call."""
_MAX_CONCURRENT_CALLS = 16


class ModelVerifier:
    """Verifier that asks a language model for grades (Section 4.1): C and D do not answer, S and A do, B is not used.

    A reply that lacks a candidate is not used at all.
    """

    def __init__(self, model: str, base_url: str, home: Path) -> None:
        self._name = model
        self._base_url = base_url
        self._home = home

    def negatives(self, candidates: Sequence[MinedCandidates]) -> list[list[bool | None]]:
        """Return the verdicts as described in :class:`Verifier`.

        Raises:
            StopRun: the model cannot be asked at all.
        """
        return asyncio.run(self._verify_all(candidates))

    async def _verify_all(self, queries: Sequence[MinedCandidates]) -> list[list[bool | None]]:
        spec = with_defaults(self._name, {"base_url": self._base_url or None})
        model = open_model(spec, read_prices(self._home), self._home)
        prompts, slots = PromptFolder(), asyncio.Semaphore(_MAX_CONCURRENT_CALLS)
        with Store(self._home) as store:
            journal = StoreJournal(store)

            async def verdicts_of(query_candidates: MinedCandidates) -> list[bool | None]:
                """Return the verdicts on one query's candidates, with several candidates in a call."""
                verdicts: list[bool | None] = []
                texts = [candidate.text for candidate in query_candidates.candidates]
                for part in chunks(texts, _CANDIDATES_PER_CALL):
                    async with slots:
                        verdicts += await grade_texts(model, journal, prompts, query_candidates.example.query, part)
                return verdicts

            try:
                return await asyncio.gather(*(verdicts_of(query_candidates) for query_candidates in queries))
            finally:
                await model.close()
                journal.close()


async def grade_texts(
    model: Model, journal: Journal, prompts: Prompts, query: str, texts: Sequence[str]
) -> list[bool | None]:
    """Return for each text True if it does not answer the query, False if it does, ``None`` if unknown."""
    names = tuple(f"passage_{number}" for number in range(1, len(texts) + 1))
    contract = VerdictForm(names, GRADES)
    passages = "\n\n".join(f"{name}:\n<<<\n{fenced(text)}\n>>>" for name, text in zip(names, texts, strict=True))
    messages = prompts.render(PROMPT, language_of(query), query=fenced(query), passages=passages, form=contract.example)
    judgement = await ask(model, journal, messages, contract, node="hard negatives")
    if len(judgement.values) < len(names):
        # A grade is missing: the others may be those of neighbouring candidates.
        return [None] * len(names)
    grades = [judgement.values[name] for name in names]
    return [True if grade in _NEGATIVE else False if grade in _RELEVANT else None for grade in grades]
