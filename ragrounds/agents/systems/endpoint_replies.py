"""What an endpoint is asked and what it answered, as the journal keeps it, and how replies are read.

Nothing in a reply is believed: texts are shown as texts, counts that cannot be true are unknown, keys are taken out.
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
from ragrounds.base.redaction import Redactor
from ragrounds.base.text import wellformed
from ragrounds.models.faults import CallFailed, Transient, too_long
from ragrounds.models.openai_protocol import said_in, sentence
from ragrounds.models.reply_parts import as_json, noted, read_content, without_keys, words
from ragrounds.recorder.answers import at_path

MOST_PASSAGES = 1000
"""Passages of one search that are read."""


class EndpointRequest(Request, frozen=True, kw_only=True, omit_defaults=True):
    """What an endpoint is asked. All of it is a part of the call's key."""

    form: str
    address: str
    """Or the alias that stands for it."""
    body: dict[str, object]


class EndpointReply(Reply, frozen=True, kw_only=True):
    """What an endpoint answered."""

    raw: str = ""
    """The whole reply, as JSON text, without keys: another field map reads it anew."""
    cost: float | None = None
    """Dollars, as the server counts them."""


def clean(reply: EndpointReply, redact: Redactor) -> EndpointReply:
    """The reply with every key taken out, and a note where there was one."""
    whole = without_keys(reply, redact)
    raw = redact.in_json(whole.raw)
    found = whole == reply and raw != whole.raw
    return noted(replace(whole, raw=raw), ["the reply contained a key: it was replaced by [key]"] if found else [])


def check_answered(answered: HttpAnswer, card: EndpointCard, redact: Redactor) -> EndpointReply:
    """Raise what an HTTP error means; give a reply only for a provider's content filter.

    Raises:
        StopRun: every further call would fail alike (a wrong key, nothing at this address).
        CallFailed: this request is wrong.
        Transient: worth another try (429, 408, 409, 425, 5xx).
    """
    status = answered.status
    code, said, fields = said_in(answered, redact)
    if status in (401, 403):
        where = " and ".join(card.variables) or 'key = "…" in the agent\'s file, which names none'
        raise StopRun(f"{card.place} refused the key ({status}): {sentence(said)} Check {where}.")
    if status in (404, 405):
        raise StopRun(f"{card.place} has no agent at this address ({status}): {said}")
    if status == 429:
        raise Transient("rate_limit", said, status, retry_after(answered.headers))
    if long := too_long(code, said, fields):
        raise long.failed(said)
    if status in (408, 409, 425) or status >= 500:
        raise Transient("server", said, status, retry_after(answered.headers))
    if code == "content_filter":
        return EndpointReply(text="", finish="content_filter", model=card.model)
    raise CallFailed("bad_request", f"{status}: {said}")


def letter_of(value: object, question: Question) -> tuple[str, str]:
    """The letter of an option that a field gives, as a letter or as the option's text, and a note where it gives
    something else."""
    given = words(value, 2000).strip()
    if given.upper() in question.options:
        return given.upper(), ""
    same = [letter for letter, text in question.options.items() if given and text.strip().lower() == given.lower()]
    if len(same) == 1:
        return same[0], ""
    if value is None or not question.options:
        return "", ""
    return "", f"the field of the choice holds {as_json(value)[:200]}, which is not an option"


def passages_of(value: object, where: PassageMap, corpus: str) -> tuple[Passage, ...]:
    """The passages that a reply tells of, best first."""
    listed = at_path(value, where.list)
    items = listed if isinstance(listed, list) else list(listed.values()) if isinstance(listed, Mapping) else []
    passages = []
    for rank, item in enumerate(items[:MOST_PASSAGES], 1):
        inside = isinstance(item, Mapping)
        text, title = (_text(item, where.text), _text(item, where.title)) if inside else (_plain(item), "")
        score = at_path(item, where.score) if inside else None
        known = isinstance(score, int | float) and not isinstance(score, bool) and abs(score) < 1e12
        # One without an id has the hash of its text as one.
        name = (_text(item, where.id) if inside else "")[:500]
        name = name or hashlib.sha256(f"{title}\n{text}".encode()).hexdigest()[:16]
        passages.append(
            Passage(
                id=name,
                document=name,
                title=title[:1000],
                text=text,
                corpus=corpus,
                score=float(score) if known and isinstance(score, int | float) else 0.0,
                rank=rank,
                retriever=corpus,
            )
        )
    return tuple(passages)


def _text(item: object, path: str) -> str:
    return _plain(at_path(item, path)) if path else ""


def _plain(value: object) -> str:
    said = read_content(value)
    return wellformed(said.text) if said else ""
