"""Recorded calls as a text file, for tests under version control.

The file has one JSON object in each line. The first line gives the format and the servers that answered. Then come the
calls, sorted by their kind, the model or tool that answered, and their key; then the passages of searches, each once,
by its hash. A line contains the key of a call, the start of the request (for people who read a diff), and the response.
The whole request is not stored: its hash is the key, and a replay writes it again.

The same calls always give the same bytes. Every line of a file is checked when it is read.
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

from ragrounds.base.files import broken, quote_value, read_jsonl, shape
from ragrounds.base.records import Run
from ragrounds.base.text import escaped_json, map_texts
from ragrounds.evals.store import schema
from ragrounds.evals.store.care.garbage import Marks
from ragrounds.evals.store.codec import unpack
from ragrounds.evals.store.database import snapshot, stream
from ragrounds.evals.store.journal import Arrived, leave_arrivals
from ragrounds.evals.store.servers import fingerprint_in, keep_server, known_servers
from ragrounds.evals.store.store import Store
from ragrounds.recorder.redaction import Redactor

FORMAT = 1
"""Format of the file; a newer one is refused."""
_APART = 200
"""Number of characters from which the text of a passage gets a separate line."""
_ASKED = 160
"""Number of characters of the request that a line shows."""
_KEY = re.compile(r"(?:[0-9a-f]{2}){8,64}")


class ServerLine(Struct, frozen=True, kw_only=True):
    """Server that answered: see :class:`ragrounds.evals.store.servers.KnownServer`."""

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
    """Content of a journal file."""

    calls: Mapping[str, str]
    """Line of each call by its key, without the line end."""
    texts: Mapping[str, str]
    """Line of each text by its hash."""
    servers: tuple[ServerLine, ...]

    def joined(self, other: JournalText) -> JournalText:
        """Return the content of both files. This file's line is used for a call that both have."""
        servers = {(server.server, server.fingerprint): server for server in (*other.servers, *self.servers)}
        return JournalText(
            calls={**other.calls, **self.calls},
            texts={**other.texts, **self.texts},
            servers=tuple(servers[key] for key in sorted(servers)),
        )

    def lines(self) -> Iterator[str]:
        """Yield the lines of the file, in its order."""
        yield _line(
            {"ragrounds_journal": FORMAT, "servers": [msgspec.structs.asdict(server) for server in self.servers]}
        )
        yield from (line for _, line in sorted(self.calls.items(), key=_sort_key))
        yield from (self.texts[name] for name in sorted(self.texts))

    def __bytes__(self) -> bytes:
        return "".join(f"{line}\n" for line in self.lines()).encode()


def _sort_key(item: tuple[str, str]) -> tuple[str, str, str]:
    call = json.loads(item[1])
    return call["kind"], call["actor"], item[0]


def recorded_text(store: Store, runs: Sequence[Run], every: bool = False) -> JournalText:
    """Return the calls that runs' attempts and their judging refer to, as lines of a journal file.

    Args:
        store: has the calls.
        runs: of this store.
        every: include the store's other recorded calls.
    """
    clean, calls, texts = Redactor(), dict[str, str](), dict[str, str]()
    with snapshot(store.engine) as reading:
        marks = Marks(reading)
        for number in [store.number(run) for run in runs]:
            for table in (schema.attempts, schema.gradings):
                marks.of_rows(table, "", lambda step, rows: None, table.c.run == number)
        marks.flush()
        statement = sa.select(schema.calls)
        if not every:
            statement = statement.join(marks.calls, schema.calls.c.key == marks.calls.c.mark)
        for row in stream(reading, statement):
            key = bytes(row.key).hex()
            response = map_texts(unpack(row.response, dict[str, Any], store.texts), clean.in_json)
            line_content = {
                "kind": row.kind,
                "actor": clean(row.actor),
                "key": key,
                "at": int(row.at),
                "seconds": row.seconds,
                "asked": clean(_request_start(unpack(row.request, dict[str, Any], store.texts))),
                "response": _with_passages(response, partial(_move_text, texts)) if row.kind == "search" else response,
            }
            calls[key] = _line(line_content)
    return JournalText(calls=calls, texts=texts, servers=tuple(_servers(runs, clean)))


def _servers(runs: Sequence[Run], clean: Redactor) -> Iterator[ServerLine]:
    facts_by_server = {
        (server, fingerprint_in(run, server)): facts for run in runs for server, facts in run.servers.items()
    }
    for (server, mark), facts in sorted(facts_by_server.items(), key=lambda entry: entry[0]):
        clean_facts = {clean(name): clean(value) for name, value in sorted(facts.items())}
        yield ServerLine(server=clean(server), fingerprint=mark, facts=clean_facts)


def _request_start(request: Mapping[str, object]) -> str:
    """Return the start of the request's last message, query or text."""
    messages = request.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else request
    text = next((str(last[key]) for key in ("content", "query", "text") if isinstance(last, dict) and key in last), "")
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= _ASKED else one_line[: _ASKED - 1] + "…"


def _with_passages(response: dict[str, Any], change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """Return a search's response with its passages changed."""
    passages = response.get("passages")
    if not isinstance(passages, list):
        return response
    return {**response, "passages": [change(passage) if isinstance(passage, dict) else passage for passage in passages]}


def _move_text(texts: dict[str, str], passage: dict[str, Any]) -> dict[str, Any]:
    """Replace a passage's long text by its hash, and add the text's line to `texts`."""
    text = passage.get("text")
    if not isinstance(text, str) or len(text) < _APART:
        return passage
    name = _hash(text)
    texts[name] = _line({"hash": name, "text": text})
    return {**{key: value for key, value in passage.items() if key != "text"}, "text_hash": name}


def _restore_text(texts: Mapping[str, str], passage: dict[str, Any]) -> dict[str, Any]:
    """Return a passage with the text that its hash names.

    Raises:
        ValueError: the file does not contain it.
    """
    name = passage.get("text_hash")
    if not isinstance(name, str):
        return passage
    if name not in texts:
        raise ValueError(f"the passage {quote_value(name)} is missing in it")
    return {**{key: value for key, value in passage.items() if key != "text_hash"}, "text": texts[name]}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _line(value: object) -> str:
    return escaped_json(json.dumps(value, ensure_ascii=False, separators=(", ", ": "), allow_nan=False))


def read_journal_file(path: Path) -> tuple[JournalText, list[Arrived]]:
    """Read a journal file. Return its lines, and the responses that they contain.

    Raises:
        UserError: not such a file, one of a newer version, or one that was changed by hand; names the line.
    """
    calls, texts, text_by_hash, parsed = (
        dict[str, str](),
        dict[str, str](),
        dict[str, str](),
        list[tuple[str, _CallLine]](),
    )
    head: _Head | None = None
    for line_number, value in read_jsonl(path):
        if head is None:
            head = shape(value, _Head, path, line_number)
            if head.ragrounds_journal != FORMAT:
                raise broken(
                    path, f"it has the format {head.ragrounds_journal}, and {FORMAT} is read here", line_number
                )
        elif isinstance(value, dict) and "hash" in value:
            text = shape(value, _TextLine, path, line_number)
            if _hash(text.text) != text.hash:
                raise broken(path, "a passage is not what its hash says: record it again", line_number)
            text_by_hash[text.hash], texts[text.hash] = text.text, _line(value)
        else:
            call = shape(value, _CallLine, path, line_number)
            if not _KEY.fullmatch(call.key) or call.kind not in ("model", "search", "tool"):
                raise broken(path, f"{quote_value(call.key)} is no key of a recorded call", line_number)
            if call.key in calls:
                raise broken(path, f"the call {call.key[:12]} is in it twice", line_number)
            calls[call.key] = _line(value)
            parsed.append((line_number, call))
    if head is None:
        raise broken(path, "it is empty")
    arrived = []
    for line_number, call in parsed:
        try:
            response = msgspec.msgpack.encode(_with_passages(call.response, partial(_restore_text, text_by_hash)))
        except (ValueError, OverflowError, RecursionError) as error:
            raise broken(path, f"a response cannot be stored ({error})", line_number) from None
        arrived.append(Arrived(call.key, b"", call.at, call.seconds, msgspec.Raw(response)))
    return JournalText(calls=calls, texts=texts, servers=head.servers), arrived


def adopt_journal(store: Store, text: JournalText, arrived: Collection[Arrived]) -> None:
    """Let a store answer from recorded calls, like those that an ended process has left.

    Raises:
        UserError: the folder of the store cannot be written.
    """
    for server in text.servers:
        if not any(stored.fingerprint == server.fingerprint for stored in known_servers(store.engine, server.server)):
            keep_server(store.engine, server.server, server.fingerprint, server.facts)
    leave_arrivals(store, arrived)
