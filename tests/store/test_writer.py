"""What the writer leaves out, it leaves out because it is there."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from ragrounds.base.errors import StopRun
from ragrounds.base.records import FINAL
from ragrounds.evals.store import schema, writer
from ragrounds.evals.store.care.garbage import collect_garbage
from ragrounds.evals.store.database import writing_failed
from ragrounds.evals.store.run_names import keep_names
from ragrounds.evals.store.schema import Row
from ragrounds.evals.store.store import Store


def texts(count: int) -> list[Row]:
    return [(schema.blobs, {"hash": bytes([n]) * 16, "data": b"text %d" % n}) for n in range(count)]


def meta(number: int) -> list[Row]:
    return [(schema.meta, {"key": f"test {number}", "value": "x"})]


def there(store: Store) -> int:
    with store.engine.connect() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(schema.blobs)).scalar() or 0


def test_a_write_notices_that_the_file_was_removed(tmp_path: Path) -> None:
    """A connection that was kept open would write to the removed file, and nobody would know."""
    with Store(tmp_path) as store:
        store.runs()
        for file in tmp_path.glob("store.sqlite*"):
            file.unlink()
        with pytest.raises(sa.exc.OperationalError, match="no such table"):
            keep_names(store.engine, {"a": "name"})


async def test_a_text_is_written_once(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        for number in range(3):
            await store.writer.write(lambda n=number: texts(5) + meta(n))
        assert there(store) == 5


async def test_a_text_that_gc_removed_is_written_again(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        await store.writer.write(lambda: texts(5) + meta(1))
        collect_garbage(store.engine, FINAL, hours=0, remove=True)
        assert there(store) == 0
        await store.writer.write(lambda: texts(5) + meta(2))
        assert there(store) == 5
        await store.writer.write(lambda: texts(5) + meta(3))
        assert there(store) == 5


async def test_texts_alone_are_written_too(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        for _ in range(2):
            await store.writer.write(lambda: texts(3))
        assert there(store) == 3


async def test_a_commit_waits_for_others_only_if_there_were_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system that asks one question at a time would wait for nobody."""
    waits: list[float] = []
    monkeypatch.setattr(writer, "_GATHER", 60)
    monkeypatch.setattr(writer, "time", SimpleNamespace(sleep=waits.append, monotonic=time.monotonic))
    with Store(tmp_path) as store:
        for number in range(3):
            await store.writer.write(lambda number=number: meta(number))
        assert waits == []
        are_queued = threading.Event()
        first = store.writer.put(lambda: meta(3) if are_queued.wait() else [])
        others = [store.writer.put(lambda number=number: meta(number)) for number in (4, 5)]
        are_queued.set()
        await asyncio.gather(first, *others)
        await store.writer.write(lambda: meta(6))
        assert waits == [60]
        await store.writer.write(lambda: meta(7))
        assert waits == [60]


def test_a_store_that_was_deleted_is_not_called_safe(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        assert "before is safe" in str(writing_failed(store.engine, OSError("disk full")))
        for file in tmp_path.glob("store.sqlite*"):
            file.unlink()
        assert "The file was removed" in str(writing_failed(store.engine, OSError("disk I/O error")))


@pytest.mark.parametrize(
    ("where", "error", "said"),
    [("_insert", MemoryError(), "MemoryError"), *((where, SystemExit("ended"), "ended") for where in
     ("_insert", "group", "prepare"))],
)  # fmt: skip
async def test_whatever_ends_the_writer_ends_every_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, error: BaseException, said: str
) -> None:
    def end(*_: object) -> list[Row]:
        raise error

    queued = threading.Event()

    def first() -> list[Row]:
        queued.wait(20)  # the next is there: both are in one batch
        return end() if where == "prepare" else meta(1)

    monkeypatch.setattr(writer, "_GATHER", 0.5)
    with Store(tmp_path) as store:
        await store.writer.write(lambda: texts(2))
        if where == "_insert":
            monkeypatch.setattr(store.writer, where, end)
        elif where == "group":
            monkeypatch.setattr(writer, "group", end)
        waiting = [store.writer.put(first), store.writer.put(lambda: meta(2))]
        queued.set()
        async with asyncio.timeout(20):
            for done in waiting:
                with pytest.raises(StopRun, match=rf"Cannot write to the store .*: {said}\. What was written before"):
                    await done
            with pytest.raises(StopRun):
                await store.writer.write(lambda: meta(3))
