"""Context of one attempt, through which a graph's nodes ask models and search (contract: Context).

It enforces the attempt's caps, numbers the occurrences of equal calls, passes every call to the journal, and records it
as an event. A graph that runs inside a node of another gets a nested context: a separate question and parameters, with
the attempt's calls, caps and trace.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar, Unpack, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ragrounds.agents.agent import Card, check_subagent, open_agent
from ragrounds.base.contracts import (
    Attempted,
    CallArguments,
    Context,
    Continuation,
    Continuing,
    Entry,
    Intervention,
    Journal,
    Library,
    MeanSearcher,
    Model,
    Prompts,
    Request,
    Searcher,
    SearchRequest,
    SearchResult,
    Server,
    Tool,
)
from ragrounds.base.errors import GaveUp, UserError, nearest
from ragrounds.base.records import (
    Fault,
    Gold,
    Message,
    Passage,
    Query,
    Question,
    Reply,
    Stem,
    ToolAnswer,
    ToolRequest,
    Usage,
)
from ragrounds.base.specs import Value, parse
from ragrounds.base.spent import known_sum
from ragrounds.evals.engine.attempt_log import REFUSED, AttemptEnded, AttemptLog
from ragrounds.evals.engine.attempts_at_once import AttemptsAtOnce
from ragrounds.evals.engine.nested_context import NestedContext
from ragrounds.evals.engine.recorded_randomness import RecordedRandomness
from ragrounds.evals.engine.thread_bridge import ThreadBridge
from ragrounds.evals.store.journal import RECORDED_TIMES, StoreJournal
from ragrounds.graphs import catalogue
from ragrounds.models.faults import CallFailed
from ragrounds.models.prices import Price, used_price
from ragrounds.models.reply_parts import believed, request_usage
from ragrounds.prompts.loader import PromptFolder
from ragrounds.tools.agent_tools import DOCUMENT, FETCH, MCP, READ, AgentTool, WrongArguments, interleave, passages_of
from ragrounds.tools.index.embedders import USED
from ragrounds.tools.leak_guard import GuardedSearcher, LeakGuard
from ragrounds.tools.retriever import searcher_code
from ragrounds.tools.search_notes import LIVE, SEARCH_NOTES, SEARCH_REQUESTS

R = TypeVar("R", bound=Reply)
S = TypeVar("S", bound=Struct)
W = TypeVar("W")
ANSWER_TOKENS = 1024
"""Default number of tokens reserved for the answer in a model's window."""
BLIND = frozenset({"querying", "reading", "refining"})
"""Roles that write queries or read documents: under question-only retrieval they never see the options."""
BETWEEN_SAMPLES = 1_000_000
"""Offset of occurrence numbers between two samples of a counterfactual: more than an attempt can have."""
_TURN_TOKENS = 8
"""Number of tokens that a chat template may add to a turn."""


@dataclass(eq=False, kw_only=True)
class AttemptContext(AttemptLog):
    """One question × one agent × one epoch, while it runs."""

    item: Question
    epoch: int
    parameters: Mapping[str, Value]
    models: Mapping[str, Model]
    """Models by role; the role ``model`` always exists and replaces missing ones.

    Requests in the role ``reading`` use the model ``reader``; other roles use the model of their own name, if there is
    one.
    """
    searcher: Searcher | None
    prompts: Prompts
    journal: Journal
    toolbox: Sequence[AgentTool] = ()
    """Tools that the agent lists; empty if it has only its searcher."""
    prices: Mapping[str, Price] = field(default_factory=dict)
    """Prices given by the user, for what the searcher uses."""
    question_only: bool = True
    """True if searching and writing queries are forbidden once the options have been read."""
    payer: bytes = b""
    """Mark of the calls that this attempt pays for."""
    gold: tuple[str, ...] | None = None
    """Ids of the gold documents, for an oracle alone."""
    recorded: Sequence[str] = ()
    """Address prefixes of calls that a foreign system's recorder records although their form is unknown."""
    guard: LeakGuard = field(default_factory=LeakGuard)
    """Documents and texts that no search for this question may return."""
    at_once: AttemptsAtOnce | None = None
    """Attempts of the same foreign system that are in flight."""
    inside: Callable[..., Awaitable[Attempted]] | None = None
    """Function that makes attempts of the agents inside this one, like :meth:`attempt_of`."""
    recorded_randomness: RecordedRandomness | None = None
    """Recorded clock and random values of a foreign system; ``None`` if they are not recorded."""
    change: Intervention | None = None
    """Change that a counterfactual makes."""
    made_searches: int = 0
    """Number of searches that were begun."""
    _occurrences: Counter[bytes] = field(default_factory=Counter)
    _passages: dict[str, Passage] = field(default_factory=dict)
    _options_read: bool = False
    _threads: ThreadBridge = field(default_factory=ThreadBridge)

    @property
    def question(self) -> Question:
        """Return the whole question. Reading its options ends the attempt's searching: see `_check_blind`."""
        self._options_read |= bool(self.item.options)
        return self.item

    @property
    def stem(self) -> Stem:
        """Return the question without its options."""
        return self.item.stem

    @property
    def seed(self) -> str:
        """Return the seed of every random choice of this attempt: question and epoch."""
        return f"{self.item.id}#{self.epoch}"

    @property
    def continues(self) -> Continuation:
        """Return the way in which the answering model continues a text that it began."""
        model = self._model("answering")
        return model.continues if isinstance(model, Continuing) else "turns"

    async def ask(
        self, messages: Sequence[Message], *, role: str = "answering", **arguments: Unpack[CallArguments]
    ) -> Reply:
        """Ask the model of `role`.

        Raises:
            AttemptEnded: a cap is reached, the provider refused, or gave a response without choices.
            CallFailed: no reply after all retries.
            StopRun: the model cannot take one of the arguments.
        """
        if role in BLIND:
            self._check_blind(f"asked a model in the role {role!r}")
        model = self._model(role)
        # Equal requests must have equal keys: lists and tuples, 0 and 0.0, False and None are normalized to one form.
        normalized: dict[str, Any] = {**arguments}
        for name, convert in (("stop", tuple), ("tools", tuple), ("temperature", float), ("response_format", dict)):
            if normalized.get(name) is not None:
                normalized[name] = convert(normalized[name])
        if (logprobs := normalized.get("logprobs")) is not None:
            normalized["logprobs"] = None if logprobs is False else int(logprobs is not True and logprobs)
        return await self.complete(model, Request(messages=tuple(messages), **normalized), Reply, role=role)

    async def complete(
        self,
        model: Server[R],
        request: Request,
        kind: type[R],
        *,
        role: str = "answering",
        prices: Mapping[str, Price] = MappingProxyType({}),
    ) -> R:
        """Let a model, or another server, answer a request: once for each key, and in the journal before it is used.

        `prices` apply to replies for which the server itself knows no price.

        Raises:
            AttemptEnded: a cap is reached, the provider refused, or gave a response without choices.
            CallFailed: no reply after all retries.
        """
        if self._threads.elsewhere:
            return await self._threads.across(self.complete(model, request, kind, role=role, prices=prices))
        await self.under_cap()
        self.check_caps()
        code = getattr(model, "code", "")
        first = _digest("model", model.spec, *([code] if code else ()), request, self.epoch)
        # A repeated request in one attempt is a new sample: it must not be answered by the first reply.
        occurrence = self._occurrences[first]
        self._occurrences[first] += 1
        if self.change is not None:
            occurrence += self.change.sample(self.made_searches) * BETWEEN_SAMPLES
        if occurrence:
            request = replace(request, occurrence=occurrence)
        key = (_digest(first, occurrence) if occurrence else first).hex()
        entry = Entry(key=key, kind="model", actor=model.spec, request=request, payer=self.payer)
        faults: list[Fault] = []

        def request_price() -> float | None:
            """Return the price of the request alone, in dollars."""
            return _price_of(model, kind(text="", usage=request_usage(request), busy=0.0), prices)

        def usage_price(usage: Usage) -> float | None:
            """Return the price of tokens without a reply, in dollars."""
            return _price_of(model, kind(text="", usage=usage, busy=0.0), prices)

        async def call_model() -> R:
            """Call the model. A response without choices is not recorded as a reply, and is requested again on
            resuming.
            """
            response = await model.complete(request, faults)
            if response.finish == "none":
                price = _price_of(model, believed(response, request), prices)
                self.add_cost(response.usage, price, False, request_price())
                raise CallFailed("no_choices", "the provider's response has no choices")
            return response

        answered, ended = await self._once(entry, call_model, kind, role, faults, request_price, usage_price)
        reply = believed(answered, request)
        if (is_blocked := reply.finish == "content_filter") and reply.usage is None:
            # Nothing was written; the prompt may be billed, like a request without an answer.
            reply = replace(reply, usage=Usage())
            faults.append(Fault(kind="blocked", message=REFUSED))
        price = _price_of(model, reply, prices)
        ended(model=reply.model, usage=reply.usage, worked=reply.worked, price=price, faults=tuple(faults))
        for note in reply.notes:
            self.note("reply", note)
        if is_blocked:
            raise AttemptEnded("blocked", REFUSED)
        self.last_reply = reply.text
        return reply

    async def _once(
        self,
        entry: Entry,
        make: Callable[[], Awaitable[S]],
        kind: type[S],
        role: str,
        faults: list[Fault],
        request_price: Callable[[], float | None] = lambda: None,
        usage_price: Callable[[Usage], float | None] = lambda usage: None,
    ) -> tuple[S, Callable[..., None]]:
        """Make a call once for its key, and write it to the journal before it is used. Return the answer and the
        function that ends the call in the log.

        Raises:
            CallFailed: no answer after all tries; it is already in the log.
        """
        started = self.begin_call(entry.actor, entry.kind, role)
        ended = partial(self.end_call, started, key=entry.key, request_price=request_price)
        self.flies(1)
        if self.recorded_randomness is not None:
            self.recorded_randomness.flush(
                cast("StoreJournal", self.journal), lambda: msgspec.json.encode(entry.request)
            )
        try:
            with RECORDED_TIMES.collecting() as times:
                answer, cached = await self.journal.once(entry, make, kind)
        except CallFailed as error:
            price = usage_price(error.usage) if error.usage else None
            ended(usage=error.usage, price=price, faults=error.faults or tuple(faults), error=error.message)
            raise
        finally:
            # Only the call itself counts as in flight: a cap that is reached meanwhile must not wait for parsing.
            self.flies(-1)
        return answer, partial(ended, cached=cached, times=times[-1] if times else None)

    def wait(self, coroutine: Coroutine[object, object, W]) -> W:
        """Wait for a call from a plain function that runs in a thread: see :class:`ThreadBridge`."""
        return self._threads.wait(coroutine)

    def close(self) -> None:
        """Cancel the calls that threads of the attempt still wait for: the attempt has ended."""
        self._threads.close()

    async def search(self, query: Query, k: int, *, empty: bool = False) -> tuple[Passage, ...]:
        """Return the `k` best passages of the agent's corpus, or of all corpora that its tools search, interleaved.

        An empty query finds nothing and is not sent, unless `empty`.

        Raises:
            UserError: the agent has no corpus, or has read the options under question-only retrieval.
            AttemptEnded: a cap is reached.
            CallFailed: the search failed after all retries.
        """
        if self._threads.elsewhere:
            return await self._threads.across(self.search(query, k, empty=empty))
        if self.toolbox:
            return await self._refine(query, await self._search_with_all(query, k, empty=empty))
        if self.searcher is None:
            raise UserError("This agent searches, but no corpus was given. Give one with --corpus.")
        return await self._refine(query, await self._search_recorded(self.searcher, query, k, empty=empty))

    async def _refine(self, query: Query, passages: tuple[Passage, ...]) -> tuple[Passage, ...]:
        """Filter passages by the agent's `refine` parameter; prompts show only the result."""
        if "refine" not in self.parameters or not passages:
            return passages
        refined: tuple[Passage, ...] = await catalogue.refining().refined(
            self, str(self.parameters["refine"]), query.text, passages
        )
        self._passages.update({passage.id: passage for passage in refined})
        return refined

    async def _search_with_all(self, query: Query, k: int, *, empty: bool) -> tuple[Passage, ...]:
        """Search with every searcher in the toolbox, interleave the results, and replace them by longer texts with
        tools that read.
        """
        searches: list[Coroutine[object, object, Sequence[Passage]]] = []
        for tool in self.toolbox:
            if tool.searcher is not None:
                searches.append(self._search_recorded(tool.searcher, query, k, empty=empty))
            elif tool.argument and tool.spec.startswith(MCP):
                searches.append(self._passages_by(tool, {tool.argument: query.text}))
        passages = interleave(await asyncio.gather(*searches), k)
        self._passages.update({passage.id: passage for passage in passages})
        readers = {tool.spec.partition("[")[0]: tool for tool in self.toolbox if tool.use is not None}
        full_passages = [await self._read_on(passage, readers) for passage in passages]
        self._passages.update({passage.id: passage for passage in full_passages})
        return tuple(full_passages)

    async def _read_on(self, passage: Passage, readers: Mapping[str, AgentTool]) -> Passage:
        """Return the passage with the text of its page, or with its surrounding text, if a tool reads that."""
        text = ""
        if FETCH in readers and passage.id.startswith(("http://", "https://")):
            arguments = {"url": passage.id, "looking_for": passage.text[:4000]}
            text = "\n".join(part.text for part in await self._passages_by(readers[FETCH], arguments))
        elif READ in readers and self.searcher is not None and passage.corpus == self.searcher.corpus:
            text = "\n".join(part.text for part in await self._passages_by(readers[READ], {"passage": passage.id}))
        return replace(passage, text=text) if text.strip() else passage

    async def _passages_by(self, tool: AgentTool, arguments: Mapping[str, object]) -> tuple[Passage, ...]:
        answer = await self._used(tool, arguments)
        return passages_of(tool, answer)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Return the tools that the agent lists, as they are described to a model."""
        return tuple(tool.tool for tool in self.toolbox)

    async def use(self, tool: str, arguments: Mapping[str, object], *, k: int = 5) -> ToolAnswer:
        """Use one of the agent's tools.

        Results of a search are returned as passages. Arguments that do not match the schema, and permanent failures,
        are answered with a text that reports them.

        Raises:
            UserError: the agent lists no such tool, or has read the options under question-only retrieval.
            AttemptEnded: a cap is reached.
            CallFailed: no answer after all retries.
        """
        if self._threads.elsewhere:
            return await self._threads.across(self.use(tool, arguments, k=k))
        selected = next((listed for listed in self.toolbox if listed.tool.name == tool), None)
        if selected is None:
            names = [listed.tool.name for listed in self.toolbox]
            has = ", ".join(names) or "none"
            raise UserError(f"The agent has no tool {tool!r}.{nearest(tool, names)} It has {has}.")
        try:
            if selected.searcher is None:
                return await self._used(selected, arguments)
            query = Query(selected.text_argument(arguments))
            return ToolAnswer(
                "", await self._refine(query, await self._search_recorded(selected.searcher, query, k, empty=False))
            )
        except WrongArguments as problem:
            self.note("malformed_call", f"{tool}: {problem}")
            return ToolAnswer(msgspec.json.encode({"error": str(problem)}).decode())

    async def _used(self, tool: AgentTool, arguments: Mapping[str, object]) -> ToolAnswer:
        """Use a tool that does not search: once for each key, and in the journal before its answer is used."""
        self._check_blind("used a tool")
        await self.under_cap()
        self.check_caps()
        if tool.spec == READ and (passage := self._passages.get(str(arguments.get("passage")))) is not None:
            arguments = {**arguments, DOCUMENT: passage.document}
        arguments_text = msgspec.json.encode(arguments, order="deterministic").decode()
        request = ToolRequest(tool=tool.tool.name, query=arguments_text)
        key = _digest("tool", tool.actor, sorted(tool.codes.items()), request).hex()
        use = tool.use

        async def answered() -> ToolAnswer:
            """Use the tool."""
            if use is None:
                raise UserError(f"{tool.spec} searches: it is no tool of its own.")
            try:
                answer = await use(arguments)
            except GaveUp as problem:
                raise CallFailed(problem.kind, str(problem)) from problem
            return replace(answer, text=self.redacted(answer.text))

        entry = Entry(key=key, kind="tool", actor=tool.actor, request=request)
        answer, ended = await self._once(entry, answered, ToolAnswer, "using", [])
        passage_ids = tuple(passage.id for passage in answer.passages)
        ended(price=tool.price, passages=passage_ids, usage=Usage())
        self._passages.update({passage.id: passage for passage in answer.passages if passage.id not in self._passages})
        return answer

    async def _search_recorded(self, searcher: Searcher, query: Query, k: int, *, empty: bool) -> tuple[Passage, ...]:
        """Make one search: once for each key, and in the journal before its results are used."""
        self._check_blind("searched")
        await self.under_cap()
        self.check_caps()
        if not query.text.strip() and not empty:
            self.note("empty_query", "the query was empty: no search was made")
            return ()
        self.made_searches += 1
        number = self.made_searches
        if self.change is not None:
            query = self.change.query(number, query)
        # isinstance() of a protocol takes a hundredth of a question, and few queries need it.
        mean = query.dense if query.dense and isinstance(searcher, MeanSearcher) else ()
        guard = self.guard
        request = SearchRequest(corpus=searcher.corpus, query=query.text, k=k, mean=mean)
        # The fields are set only if documents are withheld: a field that is set is a part of the key, whatever its
        # value.
        if guard.documents:
            request = replace(request, withheld=tuple(sorted(guard.documents)))
        if guard.question:
            request = replace(request, near=guard.share, near_to=guard.question)
        key = _digest("search", searcher.spec, searcher_code(searcher), request).hex()
        entry = Entry(key=key, kind="search", actor=searcher.spec, request=request)

        async def run_search() -> SearchResult:
            """Search, and collect the resources that the search used."""
            guarded = GuardedSearcher(searcher, guard) if guard.documents or guard.question else None
            effective = guarded or searcher
            searched = datetime.now(UTC).isoformat(timespec="seconds") if LIVE in searcher.corpus else ""
            with (
                USED.collecting() as used,
                SEARCH_REQUESTS.collecting() as requests,
                SEARCH_NOTES.collecting() as notes,
            ):
                try:
                    if mean and isinstance(effective, MeanSearcher):
                        passages = await effective.search_mean(mean, k)
                    else:
                        passages = await effective.search(query.text, k)
                except GaveUp as problem:
                    raise CallFailed(problem.kind, str(problem)) from problem
            withheld = guarded.withheld if guarded else 0
            return SearchResult(tuple(passages), (*used, *requests), withheld, tuple(notes), searched)

        result, ended = await self._once(entry, run_search, SearchResult, "searching", [])
        if self.change is not None:
            result = replace(result, passages=self.change.passages(number, result.passages))
        ids = tuple([passage.id for passage in result.passages])
        tokens = known_sum(used.tokens for used in result.used)
        ended(
            usage=Usage(tokens) if tokens else None,
            price=known_sum([0.0, *(used_price(used, self.prices) for used in result.used)]),
            passages=ids,
        )
        if result.withheld:
            self.note("withheld", f"the leak guard left {result.withheld} passages out of what was found")
        for note in result.notes:
            self.note(note.what, note.text)
        self._passages.update({passage.id: passage for passage in result.passages})
        return result.passages

    def passage(self, id: str) -> Passage:
        """Return a passage that a search of this attempt returned."""
        return self._passages[id]

    def gold_passages(self) -> tuple[Passage, ...]:
        """Return the passages of the gold documents that the corpus contains; missing ones are noted in the trace.

        Raises:
            UserError: the agent is no oracle, or its corpus cannot return documents.
        """
        if self.gold is None:
            raise UserError("Only an agent with `oracle = true` in its file may see gold documents.")
        if not isinstance(self.searcher, Library):
            raise UserError("An oracle needs a corpus that can return whole documents. Give one with --corpus.")
        gold: list[Passage] = []
        for id in self.gold:
            passages = self.searcher.document(id)
            if not passages:
                self.note("gold_missing", f"the corpus does not contain the gold document {id}")
            gold += passages
        self._passages.update({passage.id: passage for passage in gold})
        return tuple(gold)

    def asking(self, stem: Stem, *, role: str = "answering", **parameters: Value) -> Context:
        """Return a context in which the question is `stem`, without options; its calls count for this attempt."""
        return NestedContext(self, self.item.benchmark, stem, parameters, self.prompts, role)

    async def answer_of(self, agent: str) -> str:
        """Run another agent on this question's stem, inside this attempt, and return its final answer.

        It uses this attempt's models, corpus, journal and caps.

        Raises:
            UserError: there is no such agent, or it cannot run inside another.
        """
        subagent = check_subagent(open_agent(agent))
        prompts = PromptFolder(subagent.card.prompts, subagent.layout)
        context = NestedContext(self, self.item.benchmark, self.stem, subagent.parameters, prompts, "querying")
        state = await catalogue.build(subagent.card.graph).compile().ainvoke({}, context=context)
        return str(state.get("answer", ""))

    async def attempt_of(self, parameter: str, *, which: int = 0, epoch: int = 0, likely: bool = False) -> Attempted:
        """Make an attempt of an agent inside this one.

        Raises:
            UserError: it has none.
        """
        if self.inside is None:
            raise UserError(f"No agent was opened for {parameter}: agents run inside others in runs alone.")
        return await self.inside(self, parameter, which=which, epoch=epoch, likely=likely)

    def room(self, messages: Sequence[Message], *, role: str = "answering") -> int | None:
        """Return the number of tokens that `messages` and the answer leave free; ``None`` if the model's window is not
        known.
        """
        model = self._model(role)
        if model.window is None:
            return None
        used = sum(model.count(message.content) + _TURN_TOKENS for message in messages)
        return max(0, model.window - used - ANSWER_TOKENS)

    def follows_schemas(self, *, role: str = "answering") -> bool:
        """Return True if the model's server is known to make replies follow a JSON schema (`response_format`)."""
        return bool(getattr(self._model(role), "follows_schemas", False))

    def count(self, text: str, *, role: str = "answering") -> int:
        """Count the tokens of a text."""
        return self._model(role).count(text)

    def cut(self, text: str, tokens: int, *, role: str = "answering") -> str:
        """Return the longest beginning of a text that has at most `tokens` tokens."""
        return self._model(role).cut(text, tokens)

    def _model(self, role: str) -> Model:
        model = self.models.get(
            {"reading": "reader", "refining": "reader", "judging": "judge"}.get(role, role)
        ) or self.models.get("model")
        if model is None:
            raise UserError(f"No model was given for the role {role!r}. Give one with --model.")
        return self.change.model(self.made_searches, role, model) if self.change is not None else model

    def _check_blind(self, action: str) -> None:
        """Check question-only retrieval (MIRAGE, Section 3.1). It is enforced by order: anything after the options may
        depend on them.
        """
        if self.question_only and self._options_read:
            raise UserError(
                f"The node {self._step()[1]!r} {action} after the question's options had been read; under "
                "question-only retrieval only the answering node may read them (use `context.stem`). To search with "
                "the options, set `question_only = false` in the agent's file, or give AGENT[question_only=false]."
            )


def guard_of(card: Card, question: Question, gold: Gold) -> LeakGuard:
    """Return the documents and texts that no search of an agent for a question may return."""
    withheld = frozenset(gold.withheld) if card.guard else frozenset[str]()
    return LeakGuard(withheld, question.text if card.guard_near else "", card.guard_near)


def _price_of(server: Server[R], reply: R, prices: Mapping[str, Price]) -> float | None:
    """Return the price of a reply in dollars, by its server's prices or else by the list; ``None`` if unknown."""
    price = server.price(reply)
    listed = prices.get(parse(server.spec).name) if prices and price is None else None
    return listed.dollars(reply.usage, reply.busy, getattr(reply, "cache_writes", 0)) if listed else price


_encoder = msgspec.msgpack.Encoder()


def _digest(*parts: object) -> bytes:
    return hashlib.sha256(_encoder.encode(parts)).digest()
