"""The context of one attempt: through it a graph's nodes ask models and search (contract: Context).

It holds the attempt to its caps, numbers the occurrences of equal calls, passes every call to the journal, and records
it as an event. A graph that runs inside a node of another gets a nested context: its own question and parameters, the
attempt's calls, caps and trace.
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
from ragrounds.evals.engine.attempt_log import AttemptEnded, AttemptLog
from ragrounds.evals.engine.attempts_at_once import AttemptsAtOnce
from ragrounds.evals.engine.drawn_values import DrawnValues
from ragrounds.evals.engine.nested_context import NestedContext
from ragrounds.evals.engine.thread_bridge import ThreadBridge
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.graphs import catalogue
from ragrounds.models.faults import CallFailed
from ragrounds.models.prices import Price, used_price
from ragrounds.models.reply_parts import believed, request_usage
from ragrounds.prompts.loader import PromptFolder
from ragrounds.tools.agent_tools import DOCUMENT, FETCH, MCP, READ, AgentTool, WrongArguments, in_turn, passages_of
from ragrounds.tools.index.embedders import USED
from ragrounds.tools.leak_guard import GuardedSearcher, LeakGuard
from ragrounds.tools.retriever import searcher_code
from ragrounds.tools.search_notes import LIVE, SEARCH_NOTES, SEARCH_REQUESTS

R = TypeVar("R", bound=Reply)
S = TypeVar("S", bound=Struct)
W = TypeVar("W")
ANSWER_TOKENS = 1024
"""Tokens left for the answer in a model's window where nothing else is set."""
BLIND = frozenset({"querying", "reading", "refining"})
"""Roles that write queries or read documents: under question-only retrieval they never see the options."""
BETWEEN_SAMPLES = 1_000_000
"""Occurrences that lie between two samples of a counterfactual's: more than an attempt can have."""
_TURN_TOKENS = 8
"""Tokens that a chat template may add to a turn."""


@dataclass(eq=False, kw_only=True)
class AttemptContext(AttemptLog):
    """One question × one agent × one epoch, while it runs."""

    item: Question
    epoch: int
    parameters: Mapping[str, Value]
    models: Mapping[str, Model]
    """By role; the role ``model`` is always there and stands in for the others. What is asked in the role ``reading``
    is for the model ``reader``; other roles have their model under their own name, where there is one."""
    searcher: Searcher | None
    prompts: Prompts
    journal: Journal
    toolbox: Sequence[AgentTool] = ()
    """What the agent lists as its tools; none: it has its searcher alone."""
    prices: Mapping[str, Price] = field(default_factory=dict)
    """The user's own, for what the searcher uses."""
    question_only: bool = True
    """Once the options have been read, nothing is searched and no query is written any more."""
    payer: bytes = b""
    """Marks the calls that this attempt pays for."""
    gold: tuple[str, ...] | None = None
    """Ids of the gold documents, for an oracle alone."""
    recorded: Sequence[str] = ()
    """How addresses begin whose calls a foreign system's recorder keeps though they are of no known form."""
    guard: LeakGuard = field(default_factory=LeakGuard)
    """What no search for this question may find."""
    at_once: AttemptsAtOnce | None = None
    """Those of the same foreign system that are in flight."""
    inside: Callable[..., Awaitable[Attempted]] | None = None
    """Makes attempts of the agents inside this one, as :meth:`attempt_of`."""
    drawn: DrawnValues | None = None
    """What a foreign system draws from clock and chance; ``None``: that is not recorded."""
    change: Intervention | None = None
    """What a counterfactual changes."""
    made_searches: int = 0
    """Searches that were begun."""
    _occurrences: Counter[bytes] = field(default_factory=Counter)
    _passages: dict[str, Passage] = field(default_factory=dict)
    _options_read: bool = False
    _threads: ThreadBridge = field(default_factory=ThreadBridge)

    @property
    def question(self) -> Question:
        """The whole question. Reading its options ends the attempt's searching: see `_check_blind`."""
        self._options_read |= bool(self.item.options)
        return self.item

    @property
    def stem(self) -> Stem:
        """The question without its options."""
        return self.item.stem

    @property
    def seed(self) -> str:
        """Question and epoch: what every random choice of this attempt is drawn from."""
        return f"{self.item.id}#{self.epoch}"

    @property
    def continues(self) -> Continuation:
        """How the answering model continues a text of its own."""
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
        # Equal requests have equal keys: lists and tuples, 0 and 0.0, False and None are one thing each.
        settled: dict[str, Any] = {**arguments}
        for name, made in (("stop", tuple), ("tools", tuple), ("temperature", float), ("response_format", dict)):
            if settled.get(name) is not None:
                settled[name] = made(settled[name])
        if (logprobs := settled.get("logprobs")) is not None:
            settled["logprobs"] = None if logprobs is False else int(logprobs is not True and logprobs)
        return await self.complete(model, Request(messages=tuple(messages), **settled), Reply, role=role)

    async def complete(
        self,
        model: Server[R],
        request: Request,
        kind: type[R],
        *,
        role: str = "answering",
        prices: Mapping[str, Price] = MappingProxyType({}),
    ) -> R:
        """Have a model, or another server, answer a request: once for each key, in the journal before it is used.

        `prices` are those of replies that the server itself knows no price of.

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
        # The same question asked again in one attempt is another sample: it must not be answered by the first reply.
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
            """Dollars of what is asked alone."""
            return _price_of(model, kind(text="", usage=request_usage(request), busy=0.0), prices)

        async def asked() -> R:
            """Ask. A response without choices is no reply: it is not recorded, and is asked for again on resuming."""
            given = await model.complete(request, faults)
            if given.finish == "none":
                self.add_cost(given.usage, _price_of(model, believed(given, request), prices), False, request_price())
                raise CallFailed("no_choices", "the provider's response has no choices")
            return given

        answered, ended = await self._once(entry, asked, kind, role, role, faults, request_price)
        reply = believed(answered, request)
        price = _price_of(model, reply, prices)
        ended(model=reply.model, usage=reply.usage, price=price, faults=tuple(faults))
        for note in reply.notes:
            self.note("reply", note)
        if reply.finish == "content_filter":
            raise AttemptEnded("blocked", "the provider's content filter refused the request")
        self.last_reply = reply.text
        return reply

    async def _once(
        self,
        entry: Entry,
        make: Callable[[], Awaitable[S]],
        kind: type[S],
        what: str,
        role: str,
        faults: list[Fault],
        request_price: Callable[[], float | None] = lambda: None,
    ) -> tuple[S, Callable[..., None]]:
        """A call, made once for its key and in the journal before it is used; and what ends it in the log.

        Raises:
            CallFailed: no answer after all tries; the log has it already.
        """
        begun = self.begin_call(entry.actor, what, entry.kind)
        ended = partial(
            self.end_call,
            begun,
            entry.actor,
            role=role,
            kind=entry.kind,
            key=entry.key,
            request_price=request_price,
        )
        self.flies(1)
        if self.drawn is not None:
            self.drawn.flush(cast("StoreJournal", self.journal), lambda: msgspec.json.encode(entry.request))
        try:
            answer, cached = await self.journal.once(entry, make, kind)
        except CallFailed as error:
            ended(faults=error.faults or tuple(faults), error=error.message)
            raise
        finally:
            # Only the call itself counts as in flight: a cap that is reached meanwhile must not wait for our reading.
            self.flies(-1)
        return answer, partial(ended, cached=cached)

    def wait(self, asked: Coroutine[object, object, W]) -> W:
        """Have a call made from a plain function that runs in a thread, and wait for it: see :class:`ThreadBridge`."""
        return self._threads.wait(asked)

    def close(self) -> None:
        """End what threads of the attempt still ask for: the attempt has ended."""
        self._threads.close()

    async def search(self, query: Query, k: int, *, empty: bool = False) -> tuple[Passage, ...]:
        """Give the `k` best passages of the agent's corpus, or of all that its tools search, in turn. An empty query
        finds nothing and is not sent, unless `empty`.

        Raises:
            UserError: the agent has no corpus, or has read the options under question-only retrieval.
            AttemptEnded: a cap is reached.
            CallFailed: the search failed after all retries.
        """
        if self._threads.elsewhere:
            return await self._threads.across(self.search(query, k, empty=empty))
        if self.toolbox:
            return await self._refined(query, await self._search_with_all(query, k, empty=empty))
        if self.searcher is None:
            raise UserError("This agent searches, but no corpus was given. Give one with --corpus.")
        return await self._refined(query, await self._searched(self.searcher, query, k, empty=empty))

    async def _refined(self, query: Query, found: tuple[Passage, ...]) -> tuple[Passage, ...]:
        """What is left of what was found, by the agent's `refine`; prompts show that alone."""
        if "refine" not in self.parameters or not found:
            return found
        kept: tuple[Passage, ...] = await catalogue.refining().refined(
            self, str(self.parameters["refine"]), query.text, found
        )
        self._passages.update({passage.id: passage for passage in kept})
        return kept

    async def _search_with_all(self, query: Query, k: int, *, empty: bool) -> tuple[Passage, ...]:
        """Ask everything in the toolbox that searches, and take what is found in turn; then read on with what reads."""
        asked: list[Coroutine[object, object, Sequence[Passage]]] = []
        for tool in self.toolbox:
            if tool.searcher is not None:
                asked.append(self._searched(tool.searcher, query, k, empty=empty))
            elif tool.argument and tool.spec.startswith(MCP):
                asked.append(self._passages_by(tool, {tool.argument: query.text}))
        found = in_turn(await asyncio.gather(*asked), k)
        self._passages.update({passage.id: passage for passage in found})
        readers = {tool.spec.partition("[")[0]: tool for tool in self.toolbox if tool.use is not None}
        read = [await self._read_on(passage, readers) for passage in found]
        self._passages.update({passage.id: passage for passage in read})
        return tuple(read)

    async def _read_on(self, passage: Passage, readers: Mapping[str, AgentTool]) -> Passage:
        """The passage with the text of its page, or with what stands around it, where a tool reads that."""
        text = ""
        if FETCH in readers and passage.id.startswith(("http://", "https://")):
            asked = {"url": passage.id, "looking_for": passage.text[:4000]}
            text = "\n".join(one.text for one in await self._passages_by(readers[FETCH], asked))
        elif READ in readers and self.searcher is not None and passage.corpus == self.searcher.corpus:
            text = "\n".join(one.text for one in await self._passages_by(readers[READ], {"passage": passage.id}))
        return replace(passage, text=text) if text.strip() else passage

    async def _passages_by(self, tool: AgentTool, arguments: Mapping[str, object]) -> tuple[Passage, ...]:
        answer = await self._used(tool, arguments)
        return passages_of(tool, answer)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that the agent lists, as they are described to a model."""
        return tuple(tool.tool for tool in self.toolbox)

    async def use(self, tool: str, arguments: Mapping[str, object], *, k: int = 5) -> ToolAnswer:
        """Use a tool of the agent's. What a search finds are passages; arguments that are not of its schema, and what
        failed for good, are answered with a text that says so.

        Raises:
            UserError: the agent lists no such tool, or has read the options under question-only retrieval.
            AttemptEnded: a cap is reached.
            CallFailed: no answer after all retries.
        """
        if self._threads.elsewhere:
            return await self._threads.across(self.use(tool, arguments, k=k))
        chosen = next((one for one in self.toolbox if one.tool.name == tool), None)
        if chosen is None:
            names = [one.tool.name for one in self.toolbox]
            has = ", ".join(names) or "none"
            raise UserError(f"The agent has no tool {tool!r}.{nearest(tool, names)} It has {has}.")
        try:
            if chosen.searcher is None:
                return await self._used(chosen, arguments)
            query = Query(chosen.text_argument(arguments))
            return ToolAnswer(
                "", await self._refined(query, await self._searched(chosen.searcher, query, k, empty=False))
            )
        except WrongArguments as problem:
            self.note("malformed_call", f"{tool}: {problem}")
            return ToolAnswer(msgspec.json.encode({"error": str(problem)}).decode())

    async def _used(self, tool: AgentTool, arguments: Mapping[str, object]) -> ToolAnswer:
        """A use of a tool that does not search: once for each key, in the journal before its answer is used."""
        self._check_blind("used a tool")
        await self.under_cap()
        self.check_caps()
        if tool.spec == READ and (known := self._passages.get(str(arguments.get("passage")))) is not None:
            arguments = {**arguments, DOCUMENT: known.document}
        given = msgspec.json.encode(arguments, order="deterministic").decode()
        request = ToolRequest(tool=tool.tool.name, query=given)
        key = _digest("tool", tool.actor, sorted(tool.codes.items()), request).hex()
        use = tool.use

        async def answered() -> ToolAnswer:
            """Use it."""
            if use is None:
                raise UserError(f"{tool.spec} searches: it is no tool of its own.")
            try:
                return await use(arguments)
            except GaveUp as problem:
                raise CallFailed(problem.kind, str(problem)) from problem

        entry = Entry(key=key, kind="tool", actor=tool.actor, request=request)
        answer, ended = await self._once(entry, answered, ToolAnswer, given, "using", [])
        found = tuple(passage.id for passage in answer.passages)
        ended(price=tool.price, passages=found, usage=Usage())
        self._passages.update({passage.id: passage for passage in answer.passages if passage.id not in self._passages})
        return answer

    async def _searched(self, searcher: Searcher, query: Query, k: int, *, empty: bool) -> tuple[Passage, ...]:
        """One search: once for each key, in the journal before what it found is used."""
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
        mean = query.dense if isinstance(searcher, MeanSearcher) else ()
        guard = self.guard
        request = SearchRequest(corpus=searcher.corpus, query=query.text, k=k, mean=mean)
        # Only where something is withheld: a field that was given is a part of the key, whatever its value.
        if guard.documents:
            request = replace(request, withheld=tuple(sorted(guard.documents)))
        if guard.question:
            request = replace(request, near=guard.share, near_to=guard.question)
        key = _digest("search", searcher.spec, searcher_code(searcher), request).hex()
        entry = Entry(key=key, kind="search", actor=searcher.spec, request=request)

        async def found() -> SearchResult:
            """Search, and collect what it used."""
            guarded = GuardedSearcher(searcher, guard) if guard.documents or guard.question else None
            asked = guarded or searcher
            searched = datetime.now(UTC).isoformat(timespec="seconds") if LIVE in searcher.corpus else ""
            with (
                USED.collecting() as used,
                SEARCH_REQUESTS.collecting() as requests,
                SEARCH_NOTES.collecting() as notes,
            ):
                try:
                    if mean and isinstance(asked, MeanSearcher):
                        passages = await asked.search_mean(mean, k)
                    else:
                        passages = await asked.search(query.text, k)
                except GaveUp as problem:
                    raise CallFailed(problem.kind, str(problem)) from problem
            withheld = guarded.withheld if guarded else 0
            return SearchResult(tuple(passages), (*used, *requests), withheld, tuple(notes), searched)

        result, ended = await self._once(entry, found, SearchResult, query.text, "searching", [])
        if self.change is not None:
            result = replace(result, passages=self.change.passages(number, result.passages))
        ids = tuple([passage.id for passage in result.passages])
        ended(price=self._price(result), passages=ids)
        if result.withheld:
            self.note("withheld", f"the leak guard left {result.withheld} passages out of what was found")
        for note in result.notes:
            self.note(note.what, note.text)
        self._passages.update({passage.id: passage for passage in result.passages})
        return result.passages

    def passage(self, id: str) -> Passage:
        """Give a passage that a search of this attempt returned."""
        return self._passages[id]

    def gold_passages(self) -> tuple[Passage, ...]:
        """Give the passages of the gold documents that the corpus holds; the others are noted in the trace.

        Raises:
            UserError: the agent is no oracle, or its corpus cannot give documents.
        """
        if self.gold is None:
            raise UserError("Only an agent with `oracle = true` in its file may see gold documents.")
        if not isinstance(self.searcher, Library):
            raise UserError("An oracle needs a corpus that can return whole documents. Give one with --corpus.")
        found: list[Passage] = []
        for id in self.gold:
            passages = self.searcher.document(id)
            if not passages:
                self.note("gold_missing", f"the corpus does not contain the gold document {id}")
            found += passages
        self._passages.update({passage.id: passage for passage in found})
        return tuple(found)

    def asking(self, stem: Stem, *, role: str = "answering", **parameters: Value) -> Context:
        """Give a context in which the question is `stem`, without options; its calls count for this attempt."""
        return NestedContext(self, self.item.benchmark, stem, parameters, self.prompts, role)

    async def answer_of(self, agent: str) -> str:
        """Run another agent on this question's stem, inside this attempt, and give its final answer.

        It uses this attempt's models, corpus, journal and caps.

        Raises:
            UserError: there is no such agent, or it cannot run inside another.
        """
        inside = check_subagent(open_agent(agent))
        prompts = PromptFolder(inside.card.prompts, inside.layout)
        context = NestedContext(self, self.item.benchmark, self.stem, inside.parameters, prompts, "querying")
        state = await catalogue.build(inside.card.graph).compile().ainvoke({}, context=context)
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
        """Tokens left beside `messages` and the answer; ``None``: the model's window is not known."""
        model = self._model(role)
        if model.window is None:
            return None
        used = sum(model.count(message.content) + _TURN_TOKENS for message in messages)
        return max(0, model.window - used - ANSWER_TOKENS)

    def count(self, text: str, *, role: str = "answering") -> int:
        """Tokens of a text."""
        return self._model(role).count(text)

    def cut(self, text: str, tokens: int, *, role: str = "answering") -> str:
        """The longest beginning of a text that has at most `tokens` tokens."""
        return self._model(role).cut(text, tokens)

    def _price(self, result: SearchResult) -> float | None:
        """Dollars of a search; ``None``: not known."""
        total: float | None = 0.0
        for used in result.used:
            price = used_price(used, self.prices)
            total = None if total is None or price is None else total + price
        return total

    def _model(self, role: str) -> Model:
        model = self.models.get(
            {"reading": "reader", "refining": "reader", "judging": "judge"}.get(role, role)
        ) or self.models.get("model")
        if model is None:
            raise UserError(f"No model was given for the role {role!r}. Give one with --model.")
        return self.change.model(self.made_searches, role, model) if self.change is not None else model

    def _check_blind(self, deed: str) -> None:
        """Question-only retrieval (MIRAGE, Section 3.1), kept by order: what follows the options may come from them."""
        if self.question_only and self._options_read:
            raise UserError(
                f"The node {self._step()[1]!r} {deed} after the question's options had been read; under "
                "question-only retrieval only the answering node may read them (use `context.stem`). To search with "
                "the options, set `question_only = false` in the agent's file, or give AGENT[question_only=false]."
            )


def guard_of(card: Card, question: Question, gold: Gold) -> LeakGuard:
    """What no search of an agent for a question may find."""
    withheld = frozenset(gold.withheld) if card.guard else frozenset[str]()
    return LeakGuard(withheld, question.text if card.guard_near else "", card.guard_near)


def _price_of(server: Server[R], reply: R, prices: Mapping[str, Price]) -> float | None:
    """Dollars of a reply, by its own server's prices or else by the list; ``None``: not known."""
    price = server.price(reply)
    listed = prices.get(parse(server.spec).name) if prices and price is None else None
    return listed.of(reply.usage, reply.busy) if listed else price


_encoder = msgspec.msgpack.Encoder()


def _digest(*parts: object) -> bytes:
    return hashlib.sha256(_encoder.encode(parts)).digest()
