"""Requests to endpoints and their replies, as the journal stores them, and the reading of replies.

Replies are not trusted: texts are shown as texts, impossible counts are unknown, and keys are removed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from msgspec.structs import replace

from ragrounds.agents.systems.endpoint_card import EndpointCard, PassageMap
from ragrounds.base.contracts import Request
from ragrounds.base.errors import StopRun
from ragrounds.base.http import HttpAnswer, retry_after
from ragrounds.base.records import Passage, Question, Reply
from ragrounds.base.text import wellformed
from ragrounds.models.faults import CallFailed, reply_fault
from ragrounds.models.openai_protocol import said_in, sentence
from ragrounds.models.reply_parts import as_json, noted, read_content, without_keys, words
from ragrounds.recorder.answers import at_path
from ragrounds.recorder.redaction import Redactor

MOST_PASSAGES = 1000
"""Maximum number of passages that are read from one reply."""


class EndpointRequest(Request, frozen=True, kw_only=True, omit_defaults=True):
    """Request to an endpoint. All its fields are part of the call's key."""

    form: str
    address: str
    """Address of the endpoint, or its alias."""
    body: dict[str, object]


class EndpointReply(Reply, frozen=True, kw_only=True):
    """Reply of an endpoint."""

    raw: str = ""
    """The whole reply, as JSON text, without keys. Another field map can read it again."""
    cost: float | None = None
    """US dollars, as the server reports them."""


def clean(reply: EndpointReply, redact: Redactor) -> EndpointReply:
    """Remove every key from a reply, and add a note if there was one."""
    without_known_keys = without_keys(reply, redact)
    raw = redact.in_json(without_known_keys.raw)
    is_new = without_known_keys == reply and raw != without_known_keys.raw
    return noted(
        replace(without_known_keys, raw=raw), ["the reply contained a key: it was replaced by [key]"] if is_new else []
    )


def check_answered(answered: HttpAnswer, card: EndpointCard, redact: Redactor) -> EndpointReply:
    """Raise the error that an HTTP status means. Return a reply only for a provider's content filter.

    Raises:
        StopRun: every further call would fail in the same way (a wrong key, nothing at this address).
        CallFailed: this request is wrong.
        Transient: another try may succeed.
    """
    status = answered.status
    code, message, fields = said_in(answered, redact)
    if status in (401, 403):
        where = " and ".join(card.variables) or 'key = "…" in the agent\'s file, which names none'
        raise StopRun(f"{card.base_url} refused the key ({status}): {sentence(message)} Check {where}.")
    if status in (404, 405):
        raise StopRun(f"{card.base_url} has no agent at this address ({status}): {message}")
    if fault := reply_fault(status, code, message, retry_after(answered.headers), fields):
        raise fault
    if code == "content_filter":
        return EndpointReply(text="", finish="content_filter", model=card.model)
    raise CallFailed("bad_request", f"{status}: {message}")


def letter_of(value: object, question: Question) -> tuple[str, str]:
    """Return the letter of the option that a field contains, as a letter or as the option's text.

    The second value is a note if the field contains anything else.
    """
    field_text = words(value, 2000).strip()
    if field_text.upper() in question.options:
        return field_text.upper(), ""
    same = [
        letter for letter, text in question.options.items() if field_text and text.strip().lower() == field_text.lower()
    ]
    if len(same) == 1:
        return same[0], ""
    if value is None or not question.options:
        return "", ""
    return "", f"the field of the choice holds {as_json(value)[:200]}, which is not an option"


def passages_of(value: object, where: PassageMap, corpus: str) -> tuple[Passage, ...]:
    """Return the passages in a reply, best first."""
    listed = at_path(value, where.list)
    items = listed if isinstance(listed, list) else list(listed.values()) if isinstance(listed, Mapping) else []
    passages = []
    for rank, item in enumerate(items[:MOST_PASSAGES], 1):
        inside = isinstance(item, Mapping)
        text, title = (_text(item, where.text), _text(item, where.title)) if inside else (_plain(item), "")
        score = at_path(item, where.score) if inside else None
        is_valid_score = isinstance(score, int | float) and not isinstance(score, bool) and abs(score) < 1e12
        # For a passage without an id, the hash of its text is used.
        name = (_text(item, where.id) if inside else "")[:500]
        name = name or hashlib.sha256(f"{title}\n{text}".encode()).hexdigest()[:16]
        passages.append(
            Passage(
                id=name,
                document=name,
                title=title[:1000],
                text=text,
                corpus=corpus,
                score=float(score) if is_valid_score and isinstance(score, int | float) else 0.0,
                rank=rank,
                retriever=corpus,
            )
        )
    return tuple(passages)


def _text(item: object, path: str) -> str:
    return _plain(at_path(item, path)) if path else ""


def _plain(value: object) -> str:
    content = read_content(value)
    return wellformed(content.text) if content else ""
