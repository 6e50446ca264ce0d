"""Records as bytes and as rows of the tables, and back: MessagePack, zstd, and every long text once, by its hash.

A text of several lines is kept line by line, so that a passage is stored once, however many searches found it and
however many prompts hold it, behind whatever number or title.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter, itemgetter
from shlex import quote
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa
import zstandard
from msgspec import Struct

from ragrounds.base.errors import UserError
from ragrounds.base.records import Attempt, Call, Called, Event, Gold, Question, Run, Score, Usage
from ragrounds.base.text import wellformed, wellformed_all
from ragrounds.evals.store import schema
from ragrounds.evals.store.row_sums import is_whole, is_whole_row, summed, summed_columns
from ragrounds.evals.store.schema import Row

LONG = 600
"""Characters from which a text is stored apart. Below that a row of its own costs more than it saves."""

_LARGEST = 256 << 20
"""Bytes of a record, or of a text stored apart, beyond which a file is not believed."""


class DamagedRecord(UserError):
    """A record of the store does not match its checksum."""

    def __init__(self, why: object, remedy: str = "--journal fresh makes a recorded call again.") -> None:
        super().__init__(
            f"A record of the store is damaged: {why}. Restore the store from a backup; other records are "
            f"not affected. {remedy} `ragrounds doctor --store` checks all of it."
        )


S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")
Fetch = Callable[[Iterable[bytes]], Mapping[bytes, str]]
_HASH, _PARTS = 1, 2
"""Codes of MessagePack extensions: the hash of a text; a text's parts in order, written out or by their hashes."""
_TAIL = 48
"""Characters at a text's end by which a text stored before is recognised at the end of a longer one."""
_REMEMBERED = 8192
"""Texts stored last that are recognised."""
_CACHED = 4000
"""Characters up to which a text is kept in memory with its hash for the next time."""
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, KeyError, RecursionError)
"""What decoding raises where the bytes do not match their checksums."""
_local = threading.local()


def pack(record: Any) -> tuple[bytes, dict[bytes, bytes]]:
    """Encode a record.

    Returns:
        Its bytes, and the long texts that they refer to: hash → text in UTF-8. They are compressed when they are
        written: most are in the store already.
    """
    apart: dict[bytes, bytes] = {}
    body = msgspec.msgpack.encode(_extract_texts(msgspec.to_builtins(record), apart))
    return compress(body), apart


def storable(record: S) -> S:
    """The record with lone surrogates replaced, where its texts hold any: no encoder takes them."""
    try:
        msgspec.msgpack.encode(record)
    except UnicodeEncodeError:
        return msgspec.convert(wellformed_all(msgspec.to_builtins(record)), type(record))
    return record


class Packed(Struct, frozen=True):
    """A packed record that is to be read together with others."""

    data: bytes
    kind: type[object]
    whole: bool = True
    """With its long texts; else these are empty."""


def unpack(data: bytes, kind: type[T], fetch: Fetch) -> T:
    """Decode a record that :func:`pack` encoded; `fetch` returns the long texts of some hashes.

    Raises:
        DamagedRecord: the bytes do not match their checksums, or a text is missing.
    """
    try:
        (found,) = _unpacked([Packed(data, kind)], fetch)
    except UnicodeDecodeError as error:  # of a text
        raise DamagedRecord(error) from error
    if isinstance(found, DamagedRecord):
        raise found
    made: T = found
    return made


def unpack_many(records: Sequence[Packed], fetch: Fetch) -> list[object | None]:
    """Decode many records as :func:`unpack` does, with one look for the texts of all; ``None`` for a damaged one."""
    return [None if isinstance(found, DamagedRecord) else found for found in _unpacked(records, fetch)]


def _unpacked(records: Sequence[Packed], fetch: Fetch) -> list[Any]:
    """What records hold; in the place of a damaged one the error."""
    noted: list[bytes] = []

    def _note(hash: bytes) -> str:
        noted.append(hash)
        return ""

    read: list[tuple[bytes, Any, set[bytes]] | DamagedRecord] = []
    for record in records:
        noted.clear()
        try:
            body = decompress(record.data)
            read.append((body, _decoded(body, _note), set(noted) if record.whole else set()))
        except DamagedRecord as error:
            read.append(error)
        except _UNREADABLE as error:
            read.append(DamagedRecord(error))
    wanted = dict.fromkeys(hash for one in read if isinstance(one, tuple) for hash in one[2])
    known = fetch(wanted) if wanted else {}
    made: list[Any] = []
    for record, one in zip(records, read, strict=True):
        if isinstance(one, DamagedRecord):
            made.append(one)
            continue
        body, plain, hashes = one
        try:
            if lacking := hashes - known.keys():
                raise KeyError(f"{len(lacking)} texts that a record refers to are missing from the store")
            plain = _decoded(body, known.__getitem__) if hashes else plain
            made.append(msgspec.convert(plain, record.kind, strict=False))
        except _UNREADABLE as error:
            made.append(DamagedRecord(error.args[0] if isinstance(error, KeyError) else error))
    return made


def decode_without_texts(data: bytes) -> tuple[Any, set[bytes]]:
    """A packed record as plain values whose long texts are empty, and the hashes of these texts.

    Raises:
        ValueError: not a packed record, or larger than any record of a store.
    """
    hashes: set[bytes] = set()

    def _text(hash: bytes) -> str:
        hashes.add(hash)
        return ""

    return _decoded(decompress_untrusted(data), _text), hashes


def _decoded(body: bytes, text: Callable[[bytes], str]) -> Any:
    def _read(code: int, data: memoryview) -> str:
        if code == _HASH:
            return text(bytes(data))
        return "".join(msgspec.msgpack.decode(data, ext_hook=_read))

    return msgspec.msgpack.decode(body, ext_hook=_read)


def decompress_untrusted(data: bytes) -> bytes:
    """Decompress data of unknown origin, which may claim any size.

    Raises:
        ValueError: not compressed by :func:`compress`, or larger than any record of a store.
    """
    try:
        if zstandard.frame_content_size(data) > _LARGEST:
            raise ValueError(f"a record of more than {_LARGEST >> 20} MiB")
        return decompress(data)
    except (zstandard.ZstdError, DamagedRecord) as error:
        raise ValueError(f"not a compressed record ({error.__cause__ or error})") from error


def hash_of(text: bytes) -> bytes:
    """The key of a text that is stored apart: the first 16 bytes of its SHA-256."""
    return hashlib.sha256(text).digest()[:16]


def compress(data: bytes) -> bytes:
    """Compress with zstd, level 3, and a check sum, so that a flipped bit never becomes another answer."""
    compressor = getattr(_local, "compressor", None)
    if compressor is None:
        compressor = _local.compressor = zstandard.ZstdCompressor(level=3, write_checksum=True)
    return bytes(compressor.compress(data))


def decompress(data: bytes) -> bytes:
    """Decompress what :func:`compress` made.

    Raises:
        DamagedRecord: the data is not what was compressed.
    """
    decompressor = getattr(_local, "decompressor", None)
    if decompressor is None:
        decompressor = _local.decompressor = zstandard.ZstdDecompressor()
    try:
        return bytes(decompressor.decompress(data))
    except (zstandard.ZstdError, MemoryError) as error:
        raise DamagedRecord(error or "its size cannot be") from error


def _extract_texts(value: Any, apart: dict[bytes, bytes]) -> Any:
    if isinstance(value, str):
        return value if len(value) < LONG else _by_lines(value, apart)
    if isinstance(value, dict):
        return {key: _extract_texts(item, apart) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_extract_texts(item, apart) for item in value]
    return value


def _by_lines(text: str, apart: dict[bytes, bytes]) -> msgspec.msgpack.Ext:
    """A long text as the hashes of its long lines, and what is between them written out."""
    parts = list(_parts(text))
    if parts == [text]:
        return _reference(text, apart)
    encoded = [part if len(part) < LONG else _reference(part, apart) for part in parts]
    return msgspec.msgpack.Ext(_PARTS, msgspec.msgpack.encode(encoded))


def _parts(text: str) -> Iterator[str]:
    """The parts of a text in order: long lines (of one that ends with a known text, that text), and what is between."""
    between: list[str] = []
    for line in text.splitlines(keepends=True):
        bare = line.rstrip("\r\n")
        if len(bare) < LONG:
            between.append(line)
            continue
        start = _start_of_known(bare)
        between.append(bare[:start])
        yield from filter(None, ["".join(between)])
        yield bare[start:]
        between = [line[len(bare) :]]
    yield from filter(None, ["".join(between)])


def _start_of_known(line: str) -> int:
    """Where in a line a text begins that was stored before; 0: the whole line is one text."""
    before = _seen.get(line[-_TAIL:])
    if before is None:
        return 0
    if line.endswith(before):
        return len(line) - len(before)
    # Stored before with something else in front of it: what both end with is the text.
    low, high = _TAIL, min(len(line), len(before))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if line.endswith(before[-middle:]) else (low, middle - 1)
    return len(line) - low if low >= LONG else 0


def _reference(text: str, apart: dict[bytes, bytes]) -> msgspec.msgpack.Ext:
    digest, raw = _cached(text) if len(text) <= _CACHED else _apart(text)
    apart[digest] = raw
    return msgspec.msgpack.Ext(_HASH, digest)


def _apart(text: str) -> tuple[bytes, bytes]:
    raw = text.encode()
    return hash_of(raw), raw


@functools.lru_cache(maxsize=_REMEMBERED)
def _cached(text: str) -> tuple[bytes, bytes]:
    # The same passages come again and again: they are hashed once.
    _seen[text[-_TAIL:]] = text
    for old in list(itertools.islice(_seen, max(0, len(_seen) - _REMEMBERED))):
        _seen.pop(old, None)
    return _apart(text)


_seen: dict[str, str] = {}
"""The end of a text → the text, of those stored last."""


class StoredQuestion(Struct, frozen=True):
    """A question as the store keeps it."""

    question: Question
    gold: Gold


class AttemptBody(Struct, frozen=True, omit_defaults=True):
    """The part of an attempt that has no columns."""

    text: str
    events: tuple[Event, ...]
    choice: str = ""


_EMPTY = AttemptBody("", ())
_PLAIN = tuple(name for name in Attempt.__struct_fields__ if name in schema.attempts.c and name != "run")
"""Fields of an attempt that are columns as they are."""
SUMMARY = summed_columns(schema.attempts)
"""The columns of an attempt but its body, as :func:`summaries_of` takes them."""
_names = [column.name for column in SUMMARY]
_summary = attrgetter(*_names)
_plain = itemgetter(*map(_names.index, _PLAIN))
_used = itemgetter(*map(_names.index, Usage.__struct_fields__))
SCORED = (*summed_columns(schema.scores), schema.scores.c.code)
"""The columns of a score as :func:`scores_of` takes them."""
_scored = attrgetter(*(column.name for column in SCORED))


def attempt_rows(attempt: Attempt, number: int) -> list[Row]:
    """The rows of an attempt of the run `number`, and of its long texts."""
    body, apart = pack(storable(AttemptBody(attempt.text, attempt.events, attempt.choice)))
    models: Counter[tuple[str, str]] = Counter()
    for event in attempt.events:
        if isinstance(event, Called) and event.call.model:
            models[event.call.actor, event.call.model] += 1
    named = [[*names, count] for names, count in sorted(models.items())]
    row: dict[str, object] = {
        "run": number,
        **{name: getattr(attempt, name) for name in _PLAIN},
        "reason": column_text(attempt.reason),
        **{name: getattr(attempt.usage, name, None) for name in Usage.__struct_fields__},
        "body": body,
        "models": msgspec.json.encode(named).decode() if named else None,
    }
    return [*blob_rows(apart), (schema.attempts, summed(schema.attempts, row))]


def attempt_of(run: Run, row: Any, fetch: Fetch) -> Attempt:
    """The attempt that a row holds.

    Raises:
        DamagedRecord: it does not match its checksum.
    """
    if not is_whole_row(schema.attempts, row):
        raise _damaged_attempt(run, row.question_id, row.epoch)
    return _attempt(run, _summary(row), unpack(row.body, AttemptBody, fetch))


def summaries_of(run: Run, rows: Iterable[Sequence[Any]]) -> list[Attempt]:
    """The attempts that rows of the columns `SUMMARY` hold, without text and events.

    Raises:
        DamagedRecord: one does not match its checksum.
    """
    return [_attempt(run, row, _EMPTY) for row in whole_attempts(run, rows)]


def whole_attempts(run: Run, rows: Iterable[Sequence[Any]]) -> Iterator[Sequence[Any]]:
    """Rows of the columns `SUMMARY` as they come.

    Raises:
        DamagedRecord: one does not match its checksum.
    """
    for row in rows:
        if not is_whole(row):
            raise _damaged_attempt(run, row[0], row[1])
        yield row


def _damaged_attempt(run: Run, question_id: str, epoch: int) -> DamagedRecord:
    return DamagedRecord(
        f"the attempt of {run.id} at the question {question_id!r}, epoch {epoch}, does not match its checksum",
        "The command that made the run makes the attempt again, from its recorded calls.",
    )


def attempts_of(run: Run, rows: Sequence[Any], fetch: Fetch) -> Iterator[Attempt]:
    """The attempts that some rows hold, with one look for the texts of all; damaged ones are left out."""
    bodies = unpack_many([Packed(row.body, AttemptBody) for row in rows], fetch)
    return (
        _attempt(run, _summary(row), body)
        for row, body in zip(rows, bodies, strict=True)
        if isinstance(body, AttemptBody) and is_whole_row(schema.attempts, row)
    )


def _attempt(run: Run, values: Sequence[Any], body: AttemptBody) -> Attempt:
    used = _used(values)
    return Attempt(
        run=run.id,
        text=body.text,
        events=body.events,
        choice=body.choice,
        usage=None if used[0] is None else Usage(*used),
        **dict(zip(_PLAIN, _plain(values), strict=True)),
    )


def score_rows(scores: Iterable[Score], number: int) -> list[Row]:
    """The rows of some scores of the run `number`."""
    rows: list[Row] = []
    for score in scores:
        row = {"run": number, **msgspec.structs.asdict(score), "code": score.code or None}
        row["prediction"], row["reason"] = column_text(score.prediction), column_text(score.reason)
        rows.append((schema.scores, summed(schema.scores, row)))
    return rows


def grading_rows(calls: Iterable[Call], number: int, graded: Collection[str] = ()) -> list[Row]:
    """The rows of judges' calls for the run `number`: each call that has a reply once, and once more for each time that
    it was made again, by these or after it was `graded` (keys of the run's calls in the store)."""
    first: dict[str, Call] = {}
    again: dict[tuple[str, float], Call] = {}
    for call in calls:
        if not call.key or call.error:
            continue
        made = msgspec.structs.replace(call, faults=())
        if call.key not in graded and (call.key not in first or first[call.key].cached):
            first[call.key] = made  # where a call was made and then reused, it was paid
        elif not call.cached:
            at = call.at
            while (call.key, at) in again:
                at = round(at + 0.001, 3)
            again[call.key, at] = msgspec.structs.replace(made, at=at)

    def row(table: sa.Table, call: Call, **more: float) -> Row:
        body = compress(msgspec.msgpack.encode(call))
        return table, summed(table, {"run": number, "key": bytes.fromhex(call.key), "body": body, **more})

    return [
        *(row(schema.gradings, call) for call in first.values()),
        *(row(schema.regradings, call, at=at) for (_, at), call in again.items()),
    ]


def blob_rows(apart: Mapping[bytes, bytes]) -> list[Row]:
    """The rows of texts that are stored apart; :func:`stored_blob` is what is written of each."""
    return [(schema.blobs, {"hash": hash, "data": data}) for hash, data in apart.items()]


def stored_blob(row: Mapping[str, Any]) -> dict[str, object]:
    """A row of :func:`blob_rows` as it is written: its text compressed."""
    return {**row, "data": compress(row["data"])}


def run_body(run: Run) -> bytes:
    """A run as bytes, as its table holds it."""
    return compress(msgspec.msgpack.encode(run))


def run_row(run: Run) -> dict[str, object]:
    """The row of a run, without its number."""
    return {"id": run.id, "fingerprint": run.fingerprint, "created": run.created, "body": run_body(run)}


def run_of(body: bytes) -> Run:
    """The run that :func:`run_body` encoded."""
    return msgspec.msgpack.decode(decompress(body), type=Run)


def score_of(run: Run, row: Any) -> Score:
    """The score that a row holds.

    Raises:
        DamagedRecord: it does not match its checksum.
    """
    return next(scores_of(run, [_scored(row)]))


def scores_of(run: Run, rows: Iterable[Sequence[Any]]) -> Iterator[Score]:
    """The scores that rows of the columns `SCORED` hold.

    Raises:
        DamagedRecord: one does not match its checksum.
    """
    for row in rows:
        scorer, question_id, epoch, value, answer_status, prediction, reason, _, code = row
        if not is_whole(row[:-1]):
            raise DamagedRecord(
                f"the score of {run.id} by {scorer} for the question {question_id!r}, epoch {epoch}, is not what was "
                "written",
                f"`ragrounds score {quote(run.id)}` makes scores again, `ragrounds judge` those of a judge.",
            )
        yield Score(
            question_id=question_id,
            epoch=epoch,
            scorer=scorer,
            value=value,
            answer_status=answer_status,
            prediction=prediction,
            reason=reason,
            code=code or "",
        )


def check_call(values: Sequence[Any]) -> None:
    """Check that a recorded call is what was written, by its columns but request and response.

    Raises:
        DamagedRecord: it is not.
    """
    if not is_whole(values):
        raise DamagedRecord(f"the recorded call {bytes(values[0]).hex()[:12]} does not match its checksum")


def column_text(text: str) -> str:
    """A text as a column of text keeps it."""
    # A text column of PostgreSQL takes no NUL, and no encoder takes lone surrogates.
    return wellformed(text).replace("\0", "\ufffd")
