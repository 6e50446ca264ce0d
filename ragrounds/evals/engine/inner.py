"""A graph that runs inside a node of another: its own question and parameters, the attempt's calls, caps and trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ragrounds.contracts import Context, Continuation, Prompts, Tool
from ragrounds.errors import UserError
from ragrounds.records import Message, Passage, Query, Question, Reply, Stem
from ragrounds.specs import Value

if TYPE_CHECKING:
    from ragrounds.evals.engine.session import Session


@dataclass(eq=False)
class InnerContext:
    """A view of a session (contract: :class:`ragrounds.contracts.Context`) in which the question is `stem`.

    Its question has no options, so nothing that runs here can show them to anything.
    """

    session: Session
    stem: Stem
    parameters: Mapping[str, Value]
    prompts: Prompts
    role: str = "answering"
    """Stands in for ``answering``."""
    question: Question = field(init=False)

    def __post_init__(self) -> None:
        item, stem = self.session.item, self.stem
        self.question = Question(
            id=stem.question_id, benchmark=item.benchmark, text=stem.text, kind="long", language=stem.language
        )

    @property
    def seed(self) -> str:
        return self.session.seed

    @property
    def continues(self) -> Continuation:
        return self.session.continues

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
    ) -> Reply:
        return await self.session.ask(
            messages,
            role=self._role(role),
            prefix=prefix,
            stop=stop,
            max_tokens=max_tokens,
            tools=tools,
            web_search=web_search,
        )

    async def search(self, query: Query, k: int) -> tuple[Passage, ...]:
        return await self.session.search(query, k)

    def passage(self, id: str) -> Passage:
        return self.session.passage(id)

    def gold_passages(self) -> tuple[Passage, ...]:
        raise UserError("A graph inside another one is never given the gold documents.")

    def asking(self, stem: Stem, *, role: str = "answering", **parameters: Value) -> Context:
        return InnerContext(self.session, stem, parameters, self.prompts, self._role(role))

    async def answer_of(self, agent: str) -> str:
        raise UserError(f"The agent {agent!r} cannot run here: one agent inside another is as deep as it goes.")

    def room(self, messages: Sequence[Message], *, role: str = "answering") -> int | None:
        return self.session.room(messages, role=self._role(role))

    def count(self, text: str, *, role: str = "answering") -> int:
        return self.session.count(text, role=self._role(role))

    def cut(self, text: str, tokens: int, *, role: str = "answering") -> str:
        return self.session.cut(text, tokens, role=self._role(role))

    def note(self, what: str, text: str) -> None:
        self.session.note(what, text)

    def _role(self, role: str) -> str:
        return self.role if role == "answering" else role


async def answer_of(session: Session, text: str) -> str:
    """Run another agent on the question's stem, inside this attempt: same models, corpus, journal and caps."""
    from ragrounds.agents.agent import checked_inner, open_agent
    from ragrounds.graphs import catalogue
    from ragrounds.prompts.loader import PromptFolder

    agent = checked_inner(open_agent(text))
    context = InnerContext(session, session.stem, agent.parameters, PromptFolder(agent.card.prompts), role="querying")
    state = await catalogue.build(agent.card.graph).compile().ainvoke({}, context=context)
    return str(state.get("answer", ""))
