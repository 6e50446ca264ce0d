"""Conversion of records to bytes and rows of the tables, and back: MessagePack, zstd, and every long text once, by its
hash.

A text of several lines is stored line by line, so that a passage is stored once, however many searches found it and
however many prompts contain it, after any number or title.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter, itemgetter
from shlex import quote
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa
import zstandard
from msgspec import Struct

from ragrounds.base.errors import UserError
from ragrounds.base.records import Attempt, Call, Called, Event, Gold, Question, Run, Score, Usage
from ragrounds.base.text import map_texts, wellformed
from ragrounds.evals.store import schema
from ragrounds.evals.store.row_sums import is_whole, is_whole_row, summed, summed_columns, summed_values
from ragrounds.evals.store.schema import Row
from ragrounds.recorder.redaction import redactor

LONG = 600
"""Number of characters from which a text is stored separately. For shorter texts a separate row costs more than it
saves.
"""

_LARGEST = 256 << 20
"""Largest number of bytes of a record, or of a text stored separately; a file with a larger one is rejected."""


class DamagedRecord(UserError):
    """Error about a record of the store that does not match its checksum."""

    def __init__(self, reason: object, remedy: str = "--journal fresh makes a recorded call again.") -> None:
        super().__init__(
            f"A record of the store is damaged: {reason}. Restore the store from a backup; other records are "
            f"not affected. {remedy} `ragrounds doctor --store` checks all of it."
        )


S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")
Fetch = Callable[[Iterable[bytes]], Mapping[bytes, str]]
_HASH, _PARTS = 1, 2
"""Codes of MessagePack extensions: the hash of a text; a text's parts in order, verbatim or by their hashes."""
_TAIL = 48
"""Number of characters at a text's end by which an already stored text is recognised at the end of a longer one."""
_REMEMBERED = 8192
"""Number of the texts stored last that are recognised."""
_CACHED = 4000
"""Largest number of characters of a text that is cached in memory with its hash."""
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, KeyError, RecursionError)
"""Exceptions that decoding raises if the bytes do not match their checksums."""
_local = threading.local()


def pack(record: Any) -> tuple[bytes, dict[bytes, bytes]]:
    """Encode a record.

    Returns:
        Its bytes, and the long texts to which they refer: hash → text in UTF-8. They are compressed when they are
        written, because most are in the store already.
    """
    long_texts: dict[bytes, bytes] = {}
    body = msgspec.msgpack.encode(_extract_texts(msgspec.to_builtins(record), long_texts))
    return compress(body), long_texts


def storable(record: S) -> S:
    """Return the record without keys of this process, and without lone surrogates, which no encoder accepts."""
    redact = redactor()
    with suppress(UnicodeEncodeError):
        if not redact.has_known(msgspec.msgpack.encode(record)):
            return record
    plain = msgspec.to_builtins(record)
    return msgspec.convert(map_texts(plain, lambda text: redact.without_keys(wellformed(text))), type(record))


class Packed(Struct, frozen=True):
    """Packed record that is to be read together with others."""

    data: bytes
    kind: type[object]
    with_texts: bool = True
    """True if the long texts are read; otherwise they are empty."""


def unpack(data: bytes, kind: type[T], fetch: Fetch) -> T:
    """Decode a record that :func:`pack` encoded; `fetch` returns long texts by their hashes.

    Raises:
        DamagedRecord: the bytes do not match their checksums, or a text is missing.
    """
    try:
        (decoded,) = _unpack_all([Packed(data, kind)], fetch)
    except UnicodeDecodeError as error:  # of a text
        raise DamagedRecord(error) from error
    if isinstance(decoded, DamagedRecord):
        raise decoded
    record: T = decoded
    return record


def unpack_many(records: Sequence[Packed], fetch: Fetch) -> list[object | None]:
    """Decode many records like :func:`unpack`, with one query for the texts of all; ``None`` for a damaged one."""
    return [None if isinstance(decoded, DamagedRecord) else decoded for decoded in _unpack_all(records, fetch)]


def _unpack_all(records: Sequence[Packed], fetch: Fetch) -> list[Any]:
    """Decode records; a damaged one is replaced by the error."""
    noted: list[bytes] = []

    def _note(hash: bytes) -> str:
        noted.append(hash)
        return ""

    read: list[tuple[bytes, Any, set[bytes]] | DamagedRecord] = []
    for record in records:
        noted.clear()
        try:
            body = decompress(record.data)
            read.append((body, _decoded(body, _note), set(noted) if record.with_texts else set()))
        except DamagedRecord as error:
            read.append(error)
        except _UNREADABLE as error:
            read.append(DamagedRecord(error))
    hashes_needed = dict.fromkeys(hash for parsed in read if isinstance(parsed, tuple) for hash in parsed[2])
    texts = fetch(hashes_needed) if hashes_needed else {}
    decoded: list[Any] = []
    for record, parsed in zip(records, read, strict=True):
        if isinstance(parsed, DamagedRecord):
            decoded.append(parsed)
            continue
        body, plain, hashes = parsed
        try:
            if lacking := hashes - texts.keys():
                raise KeyError(f"{len(lacking)} texts that a record refers to are missing or damaged")
            plain = _decoded(body, texts.__getitem__) if hashes else plain
            decoded.append(msgspec.convert(plain, record.kind, strict=False))
        except _UNREADABLE as error:
            decoded.append(DamagedRecord(error.args[0] if isinstance(error, KeyError) else error))
    return decoded


def decode_without_texts(data: bytes) -> tuple[Any, set[bytes]]:
    """Decode a packed record to plain values with empty long texts, and return these with the hashes of the texts.

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
    """Return the key of a text that is stored separately: the first 16 bytes of its SHA-256."""
    return hashlib.sha256(text).digest()[:16]


def compress(data: bytes) -> bytes:
    """Compress with zstd, level 3, and a checksum, so that a flipped bit never becomes another answer."""
    compressor = getattr(_local, "compressor", None)
    if compressor is None:
        compressor = _local.compressor = zstandard.ZstdCompressor(level=3, write_checksum=True)
    return bytes(compressor.compress(data))


def decompress(data: bytes) -> bytes:
    """Decompress data of :func:`compress`.

    Raises:
        DamagedRecord: the data does not match its checksum.
    """
    decompressor = getattr(_local, "decompressor", None)
    if decompressor is None:
        decompressor = _local.decompressor = zstandard.ZstdDecompressor()
    try:
        return bytes(decompressor.decompress(data))
    except (zstandard.ZstdError, MemoryError) as error:
        raise DamagedRecord(error or "its size cannot be") from error


def _extract_texts(value: Any, long_texts: dict[bytes, bytes]) -> Any:
    if isinstance(value, str):
        return value if len(value) < LONG else _by_lines(value, long_texts)
    if isinstance(value, dict):
        return {key: _extract_texts(item, long_texts) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_extract_texts(item, long_texts) for item in value]
    return value


def _by_lines(text: str, long_texts: dict[bytes, bytes]) -> msgspec.msgpack.Ext:
    """Return a long text as the hashes of its long lines, with the text between them verbatim."""
    parts = list(_parts(text))
    if parts == [text]:
        return _reference(text, long_texts)
    encoded = [part if len(part) < LONG else _reference(part, long_texts) for part in parts]
    return msgspec.msgpack.Ext(_PARTS, msgspec.msgpack.encode(encoded))


def _parts(text: str) -> Iterator[str]:
    """Yield the parts of a text in order: long lines, and the text between them. A line that ends with a known text is
    split before that text.
    """
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
    """Return the position in a line at which an already stored text begins; 0 if the whole line is one text."""
    before = _seen.get(line[-_TAIL:])
    if before is None:
        return 0
    if line.endswith(before):
        return len(line) - len(before)
    # It was stored with another beginning: the common end of both is the text.
    low, high = _TAIL, min(len(line), len(before))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if line.endswith(before[-middle:]) else (low, middle - 1)
    return len(line) - low if low >= LONG else 0


def _reference(text: str, long_texts: dict[bytes, bytes]) -> msgspec.msgpack.Ext:
    digest, raw = _cached(text) if len(text) <= _CACHED else _digest(text)
    long_texts[digest] = raw
    return msgspec.msgpack.Ext(_HASH, digest)


def _digest(text: str) -> tuple[bytes, bytes]:
    raw = text.encode()
    return hash_of(raw), raw


@functools.lru_cache(maxsize=_REMEMBERED)
def _cached(text: str) -> tuple[bytes, bytes]:
    # The same passages recur often: they are hashed once.
    _seen[text[-_TAIL:]] = text
    for old in list(itertools.islice(_seen, max(0, len(_seen) - _REMEMBERED))):
        _seen.pop(old, None)
    return _digest(text)


_seen: dict[str, str] = {}
"""Texts stored last, by their ends."""


class StoredQuestion(Struct, frozen=True):
    """Question in the form in which it is stored."""

    question: Question
    gold: Gold


class AttemptBody(Struct, frozen=True, omit_defaults=True):
    """Part of an attempt that has no columns."""

    text: str
    events: tuple[Event, ...]
    choice: str = ""


_EMPTY = AttemptBody("", ())
_PLAIN = tuple(name for name in Attempt.__struct_fields__ if name in schema.attempts.c and name != "run")
"""Fields of an attempt that are columns of the same name."""
SUMMARY = summed_columns(schema.attempts)
"""Columns of an attempt except its body, as :func:`summaries_of` takes them."""
_BODY = schema.attempts.c.keys().index("body")
"""Position of the body in a row of all columns."""
_names = [column.name for column in SUMMARY]
_plain = itemgetter(*map(_names.index, _PLAIN))
_used = itemgetter(*map(_names.index, Usage.__struct_fields__))
SCORED = summed_columns(schema.scores)
"""Columns of a score as :func:`scores_of` takes them."""
_scored = attrgetter(*(column.name for column in SCORED))


def attempt_rows(attempt: Attempt, number: int) -> list[Row]:
    """Return the rows of an attempt of the run `number`, and of its long texts."""
    body, long_texts = pack(storable(AttemptBody(attempt.text, attempt.events, attempt.choice)))
    models: Counter[tuple[str, str]] = Counter()
    for event in attempt.events:
        if isinstance(event, Called) and event.call.model:
            models[event.call.actor, event.call.model] += 1
    model_counts = [[*names, count] for names, count in sorted(models.items())]
    row: dict[str, object] = {
        "run": number,
        **{name: getattr(attempt, name) for name in _PLAIN},
        "reason": column_text(attempt.reason),
        **{name: getattr(attempt.usage, name, None) for name in Usage.__struct_fields__},
        "body": body,
        "models": msgspec.json.encode(model_counts).decode() if model_counts else None,
    }
    return [*blob_rows(long_texts), (schema.attempts, summed(schema.attempts, row))]


def summaries_of(run: Run, rows: Iterable[Sequence[Any]], *, skip_damaged: bool) -> list[Attempt]:
    """Return the attempts of rows of the columns `SUMMARY`, without text and events.

    Raises:
        DamagedRecord: one does not match its checksum; with `skip_damaged` it is left out.
    """
    attempts = list[Attempt]()
    for row in rows:
        if is_whole(row):
            attempts.append(_attempt(run, row, _EMPTY))
        elif not skip_damaged:
            raise _damaged_attempt(run, row[0], row[1])
    return attempts


def _damaged_attempt(run: Run, question_id: str, epoch: int) -> DamagedRecord:
    return DamagedRecord(
        f"the attempt of {run.id} at the question {question_id!r}, epoch {epoch}, does not match its checksum",
        "The command that made the run makes the attempt again, from its recorded calls.",
    )


def attempts_of(run: Run, rows: Sequence[Any], fetch: Fetch) -> Iterator[Attempt | DamagedRecord]:
    """Yield the attempts of some rows, with one query for the texts of all; the error of a damaged one."""
    bodies = _unpack_all([Packed(row[_BODY], AttemptBody) for row in rows], fetch)
    for row, body in zip(rows, bodies, strict=True):
        if not is_whole_row(schema.attempts, row):
            yield _damaged_attempt(run, row.question_id, row.epoch)
        else:
            summary = summed_values(schema.attempts, row)
            yield body if isinstance(body, DamagedRecord) else _attempt(run, summary, body)


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
    """Return the rows of some scores of the run `number`."""
    rows: list[Row] = []
    for score in scores:
        row = {"run": number, **msgspec.structs.asdict(score), "code": score.code or None}
        row["prediction"], row["reason"] = column_text(score.prediction), column_text(score.reason)
        rows.append((schema.scores, summed(schema.scores, row)))
    return rows


def grading_rows(calls: Iterable[Call], number: int, graded: Collection[str] = ()) -> list[Row]:
    """Return the rows of judges' calls for the run `number`.

    Each call with a reply has one row, and one more for each time that it was repeated, by these calls or after it was
    `graded` (keys of the run's calls in the store).
    """
    first: dict[str, Call] = {}
    again: dict[tuple[str, float], Call] = {}
    for call in calls:
        if not call.key or call.error:
            continue
        without_faults = msgspec.structs.replace(call, faults=())
        if call.key not in graded and (call.key not in first or first[call.key].cached):
            first[call.key] = without_faults  # a call that was made and then reused counts as paid
        elif not call.cached:
            unique_time = call.at
            while (call.key, unique_time) in again:
                unique_time = round(unique_time + 0.001, 3)
            again[call.key, unique_time] = msgspec.structs.replace(without_faults, at=unique_time)

    def row(table: sa.Table, call: Call, **more: float) -> Row:
        body = compress(msgspec.msgpack.encode(call))
        return table, summed(table, {"run": number, "key": bytes.fromhex(call.key), "body": body, **more})

    return [
        *(row(schema.gradings, call) for call in first.values()),
        *(row(schema.regradings, call, at=call_time) for (_, call_time), call in again.items()),
    ]


def blob_rows(separate_texts: Mapping[bytes, bytes]) -> list[Row]:
    """Return the rows of texts that are stored separately; :func:`stored_blob` returns the form in which each is
    written.
    """
    return [(schema.blobs, {"hash": hash, "data": data}) for hash, data in separate_texts.items()]


def stored_blob(row: Mapping[str, Any]) -> dict[str, object]:
    """Return a row of :func:`blob_rows` as it is written, with its text compressed."""
    return {**row, "data": compress(row["data"])}


def run_row(run: Run) -> dict[str, object]:
    """Return the row of a run, without its number."""
    body = compress(msgspec.msgpack.encode(run))
    return {"id": run.id, "fingerprint": run.fingerprint, "created": run.created, "body": body}


def run_of(body: bytes) -> Run:
    """Return the run in the body of a :func:`run_row`."""
    return msgspec.msgpack.decode(decompress(body), type=Run)


def score_of(run: Run, row: Any) -> Score:
    """Return the score of a row.

    Raises:
        DamagedRecord: it does not match its checksum.
    """
    return next(scores_of(run, [_scored(row)]))


def scores_of(run: Run, rows: Iterable[Sequence[Any]], *, skip_damaged: bool = False) -> Iterator[Score]:
    """Yield the scores of rows of the columns `SCORED`.

    Raises:
        DamagedRecord: one does not match its checksum; with `skip_damaged` it is left out.
    """
    for row in rows:
        scorer, question_id, epoch, value, answer_status, prediction, reason, code, _ = row
        if not is_whole(row):
            if skip_damaged:
                continue
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
    """Check that a recorded call matches its checksum, by its columns except request and response.

    Raises:
        DamagedRecord: it does not.
    """
    if not is_whole(values):
        raise DamagedRecord(f"the recorded call {bytes(values[0]).hex()[:12]} does not match its checksum")


def column_text(text: str) -> str:
    """Return a text in a form that every text column accepts."""
    # A text column of PostgreSQL accepts no NUL, and no encoder accepts lone surrogates.
    return wellformed(text).replace("\0", "\ufffd")
