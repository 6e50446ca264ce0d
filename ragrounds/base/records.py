"""The vocabulary: small frozen records that every room may import.

Events of an attempt are flat and append-only; the tree run → attempt → step → call is derived from them by
`ragrounds.evals.trace.traces`. Times are wall-clock seconds since the epoch (`at`), durations are seconds of
a monotonic clock, money is US dollars, tokens are the provider's own counts. A figure that is not known is ``None``,
never 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta, Struct, field, structs

Kind = Literal["choice", "long", "extraction"]
Status = Literal["completed", "blocked", "failed", "capped", "paused", "not_run"]
AnswerStatus = Literal["answered", "abstained", "refused", "unreadable", "empty"]
Speaker = Literal["system", "user", "assistant", "tool"]


class Stem(Struct, frozen=True):
    """A question without its options: all that nodes which write queries or read documents may see."""

    question_id: str
    text: str
    language: str = "en"


class Question(Struct, frozen=True, kw_only=True):
    """One item of a benchmark as graphs and tools see it. The gold answer is not here: see :class:`Gold`."""

    id: str
    benchmark: str
    """Canonical name, ``family/dataset``: ``mirage/pubmedqa``."""
    text: str
    kind: Kind = "choice"
    split: str = "test"
    options: dict[str, str] = field(default_factory=dict)
    """Letter → text, in the benchmark's own order; empty where `kind` is not ``choice``."""
    group: str = ""
    """Subject or specialty, for tables."""
    cluster: str = ""
    """Questions that are not independent (duplicates, same source) share a cluster; empty: a cluster of its own."""
    language: str = "en"
    metadata: dict[str, str] = field(default_factory=dict)

    @property
    def stem(self) -> Stem:
        """The question without its options."""
        return Stem(self.id, self.text, self.language)


class Gold(Struct, frozen=True, kw_only=True):
    """What is right. Only scorers, the oracle agent and the analyses may see it."""

    question_id: str
    answer: str
    """The letter of the right option, or a reference answer."""
    documents: tuple[str, ...] = ()
    """Ids of the documents that hold the answer."""
    facts: tuple[tuple[str, ...], ...] = ()
    """Required facts of a long answer; each is a tuple of accepted wordings."""
    withheld: tuple[str, ...] = ()
    """Ids of documents that no search for this question may find (``guard.jsonl`` of the benchmark)."""


class Query(Struct, frozen=True):
    """What is searched for. Made from a :class:`Stem` or from text a model wrote, never from a `Question`:
    this is how question-only retrieval (MIRAGE, Section 3.1) is kept by type."""

    text: str
    dense: tuple[str, ...] = ()
    """What dense retrievers embed in place of `text`: the mean of the vectors of these. Empty: `text`."""

    @classmethod
    def of(cls, stem: Stem) -> Query:
        """Search for the question itself."""
        return cls(stem.text)


class Passage(Struct, frozen=True, kw_only=True):
    """One search result."""

    id: str
    document: str
    title: str
    text: str
    corpus: str
    score: float = 0.0
    rank: int = 0
    """From 1, best first; 0: not ranked."""
    retriever: str = ""
    chunk: str = ""
    """Id of the chunk by which this whole document was found; empty: the passage itself was found."""


class ToolCall(Struct, frozen=True):
    """A model's wish to use a tool. Nothing in it is trusted: `arguments` is text that should be a JSON object."""

    id: str
    name: str
    arguments: str


class Message(Struct, frozen=True, omit_defaults=True):
    """One turn of a chat."""

    role: Speaker
    content: str
    calls: tuple[ToolCall, ...] = ()
    """Tools that an assistant's turn asks for."""
    answers: str = ""
    """The id of the call that a tool's turn answers."""
    name: str = ""
    """Who speaks, where several agents or people do."""


class Usage(Struct, frozen=True):
    """Tokens of one reply. `cached` is a part of `input`, `reasoning` a part of `output`."""

    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cached + other.cached,
            self.reasoning + other.reasoning,
        )


class TokenLogprob(Struct, frozen=True, omit_defaults=True):
    """One token of a reply, with how likely the model held it to be."""

    token: str
    logprob: float
    """Natural logarithm of the probability, as the server gives it."""
    top: tuple[tuple[str, float], ...] = ()
    """The likeliest tokens in its place, with theirs."""


class Reply(Struct, frozen=True, kw_only=True):
    """What a chat model answered, completely received."""

    text: str
    finish: str = "stop"
    """``stop``, ``length``, ``content_filter``, ``tool_calls``, or ``none`` for a response without choices."""
    usage: Usage | None = None
    model: str = ""
    """The model's name as the server gives it."""
    reasoning: str = ""
    """Reasoning text that the server returns beside the answer."""
    stopped_at: str = ""
    """The stop string that ended the text, where the server says so."""
    calls: tuple[ToolCall, ...] = ()
    """Tools that the model asks for."""
    busy: float | None = None
    """Seconds of a self-served model's busy time that this call is charged with: while n calls are in flight, each
    bears one n-th, so that all charges add up to the time in which the server had anything to do."""
    notes: tuple[str, ...] = ()
    """What was odd about it (a count of tokens that cannot be true): each becomes a note of the attempt."""
    logprobs: tuple[TokenLogprob, ...] | None = None
    """The tokens of `text`, in order; ``None``: they were not asked for, or the server gave none (a note says so)."""


UNANSWERED: frozenset[str] = frozenset({"timeout", "connection", "malformed"})
"""Kinds of faults of a request that was sent."""


class Fault(Struct, frozen=True, kw_only=True):
    """One try of a call that did not give a reply."""

    kind: str
    """``rate_limit``, ``server``, ``timeout``, ``unreachable``, ``connection`` (it was cut), ``malformed`` …"""
    message: str
    status: int | None = None
    waited: float = 0.0
    """Seconds waited before the next try."""

    @property
    def unanswered(self) -> bool:
        """Whether the request was sent and no answer could be read: a provider may bill it."""
        return self.kind in UNANSWERED


TOKENS_APART: frozenset[str] = frozenset({"embedding", "reranking"})
"""Roles of calls whose tokens are in no sum of an attempt: vectors and rankings are of another kind than answers, and
what our own searches have made is in no sum either. Their cost is."""


class Used(Struct, frozen=True):
    """Vectors that a search had made by a server."""

    model: str
    """As a price list names it: ``provider:model``."""
    tokens: int | None
    """``None``: the server did not say."""
    hosted: bool
    """By the provider; else by a server that the user named."""
    requests: int = 0
    """To a search provider, which is paid by the request; 0: vectors, which are paid by the token."""
    each: float | None = None
    """Dollars of such a request by the provider's list, or as the retriever's spec says; ``None``: not known."""


class SearchNote(Struct, frozen=True):
    """What a search has to say beside its passages: its query was cut to the provider's limit, or was refused."""

    what: str
    """Kind of the note, in one word: ``query_cut``, ``search_refused``."""
    text: str


class ToolRequest(Struct, frozen=True, kw_only=True):
    """What a tool was asked, as the journal keeps it."""

    tool: str
    query: str
    """The query, the address, or the arguments as JSON."""
    k: int = 0


class ToolAnswer(Struct, frozen=True):
    """A tool's answer, as the journal keeps it."""

    text: str
    passages: tuple[Passage, ...] = ()


class Call(Struct, frozen=True, kw_only=True):
    """One request to a model or a tool, as an attempt's event. The request and the response stand in the journal
    under `key`."""

    key: str
    kind: Literal["model", "search", "tool"]
    role: str
    """Whose tokens these are in the ledger: ``answering``, ``reading``, ``querying``, ``judging``, ``embedding``."""
    node: str
    actor: str
    """The model's or the searcher's canonical text."""
    model: str = ""
    """The name of the model that answered, as the reply gives it; empty: it names none, or the call is older than this
    is kept."""
    at: float
    seconds: float
    cached: bool = False
    """Answered from the journal: nothing was paid, its uncached cost still counts."""
    usage: Usage | None = None
    cost_uncached: float | None = None
    """Dollars this call costs when nothing is cached in the journal; ``None``: no known price."""
    passages: tuple[str, ...] = ()
    """Ids of the passages a search returned, best first."""
    faults: tuple[Fault, ...] = ()
    error: str = ""


class Entered(Struct, frozen=True, kw_only=True, tag="entered", omit_defaults=True):
    """A node of the graph begins."""

    step: int
    node: str
    at: float
    parent: int = -1
    """The step inside which it runs: a graph inside a node is its child. -1: none, or made before this was kept."""


class Called(Struct, frozen=True, kw_only=True, tag="called"):
    """A call was made inside a step."""

    step: int
    call: Call


class Left(Struct, frozen=True, kw_only=True, tag="left"):
    """A node ended; `changes` is what it wrote to the state, as JSON-able values."""

    step: int
    seconds: float
    changes: dict[str, object] = field(default_factory=dict)
    error: str = ""


class Noted(Struct, frozen=True, kw_only=True, tag="noted"):
    """Something worth telling happened: a passage was cut, a limit was reached, a query was repeated."""

    step: int
    what: str
    text: str


DRAWN = "drawn"
"""What a note is about that says what a system has drawn from clock and chance; its text ends with the journal's keys
of that."""


def drawn_keys(note: Noted) -> list[str]:
    """The keys of what was drawn that a note names."""
    return re.findall(r"\b[0-9a-f]{64}\b", note.text) if note.what == DRAWN else []


Event = Entered | Called | Left | Noted


class Step(Struct, frozen=True, kw_only=True):
    """One node of a graph, entered and left, with its calls: derived from events."""

    index: int
    node: str
    at: float
    seconds: float | None
    parent: int = -1
    """The step inside which it ran; -1: none."""
    calls: tuple[Call, ...] = ()
    notes: tuple[Noted, ...] = ()
    changes: dict[str, object] = field(default_factory=dict)
    error: str = ""


def _counted(what: str) -> Meta:
    """Say of a field of an attempt what it counts: that is kept, shown and filtered by itself (`COUNTED`)."""
    return Meta(extra={"counted": what})


class Attempt(Struct, frozen=True, kw_only=True):
    """One question × one agent × one epoch."""

    run: str
    question_id: str
    epoch: int
    status: Status
    text: str
    """The final answer text, exactly as the agent gave it; what it had, where it was capped."""
    reason: str = ""
    """Why the status is not ``completed``."""
    usage: Usage | None = None
    """``None``: some call's usage is unknown."""
    cost_paid: float | None = None
    cost_uncached: float | None = None
    seconds: float = 0.0
    at: float = 0.0
    events: tuple[Event, ...] = ()
    choice: str = ""
    """The letter of an option, where the system gives it apart from its text (structured output, a key of its state);
    empty: it is to be read from the text."""
    model_calls: Annotated[int, _counted("Calls of models, those that failed among them")] = 0
    searches: Annotated[int, _counted("Searches, those that failed among them")] = 0
    tool_calls: Annotated[int, _counted("Uses of tools that do not search")] = 0
    """What is called is of three kinds, each with its own price: they are never summed."""
    unrecorded: Annotated[int, _counted("Calls of a foreign system that were seen and are in no journal")] = 0
    """A replay cannot answer them."""
    unanswered: Annotated[int, _counted("Requests to models that got no answer that could be read")] = 0
    """A provider may bill them: what the attempt costs is at least its sum."""

    @property
    def replayable(self) -> bool:
        """Whether the journal holds every call that it made."""
        return not self.unrecorded


COUNTED: dict[str, str] = {
    one.name: meta.extra["counted"]
    for one in structs.fields(Attempt)
    for meta in get_args(one.type)[1:]
    if isinstance(meta, Meta) and meta.extra
}
"""Counts of an attempt that need no more than a line in it: name → what is counted. The store's table and codec, the
frame, the filter and the exports have a column for each."""


class Answer(Struct, frozen=True, kw_only=True):
    """What a foreign system answered."""

    text: str
    """The final answer, as the system gave it."""
    choice: str = ""
    """The letter of an option, where the system gives it itself."""
    passages: tuple[Passage, ...] = ()
    """What it says it answered from, where it gives that with the answer."""


class Score(Struct, frozen=True, kw_only=True):
    """What a scorer makes of an attempt. `value` is ``None`` where it is missing (a judge that failed)."""

    question_id: str
    epoch: int
    scorer: str
    value: float | None
    answer_status: AnswerStatus
    prediction: str = ""
    """The option letter or the parsed answer the scorer went by."""
    reason: str = ""
    code: str = ""
    """Digest of the scorer's code; of a judged score, with the prompts and the parser. Empty: not known."""


class Verdict(Struct, frozen=True, kw_only=True):
    """What a judge said of one answer or of one pair, with its raw text."""

    question_id: str
    judge: str
    axis: str
    first: str
    second: str = ""
    outcome: str = ""
    """``first``, ``second``, ``tie`` or a grade; empty: unreadable."""
    raw: str = ""
    reason: str = ""


class Asked(Struct, frozen=True):
    """How a run was asked for: enough for the same command to be given again. No key stands in it."""

    folder: str
    """Where relative paths began."""
    options: tuple[str, ...]
    """Of `ragrounds run`."""


class Read(Struct, frozen=True):
    """Something that a system of somebody's own has read while it was opened or answered a run's questions."""

    kind: Literal["code", "file", "folder", "variable", "package", "server", "model", "written"]
    """``written``: a file that it writes itself, which says nothing; ``model``: one that it asked."""
    name: str
    """A file as seen from the system's folder, a variable's or package's name, a server's address."""
    value: str = ""
    """A digest, a version, ``=`` and a variable's value, or what a server told, as JSON; empty: it is not there."""
    size: int = 0
    """Of a file, in bytes."""
    at: float = 0.0
    """When a file was changed, in seconds since the epoch."""


class Run(Struct, frozen=True, kw_only=True):
    """Agent × benchmark split × epochs. The same fingerprint continues the same run."""

    id: str
    agent: str
    benchmark: str
    questions: str
    """Content hash of the questions and golds that this run answers, in order."""
    count: int
    epochs: int
    fingerprint: str
    identity: dict[str, Any]
    """All that the fingerprint covers: digests of code and prompts, corpus version, model, parameters."""
    created: float
    origin: Literal["replayed", "imported", "counterfactual"] = "replayed"
    """A counterfactual is no run of its own: it is read with the one that it changes, which its identity names."""
    asked: Asked | None = None
    """``None``: not known (imported, or made before this was kept)."""
    servers: dict[str, dict[str, str]] = field(default_factory=dict)
    """What the servers of its models said of themselves when it began: model and server → fact → value. Empty: nothing,
    or nobody asked."""
    version: str = ""
    """The version of this package that began it. It says nothing of what the results depend on: digests do."""

    @property
    def timed(self) -> bool:
        """Whether the seconds of its attempts are known: of an import, where every row says them."""
        return self.origin == "replayed" or bool(self.identity.get("timed"))


OUTCOMES = {
    "answered": "an answer was read",
    "abstained": "the text says that it cannot be answered, or that no option is right",
    "refused": "the model declined",
    "unreadable": "a text from which no answer can be read",
    "empty": "the system ended, and its text is empty",
    "blocked": "a provider's filter took the request or the reply",
    "failed": "an error ended it: no reply came, or one without choices",
    "capped": "a cap of its agent ended it",
    "paused": "the system asked a person",
    "not_run": "not made yet",
}
"""How an attempt can count, in the order that tables show, with what each means: the answer status of an attempt that
was completed, and the status of every other. This is the one legend."""


def outcome(status: str, answer_status: str | None) -> str:
    """One word of `OUTCOMES` for an attempt: its answer status where it was completed, else its status. One that was
    completed and that nobody has read (``None``) was answered: what it is worth is not known, that it was made is."""
    return status if status != "completed" else answer_status or "answered"


def blank(text: str) -> bool:
    """Whether a text is empty: it holds nothing that a reader could see (white space, control characters, marks of no
    width). This alone decides where an answer is ``empty``."""
    return not any(letter.isprintable() and not letter.isspace() for letter in text)


def legend(names: Iterable[str]) -> str:
    """What these outcomes mean, in one line."""
    return "; ".join(f"{name.replace('_', ' ')}: {OUTCOMES[name]}" for name in names if name in OUTCOMES)


OPEN: frozenset[str] = frozenset({"failed", "capped", "paused", "not_run"})
"""Statuses of attempts whose result is open: tables show what they could still make of a figure."""
WITHOUT_ANSWER: frozenset[str] = frozenset({"blocked", "failed", "paused", "not_run"})
"""Statuses of attempts that ended without an answer of the system's own: exports mark these as errors. A capped attempt
counts by what it had."""
FINAL: frozenset[str] = frozenset({"completed", "blocked", "capped"})
"""Attempts with another status are tried again when their run is resumed."""
