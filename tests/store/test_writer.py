"""What the writer leaves out, it leaves out because it is there."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from ragrounds.evals.store import schema
from ragrounds.evals.store.garbage import collect_garbage
from ragrounds.evals.store.schema import Row
from ragrounds.evals.store.store import Store
from ragrounds.records import FINAL


def texts(count: int) -> list[Row]:
    return [(schema.blobs, {"hash": bytes([n]) * 16, "data": b"text %d" % n}) for n in range(count)]


def meta(number: int) -> list[Row]:
    return [(schema.meta, {"key": f"test {number}", "value": "x"})]


def there(store: Store) -> int:
    with store.engine.connect() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(schema.blobs)).scalar() or 0


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
