"""Present times and new UUIDs that libraries put into requests: agno's `add_datetime_to_context`, or the identifiers
that pydantic-ai gives to uses of tools, for example.

The recorded clock and random values serve a system's own files only, because libraries need the real ones for
time-outs, caches and signatures. So a request may contain the present time or a new UUID, and would never be the same
again. Such a request gets a second key in the journal, in which they are left out. A later request of the same attempt
that differs only in them finds the recorded call by it. A time counts if it lies within the attempt, and a UUID if it
is random and not in the question, so that those of questions and documents are compared as they are.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.contracts import Entry
from ragrounds.base.http import read_json
from ragrounds.evals.engine.recorded_randomness import RecordedRandomness
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import now
from ragrounds.models.wire_forms import ModelCall, RecordedReply, call_key, canonical

_TIME = re.compile(r"\b(20\d\d-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?) ?(Z|UTC|[+-]\d\d:\d\d)?")
_UUID = re.compile(
    r"(?<![0-9a-f])[0-9a-f]{8}(-?)[0-9a-f]{4}\1"
    r"(?:4[0-9a-f]{3})\1[89ab][0-9a-f]{3}\1[0-9a-f]{12}(?![0-9a-f])",
    re.IGNORECASE,
)
"""A random UUID (version 4), as text or as hexadecimal digits."""
_AROUND = 60.0
"""Seconds before the attempt's start, and after the present, that still count: a time may be given in minutes."""


class _Twin(Struct):
    """Recorded call that differs from others only in the present time and in new UUIDs."""

    key: str
    seconds: list[int]
    """Its times."""


class LibraryValues:
    """Present times and new UUIDs in the requests of one attempt.

    Args:
        randomness: recorded clock of the attempt.
        subject: question and epoch, and the payer if its calls are made again.
        question: text of the question, whose UUIDs are no new ones.
    """

    def __init__(self, randomness: RecordedRandomness, subject: bytes, question: str) -> None:
        self._randomness, self._subject, self._question = randomness, subject, question
        self._began = now()
        self._seconds: set[int] = set()
        """Times in the recorded calls that answered calls of this attempt."""
        self._occurrences: Counter[bytes] = Counter()
        self._entries: dict[str, Entry] = {}

    async def entry_for(self, entry: Entry, call: ModelCall, epoch: int, journal: StoreJournal) -> Entry:
        """Return a call's entry, under the key of the recorded call that differs from it only in the present time and
        in new UUIDs.
        """
        if entry.key in self._entries:  # the client tries again
            return self._entries[entry.key]
        text = canonical(call.body).decode()
        if _TIME.search(text) is None and _UUID.search(text) is None:
            return entry
        seconds: set[int] = set()
        own_texts = self._randomness.texts()
        own = _all_seconds(own_texts)
        own_uuids = {text.replace("-", "") for text in own_texts}

        def mask_time(time: re.Match[str]) -> str:
            """Leave a time out if it was read from the clock."""
            moments = set(_seconds(time))
            present = {moment for moment in moments if moment in self._seconds or self._is_present(moment)}
            if not own & moments:
                seconds.update(present)
            return "<time>" if present or own & moments else time[0]

        def mask_uuid(uuid: re.Match[str]) -> str:
            """Leave a UUID out if neither the question nor the system's own files gave it."""
            is_known = uuid[0] in self._question or uuid[0].replace("-", "").lower() in own_uuids
            return uuid[0] if is_known else "<uuid>"

        with_uuids = _TIME.sub(mask_time, text)
        masked = _UUID.sub(mask_uuid, with_uuids)
        if (not seconds and masked == with_uuids) or not isinstance(body := read_json(masked), dict):
            return entry
        first = call_key(replace(call, body=body), epoch)
        occurrence = self._occurrences[first].to_bytes(4, "big")
        self._occurrences[first] += 1
        twin_entry = self._randomness.used(hashlib.sha256(b"\0".join((first, self._subject, occurrence))).hexdigest())
        twin = await journal.recorded_values(twin_entry, _Twin)
        if twin is None:
            if journal.mode != "replay":
                journal.draw(twin_entry, _Twin(entry.key, sorted(seconds)))
        elif twin[0].key != entry.key and await journal.recorded_values(entry, RecordedReply) is None:
            self._seconds.update(twin[0].seconds)
            self._entries[entry.key] = replace(entry, key=twin[0].key)
        return self._entries.setdefault(entry.key, entry)

    def _is_present(self, second: int) -> bool:
        return self._began - _AROUND <= second <= now() + _AROUND


def _all_seconds(texts: Iterable[str]) -> set[int]:
    """Return the times among the values that the system's own files have read: they are the same again."""
    times = map(_TIME.fullmatch, texts)
    return {second for time in times if time is not None for second in _seconds(time)}


def _seconds(time: re.Match[str]) -> Iterator[int]:
    """Yield the moments that a time may mean: local time or UTC if it names no time zone."""
    date, clock, zone = time.groups()
    try:
        moment = datetime.fromisoformat(f"{date}T{clock}{'Z' if zone == 'UTC' else zone or ''}")
    except ValueError:  # a day or an hour that does not exist
        return
    for known in (moment,) if zone else (moment.astimezone(), moment.replace(tzinfo=UTC)):
        yield int(known.timestamp())
