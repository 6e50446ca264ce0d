"""Protocols (typing) between packages, and the records that they exchange. See the contracts in
docs/project/design.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, ClassVar, Generic, Literal, Protocol, TypedDict, TypeVar, Unpack, runtime_checkable

from msgspec import Struct

from ragrounds.base.records import (
    Answer,
    Attempt,
    CallKind,
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
    """A call, as the journal identifies it."""

    key: str
    """Hash (hexadecimal) of everything that determines the response."""
    kind: CallKind
    actor: str
    """Canonical spec of the model or the searcher."""
    request: Struct
    """The request, to be shown in traces."""
    payer: bytes = b""
    """Mark of the work that pays for this call (an attempt, a judging). Empty if nothing does."""


class Tool(Struct, frozen=True, omit_defaults=True):
    """Description of a tool for a model."""

    name: str
    description: str
    parameters: dict[str, object]
    """JSON schema of its arguments."""
    strict: bool = False
    """True if the provider must enforce the schema of the arguments."""

    @classmethod
    def taking(cls, argument: str, about: str, *, name: str, description: str) -> Tool:
        """Return a tool with one text argument, which `about` describes."""
        properties = {argument: {"type": "string", "description": about}}
        return cls(name, description, {"type": "object", "properties": properties, "required": [argument]})


class Request(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Request to a chat model, without the model's own parameters.

    A field with its default value is neither sent nor part of the call's key in the journal. A model that does not
    support a field raises an error; it never ignores one silently.
    """

    messages: tuple[Message, ...]
    prefix: str = ""
    """Given beginning of the assistant's turn. The model continues from its end, and the reply contains only the new
    text.

    Only for models that continue by ``prefix``.
    """
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    tools: tuple[Tool, ...] = ()
    web_search: bool = False
    """True if the provider may search the web by its own means."""
    temperature: float | None = None
    """Overrides the model's own temperature, as `seed` overrides its seed."""
    seed: int | None = None
    response_format: dict[str, object] | None = None
    """Format of the reply in the terms of OpenAI's chat completions: ``{"type": "json_object"}``, or ``{"type":
    "json_schema", "json_schema": {"name": …, "schema": …}}``.
    """
    logprobs: int | None = None
    """Number of most likely tokens to return per position, with log probabilities. 0 returns only the reply's own
    tokens.
    """
    tool_choice: str | None = None
    """``auto``, ``none``, ``required`` (some tool), or the name of the tool to call."""
    parallel_tool_calls: bool | None = None
    """True if several tools may be called in one reply."""
    occurrence: int = 0
    """Number of earlier identical requests in this attempt.

    A retry after an unreadable reply, or the next sample, is a new occurrence and therefore a new call.
    """


def json_schema(name: str, schema: Mapping[str, object]) -> dict[str, object]:
    """Return the :attr:`Request.response_format` that demands a JSON schema."""
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema}}


class SearchRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A search as the journal records it."""

    corpus: str
    query: str
    k: int
    mean: tuple[str, ...] = ()
    """Texts whose mean vector is searched for instead of the query, if the retriever supports it."""
    withheld: tuple[str, ...] = ()
    """Ids of documents that must not be returned."""
    near: float = 0.0
    """Share of the wording of `near_to` from which on a passage is left out. 0 if no passage is left out for its
    wording.
    """
    near_to: str = ""


class SearchResult(Struct, frozen=True):
    """Result of a search, best passage first."""

    passages: tuple[Passage, ...]
    used: tuple[Used, ...] = ()
    """Server use that may have to be paid for."""
    withheld: int = 0
    """Number of passages ranked above the last one that a leak guard left out."""
    notes: tuple[SearchNote, ...] = ()
    """Further remarks. Every attempt that gets this result records them."""
    searched: str = ""
    """Time at which a live corpus was searched: UTC, ISO 8601, to the second. Empty if the corpus has a version."""


@runtime_checkable
class Model(Protocol):
    """A chat model. `spec` is its identity: the canonical text with every parameter that can change a reply."""

    @property
    def spec(self) -> str:
        """Return the model's canonical text."""

    @property
    def window(self) -> int | None:
        """Return the maximum number of tokens of prompt and answer together. ``None`` if unknown; then nothing is
        cut.
        """

    async def complete(self, request: Request, faults: list[Fault]) -> Reply:
        """Return the complete reply. Every failed try is appended to `faults`.

        Raises:
            ragrounds.models.faults.CallFailed: no reply after all retries.
            ragrounds.base.errors.StopRun: the run cannot continue (wrong key, unknown model).
        """

    def count(self, text: str) -> int:
        """Count the tokens of a text, by the model's own tokenizer if it is known."""

    def cut(self, text: str, tokens: int, /) -> str:
        """Return the longest beginning of a text that has at most `tokens` tokens."""

    def price(self, reply: Reply) -> float | None:
        """Return the price of this reply in US dollars, or ``None`` if no price is known."""

    async def close(self) -> None:
        """Close the connections."""


class Server(Protocol[R]):
    """A source of replies that can be called like a model: a model itself, or an endpoint that answers questions.

    Its replies may contain more fields than a model's.
    """

    @property
    def spec(self) -> str:
        """Return the canonical text with every parameter that can change a reply."""

    async def complete(self, request: Request, faults: list[Fault]) -> R:
        """Return the complete reply, as :meth:`Model.complete` does."""

    def price(self, reply: R) -> float | None:
        """Return the price of this reply in US dollars, or ``None`` if no price is known."""


Continuation = Literal["prefix", "turns"]
"""Way in which a model continues its own text: from the middle of its turn, or in a new turn after the old one."""


@runtime_checkable
class Continuing(Protocol):
    """A model that declares how it continues its own text. Any other model is treated as ``turns``."""

    @property
    def continues(self) -> Continuation:
        """Return how the model continues its own text."""


@runtime_checkable
class Searcher(Protocol):
    """A retriever over one corpus. `spec` is its canonical text, `corpus` the corpus with its version."""

    @property
    def spec(self) -> str:
        """Return the retriever's canonical text."""

    @property
    def corpus(self) -> str:
        """Return the corpus with its version."""

    async def search(self, query: str, k: int) -> list[Passage]:
        """Return the `k` best passages (fewer if the corpus is smaller), best first, ranks from 1."""


@runtime_checkable
class MeanSearcher(Searcher, Protocol):
    """A dense retriever that can search for the mean of several texts' vectors (:attr:`Query.dense`)."""

    async def search_mean(self, texts: Sequence[str], k: int) -> list[Passage]:
        """Return the `k` passages nearest to the mean of the vectors of `texts`, best first."""


@runtime_checkable
class BatchSearcher(Searcher, Protocol):
    """A searcher that answers several queries together faster than one after another."""

    async def search_many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Return the results of :meth:`Searcher.search` for each query, in their order."""


@runtime_checkable
class Library(Searcher, Protocol):
    """A searcher that can also return the passages of a document."""

    def document(self, id: str) -> list[Passage]:
        """Return the passages of the document `id`, in their order. Empty if the corpus does not contain it."""


@runtime_checkable
class Prompts(Protocol):
    """Prompt texts of one agent."""

    def render(self, name: str, language: str = "en", /, **values: str) -> tuple[Message, ...]:
        """Fill the template `name`. Values are inserted as plain text and never interpreted."""

    def text(self, name: str, language: str = "en", /, **values: str) -> str:
        """Return a text without turns: a notice, a correction message."""


class Attempted(Struct, frozen=True):
    """Answer of an agent that ran inside another agent's attempt."""

    text: str
    choice: str
    """Letter that the agent returned separately from its text."""
    read: str
    """Answer according to the benchmark's headline scorer: an option, else the text with plain spaces.

    Empty if no answer can be read.
    """
    probability: float | None = None
    """Geometric mean of the token probabilities of the last reply. ``None`` if not requested or not reported by the
    server.
    """


class CallArguments(TypedDict, total=False):
    """Optional arguments of a call besides its messages and role. :class:`Request` describes each."""

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
    """Runtime context of a graph's nodes in LangGraph: models, tools, prompts and limits of one attempt.

    Every call through it is journaled, replayed, limited and costed.
    """

    # LangGraph accepts dataclasses as context. A class counts as a dataclass if it has this member.
    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def question(self) -> Question:
        """Return the whole question with its options, for the answering node only.

        Under question-only retrieval, reading it is final: this attempt then refuses every search, and every call that
        writes a query or reads documents.
        """

    @property
    def stem(self) -> Stem:
        """Return the question without its options, for nodes that write queries or read documents."""

    @property
    def parameters(self) -> Mapping[str, Value]:
        """Return the agent's parameters."""

    @property
    def prompts(self) -> Prompts:
        """Return the agent's prompts."""

    async def ask(
        self, messages: Sequence[Message], *, role: str = "answering", **arguments: Unpack[CallArguments]
    ) -> Reply:
        """Call the model of `role`. :class:`Request` describes each argument."""

    def wait(self, coroutine: Coroutine[object, object, W]) -> W:
        """Run a call of this context from a synchronous function and wait for it: ``context.wait(context.ask(…))``.

        For a node or a tool that is not a coroutine. LangGraph runs it in a thread, outside the attempt's event loop.

        Raises:
            UserError: this is the event loop's own thread, where waiting would stop every attempt: use ``await``.
        """

    @property
    def continues(self) -> Continuation:
        """Return how the answering model continues its own text."""

    async def search(self, query: Query, k: int, *, empty: bool = False) -> tuple[Passage, ...]:
        """Search the agent's corpus. An empty query returns nothing and is not sent, unless `empty` is set."""

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Return the tools that the agent lists (``tools=[corpus,read,…]``), as described to a model.

        Empty if the agent lists none and has only its search.
        """

    async def use(self, tool: str, arguments: Mapping[str, object], *, k: int = 5) -> ToolAnswer:
        """Use one of :attr:`tools` with arguments that follow its schema.

        A search returns `k` passages. Any other tool returns a text, which reports a failure or wrong arguments.
        """

    def passage(self, id: str) -> Passage:
        """Return a passage that a search or a tool of this attempt returned."""

    def gold_passages(self) -> tuple[Passage, ...]:
        """Return the passages of the question's gold documents, for agents marked as oracles only."""

    def asking(self, stem: Stem, *, role: str = "answering", **parameters: Value) -> Context:
        """Return this attempt's context with another question, without options, and other parameters.

        It serves a graph that runs inside a node. Its calls count for the attempt, under `role`.
        """

    async def answer_of(self, agent: str) -> str:
        """Return the final answer of another agent to this question's stem, as a part of this attempt."""

    async def attempt_of(self, parameter: str, *, which: int = 0, epoch: int = 0, likely: bool = False) -> Attempted:
        """Run another agent on this question as a part of this attempt: its calls, steps, cost and caps count here.

        Its calls are the same as if it ran alone, and are journaled for both.

        Args:
            parameter: one of the graph's ``AGENTS``, a parameter that names the agent.
            which: index of the agent, if the parameter names several.
            epoch: the other agent's epoch. Each epoch is a separate sample.
            likely: True to request the probability of its reply, if its model is called through this context.
        """

    @property
    def epoch(self) -> int:
        """Return the number of earlier attempts of this agent at this question."""

    def room(self, messages: Sequence[Message], *, role: str = "answering") -> int | None:
        """Return the number of tokens left in the model's window after `messages` and the answer. ``None`` if
        unknown.
        """

    def follows_schemas(self, *, role: str = "answering") -> bool:
        """Return True if the model's server is known to make replies follow a JSON schema (`response_format`)."""

    def count(self, text: str, *, role: str = "answering") -> int:
        """Count the tokens of a text, by the model's tokenizer if it is known."""

    def cut(self, text: str, tokens: int, *, role: str = "answering") -> str:
        """Return the longest beginning of a text that has at most `tokens` tokens."""

    @property
    def seed(self) -> str:
        """Return the seed of every random choice of this attempt. It depends on question and epoch, never on the
        clock.
        """

    def note(self, remark: str, text: str) -> None:
        """Add a remark to the trace."""


class Intervention(Protocol):
    """Change that a counterfactual makes to one attempt.

    Searches count from 1. Calls before the changed search keep their keys and are answered from the journal. A subclass
    defines what it changes; by default nothing is changed.
    """

    def query(self, search: int, query: Query) -> Query:
        """Return the query to search for instead of the original one."""
        return query

    def passages(self, search: int, results: tuple[Passage, ...]) -> tuple[Passage, ...]:
        """Return the passages that a search returns instead of its results."""
        return results

    def sample(self, searches: int) -> int:
        """Return the number of the model-reply sample to use after so many searches. 0 is the recorded one."""
        return 0

    def model(self, searches: int, role: str, model: Model) -> Model:
        """Return the model to call in a role after so many searches."""
        return model

    def body(self, searches: int, body: Mapping[str, object]) -> Mapping[str, object]:
        """Return the request body of a system that calls its model itself, to replace `body` after so many searches."""
        return body

    async def sent(self, request: WireRequest, body: bytes) -> WireResponse:
        """Return the server's response to a request with the changed body. The system's client does not send this
        request.
        """
        raise AssertionError(f"no request to {request.url} was changed")


class Observation(Observer, Protocol):
    """Interface of a foreign system to one attempt: how to run observed, where to report events, and how to request
    calls.
    """

    @property
    def context(self) -> Context:
        """Return the attempt's context, for a graph that takes it as its runtime context."""

    async def ask(self, server: Server[R], request: Request, kind: type[R], *, role: str = "answering") -> R:
        """Call a server as models are called: journaled, replayed, capped and costed. `kind` is the class of its
        replies.

        Raises:
            ragrounds.models.faults.CallFailed: no reply after all retries.
            ragrounds.base.errors.StopRun: the run cannot continue, or a replay lacks the call.
        """

    def searched(
        self, query: str, passages: Sequence[Passage], tool: str, *, node: str = "", seconds: float = 0.0
    ) -> tuple[Passage, ...]:
        """Record a search as :meth:`found` does, with ragrounds' records. Return the passages that the search must
        return.
        """


@runtime_checkable
class System(Protocol):
    """A user's system: a graph, a function, an engine, an endpoint.

    It is opened once and answers many questions at the same time.
    """

    @property
    def kind(self) -> str:
        """Return a short description for tables: ``LangGraph graph``, ``function``, ``HTTP endpoint``."""

    @property
    def takes_context(self) -> bool:
        """Return True if the system calls models and searches only through :class:`Context`.

        It is then journaled like a built-in graph, and its network traffic is not watched.
        """

    async def answer(self, question: Question, seen: Observation) -> Answer:
        """Answer one question. Any exception may be raised.

        Raises:
            ragrounds.base.errors.AskedPerson: the system stopped to ask a person, and no answerer was configured.
        """


@runtime_checkable
class Closing(Protocol):
    """A system that keeps resources open between the attempts."""

    async def close(self) -> None:
        """Release the resources."""


class Journal(Protocol):
    """Recorder of every call, before its result is used."""

    async def once(self, entry: Entry, make: Callable[[], Awaitable[T]], kind: type[T]) -> tuple[T, bool]:
        """Return the response recorded under ``entry.key``, or call `make`, record its response durably, and return
        that.

        Equal calls in flight are made once. The returned flag is True if the response was recorded before and costs
        nothing now. If an attempt paid for a call before it was killed or failed, that cost must still count once. The
        flag is therefore False if the recorded call has the mark of the asking attempt.

        Raises:
            ragrounds.base.errors.StopRun: the journal cannot be written, or it only replays and lacks the call.
        """


class FinishedAttempt(Struct, frozen=True):
    """A finished attempt with its scores."""

    run: Run
    attempt: Attempt
    """The attempt, without its events if another process made it."""
    scores: tuple[Score, ...]
    tokens_made: int | None = None
    """Number of tokens of the calls that were not answered from the journal. ``None`` if unknown."""
    billable: float | None = None
    """US dollars that a budget counts: the paid cost, and a request's price if the call's cost is unknown. ``None`` if
    unknown.
    """


class Stop(Protocol):
    """A condition that ends a run before its last question: a budget, or a decided comparison."""

    @property
    def epochs_together(self) -> bool:
        """Return True if all epochs of a question must run before the next question, False if epoch follows epoch."""

    def observe(self, finished: FinishedAttempt) -> None:
        """Record a finished attempt. Attempts arrive in no particular order."""

    def reached(self) -> str:
        """Return the reason why no further question may start, or an empty text. Called between questions, never inside
        one.
        """


Event = TypeVar("Event")


class EventCollector(Generic[Event]):
    """Collector of events of one kind that inner code reports to any of its callers (a context variable).

    A search reports the vectors that it requested, a reader of benchmarks the files that it read.
    """

    def __init__(self, name: str) -> None:
        self._collected: ContextVar[list[Event] | None] = ContextVar(name, default=None)

    @contextlib.contextmanager
    def collecting(self) -> Iterator[list[Event]]:
        """Collect every event reported in the block, also from tasks and threads that start in it."""
        collected: list[Event] = []
        token = self._collected.set(collected)
        try:
            yield collected
        finally:
            self._collected.reset(token)

    def report(self, event: Event) -> None:
        """Report an event. It is ignored if no caller collects."""
        collected = self._collected.get()
        if collected is not None:
            collected.append(event)
