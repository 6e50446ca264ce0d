"""Lenient reading of the parts of a server's reply: the answer was paid for, whatever its form.

A text may be a string, a list of parts or an object; a call's arguments a string or an object. An impossible count of
tokens is unknown, with a note that quotes it. Keys are removed before anything is stored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from ragrounds.base.contracts import Request
from ragrounds.base.http import MOST_TOKENS, believed_count
from ragrounds.base.records import DECLINED, Reply, TokenLogprob, ToolCall, Usage
from ragrounds.base.text import safe, wellformed, wellformed_all
from ragrounds.recorder.redaction import Redactor

R = TypeVar("R", bound=Reply)
MOST_CALLS = 256
"""Tool calls of one reply that are read."""
MOST_LIKELY = 100
"""Alternatives of a token that are read."""
MOST_UNLIKELY = 1e6
"""Largest magnitude of a log probability that is believed; servers write -9999 for a probability of 0."""
_ROUNDING = 0.01
"""Tolerance above 0 of a log probability."""
_UNSEEN = 1 << 18
"""Tokens of a call that may be in none of its texts: hidden reasoning, schemas of tools, images, pages that a
provider's own search read."""
_HIDDEN = 1 << 16
"""Tokens of a reply that may be in none of its texts, if the provider does not count them as reasoning."""
_LONGEST_TOKEN = 400
"""Characters for which one token is too few. A token has 2 to 6 on average, a run of spaces up to 128."""


def counted_usage(
    input: object, output: object, cached: object = None, reasoning: object = None
) -> tuple[Usage | None, str]:
    """Return tokens as a provider counted them, and a note; the usage is ``None`` if the counts are impossible.

    `cached` and `reasoning` may be missing (``None``), the totals may not.
    """
    fields = {"input": input, "output": output, "cached": cached, "reasoning": reasoning}
    counts: dict[str, int] = {}
    for name, value in fields.items():
        if value is None and name in ("cached", "reasoning"):
            counts[name] = 0
        elif (count := believed_count(value)) is not None:
            counts[name] = count
        else:
            quoted = "no" if value is None else safe(_short(value), 40).replace("\n", " ")
            return None, f"the server counted {quoted} {name} tokens: this is impossible, so the cost is unknown"
    for part, total in (("cached", "input"), ("reasoning", "output")):
        if counts[part] > counts[total]:
            counts_text = f"{counts[part]:,} {part} of {counts[total]:,} {total} tokens"
            return None, f"the server counted {counts_text}: this is impossible, so the cost is unknown"
    return Usage(**counts), ""


def read_usage(value: object) -> tuple[Usage | None, str]:
    """Return the usage of OpenAI's chat completions, and a note; ``None`` without a note if the server gave none."""
    if value is None:
        return None, ""
    if not isinstance(value, dict):
        return None, f"the server gave {safe(_short(value), 40)} as its usage: the cost is unknown"
    prompt, output = value.get("prompt_tokens_details"), value.get("completion_tokens_details")
    details = prompt if isinstance(prompt, dict) else {}
    # DeepSeek and Moonshot count cache hits at the top, some proxies under Anthropic's name.
    hits = (details.get("cached_tokens"), *map(value.get, _CACHE_HITS))
    usage, note = counted_usage(
        value.get("prompt_tokens"),
        value.get("completion_tokens"),
        next(filter(None, hits), None),
        output.get("reasoning_tokens") if isinstance(output, dict) else None,
    )
    total = believed_count(value.get("total_tokens"))
    if usage is not None and total is not None and total < usage.total:
        counts_text = f"{total:,} tokens in all, {usage.input:,} of input and {usage.output:,} of output"
        return None, f"the server counted {counts_text}: this is impossible, so the cost is unknown"
    return usage, note


_CACHE_HITS = ("prompt_cache_hit_tokens", "cached_tokens", "cache_read_input_tokens")


def cache_writes(value: object, usage: Usage | None) -> int:
    """Return the input tokens that were written to the provider's cache; 0 if the server counted none, or too many."""
    fields = value if isinstance(value, dict) else {}
    parts = (fields.get("prompt_tokens_details"), fields.get("input_token_details"), fields)
    names = ("cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens", "cache_creation")
    count = 0
    for part in parts:
        for name in names:
            count = count or (isinstance(part, dict) and believed_count(part.get(name))) or 0
    return count if usage is not None and count <= usage.input - usage.cached else 0


def characters_of(request: Request) -> int:
    """Return the number of characters of a request."""
    characters = 0
    for message in request.messages:
        characters += len(message.content)
    return characters


def request_usage(request: Request) -> Usage:
    """Return the approximate tokens of a request alone, at four characters each."""
    return Usage(input=characters_of(request) // 4)


CHOICE_IGNORED = "the request required a tool call (tool_choice), and the reply has none"
"""Note of a reply."""


def believed(reply: R, request: Request) -> R:
    """Return the reply without its usage if that is impossible, and with a note if it ignores `tool_choice`.

    Impossible usages come from earlier versions' records, from users' models, or contradict the texts. A token has at
    least one byte and fewer than 400 characters. Output beyond the texts is reasoning that the provider counts.
    """
    # A reply that was cut off or refused may have no call for that reason.
    if request.tool_choice not in (None, "auto", "none") and not reply.calls and reply.finish == "stop":
        reply = noted(reply, [CHOICE_IGNORED])
    usage = reply.usage
    if usage is None:
        return reply
    if not (0 <= usage.cached <= usage.input <= MOST_TOKENS and 0 <= usage.reasoning <= usage.output):
        checked, note = counted_usage(usage.input, usage.output, usage.cached, usage.reasoning)
        return noted(replace(reply, usage=checked), [note])
    request_size, reply_size = characters_of(request), len(reply.text) + len(reply.reasoning)
    for name, count, characters, unseen in (
        ("input", usage.input, request_size, _UNSEEN),
        ("output", usage.output, reply_size, usage.reasoning + _HIDDEN),
    ):
        # UTF-8 has at most 4 bytes a character.
        if count > 4 * characters + unseen or (characters and count <= characters // _LONGEST_TOKEN):
            counts_text = f"{count:,} {name} tokens for {characters:,} characters"
            note = f"the server counted {counts_text}: this is impossible, so the cost is unknown"
            return noted(replace(reply, usage=None), [note])
    return reply


def _short(value: object) -> str:
    if isinstance(value, str):
        return repr(value[:40])
    if isinstance(value, int) and abs(value) > 10**15:
        return f"some {'-' if value < 0 else ''}10^{len(str(abs(value))) - 1}"
    return str(value)[:40] if isinstance(value, int | float) else f"a {type(value).__name__}"


class Content(NamedTuple):
    """Parts of a message's content."""

    text: str
    reasoning: str = ""
    refusal: str = ""
    left_out: tuple[str, ...] = ()
    """Kinds of parts that are not text."""


def read_content(value: object) -> Content | None:
    """Return a message's content: a text, a list of parts, one part, or any other value as its JSON; ``None`` if
    missing.

    Half characters are kept, since a stream may bring the other half.
    """
    if value is None or isinstance(value, str):
        return None if value is None else Content(value)
    if not isinstance(value, list):
        return _part(value)
    parts = [_part(part) for part in value]
    left_out = tuple(dict.fromkeys(kind for part in parts for kind in part.left_out))
    return Content(
        "".join(part.text for part in parts),
        "".join(part.reasoning for part in parts),
        "".join(part.refusal for part in parts),
        left_out,
    )


_THOUGHT = frozenset({"thinking", "reasoning"})


def _part(value: object) -> Content:
    if isinstance(value, str) or value is None:
        return Content(value or "")
    if not isinstance(value, dict):
        return Content(as_json(value))
    kind = str(value.get("type") or "")
    for name in ("text", "output_text", "content", "refusal", *_THOUGHT):
        content = value.get(name)
        if isinstance(content, dict) and isinstance(content.get("value"), str):
            content = content["value"]
        if isinstance(content, list):
            inner = [piece.get("text") for piece in content if isinstance(piece, dict)]
            content = "".join(piece for piece in inner if isinstance(piece, str)) or None
        if isinstance(content, str):
            if kind in _THOUGHT or name in _THOUGHT:
                return Content("", reasoning=content)
            return Content("", refusal=content) if name == "refusal" else Content(content)
    # A part of another kind (an image, a sound) has no text; an object without a kind may be the answer itself.
    return Content("", left_out=(safe(kind, 40),)) if kind else Content(as_json(value))


def as_json(value: object) -> str:
    """Return a value as JSON text."""
    return msgspec.json.encode(wellformed_all(value)).decode()


def words(value: object, longest: int) -> str:
    """Return a short field that should be text: a model's name, a call's id."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**15:
        return str(value)
    return wellformed(value)[:longest] if isinstance(value, str) else ""


def read_arguments(value: object) -> str:
    """Return a call's arguments, which should be the text of a JSON object, and may be the object itself."""
    if value is None:
        return ""
    return value if isinstance(value, str) else as_json(value)


def object_text(arguments: str) -> str:
    """Return a call's arguments as the text of a JSON object; anything else becomes its field ``unreadable``.

    A model may write malformed arguments. vLLM, SGLang and llama-server parse the calls of the history, and refuse
    every further request of a conversation that contains such a call.
    """
    if not arguments.strip():
        return "{}"
    try:
        parsed = json.loads(arguments, strict=False)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        return as_json({"unreadable": arguments})
    # A line feed inside a text, or NaN, is no JSON: such arguments are written anew.
    try:
        msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return as_json(parsed)
    return arguments


def read_calls(value: object) -> tuple[tuple[ToolCall, ...], int]:
    """Return the tool calls of a message, and the number of those beyond the limit."""
    listed = value if isinstance(value, list) else [value] if isinstance(value, dict) else []
    calls = []
    for call in listed[:MOST_CALLS]:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            arguments = wellformed(read_arguments(function.get("arguments")))
            calls.append(ToolCall(words(call.get("id"), 200), words(function.get("name"), 200), arguments))
    return tuple(calls), max(0, len(listed) - MOST_CALLS)


def read_logprobs(value: object) -> tuple[TokenLogprob, ...] | None:
    """Return the log probabilities of a choice's tokens; ``None`` if no entry is readable.

    They come from a chat (a list of tokens, or an object with it as ``content``) or from a completion (parallel lists).
    Unreadable entries are left out.
    """
    if value is None:
        return None
    if isinstance(value, dict) and isinstance(value.get("tokens"), list):
        entries = _completion_entries(value)
    else:
        listed = value.get("content") if isinstance(value, dict) else value
        entries = listed if isinstance(listed, list) else []
    read = [token for entry in entries if (token := _token(entry)) is not None]
    return tuple(read) or None


def _completion_entries(lists: dict[str, object]) -> list[object]:
    """Convert a completion's parallel lists to a chat's entries."""
    tokens, numbers, tops = lists.get("tokens"), lists.get("token_logprobs"), lists.get("top_logprobs")
    if not isinstance(tokens, list) or not isinstance(numbers, list):
        return []
    top_lists = tops if isinstance(tops, list) else []
    entries: list[object] = []
    for index, (token, number) in enumerate(zip(tokens, numbers, strict=False)):
        top = top_lists[index] if index < len(top_lists) else None
        listed = (
            [{"token": alternative, "logprob": lp} for alternative, lp in top.items()] if isinstance(top, dict) else []
        )
        entries.append({"token": token, "logprob": number, "top_logprobs": listed})
    return entries


def _token(entry: object) -> TokenLogprob | None:
    if not isinstance(entry, dict):
        return None
    token, number, tops = entry.get("token"), _probability(entry.get("logprob")), entry.get("top_logprobs")
    if not isinstance(token, str) or number is None:
        return None
    read = [
        (wellformed(alternative["token"]), logprob)
        for alternative in (tops if isinstance(tops, list) else [])[:MOST_LIKELY]
        if isinstance(alternative, dict)
        and isinstance(alternative.get("token"), str)
        and (logprob := _probability(alternative.get("logprob"))) is not None
    ]
    return TokenLogprob(wellformed(token), number, tuple(read))


def _probability(value: object) -> float | None:
    """Return the logarithm of a probability; ``None`` if the value cannot be one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -MOST_UNLIKELY <= value <= _ROUNDING else None


def with_logprobs(reply: R, requested: int | None) -> R:
    """Return the reply with a note if log probabilities were requested and are missing, and without unrequested
    ones."""
    if requested is None:
        return reply if reply.logprobs is None else replace(reply, logprobs=None)
    if reply.logprobs is not None or reply.finish == "none" or reply.finish in DECLINED:
        return reply
    return noted(reply, ["log probabilities were requested, and the server sent none"])


def without_keys(reply: R, redact: Redactor) -> R:
    """Return the reply with every key removed, and a note if there was one.

    The reply is recorded like this, and the agent gets the same text now and at every replay.
    """
    clean = replace(
        reply,
        text=redact(reply.text),
        finish=redact(reply.finish),
        model=redact(reply.model),
        reasoning=redact(reply.reasoning),
        stopped_at=redact(reply.stopped_at),
        calls=tuple(
            ToolCall(redact(call.id), redact(call.name), redact.in_json(call.arguments)) for call in reply.calls
        )
        if reply.calls
        else (),
        notes=tuple(map(redact, reply.notes)),
        logprobs=_without_keys(reply, redact),
    )
    return reply if clean == reply else noted(clean, ["the reply contained a key: it was replaced by [key]"])


def _without_keys(reply: Reply, redact: Redactor) -> tuple[TokenLogprob, ...] | None:
    """Return the log probabilities; ``None`` if their tokens spell a key."""
    if reply.logprobs is None:
        return None
    spelled = "".join(entry.token for entry in reply.logprobs)
    alternatives = " ".join(token for entry in reply.logprobs for token, _ in entry.top)
    return reply.logprobs if redact(spelled) == spelled and redact(alternatives) == alternatives else None


REPEATED_PREFIX = "the server repeated the text to continue, which was cut off"
"""Note of a reply."""


def noted(reply: R, notes: Iterable[str]) -> R:
    """Return the reply with further notes; empty ones are left out."""
    more = tuple(filter(None, notes))
    return replace(reply, notes=(*reply.notes, *more)) if more else reply
