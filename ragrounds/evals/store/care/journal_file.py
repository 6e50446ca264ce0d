"""Recorded calls as a text file, to be kept beside tests under version control.

One JSON object a line. The first line says what the file is and which servers answered. Then come the calls, sorted by
what they are, who answered and their key; then the passages of searches, each once, by its hash. A line holds the key
of a call, the start of what was asked (for people who read a diff), and the response. What was asked is not kept whole:
its hash is the key, and a replay writes it again.

The same calls always give the same bytes. Nothing in a file is believed that is read: every line is checked.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from ragrounds.base.files import broken, read_jsonl, shape, shown
from ragrounds.base.records import Run
from ragrounds.base.redaction import Redactor
from ragrounds.base.text import escaped_json
from ragrounds.evals.store import schema
from ragrounds.evals.store.care.garbage import Marks
from ragrounds.evals.store.codec import unpack
from ragrounds.evals.store.database import snapshot, stream
from ragrounds.evals.store.journal import Arrived, leave_arrivals
from ragrounds.evals.store.servers import fingerprint_in, keep_server, known_servers
from ragrounds.evals.store.store import Store

FORMAT = 1
"""Of the file; a newer one is refused."""
_APART = 200
"""Characters from which the text of a passage stands in a line of its own."""
_ASKED = 160
"""Characters of what was asked that a line shows."""
_KEY = re.compile(r"(?:[0-9a-f]{2}){8,64}")


class ServerLine(Struct, frozen=True, kw_only=True):
    """A server that answered: see :class:`ragrounds.evals.store.servers.KnownServer`."""

    server: str
    fingerprint: str = ""
    facts: dict[str, str] = {}


class _Head(Struct, frozen=True, kw_only=True):
    ragrounds_journal: int
    servers: tuple[ServerLine, ...] = ()


class _CallLine(Struct, frozen=True, kw_only=True):
    key: str
    kind: str
    actor: str
    at: float
    seconds: float
    response: dict[str, Any]


class _TextLine(Struct, frozen=True, kw_only=True):
    hash: str
    text: str


class JournalText(Struct, frozen=True, kw_only=True):
    """The content of a journal file."""

    calls: Mapping[str, str]
    """Key → its line, without the line end."""
    texts: Mapping[str, str]
    """Hash → its line."""
    servers: tuple[ServerLine, ...]

    def joined(self, other: JournalText) -> JournalText:
        """Both; of a call that both have, this one's."""
        known = {(one.server, one.fingerprint): one for one in (*other.servers, *self.servers)}
        return JournalText(
            calls={**other.calls, **self.calls},
            texts={**other.texts, **self.texts},
            servers=tuple(known[key] for key in sorted(known)),
        )

    def lines(self) -> Iterator[str]:
        """The lines of the file, in its order."""
        yield _line({"ragrounds_journal": FORMAT, "servers": [msgspec.structs.asdict(one) for one in self.servers]})
        yield from (line for _, line in sorted(self.calls.items(), key=_place))
        yield from (self.texts[name] for name in sorted(self.texts))

    def __bytes__(self) -> bytes:
        return "".join(f"{line}\n" for line in self.lines()).encode()


def _place(item: tuple[str, str]) -> tuple[str, str, str]:
    held = json.loads(item[1])
    return held["kind"], held["actor"], item[0]


def recorded_text(store: Store, runs: Sequence[Run], every: bool = False) -> JournalText:
    """The calls that runs' attempts and their judging refer to, as a file holds them.

    Args:
        store: which has them.
        runs: of this store.
        every: the store's other recorded calls, too.
    """
    clean, calls, texts = Redactor(), dict[str, str](), dict[str, str]()
    with snapshot(store.engine) as reading:
        marks = Marks(reading)
        for number in [store.number(run) for run in runs]:
            for table in (schema.attempts, schema.gradings):
                marks.of_rows(table, "", lambda step, rows: None, table.c.run == number)
        marks.flush()
        wanted = sa.select(schema.calls)
        if not every:
            wanted = wanted.join(marks.calls, schema.calls.c.key == marks.calls.c.mark)
        for row in stream(reading, wanted):
            key, response = bytes(row.key).hex(), _cleaned(unpack(row.response, dict[str, Any], store.texts), clean)
            held = {
                "kind": row.kind,
                "actor": clean(row.actor),
                "key": key,
                "at": int(row.at),
                "seconds": row.seconds,
                "asked": clean(_asked(unpack(row.request, dict[str, Any], store.texts))),
                "response": _with_passages(response, partial(_put, texts)) if row.kind == "search" else response,
            }
            calls[key] = _line(held)
    return JournalText(calls=calls, texts=texts, servers=tuple(_servers(runs, clean)))


def _servers(runs: Sequence[Run], clean: Redactor) -> Iterator[ServerLine]:
    met = {(server, fingerprint_in(run, server)): facts for run in runs for server, facts in run.servers.items()}
    for (server, mark), facts in sorted(met.items(), key=lambda one: one[0]):
        told = {clean(name): clean(value) for name, value in sorted(facts.items())}
        yield ServerLine(server=clean(server), fingerprint=mark, facts=told)


def _asked(request: Mapping[str, object]) -> str:
    """The start of what was asked."""
    messages = request.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else request
    text = next((str(last[key]) for key in ("content", "query", "text") if isinstance(last, dict) and key in last), "")
    flat = " ".join(text.split())
    return flat if len(flat) <= _ASKED else flat[: _ASKED - 1] + "…"


def _cleaned(value: Any, clean: Redactor) -> Any:
    if isinstance(value, str):
        return clean.in_json(value)
    if isinstance(value, dict):
        return {key: _cleaned(each, clean) for key, each in value.items()}
    return [_cleaned(each, clean) for each in value] if isinstance(value, list | tuple) else value


def _with_passages(response: dict[str, Any], change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """A search's response with its passages changed."""
    passages = response.get("passages")
    if not isinstance(passages, list):
        return response
    return {**response, "passages": [change(one) if isinstance(one, dict) else one for one in passages]}


def _put(texts: dict[str, str], passage: dict[str, Any]) -> dict[str, Any]:
    """A passage that names its long text, whose line is added to `texts`, by its hash."""
    text = passage.get("text")
    if not isinstance(text, str) or len(text) < _APART:
        return passage
    name = _hash(text)
    texts[name] = _line({"hash": name, "text": text})
    return {**{key: value for key, value in passage.items() if key != "text"}, "text_hash": name}


def _taken(texts: Mapping[str, str], passage: dict[str, Any]) -> dict[str, Any]:
    """A passage with the text that it names.

    Raises:
        ValueError: the file does not hold it.
    """
    name = passage.get("text_hash")
    if not isinstance(name, str):
        return passage
    if name not in texts:
        raise ValueError(f"the passage {shown(name)} is missing in it")
    return {**{key: value for key, value in passage.items() if key != "text_hash"}, "text": texts[name]}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _line(value: object) -> str:
    return escaped_json(json.dumps(value, ensure_ascii=False, separators=(", ", ": "), allow_nan=False))


def read_journal_file(path: Path) -> tuple[JournalText, list[Arrived]]:
    """What a journal file holds: its lines, and the responses that they stand for.

    Raises:
        UserError: not such a file, one of a newer version, or one that was changed by hand; names the line.
    """
    calls, texts, held, parsed = dict[str, str](), dict[str, str](), dict[str, str](), list[tuple[str, _CallLine]]()
    head: _Head | None = None
    for place, value in read_jsonl(path):
        if head is None:
            head = shape(value, _Head, path, place)
            if head.ragrounds_journal != FORMAT:
                raise broken(path, f"it has the format {head.ragrounds_journal}, and {FORMAT} is read here", place)
        elif isinstance(value, dict) and "hash" in value:
            text = shape(value, _TextLine, path, place)
            if _hash(text.text) != text.hash:
                raise broken(path, "a passage is not what its hash says: record it again", place)
            held[text.hash], texts[text.hash] = text.text, _line(value)
        else:
            call = shape(value, _CallLine, path, place)
            if not _KEY.fullmatch(call.key) or call.kind not in ("model", "search", "tool"):
                raise broken(path, f"{shown(call.key)} is no key of a recorded call", place)
            if call.key in calls:
                raise broken(path, f"the call {call.key[:12]} is in it twice", place)
            calls[call.key] = _line(value)
            parsed.append((place, call))
    if head is None:
        raise broken(path, "it is empty")
    arrived = []
    for place, call in parsed:
        try:
            response = msgspec.msgpack.encode(_with_passages(call.response, partial(_taken, held)))
        except (ValueError, OverflowError, RecursionError) as error:
            raise broken(path, f"a response cannot be stored ({error})", place) from None
        arrived.append(Arrived(call.key, b"", call.at, call.seconds, msgspec.Raw(response)))
    return JournalText(calls=calls, texts=texts, servers=head.servers), arrived


def adopt_journal(store: Store, text: JournalText, arrived: Collection[Arrived]) -> None:
    """Let a store answer from recorded calls, as from those that a process left which is gone.

    Raises:
        UserError: the folder of the store cannot be written.
    """
    for one in text.servers:
        if not any(known.fingerprint == one.fingerprint for known in known_servers(store.engine, one.server)):
            keep_server(store.engine, one.server, one.fingerprint, one.facts)
    leave_arrivals(store, arrived)
