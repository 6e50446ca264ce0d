"""A language model as a verifier of hard negatives; every call is journaled, and none is paid for twice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from ragrounds.contracts import Journal, Model, Prompts
from ragrounds.errors import UserError
from ragrounds.evals.judges.ask import ask
from ragrounds.evals.judges.pairs import neutral
from ragrounds.evals.judges.verdict import Contract
from ragrounds.train.mining import Asked

PROMPT = "build/relevance_labels"
GRADES = ("S", "A", "B", "C", "D")
_NEGATIVE, _RELEVANT = frozenset("CD"), frozenset("SA")
_TOGETHER = 10
"""Candidates a call."""
_AT_ONCE = 16


class Asking:
    """Grades by a language model (Section 4.1): C and D do not answer, S and A do, B is not used. Of a reply that
    lacks a candidate nothing is used."""

    def __init__(self, model: str, base_url: str, home: Path) -> None:
        self._name = model
        self._base_url = base_url
        self._home = home

    def negatives(self, asked: Sequence[Asked]) -> list[list[bool | None]]:
        """See :class:`.mining.Verifier`.

        Raises:
            StopRun: the model cannot be asked at all.
        """
        return asyncio.run(self._all(asked))

    async def _all(self, asked: Sequence[Asked]) -> list[list[bool | None]]:
        from ragrounds.evals.store.journal import StoreJournal
        from ragrounds.evals.store.store import Store
        from ragrounds.models.prices import read_prices
        from ragrounds.models.providers import open_model, with_defaults
        from ragrounds.prompts.loader import PromptFolder

        named = with_defaults(self._name, {"base_url": self._base_url or None})
        model = open_model(named, read_prices(self._home / "prices.toml"))
        prompts, free = PromptFolder(), asyncio.Semaphore(_AT_ONCE)
        with Store(self._home) as store:
            journal = StoreJournal(store)

            async def one(each: Asked) -> list[bool | None]:
                said: list[bool | None] = []
                texts = [candidate.text for candidate in each.candidates]
                for start in range(0, len(texts), _TOGETHER):
                    async with free:
                        part = texts[start : start + _TOGETHER]
                        said += await graded(model, journal, prompts, each.example.query, part)
                return said

            try:
                return await asyncio.gather(*(one(each) for each in asked))
            finally:
                await model.close()
                journal.close()


async def graded(
    model: Model, journal: Journal, prompts: Prompts, query: str, texts: Sequence[str]
) -> list[bool | None]:
    """Of each text: whether it does not answer the query; ``None``: it cannot be said."""
    names = tuple(f"passage_{number}" for number in range(1, len(texts) + 1))
    contract = Contract(names, GRADES)
    shown = "\n\n".join(f"{name}:\n<<<\n{neutral(text)}\n>>>" for name, text in zip(names, texts, strict=True))
    messages = prompts.render(PROMPT, _language(query), query=neutral(query), passages=shown, form=contract.example)
    judgement = await ask(model, journal, messages, contract, node="hard negatives")
    if len(judgement.values) < len(names):  # what is there may have slipped to a neighbour
        return [None] * len(names)
    grades = [judgement.values[name] for name in names]
    return [True if grade in _NEGATIVE else False if grade in _RELEVANT else None for grade in grades]


def _language(text: str) -> str:
    return "zh" if any("\u4e00" <= letter <= "\u9fff" for letter in text) else "en"


def open_asking(model: str, base_url: str, home: Path) -> Asking:
    """The verifier ``model[name=…]``.

    Raises:
        UserError: no model is named.
    """
    if not model:
        raise UserError("The verifier model[…] names no model: model[name=openai:gpt-4o-mini], say.")
    return Asking(model, base_url, home)
