"""A streamed answer put together: from there on it is read as one that came at once, so the record is the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ragrounds.models.faults import Transient, redacted
from ragrounds.models.openai_forms import Completion, WireChoice, WireFunction, WireMessage, WireToolCall, decoded
from ragrounds.text import wellformed

_END = "[DONE]"


def put_together(body: bytes) -> Completion:
    """The completion that a whole stream of server-sent events holds; of several choices the first.

    Raises:
        Transient: the stream ended before its end, or holds an error or something else than chunks of a completion.
    """
    model, usage, parts, over = "", None, list[WireChoice](), False
    for data in _events(body):
        if data == _END:
            over = True
            continue
        chunk = _chunk(data)
        if chunk.error is not None:
            raise Transient("server", redacted(str(chunk.error))[:300], 200)
        model, usage = chunk.model or model, chunk.usage or usage
        parts += [part for part in chunk.choices or () if not part.index]
    over = over or any(part.finish_reason for part in parts)
    if not over:
        raise Transient("malformed", "the stream of an answer ended before its end", 200)
    return Completion(choices=[_joined(parts)] if parts else [], usage=usage, model=model)


def _joined(parts: list[WireChoice]) -> WireChoice:
    said = [part.delta or part.message for part in parts]
    deltas = [delta for delta in said if delta is not None]
    finish = [part.finish_reason for part in parts if part.finish_reason]
    stops = [part.stop_reason for part in parts if part.stop_reason is not None]
    whole = WireChoice(finish_reason=finish[-1] if finish else None, stop_reason=stops[-1] if stops else None)
    if not deltas:
        whole.text = _text(part.text for part in parts)
        return whole
    whole.message = WireMessage(
        content=_text(delta.content for delta in deltas),
        refusal=_text(delta.refusal for delta in deltas),
        reasoning_content=_text(delta.reasoning_content for delta in deltas),
        reasoning=_text(delta.reasoning for delta in deltas),
        tool_calls=_calls(call for delta in deltas for call in delta.tool_calls or ()),
    )
    return whole


def _calls(pieces: Iterable[WireToolCall]) -> list[WireToolCall] | None:
    calls: dict[int, WireToolCall] = {}
    for piece in pieces:
        # A server that does not number them gives each call whole.
        call = calls.setdefault(
            len(calls) if piece.index is None else piece.index, WireToolCall(function=WireFunction())
        )
        call.id = call.id or piece.id
        if piece.function is not None and call.function is not None:
            call.function.name = (call.function.name or "") + (piece.function.name or "")
            call.function.arguments = (call.function.arguments or "") + (piece.function.arguments or "")
    for call in calls.values():
        if call.function is not None:
            call.function.arguments = wellformed(call.function.arguments or "")
    return [calls[index] for index in sorted(calls)] or None


def _text(pieces: Iterable[str | None]) -> str | None:
    """All pieces as one text; ``None``: there was none. The halves of a character may stand in two of them."""
    said = [piece for piece in pieces if piece is not None]
    return wellformed("".join(said)) if said else None


def _chunk(data: str) -> Completion:
    try:
        return decoded(data, whole=False)
    except ValueError as error:
        start = redacted(data[:120])
        raise Transient("malformed", f"not a chunk of a chat completion ({error}): {start!r}", 200) from error


def _events(body: bytes) -> Iterator[str]:
    """The data of each event (WHATWG HTML, Section 9.2)."""
    lines: list[str] = []
    text = body.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    for line in [*text.split("\n"), ""]:
        if not line and lines:
            yield "\n".join(lines)
            lines = []
        elif line.startswith("data:"):
            lines.append(line[5:].removeprefix(" "))
