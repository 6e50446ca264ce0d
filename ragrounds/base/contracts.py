"""The protocols (typing) that rooms meet at, and the records that pass between them. See the contracts in
docs/project/design.md."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, ClassVar, Generic, Literal, Protocol, TypedDict, TypeVar, Unpack, runtime_checkable

from msgspec import Struct

from ragrounds.base.records import (
    Answer,
    Attempt,
    Fault,
    Message,
    Passage,
    Query,
    Question,
    Reply,
    Run,
    Score,
    Stem,
    ToolAnswer,
)
from ragrounds.base.records import SearchNote as SearchNote
from ragrounds.base.records import Used as Used
from ragrounds.base.specs import Value
from ragrounds.recorder.observer import Observer
from ragrounds.recorder.wire import WireRequest, WireResponse

T = TypeVar("T", bound=Struct)
R = TypeVar("R", bound=Reply)
W = TypeVar("W")


class Entry(Struct, frozen=True, kw_only=True):
    """A call as the journal knows it."""

    key: str
    """Hash (hexadecimal) of all that determines the response."""
    kind: Literal["model", "search", "tool"]
    actor: str
    """Canonical text of the model or the searcher."""
    request: Struct
    """What was asked, to be shown in traces."""
    payer: bytes = b""
    """A mark of what this call is paid for (an attempt, a judging); empty: of nothing."""


class Tool(Struct, frozen=True, omit_defaults=True):
    """A tool as it is described to a model."""

    name: str
    description: str
    parameters: dict[str, object]
    """JSON schema of its arguments."""
    strict: bool = False
    """Have the provider hold the arguments to the schema."""

    @classmethod
    def taking(cls, argument: str, about: str, *, name: str, description: str) -> Tool:
        """A tool with one text argument, which `about` describes."""
        properties = {argument: {"type": "string", "description": about}}
        return cls(name, description, {"type": "object", "properties": properties, "required": [argument]})


class Request(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is asked of a chat model, apart from the model's own parameters.

    What is left at its default is no part of the call's key in the journal, nor of what is sent. A model that cannot
    take something of this says so; it leaves nothing out in silence.
    """

    messages: tuple[Message, ...]
    prefix: str = ""
    """What the assistant's turn begins with already: the model continues from its end, and the reply holds only what
    is new. Only for models that continue by ``prefix``."""
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    tools: tuple[Tool, ...] = ()
    web_search: bool = False
    """Let the provider search the web by its own means."""
    temperature: float | None = None
    """In place of the model's own, as is `seed`."""
    seed: int | None = None
    response_format: dict[str, object] | None = None
    """The form of the reply as OpenAI's chat completions name it: ``{"type": "json_object"}``, or ``{"type":
    "json_schema", "json_schema": {"name": …, "schema": …}}``."""
    logprobs: int | None = None
    """Have the log probability of each token of the reply, beside this many likeliest tokens in its place; 0: of the
    reply's own tokens alone."""
    tool_choice: str | None = None
    """``auto``, ``none``, ``required`` (some tool), or the name of the tool that is to be called."""
    parallel_tool_calls: bool | None = None
    """Whether a reply may call several tools."""
    occurrence: int = 0
    """0 for the first time this attempt asks exactly this; a retry after an unreadable reply, or the next sample,
    is a new occurrence and so a new call."""


class SearchRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A search as the journal records it."""

    corpus: str
    query: str
    k: int
    mean: tuple[str, ...] = ()
    """Texts whose vectors' mean is searched for in place of the query, by a retriever that can."""
    withheld: tuple[str, ...] = ()
    """Ids of documents that may not be found."""
    near: float = 0.0
    """The share of the wording of `near_to` from which a passage may not be found; 0: nothing is left out by that."""
    near_to: str = ""


class SearchResult(Struct, frozen=True):
    """What a search returned, best first."""

    passages: tuple[Passage, ...]
    used: tuple[Used, ...] = ()
    """What it may have to be paid for."""
    withheld: int = 0
    """Passages that a leak guard left out before the last of these."""
    notes: tuple[SearchNote, ...] = ()
    """What else is to be known of it; every attempt that gets this result notes it."""
    searched: str = ""
    """When a live corpus was searched: UTC, ISO 8601, to the second. Empty: the corpus has a version."""


@runtime_checkable
class Model(Protocol):
    """A chat model. `spec` is its canonical text, with every parameter that can change a reply: its identity."""

    @property
    def spec(self) -> str:
        """The model's canonical text."""

    @property
    def window(self) -> int | None:
        """Tokens that prompt and answer may take together; ``None``: not known, nothing is cut."""

    async def complete(self, request: Request, faults: list[Fault]) -> Reply:
        """Give the complete reply; every failed try is appended to `faults`.

        Raises:
            ragrounds.models.faults.CallFailed: no reply after all retries.
            ragrounds.base.errors.StopRun: the run cannot go on (wrong key, unknown model).
        """

    def count(self, text: str) -> int:
        """Tokens of a text, by the model's own tokenizer where it is known."""

    def cut(self, text: str, tokens: int, /) -> str:
        """The longest beginning of a text that has at most `tokens` tokens."""

    def price(self, reply: Reply) -> float | None:
        """Dollars of this reply; ``None`` where no price is known."""

    async def close(self) -> None:
        """Give back connections."""


class Server(Protocol[R]):
    """What gives replies and can be asked like a model: a model itself, or an address that answers questions. Its
    replies may hold more than a model's."""

    @property
    def spec(self) -> str:
        """Its canonical text, with every parameter that can change a reply."""

    async def complete(self, request: Request, faults: list[Fault]) -> R:
        """As :meth:`Model.complete`."""

    def price(self, reply: R) -> float | None:
        """Dollars of this reply; ``None`` where no price is known."""


Continuation = Literal["prefix", "turns"]
"""How a model continues a text of its own: from the middle of its turn, or in a new turn after the old one."""


@runtime_checkable
class Continuing(Protocol):
    """A model that says how it continues a text of its own; one that does not say it is taken to need ``turns``."""

    @property
    def continues(self) -> Continuation:
        """How the model continues a text of its own."""


@runtime_checkable
class Searcher(Protocol):
    """A retriever over one corpus. `spec` is its canonical text, `corpus` the corpus with its version."""

    @property
    def spec(self) -> str:
        """The retriever's canonical text."""

    @property
    def corpus(self) -> str:
        """The corpus with its version."""

    async def search(self, query: str, k: int) -> list[Passage]:
        """The `k` best passages (fewer where the corpus is smaller), best first, ranks from 1."""


@runtime_checkable
class MeanSearcher(Searcher, Protocol):
    """A dense retriever that can search for the mean of several texts' vectors (:attr:`Query.dense`)."""

    async def search_mean(self, texts: Sequence[str], k: int) -> list[Passage]:
        """The `k` passages nearest to the mean of the vectors of `texts`, best first."""


@runtime_checkable
class BatchSearcher(Searcher, Protocol):
    """A searcher that answers several queries at once faster than one after another."""

    async def search_many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """What :meth:`Searcher.search` gives for each query, in their order."""


@runtime_checkable
class Library(Searcher, Protocol):
    """A searcher that can also give the passages of a document."""

    def document(self, id: str) -> list[Passage]:
        """The passages of the document `id`, in its own order; empty where the corpus does not hold it."""


@runtime_checkable
class Prompts(Protocol):
    """Prompt texts of one agent."""

    def render(self, name: str, language: str = "en", /, **values: str) -> tuple[Message, ...]:
        """Fill the template `name`. Values are put in as text; nothing in them is interpreted."""

    def text(self, name: str, language: str = "en", /, **values: str) -> str:
        """A text without turns: a notice, a correction message."""


class Attempted(Struct, frozen=True):
    """What an agent made of a question inside the attempt of another."""

    text: str
    choice: str
    """The letter that it gives apart from its text."""
    read: str
    """The answer as the benchmark's headline scorer reads it: an option, else the text with plain spaces. Empty: it
    has none that can be read."""
    probability: float | None = None
    """The geometric mean of the probabilities of its last reply's tokens; ``None``: it was not asked for, or the server
    gives none."""


class CallArguments(TypedDict, total=False):
    """What a call may say beside its messages and role. What each means, :class:`Request` says."""

    prefix: str
    stop: Sequence[str]
    max_tokens: int | None
    tools: Sequence[Tool]
    web_search: bool
    temperature: float | None
    seed: int | None
    response_format: Mapping[str, object] | None
    logprobs: int | None
    tool_choice: str | None
    parallel_tool_calls: bool | None


class Context(Protocol):
    """What a graph's nodes get as LangGraph's runtime context: models, tools, prompts, limits of one attempt.

    Everything asked through it is journaled, replayed, limited and costed.
    """

    # LangGraph takes dataclasses as context; this member is what makes a class one.
    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def question(self) -> Question:
        """The whole question with its options: for the answering node alone.

        Reading it from an agent under question-only retrieval is final: no search, and no call that writes a query or
        reads documents, is taken from this attempt afterwards.
        """

    @property
    def stem(self) -> Stem:
        """The question without its options: for nodes that write queries or read documents."""

    @property
    def parameters(self) -> Mapping[str, Value]:
        """The agent's parameters."""

    @property
    def prompts(self) -> Prompts:
        """The agent's prompts."""

    async def ask(
        self, messages: Sequence[Message], *, role: str = "answering", **arguments: Unpack[CallArguments]
    ) -> Reply:
        """Ask the model of `role`. What each argument means, :class:`Request` says."""

    def wait(self, asked: Coroutine[object, object, W]) -> W:
        """Have a call of this context made from a plain function, and wait for it: ``context.wait(context.ask(…))``.

        For a node, or a tool, that is no coroutine: LangGraph runs it in a thread beside the attempt's event loop.

        Raises:
            UserError: this is the event loop's own thread, where waiting would stop every attempt: use ``await``.
        """

    @property
    def continues(self) -> Continuation:
        """How the answering model continues a text of its own."""

    async def search(self, query: Query, k: int, *, empty: bool = False) -> tuple[Passage, ...]:
        """Search the agent's corpus. An empty query finds nothing and is not sent, unless `empty`."""

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that the agent lists (``tools=[corpus,read,…]``), as they are described to a model; empty: it lists
        none, and has its search alone."""

    async def use(self, tool: str, arguments: Mapping[str, object], *, k: int = 5) -> ToolAnswer:
        """Use one of :attr:`tools` with arguments as its schema has them. What a search finds are `k` passages; what
        others give is a text, which says so where they failed or the arguments are not of the schema."""

    def passage(self, id: str) -> Passage:
        """A passage that a search of this attempt returned, or a tool."""

    def gold_passages(self) -> tuple[Passage, ...]:
        """The passages of the question's gold documents: for agents that are marked as oracles alone."""

    def asking(self, stem: Stem, *, role: str = "answering", **parameters: Value) -> Context:
        """The same attempt with another question, which has no options, and other parameters: for a graph that runs
        inside a node. Its calls count for the attempt, under `role`."""

    async def answer_of(self, agent: str) -> str:
        """The final answer of another agent to this question's stem, as a part of this attempt."""

    async def attempt_of(self, parameter: str, *, which: int = 0, epoch: int = 0, likely: bool = False) -> Attempted:
        """An attempt at this question by an agent that a parameter of this one names, as a part of this attempt: its
        calls, steps, cost and caps. What it asks is what it asks alone, and is journaled for both.

        Args:
            parameter: one of the graph's ``AGENTS``.
            which: of several agents that it names.
            epoch: the agent's own: an attempt of another epoch is another sample.
            likely: have the probability of its reply, where its model is asked through this context.
        """

    @property
    def epoch(self) -> int:
        """How often this agent was asked this question before."""

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


class Intervention(Protocol):
    """What a counterfactual changes in one attempt. Searches count from 1; what is asked before the changed one has the
    keys that it had, and is answered from the journal."""

    def query(self, search: int, query: Query) -> Query:
        """What is searched for in place of a query."""

    def passages(self, search: int, found: tuple[Passage, ...]) -> tuple[Passage, ...]:
        """What a search gives in place of what it found."""

    def sample(self, searches: int) -> int:
        """Which sample of a model's replies is taken after so many searches; 0: the recorded one."""

    def model(self, searches: int, role: str, model: Model) -> Model:
        """Who is asked in a role after so many searches."""

    def body(self, searches: int, body: Mapping[str, object]) -> Mapping[str, object]:
        """What a system that makes its calls itself asks its model after so many searches, in place of a body."""

    async def sent(self, request: WireRequest, body: bytes) -> WireResponse:
        """What its server answers to a request with that body, which its client does not send."""


class Observation(Observer, Protocol):
    """What a foreign system gets for one attempt: how to run it so that it is seen, whom to tell what it does, and whom
    to have asked.
    """

    @property
    def context(self) -> Context:
        """The attempt's context, for a graph that takes it as its runtime context."""

    async def ask(self, server: Server[R], request: Request, kind: type[R], *, role: str = "answering") -> R:
        """Have a server answer by our own means, as models are asked: journaled, replayed, capped and costed. `kind` is
        what its replies are.

        Raises:
            ragrounds.models.faults.CallFailed: no reply after all retries.
            ragrounds.base.errors.StopRun: the run cannot go on; or a replay does not hold the call.
        """

    def searched(
        self, query: str, passages: Sequence[Passage], tool: str, *, node: str = "", seconds: float = 0.0
    ) -> tuple[Passage, ...]:
        """As :meth:`found`, of our own records; gives what the search is to give."""


@runtime_checkable
class System(Protocol):
    """Somebody's own system: a graph, a function, an engine, an address. It is opened once and answers many questions
    at the same time."""

    @property
    def kind(self) -> str:
        """What it is, in a word or two for tables: ``LangGraph graph``, ``function``, ``HTTP endpoint``."""

    @property
    def takes_context(self) -> bool:
        """Whether it asks models and searches through :class:`Context` alone: then it is journaled like a built-in
        graph, and nothing of it is watched at the wire."""

    async def answer(self, question: Question, seen: Observation) -> Answer:
        """Answer one question. It may raise anything.

        Raises:
            ragrounds.base.errors.AskedPerson: it stopped to ask a person, and nobody was named to answer.
        """


@runtime_checkable
class Closing(Protocol):
    """A system that holds something open between the attempts."""

    async def close(self) -> None:
        """Give it back."""


class Journal(Protocol):
    """Records every call before its result is used."""

    async def once(self, entry: Entry, make: Callable[[], Awaitable[T]], kind: type[T]) -> tuple[T, bool]:
        """The response recorded under ``entry.key``, or the response of `make`, durable before it is returned.

        Equal calls in flight are made once. The flag says whether the response was already there and costs nothing
        now. What an attempt paid for before it was killed or failed is still to be counted as paid by it, once: the
        flag is false where the recorded call bears the mark of the asking attempt.

        Raises:
            ragrounds.base.errors.StopRun: the journal cannot be written, or only replays and does not hold the call.
        """


class FinishedAttempt(Struct, frozen=True):
    """An attempt that has ended, with its scores."""

    run: Run
    attempt: Attempt
    """Without its events where another process made it."""
    scores: tuple[Score, ...]
    tokens_made: int | None = None
    """Tokens of the calls that were not answered from the journal; ``None``: unknown."""
    billable: float | None = None
    """Dollars that a budget counts: paid, and a request's price where the call's own is unknown; ``None``: unknown."""


class Stop(Protocol):
    """A reason to end a run before its last question: a budget, or a comparison that is decided."""

    @property
    def epochs_together(self) -> bool:
        """Whether a question is to be asked in all its epochs before the next; else epoch after epoch."""

    def observe(self, finished: FinishedAttempt) -> None:
        """Take note of an attempt that has ended. They come in no particular order."""

    def reached(self) -> str:
        """Say why no further question is to be begun; empty: nothing. Asked between questions, never inside one."""


Event = TypeVar("Event")


class EventCollector(Generic[Event]):
    """Events of one kind that code deep below reports, and that whoever called it may collect (a context variable).

    A search reports the vectors that it had made, a reader of benchmarks the files that it read.
    """

    def __init__(self, name: str) -> None:
        self._collected: ContextVar[list[Event] | None] = ContextVar(name, default=None)

    @contextlib.contextmanager
    def collecting(self) -> Iterator[list[Event]]:
        """Collect everything that is reported in the block, also in the tasks and threads that are begun in it."""
        collected: list[Event] = []
        token = self._collected.set(collected)
        try:
            yield collected
        finally:
            self._collected.reset(token)

    def report(self, event: Event) -> None:
        """Report an event. Where nobody collects, nothing happens."""
        collected = self._collected.get()
        if collected is not None:
            collected.append(event)
