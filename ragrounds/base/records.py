"""Small frozen records that all packages share.

Events of an attempt are flat and append-only. `ragrounds.evals.trace.traces` derives the tree run → attempt → step →
call from them. Times are wall-clock seconds since the epoch (`at`), durations are seconds of a monotonic clock, money
is US dollars, and tokens are the provider's own counts. An unknown figure is ``None``, never 0.
"""

from __future__ import annotations

import re
from operator import attrgetter
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta, Struct, field, structs

from ragrounds.base.spent import Spent
from ragrounds.base.spent import Usage as Usage  # a part of replies, calls and attempts, which are imported from here

Kind = Literal["choice", "long", "extraction"]
Status = Literal["completed", "blocked", "failed", "capped", "paused", "not_run"]
AnswerStatus = Literal["answered", "abstained", "refused", "unreadable", "empty"]
Speaker = Literal["system", "user", "assistant", "tool"]
CallKind = Literal["model", "search", "tool"]
AttemptKey = tuple[str, int]
"""Question id and epoch."""


class Stem(Struct, frozen=True):
    """A question without its options. Nodes that write queries or read documents see nothing else of the question."""

    question_id: str
    text: str
    language: str = "en"


class Question(Struct, frozen=True, kw_only=True):
    """One question of a benchmark, as graphs and tools see it. The gold answer is separate: see :class:`Gold`."""

    id: str
    benchmark: str
    """Canonical name, ``family/dataset``: ``mirage/pubmedqa``."""
    text: str
    kind: Kind = "choice"
    split: str = "test"
    options: dict[str, str] = field(default_factory=dict)
    """Letter → text, in the benchmark's order. Empty if `kind` is not ``choice``."""
    group: str = ""
    """Subject or specialty, for tables."""
    cluster: str = ""
    """Name of a group of dependent questions (duplicates, same source). If empty, the question is independent."""
    language: str = "en"
    metadata: dict[str, str] = field(default_factory=dict)

    @property
    def stem(self) -> Stem:
        """Return the question without its options."""
        return Stem(self.id, self.text, self.language)


class Gold(Struct, frozen=True, kw_only=True):
    """The correct answer of a question. Only scorers, the oracle agent and the analyses may see it."""

    question_id: str
    answer: str
    """The letter of the correct option, or a reference answer."""
    documents: tuple[str, ...] = ()
    """Ids of the documents that contain the answer."""
    facts: tuple[tuple[str, ...], ...] = ()
    """Required facts of a long answer, each as a tuple of accepted wordings."""
    withheld: tuple[str, ...] = ()
    """Ids of documents that searches for this question must not return (``guard.jsonl`` of the benchmark)."""


class Query(Struct, frozen=True):
    """A search query. It is built from a :class:`Stem` or from text that a model wrote, never from a `Question`.

    The type thereby guarantees question-only retrieval (MIRAGE, Section 3.1).
    """

    text: str
    dense: tuple[str, ...] = ()
    """Texts that dense retrievers embed instead of `text`. The mean of their vectors is used. If empty, `text` is
    embedded.
    """

    @classmethod
    def from_stem(cls, stem: Stem) -> Query:
        """Return the query that searches for the question text itself."""
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
    """Rank from 1, best first. 0 if the passage is not ranked."""
    retriever: str = ""
    chunk: str = ""
    """Id of the chunk that matched, if the passage is the whole document of that chunk. Empty if the passage itself
    matched.
    """


class ToolCall(Struct, frozen=True):
    """A model's request to use a tool. It is not trusted: `arguments` is text that should be a JSON object."""

    id: str
    name: str
    arguments: str


class Message(Struct, frozen=True, omit_defaults=True):
    """One turn of a chat."""

    role: Speaker
    content: str
    calls: tuple[ToolCall, ...] = ()
    """Tool calls that an assistant's message requests."""
    answers: str = ""
    """Id of the tool call that a tool's message answers."""
    name: str = ""
    """Name of the speaker, if several agents or people take part."""


class TokenLogprob(Struct, frozen=True, omit_defaults=True):
    """One token of a reply with its log probability."""

    token: str
    logprob: float
    """Natural logarithm of the probability, as reported by the server."""
    top: tuple[tuple[str, float], ...] = ()
    """The most likely tokens at this position, with their log probabilities."""


DECLINED = frozenset({"content_filter", "refusal"})
"""Reasons why a reply ended that say that the provider or the model refused the request."""


class Reply(Struct, frozen=True, kw_only=True):
    """Complete reply of a chat model."""

    text: str
    finish: str = "stop"
    """``stop``, ``length``, ``content_filter``, ``tool_calls``, ``refusal`` (the model declined, as `text` says), or
    ``none`` for a response without choices."""
    usage: Usage | None = None
    model: str = ""
    """Name of the model, as reported by the server."""
    reasoning: str = ""
    """Reasoning text that the server returns next to the answer."""
    stopped_at: str = ""
    """Stop string that ended the text. Empty if the server does not report it."""
    calls: tuple[ToolCall, ...] = ()
    """Tool calls that the model requests."""
    busy: float | None = None
    """Seconds of a self-served model's busy time that are charged to this call.

    While n calls are in flight, each is charged 1/n. All charges therefore add up to the time during which the server
    was busy.
    """
    worked: float | None = None
    """Seconds in which the server worked on the call, as it reports (llama.cpp's `timings`)."""
    notes: tuple[str, ...] = ()
    """Oddities of the reply, such as an impossible token count. Each becomes a note of the attempt."""
    cache_writes: int = 0
    """Input tokens that the provider wrote to its cache, at a price of their own (Anthropic)."""
    logprobs: tuple[TokenLogprob, ...] | None = None
    """The tokens of `text`, in order. ``None`` if they were not requested or the server returned none (a note records
    that).
    """


UNANSWERED: frozenset[str] = frozenset({"timeout", "connection", "malformed", "server", "blocked"})
"""Kinds of faults of requests that reached a server and brought no answer. ``blocked``: a content filter refused it."""


class Fault(Struct, frozen=True, kw_only=True):
    """One failed try of a call."""

    kind: str
    """``rate_limit``, ``server``, ``timeout``, ``unreachable``, ``connection`` (it was cut), ``malformed`` …"""
    message: str
    status: int | None = None
    waited: float = 0.0
    """Seconds waited before the next try."""
    usage: Usage | None = None
    """Tokens of the try, if the server counted them."""

    @property
    def unanswered(self) -> bool:
        """Return True if the request was sent, no answer could be read, and its tokens are unknown. A provider may bill
        such a request."""
        return self.kind in UNANSWERED and self.usage is None


TOKENS_APART: frozenset[str] = frozenset({"embedding", "reranking"})
"""Roles of calls whose tokens are excluded from the sums of an attempt. Their cost is included.

Vectors and rankings are not comparable with answers. Tokens of ragrounds' own searches are excluded for the same
reason.
"""


class Used(Struct, frozen=True):
    """Paid use of a server by one search: vectors, or requests to a search provider."""

    model: str
    """Name in a price list: ``provider:model``."""
    tokens: int | None
    """Number of tokens. ``None`` if the server did not report it."""
    hosted: bool
    """True if the provider hosts the model, False if a server of the user does."""
    requests: int = 0
    """Number of requests to a search provider, which is paid per request. 0 for vectors, which are paid per token."""
    each: float | None = None
    """US dollars per request, from the provider's price list or the retriever's spec. ``None`` if unknown."""


class SearchNote(Struct, frozen=True):
    """A remark that a search returns with its passages: the query was cut to the provider's limit, or was refused."""

    what: str
    """Kind of the note, as one word: ``query_cut``, ``search_refused``."""
    text: str


class ToolRequest(Struct, frozen=True, kw_only=True):
    """Request to a tool, as stored in the journal."""

    tool: str
    query: str
    """The query, the address, or the arguments as JSON."""
    k: int = 0


class ToolAnswer(Struct, frozen=True):
    """Answer of a tool, as stored in the journal."""

    text: str
    passages: tuple[Passage, ...] = ()


class Call(Struct, frozen=True, kw_only=True):
    """One request to a model or a tool, as an event of an attempt. The journal stores the request and response under
    `key`.
    """

    key: str
    kind: CallKind
    role: str
    """Role under which the ledger counts it: ``answering``, ``reading``, ``querying``, ``judging``, ``embedding``."""
    node: str
    actor: str
    """Canonical spec of the model or the searcher."""
    model: str = ""
    """Name of the model that answered, as reported in the reply. Empty if the reply or an old record lacks it."""
    at: float
    seconds: float
    cached: bool = False
    """True if the journal answered the call. Nothing was paid, but the uncached cost still counts."""
    worked: float | None = None
    """Part of `seconds` in which the server worked on the call, as it reports; ``None`` if it does not."""
    usage: Usage | None = None
    cost_uncached: float | None = None
    """US dollars that this call costs if the journal caches nothing. ``None`` if no price is known."""
    passages: tuple[str, ...] = ()
    """Ids of the passages that a search returned, best first."""
    faults: tuple[Fault, ...] = ()
    error: str = ""

    @property
    def spent(self) -> Spent:
        """Return its tokens, dollars and seconds."""
        is_model = self.kind == "model"
        return Spent(
            calls=int(is_model),
            usage=self.usage,
            cost_paid=0.0 if self.cached else self.cost_uncached,
            cost_uncached=self.cost_uncached,
            seconds=self.seconds,
            unanswered=sum(map(attrgetter("unanswered"), self.faults)) if is_model else 0,
        )

    @property
    def is_counted(self) -> bool:
        """True if its tokens and cost are part of the sums: it has a reply, or a server counted its failed tries."""
        return not self.error or (self.usage is not None and self.usage != Usage())


class Entered(Struct, frozen=True, kw_only=True, tag="entered", omit_defaults=True):
    """Event: a node of the graph begins."""

    step: int
    node: str
    at: float
    parent: int = -1
    """The enclosing step, for a node of a graph inside a node. -1 if there is no such step or an old record lacks
    it.
    """


class Called(Struct, frozen=True, kw_only=True, tag="called"):
    """Event: a call was made inside a step."""

    step: int
    call: Call


class Left(Struct, frozen=True, kw_only=True, tag="left"):
    """Event: a node ended. `changes` is what the node wrote to the state, as JSON-able values."""

    step: int
    seconds: float
    changes: dict[str, object] = field(default_factory=dict)
    error: str = ""


class Noted(Struct, frozen=True, kw_only=True, tag="noted"):
    """Event worth reporting: a passage was cut, a limit was reached, a query was repeated."""

    step: int
    what: str
    text: str


DRAWN = "drawn"
"""Kind of notes that record the clock and random values that a system used. Their text ends with journal keys of
these.
"""


LEARNED_FROM = "learned_from"
"""Kind of notes of attempts at questions from which the agent's router was learned."""


def drawn_keys(note: Noted) -> list[str]:
    """Return the journal keys of recorded randomness that a note lists."""
    return re.findall(r"\b[0-9a-f]{64}\b", note.text) if note.what == DRAWN else []


Event = Entered | Called | Left | Noted


class Step(Struct, frozen=True, kw_only=True):
    """One node of a graph from entry to exit, with its calls. Derived from events."""

    index: int
    node: str
    at: float
    seconds: float | None
    parent: int = -1
    """The enclosing step. -1 for a step that is not nested."""
    calls: tuple[Call, ...] = ()
    notes: tuple[Noted, ...] = ()
    changes: dict[str, object] = field(default_factory=dict)
    error: str = ""


class AttemptCounts(Struct, frozen=True, kw_only=True):
    """Counts of an attempt, or their sums over attempts. They are stored, shown and filtered individually."""

    model_calls: Annotated[int, Meta(description="Calls of models, those that failed among them")] = 0
    searches: Annotated[int, Meta(description="Searches, those that failed among them")] = 0
    tool_calls: Annotated[int, Meta(description="Uses of tools that do not search")] = 0
    """Tool calls, model calls and searches have different prices, so they are never summed."""
    unrecorded: Annotated[int, Meta(description="Calls of a foreign system that were seen and are in no journal")] = 0
    """A replay cannot answer them."""
    unanswered: Annotated[int, Meta(description="Requests to models that got no answer that could be read")] = 0
    """A provider may bill them, so costs are lower bounds."""


class Attempt(AttemptCounts, frozen=True, kw_only=True):
    """One question × one agent × one epoch."""

    run: str
    question_id: str
    epoch: int
    status: Status
    text: str
    """The final answer text, exactly as the agent returned it. If the attempt was capped, the text it had until
    then.
    """
    reason: str = ""
    """Reason why the status is not ``completed``."""
    usage: Usage | None = None
    """Sum of the tokens. ``None`` if the usage of some call is unknown."""
    cost_paid: float | None = None
    cost_uncached: float | None = None
    seconds: float = 0.0
    """Duration. Calls that the journal answered count with the seconds that they took when they were made."""
    waited: float | None = None
    """Seconds, summed over model calls, without the server's work; ``None`` if a server does not report its work."""
    at: float = 0.0
    events: tuple[Event, ...] = ()
    choice: str = ""
    """Letter of an option, if the system returns it separately from its text (structured output, a key of its state).

    If empty, the letter is read from the text.
    """

    @property
    def key(self) -> AttemptKey:
        """Return question id and epoch."""
        return self.question_id, self.epoch

    @property
    def replayable(self) -> bool:
        """Return True if the journal contains every call of the attempt."""
        return not self.unrecorded

    @property
    def spent(self) -> Spent:
        """Return the calls, tokens, dollars and seconds of the attempt."""
        return Spent(
            calls=self.model_calls,
            usage=self.usage,
            cost_paid=self.cost_paid,
            cost_uncached=self.cost_uncached,
            seconds=self.seconds,
            unanswered=self.unanswered,
        )

    def with_unknowns(self) -> Attempt:
        """Return the attempt as tables show it: without an answer, tokens and dollars of 0 are unknown."""
        spent = self.spent if self.status == "completed" else self.spent.without_answer
        return structs.replace(self, usage=spent.usage, cost_paid=spent.cost_paid, cost_uncached=spent.cost_uncached)


COUNTED: dict[str, str] = {count.name: get_args(count.type)[1].description for count in structs.fields(AttemptCounts)}
"""Counts of an attempt that are plain columns: name → label.

The store's table and codec, the frame, the filter and the exports have a column for each.
"""


class Answer(Struct, frozen=True, kw_only=True):
    """Answer of a foreign system."""

    text: str
    """The final answer, as the system returned it."""
    choice: str = ""
    """Letter of an option, if the system returns it itself."""
    passages: tuple[Passage, ...] = ()
    """Passages that the system reports as the basis of its answer."""


class Score(Struct, frozen=True, kw_only=True):
    """Score of an attempt by one scorer. `value` is ``None`` if it is missing (a judge that failed)."""

    question_id: str
    epoch: int
    scorer: str
    value: float | None
    answer_status: AnswerStatus
    prediction: str = ""
    """The option letter or the parsed answer that was scored."""
    reason: str = ""
    code: str = ""
    """Digest of the scorer's code, and for a judged score also of the prompts and the parser. Empty if unknown."""

    @property
    def key(self) -> AttemptKey:
        """Return question id and epoch."""
        return self.question_id, self.epoch


class Verdict(Struct, frozen=True, kw_only=True):
    """Verdict of a judge on one answer or one pair, with its raw text."""

    question_id: str
    judge: str
    axis: str
    first: str
    second: str = ""
    outcome: str = ""
    """``first``, ``second``, ``tie`` or a grade. Empty if unreadable."""
    raw: str = ""
    reason: str = ""


class Asked(Struct, frozen=True):
    """Command that started a run, complete enough to repeat it. It contains no key."""

    folder: str
    """Folder to which relative paths refer."""
    options: tuple[str, ...]
    """Options of `ragrounds run`."""


class Read(Struct, frozen=True):
    """A dependency that a user's system read while it was loaded or answered the questions of a run."""

    kind: Literal["code", "file", "folder", "variable", "package", "server", "model", "written"]
    """``written``: a file that the system itself writes, no evidence of a change. ``model``: a model that it called."""
    name: str
    """File path relative to the system's folder, name of a variable or package, or address of a server."""
    value: str = ""
    """A digest, a version, ``=`` and a variable's value, or a server's report as JSON. Empty if the dependency is
    missing.
    """
    size: int = 0
    """Size of a file in bytes."""
    at: float = 0.0
    """Time of a file's last change, in seconds since the epoch."""


class Run(Struct, frozen=True, kw_only=True):
    """One agent on one benchmark split for a number of epochs. A run with the same fingerprint is continued."""

    id: str
    agent: str
    benchmark: str
    questions: str
    """Content hash of the run's questions and golds, in order."""
    count: int
    epochs: int
    fingerprint: str
    identity: dict[str, Any]
    """Everything that the fingerprint covers: digests of code and prompts, corpus version, model, parameters."""
    created: float
    origin: Literal["replayed", "imported", "counterfactual", "repetition"] = "replayed"
    """A counterfactual and a repetition are derived from a run, which their identity names, and read with it."""
    asked: Asked | None = None
    """Command that started the run. ``None`` if unknown (imported, or older than this field)."""
    servers: dict[str, dict[str, str]] = field(default_factory=dict)
    """Facts that the servers of the run's models reported at its start: model and server → fact → value.

    Empty if nothing was reported or no server was queried.
    """
    version: str = ""
    """Version of ragrounds that started the run. Results depend on the digests, not on this."""

    @property
    def is_derived(self) -> bool:
        """Return True if it is no independent run."""
        return self.origin in ("counterfactual", "repetition")

    @property
    def timed(self) -> bool:
        """Return True if the seconds of its attempts are known. For an imported run, every row must contain them."""
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
"""Possible outcomes of an attempt with their meaning, in the order of tables. This is the only legend.

An outcome is the answer status of a completed attempt, and the status of any other.
"""


def outcome(status: str, answer_status: str | None) -> str:
    """Return the key of `OUTCOMES` for an attempt: the answer status if it was completed, else its status.

    A completed attempt that has not been scored (``None``) counts as answered: an answer exists, although its worth is
    unknown.
    """
    return status if status != "completed" else answer_status or "answered"


def blank(text: str) -> bool:
    """Return True if a text contains no visible character.

    White space, control characters and marks of no width are invisible. This function alone decides that an answer is
    ``empty``.
    """
    first = text.lstrip()[:1]
    if first and first.isprintable():  # as in most texts
        return False
    return not any(letter.isprintable() and not letter.isspace() for letter in text)


OPEN: frozenset[str] = frozenset({"failed", "capped", "paused", "not_run"})
"""Statuses of attempts whose result is open. Tables show how much they could still change a figure."""
WITHOUT_ANSWER: frozenset[str] = frozenset({"blocked", "failed", "paused", "not_run"})
"""Statuses of attempts that ended without an answer of the system. Exports mark these as errors.

A capped attempt is not among them: it counts by the text that it had.
"""
FINAL: frozenset[str] = frozenset({"completed", "blocked", "capped"})
"""Statuses of attempts that are not repeated when their run is resumed."""
