"""A key planted in a query, a reply, an error and a redirect is in no file of the home and in no export."""

from __future__ import annotations

import gzip
import sqlite3
import time
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import msgspec
import pytest
import zstandard

from ragrounds.evals.store.store import Store
from tests.cli_grading.test_judge_command import stage
from tests.conftest import Cli
from tests.servers.raw_replies import RawServer, escaped, raw_server_thread, slug

KEY = "Zq7-planted9-Kw2x"
"""It has the form of no provider's key."""
OTHER = "sk-proj-Ab3dEf6hIj9lMn2pQr5tUv"
"""In the environment under a name of its own."""


@pytest.fixture
def raw(monkeypatch: pytest.MonkeyPatch) -> Iterator[RawServer]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("SOME_PROVIDER_API_KEY", OTHER)
    with raw_server_thread() as server:
        yield server


def unpacked(data: bytes) -> Iterator[bytes]:
    """The bytes, and what they are packed from."""
    yield data
    for unpack in (
        lambda: zstandard.ZstdDecompressor().decompressobj().decompress(data),
        lambda: gzip.decompress(data),
        lambda: zlib.decompress(data),
    ):
        with suppress(zstandard.ZstdError, OSError, EOFError, zlib.error):
            yield unpack()


def everything(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every file of a folder, every value of every database, all of them also unpacked."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        data = path.read_bytes()
        for plain in unpacked(data):
            yield str(path), plain
        if data.startswith(b"PK"):
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    yield f"{path}:{name}", archive.read(name)
        elif data.startswith(b"SQLite"):
            with closing(sqlite3.connect(path)) as store:
                for (table,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                    for row in store.execute(f'SELECT * FROM "{table}"').fetchall():
                        for value in row:
                            for plain in unpacked(value) if isinstance(value, bytes) else (repr(value).encode(),):
                                yield f"{path}:{table}", plain


FORMS = [form for key in (KEY, OTHER) for form in (key, key.lower(), escaped(key), key[:10])]
"""Ten characters of it are a leak as well."""


def leaks(folder: Path) -> set[str]:
    """Where a key stands."""
    return {where for where, data in everything(folder) if any(form.encode() in data for form in FORMS)}


def test_the_search_finds_what_is_there(tmp_path: Path) -> None:
    packed = zstandard.compress(msgspec.msgpack.encode({"text": f"The key is {KEY}."}))
    with closing(sqlite3.connect(tmp_path / "store.sqlite")) as store, store:
        store.execute("CREATE TABLE blobs (data BLOB)")
        store.execute("INSERT INTO blobs VALUES (?)", [packed])
    assert leaks(tmp_path) >= {f"{tmp_path / 'store.sqlite'}:blobs"}


HASHING = 'model="import:tests.tools.embedding_doubles:Hashing"'


@pytest.mark.parametrize(
    "words",
    [
        ("export", "otel", "direct", "--endpoint", f"http://127.0.0.1:9/v1/traces?api_key={KEY}"),
        ("run", "--agent", f'vanilla_rag[retriever=dense[{HASHING},store="http://127.0.0.1:9?token={KEY}"]]', "--yes"),
        ("run", "--agent", f'vanilla_rag[retriever=web[provider=searxng[url="http://127.0.0.1:9?key={KEY}"]]]'),
        ("run", "--agent", f'vanilla_rag[retriever=dense[model="openai:m",base_url="http://127.0.0.1:9?key={KEY}"]]'),
        ("run", "--agent", "direct", "--model", "openai:m", "--base-url", f"http://127.0.0.1:9?sig={KEY}"),
        ("doctor", "--model", "openai:m", "--base-url", f"http://127.0.0.1:9?sig={KEY}"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_a_key_in_any_address_is_refused_and_not_repeated(
    command: Cli, home: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "another-0key-0here")
    stage(home, "direct", ["one answer"] * 6)
    done = command(*words)
    assert done.returncode == 2
    assert "with a key" in done.stderr
    assert KEY not in done.stdout + done.stderr
    assert leaks(home) == set()


REPLIES = (
    ("echo", 0),
    ("echo, escaped", 0),
    ("echo in a 400", 3),
    ("echo in a 500 page", 3),
    ("echo in what is no json", 3),
    ("echo in what is no http", 3),
    ("401 with the key", 2),
    ("echo in a redirect", 2),
    ("307 to another host", 2),
)
"""Kinds of replies, and the code that a run ends with."""


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, pytest.param(True, marks=pytest.mark.weekly)], ids=["plain", "streamed"])
def test_a_key_is_in_no_file_and_no_export(
    command: Cli, home: Path, tmp_path: Path, raw: RawServer, stream: bool
) -> None:
    said: list[str] = []

    def call(*words: str, codes: tuple[int, ...] = (0,)) -> str:
        done = command(*words)
        assert done.returncode in codes, (words, done.stderr)
        assert not [form for form in FORMS if form in done.stdout + done.stderr], words
        said.extend((done.stdout, done.stderr))
        return done.stdout

    stage(home, "earlier", ["one answer"] * 6)
    for kind, code in REPLIES:
        more = ["--fail-after", "never", "--display", "none"]
        model = f'openai:{slug(kind)}[base_url="{raw.url}",alias=a,tries=2,patience=1{",stream=true" * stream}]'
        call("run", "--agent", "direct", "--limit", "2", "--model", model, *more, codes=(code,))
        call("judge", "earlier", "--kind", "equivalence", "--judge", model, codes=(0, 2, 3))
    asked = -1
    while asked != len(raw.hits):  # a call that was given up may still arrive
        asked = len(raw.hits)
        time.sleep(0.5)
    assert asked > 20
    assert {hit.headers["authorization"] for hit in raw.hits} == {f"Bearer {KEY}"}
    for planted in (f"{raw.url}?api_key={KEY}", f"{raw.url}?x={OTHER}", raw.url.replace("//", f"//u:{KEY}@")):
        call("run", "--agent", "direct", "--model", "openai:m", "--base-url", planted, "--limit", "1", codes=(2,))
    assert len(raw.hits) == asked

    with Store(home) as store:
        runs = [run.id for run in store.runs()]
        question = next(iter(store.attempts(store.runs()[1]))).question_id
    assert len(runs) >= 7
    out = tmp_path / "out"
    out.mkdir()
    for form in ("jsonl", "otel", "trec", "store"):
        call("export", form, *runs, "--out", str(out / f"runs.{form}"), codes=(0, 2))
    assert {path.name for path in out.iterdir()} >= {"runs.jsonl", "runs.otel", "runs.store"}
    call("report", *runs[1:4], "--out", str(out / "report.html"))
    for run in runs[1:]:
        call("runs", "show", run, "--full")
        call("show", run, question, codes=(0, 2))  # some runs stopped before its end
        call("ledger", run)
    call("compare", *runs[1:3])
    assert leaks(home) | leaks(out) == set()
    assert any("[key]" in text for text in said)
    assert any(b"The key is [key], and again: [key]." in data for _, data in everything(out))
