"""Recorder of the calls of one attempt at the wire. Calls are answered from the journal, or sent, recorded, counted and
priced.

A call of a known form is journaled under a separate key: its form, its address, its whole body, the epoch, and the
number of equal calls before it in the attempt. Only answers that the client will accept (a status of 200 and its like)
are recorded. An error is returned to the client, which may try again: its tries are the call's faults. A call of
unknown form passes, and the attempt notes that it is not recorded; in a replay nothing passes.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import hashlib
import logging
import urllib.parse
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import NoReturn

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.contracts import Entry, Request
from ragrounds.base.errors import NotReplayed, StopRun
from ragrounds.base.http import REPLY, BadReply, HttpAnswer, read_json
from ragrounds.base.records import Fault, Reply, Usage
from ragrounds.base.text import safe
from ragrounds.evals.engine.attempt_log import AttemptEnded, StartedCall
from ragrounds.evals.engine.context import BETWEEN_SAMPLES, AttemptContext
from ragrounds.evals.engine.recorded_randomness import RecordedRandomness
from ragrounds.evals.engine.recording.library_values import LibraryValues
from ragrounds.evals.engine.recording.mcp import McpServers
from ragrounds.evals.engine.recording.searches import AttemptSearches
from ragrounds.evals.engine.recording.side_loop import SideLoop, side_of
from ragrounds.evals.engine.servers import asked_server
from ragrounds.evals.store.journal import RECORDED_TIMES, StoreJournal, Times
from ragrounds.evals.trace.nearest_recording import nearest_words
from ragrounds.evals.trace.run_facts import MIXED
from ragrounds.models.faults import Transient
from ragrounds.models.openai_protocol import said_in
from ragrounds.models.options import server_of
from ragrounds.models.prices import listed_price
from ragrounds.models.reply_parts import as_json, believed, request_usage, words
from ragrounds.models.wire_forms import (
    MCP,
    ModelCall,
    RecordedReply,
    call_key,
    canonical,
    given_back,
    known_call,
    plain_address,
    recorded,
)
from ragrounds.models.wire_replies import mcp_answer
from ragrounds.recorder.observer import FOUND
from ragrounds.recorder.redaction import Redactor, redacted, redactor
from ragrounds.recorder.wire import (
    BlockingSend,
    NotSent,
    Send,
    SizeCheck,
    Unsent,
    WireRequest,
    WireResponse,
    model_call,
    running_loop,
)

_LOG = logging.getLogger(__name__)
LONGEST_VECTORS = 128 << 20
"""Largest number of bytes of an unpacked answer of vectors: those of many texts are large. Other answers have the limit
of a reply.
"""
_TELEMETRY = (
    "smith.langchain.com",
    "posthog.com",
    "segment.io",
    "segment.com",
    "sentry.io",
    "scarf.sh",
    "langfuse.com",
    "amplitude.com",
    "mixpanel.com",
)
"""Hosts that receive reports from libraries. These requests are no part of an answer: they are neither recorded nor
counted.
"""
_REPORTS = (
    "/v1/traces",
    "/v1/metrics",
    "/v1/logs",
    "/runs/batch",
    "/runs/multipart",
    "/model_prices_and_context_window.json",
)
"""Paths of traces, wherever they are sent, and of LiteLLM's prices, which it requests when it is imported."""


class WireFailure(Exception):
    """Invalid answer. It is returned to the client unchanged, and is not recorded."""

    def __init__(self, response: WireResponse, reason: str) -> None:
        super().__init__(reason)
        self.response = response


class _Started(Struct, frozen=True):
    """Call that has been sent."""

    call: ModelCall
    first: bytes
    """Key of its first occurrence."""
    started_call: StartedCall
    entry: Entry
    redact: Redactor
    faults: tuple[Fault, ...] = ()
    """Faults of the earlier tries."""

    def read(self, response: WireResponse) -> RecordedReply:
        """Return an answer, ready for the journal.

        Raises:
            WireFailure: it is an error, or no answer of this form.
        """
        if not 200 <= response.status < 300:
            answer = HttpAnswer(response.status, {"content-type": response.content_type}, response.body)
            _, message, _ = said_in(answer, self.redact)
            raise WireFailure(response, f"{response.status}: {safe(message, 300)}")
        try:
            # Vectors may be encoded as letters, in which some parts look like keys by chance.
            clean = self.redact.without_keys if self.call.form.role == "embedding" else self.redact
            return recorded(self.call.form, response, clean)
        except (ValueError, BadReply, Transient) as error:
            raise WireFailure(response, self.redact(str(error))[:300]) from error


class AttemptRecorder:
    """Recorder of the calls of one attempt (contract: :class:`ragrounds.recorder.wire.Watcher`).

    Calls of asynchronous clients on the attempt's event loop are answered on that loop. Calls from other threads and
    other loops, and of synchronous clients, are answered by a separate loop (:class:`SideLoop`).
    """

    def __init__(self, context: AttemptContext, journal: StoreJournal) -> None:
        self._context = context
        self._journal = journal
        self._loop = asyncio.get_running_loop()
        self._occurrences: Counter[bytes] = Counter()
        self._tried: dict[bytes, _Started] = {}
        """Calls that have failed so far."""
        self.ended: asyncio.Future[None] = self._loop.create_future()
        """Future that is done when no call may leave the process any more: the attempt has ended, whatever the system
        does.
        """
        self.stop: BaseException | None = None
        """Reason why the attempt has ended."""
        self.over = False
        """True once the system has answered; later calls come too late."""
        self.cut_off = False
        """True if the system was ended before it had answered."""
        self.calls = 0
        """Number of calls that were recorded."""
        self.missed: Counter[str] = Counter()
        """Number of calls that were seen and are not recorded, by description."""
        self.wired: set[str] = set()
        """Tokens of model calls that callbacks reported and to which a recorded call belongs."""
        self._mcp = McpServers()
        self._library_values: LibraryValues | None = None
        self.searches: AttemptSearches | None = None
        """Searches of the attempt, which are extracted from recorded calls."""
        self.change: Callable[[bytes], bytes] = bytes
        """Function that returns the changed results of a search."""

    async def exchange(self, request: WireRequest, send: Send, *, waits: bool = True) -> WireResponse | None:
        """Return the answer to a call (contract: Watcher).

        Raises:
            Unsent: it may not be made.
        """
        # A caller that blocks other calls in a host must not wait for an equal one among them, on a journal that both
        # use.
        if not waits or asyncio.get_running_loop() is not self._loop:
            return await self._from_other_loop(request, send, waits)
        return await self._exchange(request, send, self._journal)

    async def _exchange(
        self, request: WireRequest, send: Send, journal: StoreJournal, waits: bool = True
    ) -> WireResponse | None:
        if request.method == FOUND:
            return None if self.over else WireResponse(200, "application/json", self.change(request.body))
        call = known_call(request, self._context.recorded)
        if request.method in ("GET", "DELETE") and plain_address(request.url) in self._mcp.server_names:
            return WireResponse(405, "text/plain", b"") if self.closed else None  # a session's own stream, or its end
        if call is not None and call.form is MCP:
            if self._mcp.may_ask(call):
                call = None
            elif (tool_use := self._mcp.use(call)) is None:
                return await self._greeted(call, request, send, journal)
            else:
                call = tool_use
        if waits and call is not None and not self.over and self.stop is None:
            await self._context.under_cap()
        mark = await self._server_mark(call) if call is not None and not self.over and self.stop is None else ""
        begun = self._begin(request, call, mark)
        if begun is None:
            return None
        started = begun

        change, sent_call, read = self._context.change, started.call, started.read

        async def make() -> RecordedReply:
            """Send the call."""
            if change is not None and call is not None and sent_call.model != call.model:
                return read(await change.sent(request, canonical(sent_call.body)))
            return read(await send(self._watched_size(sent_call)))

        if (recorded_randomness := self._context.recorded_randomness) is not None:
            recorded_randomness.flush(journal, lambda: request.body)
            if started.call.form.role != "embedding":
                self._library_values = self._library_values or self._values_of_libraries(recorded_randomness)
                entry = await self._library_values.entry_for(started.entry, started.call, self._context.epoch, journal)
                started = replace(started, entry=entry)
        try:
            with RECORDED_TIMES.collecting() as times:
                reply, cached = await journal.once(started.entry, make, RecordedReply)
        except BaseException as error:
            return self._failed(started, error)
        if started.faults and not cached:  # the failed tries took time too, which the journal does not have
            times.clear()
        return self._answered(started, reply, cached, times[-1] if times else None)

    async def _greeted(
        self, call: ModelCall, request: WireRequest, send: Send, journal: StoreJournal
    ) -> WireResponse | None:
        """Answer a message to an MCP server that is no use of its tools."""
        if self._is_late(request):
            return None
        sent = None if self.closed else partial(send, self._watched_size(call))
        answer = await self._mcp.greeted(call, journal, sent, self._redactor(request))
        if answer is None:
            self.end(NotReplayed(f"Replay: {call.model} of {call.address} is not in the journal. Nothing was sent."))
        return answer

    def exchange_blocking(self, request: WireRequest, send: BlockingSend) -> WireResponse | None:
        """Answer a call of a synchronous client, in any thread, like :meth:`exchange`.

        On the attempt's own event loop it blocks the loop, and therefore waits for no call that has to end there.
        """
        return self._from_other_thread(request, send, waits=running_loop() is not self._loop)

    def unseen(self, label: str, *, counted: bool = False) -> None:
        """Handle a call by an unknown client (contract: Watcher).

        Raises:
            Unsent: this is a replay.
        """
        if self.over:
            return
        if self.closed:
            self.end(NotReplayed(f"Replay: {label} was asked for, which no journal holds; nothing was sent."))
        if not counted:
            self.count_missed(label)

    def forked(self) -> None:
        """Stop recording, because this is a forked child's copy (contract: Watcher)."""
        self.over = True

    def count_missed(self, kind: str) -> None:
        """Count a call that was seen and cannot be replayed, and note each kind once in the trace."""
        if not self.missed[kind]:
            self._context.note("not_recorded", kind)
        self.missed[kind] += 1

    def end(self, error: BaseException) -> NoReturn:
        """End the attempt.

        Raises:
            Unsent: always.
        """
        # The first reason is the true one: a refused call makes the system fail for other reasons.
        self.stop = self.stop or error
        self._loop.call_soon_threadsafe(self._end)
        raise Unsent(str(error)) from error

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def close(self) -> None:
        """Record the calls that failed for good, and accept no further call."""
        self.over = True
        for started in self._tried.values():
            self._context.last_failure = started.faults[-1].message
            self._context.end_call(
                started.started_call,
                faults=started.faults,
                error=started.faults[-1].message,
                request_price=partial(self._request_price, started),
            )

    @property
    def closed(self) -> bool:
        """True if nothing may leave the process, because this is a replay."""
        return self._journal.mode == "replay"

    def _watched_size(self, call: ModelCall) -> SizeCheck:
        """Return the size limit of an answer. Nothing is read once the attempt has ended."""
        longest = LONGEST_VECTORS if call.form.role == "embedding" else REPLY.size
        return SizeCheck(longest, lambda: self.over)

    async def _server_mark(self, call: ModelCall) -> str:
        """Return the fingerprint of the server that a call goes to; empty if it is the first known server at its
        address.
        """
        server = server_of(call.actor) if "server=" in call.actor and call.form.role != "tool" else ""
        known_server = await asked_server(self._journal.store, server, replay=self.closed) if server else None
        return known_server.fingerprint if known_server else ""

    def _handle_unknown_form(self, request: WireRequest) -> None:
        """Handle a request of unknown form."""
        address = plain_address(request.url)
        parts = urllib.parse.urlsplit(address)
        host = parts.hostname or ""
        if any(host == domain or host.endswith(f".{domain}") for domain in _TELEMETRY) or parts.path.endswith(_REPORTS):
            if self.closed:
                raise NotSent(f"A replay sends nothing to {host}.")
            return
        label = f"{request.method} {safe(address, 200)}"
        if self.closed:
            self.end(
                NotReplayed(
                    f"Replay: the system asks for {label}, which is no model call of a known form, so no journal holds "
                    'it; nothing was sent. `record = ["ADDRESS"]` in the agent\'s file records such calls.'
                )
            )
        if not model_call():  # a model call of unknown form is counted by its callback
            self.count_missed(label)

    def _is_late(self, request: WireRequest) -> bool:
        """Return True if a request comes after the system has answered, from a thread of it that still runs: the
        request passes.

        Raises:
            Unsent: it may not be made.
        """
        if self.stop is not None:
            raise Unsent(str(self.stop))
        if self.over:
            self._check_cut_off()
            if self.closed:
                raise NotSent("A replay sends nothing.")
            _LOG.warning("%s was requested after its attempt had ended: not recorded", request.url)
        return self.over

    def _check_cut_off(self) -> None:
        if self.cut_off:
            raise Unsent("the attempt of this call was stopped")

    def _begin(self, request: WireRequest, call: ModelCall | None, mark: str) -> _Started | None:
        """Begin a call to the server with that fingerprint; ``None`` if the call is not recorded, and passes.

        Raises:
            Unsent: a cap is reached, or the attempt has ended.
        """
        if self._is_late(request):
            return None
        if call is None:
            self._handle_unknown_form(request)
            return None
        redact, change, answers = self._redactor(request), self._context.change, call.form.role == "answering"
        # An object of the system that several attempts share may have kept the question of another one.
        at_once = self._context.at_once
        if at_once and answers and (other := at_once.heard(self._context.item, request.body)):
            self._context.note(MIXED, other)
        clean = call
        text = request.body.decode("utf-8", "replace")
        clean_text = redact(text)
        if clean_text != text and isinstance(body := read_json(clean_text), dict):
            clean = replace(call, body=body)
        clean_request = clean.request()
        if self.searches is not None and answers:
            self.searches.read_request(clean_request, clean.body)
        searches = self._context.made_searches
        if change is not None and answers:
            try:
                bodies = [dict(change.body(searches, version.body)) for version in (call, clean)]
            except StopRun as error:
                self.end(error)
            model = words(bodies[0].get("model"), 200) or call.model
            call = replace(call, body=bodies[0], model=model)
            clean_request = replace(clean, body=bodies[1], model=model).request()
        # A vector is the same in every epoch, however often it is requested.
        is_sampled = answers or call.form is MCP
        first = call_key(call, self._context.epoch if is_sampled else 0)
        first = hashlib.sha256(first + mark.encode()).digest() if mark else first
        occurrence = self._occurrences[first] if is_sampled else 0
        self._occurrences[first] += 1
        if change is not None and answers:
            occurrence += change.sample(searches) * BETWEEN_SAMPLES
        key = (hashlib.sha256(first + occurrence.to_bytes(8, "big")).digest() if occurrence else first).hex()
        try:  # the searches in this request count before it
            self._context.check_caps()
        except AttemptEnded as capped:
            self.end(capped)
        role = call.form.role
        entry = Entry(
            key=key,
            kind="tool" if role == "tool" else "model",
            actor=call.actor,
            request=replace(clean_request, occurrence=occurrence) if occurrence else clean_request,
            payer=self._context.payer,
        )
        # A call that failed keeps its start and its position in the trace: its tries are one call with faults.
        earlier_try = self._tried.get(first)
        started_call = (
            earlier_try.started_call if earlier_try else self._context.begin_call(call.actor, entry.kind, role)
        )
        self._context.flies(1)
        if token := model_call():
            self.wired.add(token)
        return _Started(call, first, started_call, entry, redact, earlier_try.faults if earlier_try else ())

    def _redactor(self, request: WireRequest) -> Redactor:
        """Return the redactor that removes the keys of this request's headers from texts."""
        return redactor(*(value.rpartition(" ")[2] for name, value in request.headers.items() if name in _KEYS))

    def _values_of_libraries(self, recorded_randomness: RecordedRandomness) -> LibraryValues:
        payer = self._context.payer if self._journal.mode == "fresh" else b""
        subject = msgspec.msgpack.encode((self._context.item.benchmark, self._context.item.id, payer))
        return LibraryValues(recorded_randomness, subject, self._context.item.stem.text)

    def _failed(self, started: _Started, error: BaseException) -> WireResponse:
        """Return an error to the client, and remember it as a fault of the call.

        Raises:
            Unsent: nothing may be sent.
            Exception: what the client itself raised.
        """
        self._context.flies(-1)
        if isinstance(error, NotReplayed):
            near = nearest_words(self._journal.store, self._context.item.id, started.entry)
            self.end(NotReplayed(f"{error}. {near}") if near else error)
        if isinstance(error, StopRun):
            self.end(error)
        if not isinstance(error, Exception):
            raise error
        # The client may try again: then it is the same call, under the same key, and not a new sample.
        self._occurrences[started.first] -= 1
        status = error.response.status if isinstance(error, WireFailure) else None
        kind = "connection" if status is None else _KINDS.get(status, "server" if status >= 500 else "bad_request")
        kind = "malformed" if status is not None and 200 <= status < 300 else kind
        kind = "blocked" if isinstance(error, WireFailure) and b'"content_filter"' in error.response.body else kind
        kind = error.kind if isinstance(error, BadReply) else kind
        fault = Fault(kind=kind, message=redacted(str(error) or type(error).__name__)[:300], status=status)
        self._tried[started.first] = replace(started, faults=(*started.faults, fault))
        self._context.is_refused = kind == "blocked"
        # The client must see its server's answer, because it decides whether and when it tries again.
        if isinstance(error, WireFailure):
            return error.response
        raise error

    def _answered(self, started: _Started, answered: RecordedReply, cached: bool, times: Times | None) -> WireResponse:
        request, call = started.entry.request, started.call
        # Vectors and ranks have no text, and not all texts for which they were requested are stored.
        answers = call.form.role == "answering"
        reply = believed(answered, request) if answers and isinstance(request, Request) else answered
        self._tried.pop(started.first, None)
        self._context.flies(-1)
        self.calls += 1
        self._context.end_call(
            started.started_call,
            key=started.entry.key,
            model=reply.model,
            cached=cached,
            usage=reply.usage,
            worked=reply.worked,
            price=self._price(call, started.entry.actor, reply),
            faults=started.faults,
            request_price=partial(self._request_price, started),
            times=times,
        )
        for note in reply.notes:
            self._context.note("reply", note)
        self._context.is_refused = reply.finish == "content_filter"
        if answers and reply.text:
            self._context.last_reply = reply.text
        if self.searches is not None and answers:
            self.searches.read_reply(answered)
        if call.form is MCP:
            answer = mcp_answer(answered.body.encode(answered.encoding), answered.content_type)
            return WireResponse(200, "application/json", as_json({**answer, "id": call.id}).encode())
        return given_back(answered)

    def _request_price(self, started: _Started) -> float | None:
        """Return the price of the request alone, in dollars."""
        request = started.entry.request
        usage = request_usage(request) if isinstance(request, Request) else Usage()
        return self._price(started.call, started.entry.actor, Reply(text="", usage=usage, busy=0.0))

    def _price(self, call: ModelCall, actor: str, reply: Reply) -> float | None:
        """Return the price in dollars, by the user's list, or by the provider's if the provider is called; ``None`` if
        it is not known.
        """
        if call.form.role == "tool":
            return 0.0  # like a built-in search: its cost is in no list
        provider = actor.partition(":")[0]
        user_price = self._context.prices.get(f"{provider}:{call.model}")
        if user_price is not None:
            return user_price.dollars(reply.usage, reply.busy, reply.cache_writes)
        if not call.listed or reply.usage is None:
            return None
        return listed_price(provider, call.model, reply.usage, reply.cache_writes)

    # Calls from other threads and other loops: the client sends them itself, and they use a journal on a separate loop,
    # not on the attempt's, which the system may block while it waits for its threads.

    async def _on_the_side(self, request: WireRequest, send: Send, side: SideLoop, waits: bool) -> WireResponse | None:
        answer = await self._exchange(request, send, side.journal, waits)
        # The run reports the sums of both journals.
        self._journal.count(side.journal)
        return answer

    def _handed_over(self, request: WireRequest, waits: bool) -> tuple[_Relay, _Done]:
        self._check_cut_off()
        relay, side = _Relay(), side_of(self._journal)
        done = side.begin(partial(self._on_the_side, request, relay.send, side, waits))
        done.add_done_callback(relay.settle)
        return relay, done

    def _from_other_thread(self, request: WireRequest, send: BlockingSend, waits: bool) -> WireResponse | None:
        relay, done = self._handed_over(request, waits)
        if relay.decision.result():
            try:
                relay.sent.set_result(send(relay.grown))
            except BaseException as error:
                relay.sent.set_exception(error)
        try:
            return done.result()
        except concurrent.futures.CancelledError as closed:
            raise Unsent("the journal was closed before this call had ended") from closed

    async def _from_other_loop(self, request: WireRequest, send: Send, waits: bool) -> WireResponse | None:
        relay, done = self._handed_over(request, waits)
        if await asyncio.wrap_future(relay.decision):
            try:
                relay.sent.set_result(await send(relay.grown))
            except BaseException as error:
                relay.sent.set_exception(error)
        return await asyncio.wrap_future(done)


_Done = concurrent.futures.Future[WireResponse | None]


class _Relay:
    """Handover of a call to another loop, and of its sending back to the caller."""

    def __init__(self) -> None:
        self.decision: concurrent.futures.Future[bool] = concurrent.futures.Future()
        self.sent: concurrent.futures.Future[WireResponse] = concurrent.futures.Future()
        self.grown: SizeCheck

    async def send(self, grown: SizeCheck) -> WireResponse:
        """Let the caller send, and wait for the response."""
        self.grown = grown
        self.decision.set_result(True)
        return await asyncio.wrap_future(self.sent)

    def settle(self, done: _Done) -> None:
        """Report to the caller that there is nothing to send, if it was not asked to send."""
        if not self.decision.done():
            self.decision.set_result(False)


_KEYS = frozenset({"authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie"})
"""Headers that contain keys. No header is recorded; their values are removed from recorded texts."""
_KINDS: Mapping[int, str] = {429: "rate_limit", 408: "timeout", 401: "key", 403: "key"}
