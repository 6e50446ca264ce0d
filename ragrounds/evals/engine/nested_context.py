"""Context of a graph that runs inside a node of another (contract: :class:`ragrounds.base.contracts.Context`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Unpack

from ragrounds.base.contracts import Attempted, CallArguments, Context, Prompts
from ragrounds.base.errors import UserError
from ragrounds.base.records import Message, Passage, Question, Reply, Stem
from ragrounds.base.specs import Value


@dataclass(eq=False)
class NestedContext:
    """Context of a graph that runs inside a node of another (contract: :class:`ragrounds.base.contracts.Context`).

    Its question is `stem` and has no options, so that nothing that runs here can reveal them. Its calls and searches
    are a part of `attempt`.
    """

    attempt: Context
    benchmark: str
    stem: Stem
    parameters: Mapping[str, Value]
    prompts: Prompts
    role: str = "answering"
    """Role that replaces ``answering``."""
    question: Question = field(init=False)

    def __post_init__(self) -> None:
        stem, benchmark = self.stem, self.benchmark
        self.question = Question(
            id=stem.question_id, benchmark=benchmark, text=stem.text, kind="long", language=stem.language
        )
        # Everything else is shared with the attempt, so that caps, journal and trace are kept in one place.
        attempt = self.attempt
        self.seed, self.epoch = attempt.seed, attempt.epoch
        self.continues, self.tools = attempt.continues, attempt.tools
        self.search, self.use, self.passage = attempt.search, attempt.use, attempt.passage
        self.wait, self.note = attempt.wait, attempt.note

    async def ask(
        self, messages: Sequence[Message], *, role: str = "answering", **arguments: Unpack[CallArguments]
    ) -> Reply:
        """Ask as the attempt does, with `role` in place of ``answering``."""
        return await self.attempt.ask(messages, role=self._role(role), **arguments)

    def room(self, messages: Sequence[Message], *, role: str = "answering") -> int | None:
        """Return the number of tokens that `messages` and the answer leave free; ``None`` if the model's window is not
        known.
        """
        return self.attempt.room(messages, role=self._role(role))

    def follows_schemas(self, *, role: str = "answering") -> bool:
        """Return True if the model's server is known to make replies follow a JSON schema."""
        return self.attempt.follows_schemas(role=self._role(role))

    def count(self, text: str, *, role: str = "answering") -> int:
        """Count the tokens of a text, by the model's tokenizer."""
        return self.attempt.count(text, role=self._role(role))

    def cut(self, text: str, tokens: int, *, role: str = "answering") -> str:
        """Return the longest beginning of a text that has at most `tokens` tokens."""
        return self.attempt.cut(text, tokens, role=self._role(role))

    def asking(self, stem: Stem, *, role: str = "answering", **parameters: Value) -> Context:
        """Return another nested context of the same attempt."""
        return NestedContext(self.attempt, self.benchmark, stem, parameters, self.prompts, self._role(role))

    def gold_passages(self) -> tuple[Passage, ...]:
        """Refuse, because a nested graph is no oracle.

        Raises:
            UserError: always.
        """
        raise UserError("A graph inside another one is never given the gold documents.")

    async def answer_of(self, agent: str) -> str:
        """Refuse, because agents are nested only once.

        Raises:
            UserError: always.
        """
        raise UserError(f"The agent {agent!r} cannot run here: one agent inside another is as deep as it goes.")

    async def attempt_of(self, parameter: str, *, which: int = 0, epoch: int = 0, likely: bool = False) -> Attempted:
        """Refuse, like :meth:`answer_of`.

        Raises:
            UserError: always.
        """
        raise UserError(f"The agents of {parameter!r} cannot run here: a graph inside a node runs no other agent.")

    def _role(self, role: str) -> str:
        return self.role if role == "answering" else role
