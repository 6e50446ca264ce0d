"""The context of a graph that runs inside a node of another (contract: :class:`ragrounds.contracts.Context`)."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ragrounds.contracts import Context, Continuation, Prompts, Tool
from ragrounds.errors import UserError
from ragrounds.records import Message, Passage, Query, Question, Reply, Stem, ToolAnswer
from ragrounds.specs import Value

W = TypeVar("W")


@dataclass(eq=False)
class NestedContext:
    """The context of a graph that runs inside a node of another (contract: :class:`ragrounds.contracts.Context`).

    Its question is `stem` and has no options, so nothing that runs here can show them to anything. What it asks and
    searches is a part of `attempt`.
    """

    attempt: Context
    benchmark: str
    stem: Stem
    parameters: Mapping[str, Value]
    prompts: Prompts
    role: str = "answering"
    """Stands in for ``answering``."""
    question: Question = field(init=False)

    def __post_init__(self) -> None:
        stem, benchmark = self.stem, self.benchmark
        self.question = Question(
            id=stem.question_id, benchmark=benchmark, text=stem.text, kind="long", language=stem.language
        )

    @property
    def seed(self) -> str:
        """As that of the attempt."""
        return self.attempt.seed

    @property
    def continues(self) -> Continuation:
        """How the answering model continues a text of its own."""
        return self.attempt.continues

    async def ask(
        self,
        messages: Sequence[Message],
        *,
        role: str = "answering",
        prefix: str = "",
        stop: Sequence[str] = (),
        max_tokens: int | None = None,
        tools: Sequence[Tool] = (),
        web_search: bool = False,
        temperature: float | None = None,
        seed: int | None = None,
        response_format: Mapping[str, object] | None = None,
        logprobs: int | None = None,
        tool_choice: str | None = None,
        parallel_tool_calls: bool | None = None,
    ) -> Reply:
        """Ask as the attempt does, with `role` in place of ``answering``."""
        return await self.attempt.ask(
            messages,
            role=self._role(role),
            prefix=prefix,
            stop=stop,
            max_tokens=max_tokens,
            tools=tools,
            web_search=web_search,
            temperature=temperature,
            seed=seed,
            response_format=response_format,
            logprobs=logprobs,
            tool_choice=tool_choice,
            parallel_tool_calls=parallel_tool_calls,
        )

    def wait(self, asked: Coroutine[object, object, W]) -> W:
        """Wait as the attempt does."""
        return self.attempt.wait(asked)

    async def search(self, query: Query, k: int, *, empty: bool = False) -> tuple[Passage, ...]:
        """Search the attempt's corpus."""
        return await self.attempt.search(query, k, empty=empty)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools of the attempt's agent."""
        return self.attempt.tools

    async def use(self, tool: str, arguments: Mapping[str, object], *, k: int = 5) -> ToolAnswer:
        """Use a tool of the attempt's agent."""
        return await self.attempt.use(tool, arguments, k=k)

    def passage(self, id: str) -> Passage:
        """Give a passage that a search of the attempt returned."""
        return self.attempt.passage(id)

    def gold_passages(self) -> tuple[Passage, ...]:
        """Refuse: a nested graph is no oracle.

        Raises:
            UserError: always.
        """
        raise UserError("A graph inside another one is never given the gold documents.")

    def asking(self, stem: Stem, *, role: str = "answering", **parameters: Value) -> Context:
        """Give another nested context of the same attempt."""
        return NestedContext(self.attempt, self.benchmark, stem, parameters, self.prompts, self._role(role))

    async def answer_of(self, agent: str) -> str:
        """Refuse: agents are nested once.

        Raises:
            UserError: always.
        """
        raise UserError(f"The agent {agent!r} cannot run here: one agent inside another is as deep as it goes.")

    def room(self, messages: Sequence[Message], *, role: str = "answering") -> int | None:
        """Tokens left beside `messages` and the answer; ``None``: the model's window is not known."""
        return self.attempt.room(messages, role=self._role(role))

    def count(self, text: str, *, role: str = "answering") -> int:
        """Tokens of a text, by the model's tokenizer."""
        return self.attempt.count(text, role=self._role(role))

    def cut(self, text: str, tokens: int, *, role: str = "answering") -> str:
        """The longest beginning of a text that has at most `tokens` tokens."""
        return self.attempt.cut(text, tokens, role=self._role(role))

    def note(self, what: str, text: str) -> None:
        """Leave a remark in the attempt's trace."""
        self.attempt.note(what, text)

    def _role(self, role: str) -> str:
        return self.role if role == "answering" else role
