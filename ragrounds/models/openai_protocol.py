"""OpenAI's chat completions on the wire: the body of a request, the fields of an answer, streams, and errors.

Other servers may answer with anything. Every case ends here in a defined outcome: a reply, a transient fault, a failed
call, or a reason to stop the run.
"""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Mapping, Sequence
from shlex import quote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.contracts import Request, Tool
from ragrounds.base.errors import StopRun
from ragrounds.base.http import (
    REPLY,
    BadReply,
    HttpAnswer,
    check_json,
    read_json,
    retry_after,
    text_of,
    too_large,
)
from ragrounds.base.records import Message, Reply, TokenLogprob, ToolCall
from ragrounds.base.text import safe, wellformed
from ragrounds.models.faults import FAILED_FINISHES, CallFailed, TooLong, Transient, reply_fault
from ragrounds.models.options import ModelOptions, cards
from ragrounds.models.reply_parts import (
    MOST_CALLS,
    Content,
    cache_writes,
    noted,
    object_text,
    read_arguments,
    read_calls,
    read_content,
    read_logprobs,
    read_usage,
    words,
)
from ragrounds.models.request_arguments import refuse_arguments
from ragrounds.recorder.redaction import Redactor, redacted

CHAT, COMPLETIONS = "/chat/completions", "/completions"


def body_of(options: ModelOptions, request: Request) -> tuple[str, dict[str, object]]:
    """Return the path and the JSON body of a request.

    A prefix becomes the beginning of the text to continue: in a card's template, or as an unfinished assistant's turn
    with vLLM's ``continue_final_message``.

    Raises:
        StopRun: a tool must be called, and the model's card does not support tools.
    """
    own_server = options.serving.base_url is not None
    body: dict[str, object] = {"model": options.model, **msgspec.to_builtins(options.sampling)}
    wished = {"temperature": request.temperature, "seed": request.seed, "response_format": request.response_format}
    body |= {name: value for name, value in wished.items() if value is not None}
    if request.max_tokens is not None:
        longest = options.sampling.max_tokens
        body["max_tokens"] = request.max_tokens if longest is None else min(request.max_tokens, longest)
    stops = list(request.stop)
    if options.card:
        card = cards()[options.card]
        # Completions end at 16 tokens by default.
        body.setdefault("max_tokens", DEFAULT)
        stops += [stop for stop in card.stops if stop not in stops]
        body["prompt"] = card.render(request.messages, request.prefix)
        if request.tool_choice not in (None, "auto", "none"):
            refuse_arguments(request, options.identity, ["tool_choice"], "its card writes no tools; card=none does")
        if request.logprobs is not None:
            body["logprobs"] = request.logprobs
    else:
        messages = [message_of(message) for message in request.messages]
        if request.prefix:
            messages.append({"role": "assistant", "content": request.prefix})
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        body["messages"] = messages
        if not own_server and "max_tokens" in body:
            # OpenAI's reasoning models refuse the older name, which other servers need.
            body["max_completion_tokens"] = body.pop("max_tokens")
        if request.tools:
            body["tools"] = [tool_of(tool) for tool in request.tools]
        if request.tool_choice is not None:
            body["tool_choice"] = choice_of(request.tool_choice)
        if request.parallel_tool_calls is not None:
            body["parallel_tool_calls"] = request.parallel_tool_calls
        if request.logprobs is not None:
            body |= {"logprobs": True, **({"top_logprobs": request.logprobs} if request.logprobs else {})}
        if request.web_search:
            body["web_search_options"] = {}
    if stops:
        body["stop"] = stops
    if options.serving.stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return COMPLETIONS if options.card else CHAT, body


DEFAULT = 1024
"""Tokens of a completion if neither the request nor the model's spec sets them."""


def message_of(message: Message) -> dict[str, object]:
    """Return a message in OpenAI's form."""
    plain: dict[str, object] = {"role": message.role, "content": message.content}
    if message.calls:
        functions = [{"name": call.name, "arguments": object_text(call.arguments)} for call in message.calls]
        plain["tool_calls"] = [
            {"id": call.id, "type": "function", "function": function}
            for call, function in zip(message.calls, functions, strict=True)
        ]
    if message.answers:
        plain["tool_call_id"] = message.answers
    if message.name:
        plain["name"] = message.name
    return plain


def tool_of(tool: Tool) -> dict[str, object]:
    """Return a tool in OpenAI's form, which LangChain accepts too."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function | ({"strict": True} if tool.strict else {})}


def choice_of(choice: str) -> object:
    """Return a request's choice of tools in OpenAI's form."""
    return choice if choice in ("auto", "none", "required") else {"type": "function", "function": {"name": choice}}


class Completion(Struct):
    """Completion, or a chunk of one. None of its fields has been checked."""

    choices: object = None
    usage: object = None
    model: object = None
    error: object = None
    timings: object = None
    """llama.cpp's milliseconds of work on the prompt and on the reply."""


_decoder = msgspec.json.Decoder(Completion)


def decoded(body: bytes | str) -> Completion:
    """Decode a completion, or a chunk of one, whose texts may contain half a character.

    Raises:
        ValueError: it is neither (:class:`msgspec.DecodeError` is one).
    """
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        plain = read_json(body)
        if not isinstance(plain, dict):
            raise ValueError(str(error)) from None
        return Completion(*(plain.get(name) for name in Completion.__struct_fields__))


_ABSURD = 1e9
"""Milliseconds of work that no call takes; a larger whole number may be too large to compute with."""


def _worked_seconds(timings: object) -> float | None:
    """Return the seconds that a server worked on a call; ``None`` if it does not report them."""
    if not isinstance(timings, dict):
        return None
    parts = [timings.get(name) for name in ("prompt_ms", "predicted_ms")]
    seconds = [part / 1000 for part in parts if isinstance(part, int | float) and 0 <= part < _ABSURD]
    return round(math.fsum(seconds), 4) if len(seconds) == len(parts) else None


_TOKEN = 32
"""Size in characters of a token's log probability, in addition to its text."""
_END = "[DONE]"
_FINISHED, _CLOSED = 10.0, 0.5
"""Seconds that a stream may stay open after a choice was finished, for the usage; and after its end."""


class CompletionStream:
    """Stream of server-sent events, joined to its completion as it arrives; of several choices the first.

    Only the text is kept (contract: :class:`ragrounds.base.http.Sink`).
    """

    def __init__(self) -> None:
        self._tail: list[bytes] = []
        self._data_lines: list[bytes] = []
        self._size = 0
        self._model: object = None
        self._usage: object = None
        self._timings: object = None
        self._finish = self._stop = ""
        self._choices = self._messages = 0
        self._has_text = False
        self._texts = {name: io.StringIO() for name in ("text", "content", "refusal", "reasoning")}
        self._calls: dict[int, tuple[list[str], io.StringIO, io.StringIO]] = {}
        self._logprobs: list[TokenLogprob] = []
        self._left_out: dict[str, None] = {}
        self._is_single_body = False
        self.has_begun = False
        """True if anything has arrived."""
        self.ends_in: float | None = None
        """Seconds in which it should close; set once the answer is complete."""

    def feed(self, part: bytes) -> None:
        """Take the next part of the stream.

        Raises:
            Transient: the part is not a chunk of a completion, or is an error.
            BadReply: the answer is too large.
        """
        if self.ends_in == _CLOSED:
            return
        if not self.has_begun and part.strip():
            self.has_begun, part = True, part.removeprefix(b"\xef\xbb\xbf")
            self._is_single_body = part.lstrip()[:1] == b"{"  # an answer in one body, in spite of its content type
        self._tail.append(part)
        self._add_size(len(part))
        if self._is_single_body or (b"\n" not in part and b"\r" not in part):
            return
        text = b"".join(self._tail)
        # A carriage return at the end may be the first half of a line end.
        end = 1 + max(text.rfind(b"\n"), text.rfind(b"\r", 0, -1))
        self._tail = [text[end:]]
        self._add_size(-end)
        self._lines(text[:end])

    def reply(self) -> Reply:
        """Return the reply of the stream.

        Raises:
            Transient: the stream ended early, or contained something else.
        """
        rest, self._tail = b"".join(self._tail), []
        if self._is_single_body:
            return _whole_reply(rest)
        with contextlib.suppress(*((Transient, BadReply) if self.ends_in is not None else ())):
            self._lines(rest + b"\n\n")  # a cut event after a finished answer is not needed
        if self.ends_in is None:
            raise Transient("malformed", "the stream of an answer ended before its end", 200)
        cut = self._usage is None and self.ends_in != _CLOSED
        note = "the stream ended before its usage: the cost is unknown" if cut else ""
        calls = tuple(
            ToolCall("".join(id), wellformed(name.getvalue()), wellformed(arguments.getvalue()))
            for id, name, arguments in (self._calls[index] for index in sorted(self._calls))
        )
        return self._build_reply(calls, tuple(self._logprobs) or None, note)

    def complete_reply(self, completion: Completion, choice: Mapping[str, object] | None) -> Reply:
        """Return the reply of a completion that came in one body, of its first choice; ``None``: it has no choice."""
        self._model, self._usage, self._timings = completion.model, completion.usage, completion.timings
        fields = choice or {}
        message = fields.get("message")
        if not isinstance(message, dict):
            message = {"content": fields.get("text") if message is None else message}
        if choice is not None:
            self._choice({**choice, "delta": {**message, "tool_calls": None}, "logprobs": None})
        calls, left = read_calls(message.get("tool_calls"))
        reply = self._build_reply(calls, read_logprobs(fields.get("logprobs")))
        return noted(reply, [f"the reply has too many tool calls: {left:,} are ignored" if left else ""])

    def _build_reply(
        self, calls: tuple[ToolCall, ...], logprobs: tuple[TokenLogprob, ...] | None, note: str = ""
    ) -> Reply:
        usage, doubt = read_usage(self._usage)
        writes = cache_writes(self._usage, usage)
        reply = Reply(
            text="",
            finish="none",
            usage=usage,
            model=words(self._model, 200),
            cache_writes=writes,
            worked=_worked_seconds(self._timings),
        )
        reply = noted(reply, [note or doubt])
        if not self._choices:
            return reply
        texts = {name: wellformed(text.getvalue()) for name, text in self._texts.items()}
        content = Content(texts["content"], texts["reasoning"], texts["refusal"], tuple(self._left_out))
        if not self._messages:
            if not self._has_text:
                raise Transient("malformed", "not a chat completion (a choice without a message)", 200)
            content = Content(texts["text"])
        parts = f"the content has parts that are not text: {', '.join(content.left_out)}" if content.left_out else ""
        reply = noted(replace(reply, logprobs=logprobs), [parts])
        if content.refusal and not content.text:
            return replace(reply, text=content.refusal, finish="refusal")
        return replace(
            reply,
            text=content.text,
            finish=self._finish or "stop",
            reasoning=content.reasoning,
            # vLLM names the stop string that it removed.
            stopped_at=wellformed(self._stop),
            calls=calls,
        )

    def _add_size(self, size: int) -> None:
        self._size += size
        if self._size > REPLY.size:
            raise too_large(REPLY.size, "of text, or in one event")

    def _lines(self, text: bytes) -> None:
        for line in text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"):
            # WHATWG HTML, Section 9.2
            if line.startswith(b"data:"):
                self._data_lines.append(line[5:].removeprefix(b" "))
                self._add_size(len(line))
            elif not line and self._data_lines:
                event = b"\n".join(self._data_lines)
                self._add_size(-sum(len(line) for line in self._data_lines) - 5 * len(self._data_lines))
                self._data_lines = []
                check_json(event)
                self._event(event.decode("utf-8", "replace"))
                if self.ends_in == _CLOSED:
                    return  # data after the end, also in the same packet, is not part of the answer

    def _event(self, event: str) -> None:
        if event.strip() == _END:
            self.ends_in = _CLOSED
            return
        try:
            chunk = decoded(event)
        except ValueError as error:
            raise _bad_chunk(error, event) from error
        self._model, self._usage = chunk.model or self._model, chunk.usage or self._usage
        self._timings = chunk.timings or self._timings
        if chunk.error is not None:
            fault = Transient("server", redacted(str(chunk.error))[:300], 200)
            count_tokens(fault, self._usage)
            raise fault
        choices = chunk.choices or []
        if not isinstance(choices, list):
            raise _bad_chunk("choices that are not a list", event)
        for choice in choices:
            if not isinstance(choice, dict):
                raise _bad_chunk("a choice that is not an object", event)
            if not choice.get("index"):
                self._choice(choice)

    def _choice(self, choice: dict[str, object]) -> None:
        if "error" in choice or choice.get("finish_reason") not in _USUAL_FINISHES:
            _check_choice(choice)
        self._choices += 1
        if finish := words(choice.get("finish_reason"), 60):
            self._finish = finish
            self.ends_in = self.ends_in or _FINISHED
        if isinstance(stop := choice.get("stop_reason"), str):
            self._stop = stop
        if tokens := read_logprobs(choice.get("logprobs")):
            self._logprobs += tokens
            self._add_size(sum(len(token.token) + _TOKEN * (1 + len(token.top)) for token in tokens))
        delta = choice.get("delta") or choice.get("message")
        if not isinstance(delta, dict):
            self._has_text |= choice.get("text") is not None
            self._say("text", read_content(choice.get("text")))
            return
        self._messages += 1
        self._say("content", read_content(delta.get("content")))
        self._say("refusal", read_content(delta.get("refusal")))
        self._say("reasoning", read_content(delta.get("reasoning_content") or delta.get("reasoning")))
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else [calls]:
            if isinstance(call, dict):
                self._call(call)

    def _say(self, name: str, content: Content | None) -> None:
        if content is None:
            return
        for where, text in ((name, content.text), ("reasoning", content.reasoning), ("refusal", content.refusal)):
            self._texts[where].write(text)
            self._add_size(len(text))
        self._left_out |= dict.fromkeys(content.left_out)

    def _call(self, piece: dict[str, object]) -> None:
        index, function = piece.get("index"), piece.get("function")
        if not isinstance(index, int):
            index = len(self._calls)  # a server that does not number calls sends each call as a whole
        if index not in self._calls and len(self._calls) >= MOST_CALLS:
            return
        id, name, arguments = self._calls.setdefault(index, ([], io.StringIO(), io.StringIO()))
        if not id and (call_id := words(piece.get("id"), 200)):
            id.append(call_id)
        if isinstance(function, dict):
            for where, text in ((name, function.get("name")), (arguments, read_arguments(function.get("arguments")))):
                if isinstance(text, str):
                    where.write(text)
                    self._add_size(len(text))


def _bad_chunk(reason: object, event: str) -> Transient:
    start = redacted(event[:4096])[:120]
    return Transient("malformed", f"not a chunk of a chat completion ({reason}): {start!r}", 200)


def read_reply(body: bytes, content_type: str) -> Reply:
    """Decode an answer with status 200.

    A response without choices is a complete reply with ``finish="none"``, a filtered one has
    ``finish="content_filter"``, and one that the model declined ``finish="refusal"``; the caller decides what these are
    worth.

    Raises:
        Transient: the body is not a chat completion (a proxy's page, cut or malformed JSON).
    """
    start = body[:64].lstrip()
    if "event-stream" in content_type or start.startswith((b"data:", b"event:", b":")):
        stream = CompletionStream()
        stream.feed(body)
        return stream.reply()
    if "charset" in content_type.lower() or start[:2] in (b"\xef\xbb", b"\xff\xfe", b"\xfe\xff"):
        body = text_of(body, content_type).encode("utf-8", "surrogatepass")
    if "json" not in content_type and not body.lstrip().startswith(b"{"):
        kind = safe(redacted(content_type), 80) or "no content type"
        raise Transient("malformed", f"expected JSON, got {kind}: {_start(body)}", 200)
    return _whole_reply(body)


def _whole_reply(body: bytes) -> Reply:
    try:
        completion = decoded(body)
    except ValueError as error:
        raise Transient("malformed", f"not a chat completion ({error}): {_start(body)}", 200) from error
    choices = completion.choices
    try:
        if choices is None:
            problem = completion.error if completion.error is not None else "no 'choices'"
            raise Transient("malformed", f"not a chat completion: {redacted(str(problem))[:300]}", 200)
        if choices == []:
            return CompletionStream().complete_reply(completion, None)
        choice = choices[0] if isinstance(choices, list) else choices
        if not isinstance(choice, dict) or (choice.get("message") is None and choice.get("text") is None):
            if isinstance(choice, dict):
                _check_choice(choice)
            raise Transient("malformed", f"not a chat completion (a choice without a message): {_start(body)}", 200)
        return CompletionStream().complete_reply(completion, choice)
    except Transient as fault:
        count_tokens(fault, completion.usage)
        raise


def count_tokens(fault: Transient, usage: object) -> None:
    """Set the tokens that a server counted next to a reply that cannot be used: they were paid."""
    fault.usage = fault.usage or read_usage(usage)[0]


_USUAL_FINISHES = (None, "", "stop", "length", "tool_calls")
"""Reasons of an end that need no closer look."""


def _check_choice(choice: Mapping[str, object]) -> None:
    """Raise Transient if the provider failed while it wrote this choice (OpenRouter's and SGLang's forms)."""
    finish = words(choice.get("finish_reason"), 60)
    if (problem := choice.get("error")) or finish.lower() in FAILED_FINISHES:
        message = problem.get("message") if isinstance(problem, dict) else problem
        raise Transient("server", redacted(str(message or problem or f"finish_reason: {finish}"))[:300], 200)


_NAMED = 8
"""Models that a message names."""


def read_error(
    answered: HttpAnswer,
    model: str,
    base_url: str | None,
    redact: Redactor,
    variable: str,
    keyed: bool,
    served: Sequence[str] = (),
) -> Reply:
    """Raise the exception for an HTTP error; return a reply only for a provider's content filter.

    Args:
        answered: the error.
        model, base_url: the requested model and server; ``None``: OpenAI's own address.
        redact: removes keys from the server's message.
        variable, keyed: the environment variable of the key, and True if a key was sent.
        served: the models that the server lists, if they were looked up.

    Raises:
        StopRun: every further call would fail in the same way (wrong key, unknown model, no credit).
        CallFailed: this request is wrong (too long a context, an unsupported parameter).
        Transient: another try may succeed.
    """
    status = answered.status
    server = base_url or "the OpenAI API"
    code, message, fields = said_in(answered, redact)
    if status in (401, 403):
        if not keyed:
            raise StopRun(f"{server} needs a key ({status}): {sentence(message)} {variable} is not set.")
        raise StopRun(f"{server} refused the key ({status}): {sentence(message)} Check {variable}.")
    if status == 404:
        raise StopRun(
            f"{server} does not know the model {model!r}, or the address is wrong (404): {sentence(message)}"
            + (f" It lists {', '.join(served[:_NAMED])}." if served else "")
            + (f" `ragrounds doctor --model openai:NAME --base-url {quote(base_url)}` asks it." if base_url else "")
        )
    if status == 429 and code == "insufficient_quota":
        raise StopRun(f"{server}: no credit left (429): {message}")
    if fault := reply_fault(status, code, message, retry_after(answered.headers), fields):
        raise fault
    if code == "content_filter" or "content management policy" in message:
        return Reply(text="", finish="content_filter", model=model)
    if status == 413:
        raise TooLong(None, None).failed(message)
    raise CallFailed("bad_request", f"{status}: {message}")


def said_in(answered: HttpAnswer, redact: Redactor) -> tuple[str, str, dict[str, object]]:
    """Return code, message and all fields of an error."""
    try:
        body = msgspec.json.decode(answered.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        body = text_of(answered.body[:65_536], answered.headers.get("content-type", ""))
    inner = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(inner, dict):
        code, message = str(inner.get("code") or inner.get("type") or ""), str(inner.get("message") or inner)
    else:
        code, message = "", str(inner or "no reason was given")
    fields = inner if isinstance(inner, dict) else {}
    return code, redact(" ".join(message.split()))[:500], fields


def sentence(message: str) -> str:
    """Return a server's message with one full stop at its end."""
    return message if message.endswith((".", "!", "?")) else f"{message}."


def _start(body: bytes) -> str:
    return repr(redacted(text_of(body[:4096], ""))[:120])
