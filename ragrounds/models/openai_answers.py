"""Reading what an OpenAI-compatible server answered: a reply, a passing fault, a failure, or a reason to stop."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Mapping

import msgspec

from ragrounds.errors import StopRun
from ragrounds.models.context_lengths import TooLong, too_long
from ragrounds.models.faults import CallFailed, Transient, redacted
from ragrounds.models.openai_forms import Completion, WireMessage, WireUsage, decoded
from ragrounds.models.openai_streams import put_together
from ragrounds.models.transport import HttpAnswer
from ragrounds.records import Reply, ToolCall, Usage


def read_reply(body: bytes, content_type: str) -> Reply:
    """Decode a 200 answer.

    A response without choices is a complete, final reply with ``finish="none"``; a content filter one with
    ``finish="content_filter"``: what to make of them is the caller's business.

    Raises:
        Transient: the body is not a chat completion (a proxy's page, cut or malformed JSON).
    """
    if "event-stream" in content_type:
        return _reply(put_together(body), body)
    if "json" not in content_type and not body.lstrip().startswith(b"{"):
        raise Transient("malformed", f"expected JSON, got {content_type or 'no content type'}: {_start(body)}", 200)
    try:
        completion = decoded(body)
    except ValueError as error:
        raise Transient("malformed", f"not a chat completion ({error}): {_start(body)}", 200) from error
    return _reply(completion, body)


def _reply(completion: Completion, body: bytes) -> Reply:
    if completion.choices is None:
        what = completion.error if completion.error is not None else "no 'choices'"
        raise Transient("malformed", f"not a chat completion: {redacted(str(what))[:300]}", 200)
    usage, model = _usage(completion.usage), completion.model or ""
    if not completion.choices:
        return Reply(text="", finish="none", usage=usage, model=model)
    choice = completion.choices[0]
    message = WireMessage(content=choice.text) if choice.message is None else choice.message
    if choice.message is None and choice.text is None:
        raise Transient("malformed", f"not a chat completion (a choice without a message): {_start(body)}", 200)
    finish = choice.finish_reason or "stop"
    if message.refusal and not message.content:
        return Reply(text=message.refusal, finish="content_filter", usage=usage, model=model)
    return Reply(
        text=message.content or "",
        finish=finish,
        usage=usage,
        model=model,
        reasoning=message.reasoning_content or message.reasoning or "",
        # vLLM names the stop string that it cut off.
        stopped_at=choice.stop_reason if isinstance(choice.stop_reason, str) else "",
        calls=tuple(
            ToolCall(call.id or "", call.function.name or "", call.function.arguments or "")
            for call in message.tool_calls or ()
            if call.function is not None
        ),
    )


def read_error(answered: HttpAnswer, model: str, base_url: str | None, key: str) -> Reply:
    """Decide what an HTTP error means. Returns a reply only for a provider's content filter.

    Raises:
        StopRun: every further call would fail alike (wrong key, unknown model, no credit).
        CallFailed: this request is wrong (too long a context, a parameter the server does not take).
        Transient: worth another try (429, 408, 409, 5xx).
    """
    status = answered.status
    server = base_url or "the OpenAI API"
    code, said, fields = _said(answered, key)
    if status in (401, 403):
        raise StopRun(f"{server} refused the key ({status}): {said}. Check OPENAI_API_KEY.")
    if status == 404:
        raise StopRun(f"{server} does not know the model {model!r}, or the address is wrong (404): {said}")
    if status == 429 and code == "insufficient_quota":
        raise StopRun(f"{server}: no credit left (429): {said}")
    if status == 429:
        raise Transient("rate_limit", said, status, retry_after(answered.headers))
    if long := too_long(code, said, fields):  # some servers answer 500 to it, and would again
        raise long.failed(said)
    if status in (408, 409) or status >= 500:
        raise Transient("server", said, status, retry_after(answered.headers))
    if code == "content_filter" or "content management policy" in said:
        return Reply(text="", finish="content_filter", model=model)
    if status == 413:
        raise TooLong(None, None).failed(said)
    raise CallFailed("bad_request", f"{status}: {said}")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait: ``retry-after-ms``, or ``Retry-After`` as seconds or as a date."""
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        given = headers.get("retry-after")
        if given is None:
            return None
        if given.strip().replace(".", "", 1).isdigit():
            return float(given)
        return max(0.0, email.utils.parsedate_to_datetime(given).timestamp() - time.time())
    except (ValueError, TypeError):
        return None


def _said(answered: HttpAnswer, key: str) -> tuple[str, str, dict[str, object]]:
    """Code, message and all fields of an error."""
    try:
        body = msgspec.json.decode(answered.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        body = answered.body.decode("utf-8", "replace")
    inner = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(inner, dict):
        code, message = str(inner.get("code") or inner.get("type") or ""), str(inner.get("message") or inner)
    else:
        code, message = "", str(inner or "no reason was given")
    fields = inner if isinstance(inner, dict) else {}
    return code, redacted(" ".join(message.split()), key)[:500], fields


def _usage(usage: WireUsage | None) -> Usage | None:
    if usage is None:
        return None
    prompt, output = usage.prompt_tokens_details, usage.completion_tokens_details
    return Usage(
        input=usage.prompt_tokens,
        output=usage.completion_tokens or 0,
        cached=(prompt.cached_tokens or 0) if prompt else 0,
        reasoning=(output.reasoning_tokens or 0) if output else 0,
    )


def _start(body: bytes) -> str:
    return repr(redacted(body[:120].decode("utf-8", "replace")))
