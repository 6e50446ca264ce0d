"""What the tests of a living index share: documents on the disk, states of an index, and a death at any moment."""

import asyncio
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from ragrounds.tools import collection_builder
from ragrounds.tools.collection import open_named
from ragrounds.tools.retriever import open_searcher

WORDS = "gout asthma croup sepsis fever cough rash".split()
_times = iter(range(10**18, 2 * 10**18, 10**9))

Rows = dict[str, str]
"""Id of a document → its text, in the order of the corpus."""


class Killed(BaseException):
    """Stands for a process that ends here."""


def jsonl(path: Path, rows: Rows) -> Path:
    """Write a corpus. Every file has a time of its own, as files have that were not written in the same moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps({"id": one, "text": text}) + "\n" for one, text in rows.items())
    if path.is_file() and path.read_text() == lines:
        return path
    path.write_text(lines)
    moment = next(_times)
    os.utime(path, ns=(moment, moment))
    return path


@contextmanager
def settled() -> Iterator[None]:
    """Files count as old as soon as they are written: no test waits for a clock."""
    with mock.patch.object(collection_builder, "_RACE", -(10**19)):
        yield


def held(home: Path, name: str = "mine") -> Rows:
    """The documents of an index, put together from its passages."""
    found: Rows = {}
    for _, document, _, text in open_named(name, home).store.each():
        found[document] = found.get(document, "") + text
    return found


def rankings(home: Path, name: str, spec: str, k: int = 5) -> list[list[tuple[str, float]]]:
    """The `k` best that some questions find, with scores."""
    searcher = open_searcher(spec, name, home)
    found = [asyncio.run(searcher.search(query, k)) for query in (*WORDS, "gout cough fever")]
    return [[(hit.id, round(hit.score, 5)) for hit in hits] for hits in found]


@contextmanager
def dying(at: int | None) -> Iterator[list[str]]:
    """Count the moments at which something becomes lasting, and die at one of them (from 0). Gives the names."""
    met: list[str] = []

    def _dies(name: str, real: Callable[..., object]) -> Callable[..., object]:
        def _call(*given: object, **more: object) -> object:
            met.append(name)
            if at is not None and len(met) > at:
                raise Killed(name)
            return real(*given, **more)

        return _call

    with (
        mock.patch.object(os, "fsync", _dies("fsync", os.fsync)),
        mock.patch.object(os, "replace", _dies("replace", os.replace)),
        mock.patch.object(Path, "rename", _dies("rename", Path.rename)),
        mock.patch.object(Path, "unlink", _dies("unlink", Path.unlink)),
        mock.patch.object(Path, "mkdir", _dies("mkdir", Path.mkdir)),
        mock.patch.object(shutil, "rmtree", _dies("rmtree", shutil.rmtree)),
    ):
        yield met
