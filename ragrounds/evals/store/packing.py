"""Records as bytes: MessagePack, zstd, and every long text apart, once, under its hash."""

from __future__ import annotations

import functools
import hashlib
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec
import zstandard

from ragrounds.texts import wellformed_all

LONG = 600
"""Characters from which a text is stored apart. Below that a row of its own costs more than it saves."""

_LARGEST = 256 << 20
"""Bytes of a record, or of a text stored apart, beyond which a file is not believed."""

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")
Fetch = Callable[[Iterable[bytes]], Mapping[bytes, str]]
_REF = 1
_local = threading.local()


def pack(record: Any) -> tuple[bytes, dict[bytes, bytes]]:
    """`record` as bytes, and the long texts it refers to: hash → compressed text."""
    apart: dict[bytes, bytes] = {}
    body = msgspec.msgpack.encode(_without_long(msgspec.to_builtins(record), apart))
    return compress(body), apart


def storable(record: S) -> S:
    """`record` with lone surrogates replaced, where it has any: no encoder takes them."""
    try:
        msgspec.msgpack.encode(record)
    except UnicodeEncodeError:
        return msgspec.convert(wellformed_all(msgspec.to_builtins(record)), type(record))
    return record


def unpack(data: bytes, kind: type[T], fetch: Fetch) -> T:
    """The record again; `fetch` gives the long texts of some hashes."""
    body = decompress(data)
    missing: list[bytes] = []
    known: dict[bytes, str] = {}

    def text(code: int, hash: memoryview) -> str:
        found = known.get(bytes(hash))
        if found is None:
            missing.append(bytes(hash))
        return found or ""

    plain = msgspec.msgpack.decode(body, ext_hook=text)
    if missing:
        known.update(fetch(missing))
        missing = []
        plain = msgspec.msgpack.decode(body, ext_hook=text)
        if missing:
            raise KeyError(f"the store lacks {len(missing)} texts that a record refers to")
    return msgspec.convert(plain, kind, strict=False)


def loose(data: bytes) -> tuple[Any, set[bytes]]:
    """A packed record as plain values with its long texts left empty, and the hashes of those.

    Raises:
        ValueError: not a packed record, or one of a size that no store of ours has.
    """
    hashes: set[bytes] = set()

    def text(code: int, hash: memoryview) -> str:
        hashes.add(bytes(hash))
        return ""

    return msgspec.msgpack.decode(checked(data), ext_hook=text), hashes


def checked(data: bytes) -> bytes:
    """As :func:`decompress`, for data of unknown origin.

    Raises:
        ValueError: not compressed by us, or of a size that no store of ours has.
    """
    try:
        if zstandard.frame_content_size(data) > _LARGEST:
            raise ValueError(f"a record of more than {_LARGEST >> 20} MiB")
        return decompress(data)
    except zstandard.ZstdError as error:
        raise ValueError(f"not a compressed record ({error})") from error


def hash_of(text: bytes) -> bytes:
    """What a text that is stored apart is found by."""
    return hashlib.sha256(text).digest()[:16]


def compress(data: bytes) -> bytes:
    """zstd, level 3."""
    compressor = getattr(_local, "compressor", None)
    if compressor is None:
        compressor = _local.compressor = zstandard.ZstdCompressor(level=3)
    return bytes(compressor.compress(data))


def decompress(data: bytes) -> bytes:
    """The inverse of :func:`compress`."""
    decompressor = getattr(_local, "decompressor", None)
    if decompressor is None:
        decompressor = _local.decompressor = zstandard.ZstdDecompressor()
    return bytes(decompressor.decompress(data))


def _without_long(value: Any, apart: dict[bytes, bytes]) -> Any:
    if isinstance(value, str):
        if len(value) < LONG:
            return value
        digest, data = _apart(value)
        apart[digest] = data
        return msgspec.msgpack.Ext(_REF, digest)
    if isinstance(value, dict):
        return {key: _without_long(item, apart) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_long(item, apart) for item in value]
    return value


@functools.lru_cache(maxsize=2048)
def _apart(text: str) -> tuple[bytes, bytes]:
    # The same passages come again and again: they are hashed and compressed once.
    raw = text.encode()
    return hash_of(raw), compress(raw)
