"""The protocols (typing) that rooms meet at. See the six contracts in docs/design.md."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol, TypeVar, runtime_checkable

from msgspec import Struct

from ragrounds.records import (
    Attempt,
    Fault,
    Gold,
    Message,
    Passage,
    Query,
    Question,
    Reply,
    Score,
    Stem,
)
from ragrounds.specs import Value

T = TypeVar("T", bound=Struct)


class Entry(Struct, frozen=True, kw_only=True):
    """A call as the journal knows it."""

    key: str
    """Hash (hexadecimal) of all that determines the response."""
    kind: Literal["model", "search", "tool"]
    actor: str
    """Canonical text of the model or the searcher."""
    request: Struct
    """What was asked, to be shown in traces."""


class Request(Struct, frozen=True, kw_only=True):
    """What is asked of a chat model, apart from the model's own parameters."""

    messages: tuple[Message, ...]
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    occurrence: int = 0
    """0 for the first time this attempt asks exactly this; a retry after an unparsable reply, or the next sample,
    is a new occurrence and so a new call."""


@runtime_checkable
class Model(Protocol):
    """A chat model. `spec` is its canonical text, with every parameter that can change a reply: its identity."""

    @property
    def spec(self) -> str: ...

    @property
    def window(self) -> int | None:
        """Tokens that prompt and answer may take together; ``None``: not known, nothing is cut."""

    async def complete(self, request: Request, faults: list[Fault]) -> Reply:
        """Give the complete reply; every failed try is appended to `faults`.

        Raises:
            ragrounds.models.faults.CallFailed: no reply after all retries.
            ragrounds.errors.StopRun: the run cannot go on (wrong key, unknown model).
        """

    def count(self, text: str) -> int:
        """Tokens of a text, by the model's own tokenizer where it is known."""

    def cut(self, text: str, tokens: int, /) -> str:
        """The longest beginning of a text that has at most `tokens` tokens."""

    def price(self, reply: Reply) -> float | None:
        """Dollars of this reply; ``None`` where no price is known."""

    async def close(self) -> None:
        """Give back connections."""


@runtime_checkable
class Searcher(Protocol):
    """A retriever over one corpus. `spec` is its canonical text, `corpus` the corpus with its version."""

    @property
    def spec(self) -> str: ...

    @property
    def corpus(self) -> str: ...

    async def search(self, query: str, k: int) -> list[Passage]:
        """The `k` best passages (fewer where the corpus is smaller), best first, ranks from 1."""


@runtime_checkable
class Prompts(Protocol):
    """Prompt texts of one agent."""

    def render(self, name: str, language: str = "en", /, **values: str) -> tuple[Message, ...]:
        """Fill the template `name`. Values are put in as text; nothing in them is interpreted."""

    def text(self, name: str, language: str = "en", /, **values: str) -> str:
        """A text without turns: a notice, a correction message."""


class Context(Protocol):
    """What a graph's nodes get as LangGraph's runtime context: models, tools, prompts, limits of one attempt.

    Everything asked through it is journaled, replayed, limited and costed.
    """

    # LangGraph takes dataclasses as context; this member is what makes a class one.
    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def question(self) -> Question:
        """The whole question with its options: for the answering node alone."""

    @property
    def stem(self) -> Stem:
        """The question without its options: for nodes that write queries or read documents."""

    @property
    def parameters(self) -> Mapping[str, Value]: ...

    @property
    def prompts(self) -> Prompts: ...

    async def ask(
        self,
        messages: Sequence[Message],
        *,
        role: str = "answering",
        stop: Sequence[str] = (),
        max_tokens: int | None = None,
    ) -> Reply:
        """Ask the model of `role`."""

    async def search(self, query: Query, k: int) -> tuple[Passage, ...]:
        """Search the agent's corpus."""

    def passage(self, id: str) -> Passage:
        """A passage that a search of this attempt returned."""

    def room(self, messages: Sequence[Message], *, role: str = "answering") -> int | None:
        """Tokens left in the model's window beside `messages` and the answer; ``None``: no known window."""

    def count(self, text: str, *, role: str = "answering") -> int:
        """Tokens of a text, by the model's tokenizer where it is known."""

    def cut(self, text: str, tokens: int, *, role: str = "answering") -> str:
        """The longest beginning of a text that has at most `tokens` tokens."""

    @property
    def seed(self) -> str:
        """What every random choice of this attempt is drawn from: question and epoch, never the clock."""

    def note(self, what: str, text: str) -> None:
        """Leave a remark in the trace."""


class Journal(Protocol):
    """Records every call before its result is used."""

    async def once(self, entry: Entry, make: Callable[[], Awaitable[T]], kind: type[T]) -> tuple[T, bool]:
        """The response recorded under ``entry.key``, or the response of `make`, durable before it is returned.

        Equal calls in flight are made once. The flag says whether the response was already there.

        Raises:
            ragrounds.errors.StopRun: the journal cannot be written, or only replays and does not hold the call.
        """


class Scorer(Protocol):
    """A pure function from a stored attempt and its gold to a score, under one named protocol."""

    @property
    def protocol(self) -> str: ...

    def score(self, attempt: Attempt, question: Question, gold: Gold) -> Score: ...
