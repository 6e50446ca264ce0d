"""The parts of a server's reply, read with goodwill: an answer was paid for, whatever form it came in.

Text may come as a text, as a list of parts or as an object; a call's arguments as text or as an object. A count of
tokens that cannot be true is unknown, with a note that says what was given. Keys are taken out before anything is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from ragrounds.base.contracts import Request
from ragrounds.base.http import MOST_TOKENS, believed_count
from ragrounds.base.records import Reply, TokenLogprob, ToolCall, Usage
from ragrounds.base.redaction import Redactor
from ragrounds.base.text import safe, wellformed, wellformed_all

R = TypeVar("R", bound=Reply)
MOST_CALLS = 256
"""Tool calls of one reply that are read."""
MOST_LIKELY = 100
"""Likeliest tokens in a token's place that are read."""
MOST_UNLIKELY = 1e6
"""A logarithm of a probability below minus this is none; servers write -9999 for a probability of 0."""
_ROUNDING = 0.01
"""How far above 0 it may be."""
_UNSEEN = 1 << 18
"""Tokens of a call that may stand in none of its texts: hidden reasoning, schemas of tools, images, pages that a
provider's own search read."""


def counted_usage(
    input: object, output: object, cached: object = None, reasoning: object = None
) -> tuple[Usage | None, str]:
    """Tokens as a provider counted them, and a note; ``None`` where they cannot be true. What is cached or reasoning
    may be missing (``None``), the sums may not."""
    given = {"input": input, "output": output, "cached": cached, "reasoning": reasoning}
    counts: dict[str, int] = {}
    for name, value in given.items():
        if value is None and name in ("cached", "reasoning"):
            counts[name] = 0
        elif (count := believed_count(value)) is not None:
            counts[name] = count
        else:
            what = "no" if value is None else safe(_short(value), 40).replace("\n", " ")
            return None, f"the server counted {what} {name} tokens: this is impossible, so the cost is unknown"
    for part, whole in (("cached", "input"), ("reasoning", "output")):
        if counts[part] > counts[whole]:
            said = f"{counts[part]:,} {part} of {counts[whole]:,} {whole} tokens"
            return None, f"the server counted {said}: this is impossible, so the cost is unknown"
    return Usage(**counts), ""


def read_usage(value: object) -> tuple[Usage | None, str]:
    """The usage of OpenAI's chat completions; ``None`` without a note: none was given."""
    if value is None:
        return None, ""
    if not isinstance(value, dict):
        return None, f"the server gave {safe(_short(value), 40)} as its usage: the cost is unknown"
    prompt, output = value.get("prompt_tokens_details"), value.get("completion_tokens_details")
    usage, note = counted_usage(
        value.get("prompt_tokens"),
        value.get("completion_tokens"),
        prompt.get("cached_tokens") if isinstance(prompt, dict) else None,
        output.get("reasoning_tokens") if isinstance(output, dict) else None,
    )
    total = believed_count(value.get("total_tokens"))
    if usage is not None and total is not None and total < usage.input + usage.output:
        said = f"{total:,} tokens in all, {usage.input:,} of input and {usage.output:,} of output"
        return None, f"the server counted {said}: this is impossible, so the cost is unknown"
    return usage, note


def characters_of(request: Request) -> int:
    """Characters of what is asked."""
    return sum(len(message.content) for message in request.messages)


def request_usage(request: Request) -> Usage:
    """The tokens of what is asked alone, about, at four characters each."""
    return Usage(input=characters_of(request) // 4)


def believed(reply: R, request: Request) -> R:
    """The reply, its usage unknown where it cannot be true: of one that an earlier version recorded, of a model that is
    not ours, or beside the texts. A token has at least one byte, and a text at least one token."""
    usage = reply.usage
    if usage is None:
        return reply
    if not (0 <= usage.cached <= usage.input <= MOST_TOKENS and 0 <= usage.reasoning <= usage.output):
        found, note = counted_usage(usage.input, usage.output, usage.cached, usage.reasoning)
        return noted(replace(reply, usage=found), [note])
    asked, answered = characters_of(request), len(reply.text) + len(reply.reasoning)
    for name, count, characters in (("input", usage.input, asked), ("output", usage.output, answered)):
        if count > 4 * characters + _UNSEEN or (characters and not count):  # UTF-8 has at most 4 bytes a character
            said = f"{count:,} {name} tokens for {characters:,} characters"
            note = f"the server counted {said}: this is impossible, so the cost is unknown"
            return noted(replace(reply, usage=None), [note])
    return reply


def _short(value: object) -> str:
    if isinstance(value, str):
        return repr(value[:40])
    if isinstance(value, int) and abs(value) > 10**15:
        return f"some {'-' if value < 0 else ''}10^{len(str(abs(value))) - 1}"
    return str(value)[:40] if isinstance(value, int | float) else f"a {type(value).__name__}"


class Content(NamedTuple):
    """What stands in a message's content."""

    text: str
    reasoning: str = ""
    refusal: str = ""
    left_out: tuple[str, ...] = ()
    """Kinds of parts that are no text."""


def read_content(value: object) -> Content | None:
    """A message's content: a text, a list of parts, one part, or any other value as its JSON; ``None``: there is
    none. Half characters are left as they are, since a stream may bring the other half."""
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
        held = value.get(name)
        if isinstance(held, dict) and isinstance(held.get("value"), str):
            held = held["value"]
        if isinstance(held, list):
            inner = [one.get("text") for one in held if isinstance(one, dict)]
            held = "".join(one for one in inner if isinstance(one, str)) or None
        if isinstance(held, str):
            if kind in _THOUGHT or name in _THOUGHT:
                return Content("", reasoning=held)
            return Content("", refusal=held) if name == "refusal" else Content(held)
    # A part of another kind (an image, a sound) is no text; an object without a kind may be the answer itself.
    return Content("", left_out=(safe(kind, 40),)) if kind else Content(as_json(value))


def as_json(value: object) -> str:
    """A value as JSON text."""
    return msgspec.json.encode(wellformed_all(value)).decode()


def words(value: object, longest: int) -> str:
    """A short field that should be text: a model's name, a call's id."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**15:
        return str(value)
    return wellformed(value)[:longest] if isinstance(value, str) else ""


def read_arguments(value: object) -> str:
    """A call's arguments, which should be the text of a JSON object, and may be the object itself."""
    if value is None:
        return ""
    return value if isinstance(value, str) else as_json(value)


def read_calls(value: object) -> tuple[tuple[ToolCall, ...], int]:
    """The tool calls of a message, and how many there are beyond the ones that are read."""
    listed = value if isinstance(value, list) else [value] if isinstance(value, dict) else []
    calls = []
    for call in listed[:MOST_CALLS]:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            arguments = wellformed(read_arguments(function.get("arguments")))
            calls.append(ToolCall(words(call.get("id"), 200), words(function.get("name"), 200), arguments))
    return tuple(calls), max(0, len(listed) - MOST_CALLS)


def read_logprobs(value: object) -> tuple[TokenLogprob, ...] | None:
    """The log probabilities of a choice's tokens: of a chat (a list of tokens, or an object with it as ``content``), or
    of a completion (lists beside each other). Entries that cannot be read are left out; ``None``: there are none."""
    if isinstance(value, dict) and isinstance(value.get("tokens"), list):
        entries = _beside(value)
    else:
        listed = value.get("content") if isinstance(value, dict) else value
        entries = listed if isinstance(listed, list) else []
    read = [found for entry in entries if (found := _token(entry)) is not None]
    return tuple(read) or None


def _beside(lists: dict[str, object]) -> list[object]:
    """A completion's lists as a chat's entries."""
    tokens, numbers, tops = lists.get("tokens"), lists.get("token_logprobs"), lists.get("top_logprobs")
    if not isinstance(tokens, list) or not isinstance(numbers, list):
        return []
    others = tops if isinstance(tops, list) else []
    made: list[object] = []
    for place, (token, number) in enumerate(zip(tokens, numbers, strict=False)):
        top = others[place] if place < len(others) else None
        listed = [{"token": one, "logprob": lp} for one, lp in top.items()] if isinstance(top, dict) else []
        made.append({"token": token, "logprob": number, "top_logprobs": listed})
    return made


def _token(entry: object) -> TokenLogprob | None:
    if not isinstance(entry, dict):
        return None
    token, number, tops = entry.get("token"), _probability(entry.get("logprob")), entry.get("top_logprobs")
    if not isinstance(token, str) or number is None:
        return None
    read = [
        (wellformed(one["token"]), found)
        for one in (tops if isinstance(tops, list) else [])[:MOST_LIKELY]
        if isinstance(one, dict)
        and isinstance(one.get("token"), str)
        and (found := _probability(one.get("logprob"))) is not None
    ]
    return TokenLogprob(wellformed(token), number, tuple(read))


def _probability(value: object) -> float | None:
    """A logarithm of a probability; ``None``: it cannot be one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -MOST_UNLIKELY <= value <= _ROUNDING else None


def with_logprobs(reply: R, asked: int | None) -> R:
    """The reply with a note where log probabilities were asked for and none came; without any that nobody asked for."""
    if asked is None:
        return reply if reply.logprobs is None else replace(reply, logprobs=None)
    if reply.logprobs is not None or reply.finish in ("none", "content_filter"):
        return reply
    return noted(reply, ["log probabilities were requested, and the server sent none"])


def without_keys(reply: R, redact: Redactor) -> R:
    """The reply with every key taken out, and a note where there was one: so it is recorded, and so the agent sees it
    now and at every replay."""
    clean = replace(
        reply,
        text=redact(reply.text),
        finish=redact(reply.finish),
        model=redact(reply.model),
        reasoning=redact(reply.reasoning),
        stopped_at=redact(reply.stopped_at),
        calls=tuple(
            ToolCall(redact(call.id), redact(call.name), redact.in_json(call.arguments)) for call in reply.calls
        ),
        notes=tuple(map(redact, reply.notes)),
        logprobs=_without_keys(reply, redact),
    )
    return reply if clean == reply else noted(clean, ["the reply contained a key: it was replaced by [key]"])


def _without_keys(reply: Reply, redact: Redactor) -> tuple[TokenLogprob, ...] | None:
    """The log probabilities, or none where their tokens spell a key."""
    if reply.logprobs is None:
        return None
    spelled = "".join(one.token for one in reply.logprobs)
    others = " ".join(token for one in reply.logprobs for token, _ in one.top)
    return reply.logprobs if redact(spelled) == spelled and redact(others) == others else None


def noted(reply: R, notes: Iterable[str]) -> R:
    """The reply with further notes; empty ones are left out."""
    more = tuple(filter(None, notes))
    return replace(reply, notes=(*reply.notes, *more)) if more else reply
