"""Clock and chance of own files: recorded by place, given back as what they are; nothing else is touched."""

from __future__ import annotations

import asyncio
import datetime
import importlib
import os
import pickle
import sys
import uuid

import orjson
import pytest

from ragrounds.recorder import clock
from ragrounds.recorder.reads import is_own
from ragrounds.recorder.wire import setting

OWN = """
from __future__ import annotations
import asyncio
import datetime as dt
import random, time, uuid
from dataclasses import dataclass, field
from datetime import date, datetime
from random import choice as pick
from time import time as seconds
from uuid import uuid4
import pydantic

BEGUN = datetime.now()

@dataclass
class Row:
    at: datetime = field(default_factory=datetime.now)

class Model(pydantic.BaseModel):
    at: datetime = pydantic.Field(default_factory=datetime.now)
    id: uuid.UUID = pydantic.Field(default_factory=uuid4)

class Holder:
    now = time = choice = 3

def drawn():
    from datetime import datetime as local
    cards = list(range(40))
    random.shuffle(cards)
    return [
        local.now(), local.utcnow(), dt.datetime.today(), local.now(dt.timezone(dt.timedelta(hours=5))), date.today(),
        seconds(), time.time_ns(), time.strftime("%c"), time.localtime(), time.gmtime(), time.ctime(), time.asctime(),
        uuid4(), uuid.uuid1(), cards, pick(range(10**9)), random.random(), random.sample(range(10**6), 3),
        Row(), Model(),
    ]

def kept():
    in_2020, named = time.strftime("%Y", (2020,) + (1,) * 8), uuid.uuid5(uuid.NAMESPACE_DNS, "a")
    return Holder.now, Holder().time, in_2020, time.localtime(0), named

def seeded():
    random.seed(7)
    return random.random(), random.Random(7).random()

async def part(first, second):
    await asyncio.sleep(0)
    begun = datetime.now(), random.random()
    await asyncio.sleep(first)
    between = datetime.now(), random.random()
    await asyncio.sleep(second)
    return begun, between, datetime.now(), random.random()

async def parts(*waits):
    return await asyncio.gather(*(part(*both) for both in waits)), datetime.now()

def waits():
    begun = time.time()
    time.sleep(0.05)
    return time.time() - begun
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "clocked.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    clock.install()
    importing = clock.Values()
    with setting(clock.VALUES, importing):
        yield importlib.import_module("clocked")
    del sys.modules["clocked"]
    assert [*importing.recorded] == ["clocked.py:<module> now 0"]
    assert not (tmp_path / "__pycache__").exists(), "what is compiled for us is no file of the system's"


def drawn(own, known=None, name="drawn"):
    values = clock.Values(known)
    with setting(clock.VALUES, values):
        return getattr(own, name)(), values.recorded


def test_values_are_given_back_and_are_of_the_real_types(own):
    first, known = drawn(own)
    again, _ = drawn(own, known)
    assert again == first
    other, _ = drawn(own)
    assert all(a != b for a, b in zip(first[:4] + first[12:], other[:4] + other[12:], strict=True))
    assert own.datetime is datetime.datetime
    assert [type(one) for one in again[:5]] == [datetime.datetime] * 4 + [datetime.date]
    assert {type(one) for one in again[12:14]} == {uuid.UUID}
    assert pickle.loads(pickle.dumps(again[:14])) == first[:14]
    assert orjson.loads(orjson.dumps(again[0])) == again[0].isoformat()
    assert own.Model.model_validate_json(again[-1].model_dump_json()) == first[-1]
    real = datetime.datetime.now()
    assert abs(real - first[0]) < datetime.timedelta(seconds=5)
    assert abs(real - own.BEGUN) < datetime.timedelta(seconds=5)
    assert first[3].utcoffset() == datetime.timedelta(hours=5)


def test_what_is_no_clock_is_what_it_was(own):
    assert drawn(own, name="kept")[1] == {}
    assert drawn(own, name="kept")[0] == own.kept()
    (seeded, its_own), known = drawn(own, name="seeded")
    clock._SEEDED.clear()
    assert (seeded, known) == (its_own, {}), "a system that seeds chance has its own"


def test_a_place_survives_edits_elsewhere_and_what_a_store_holds_is_not_believed(own):
    _, known = drawn(own, name="waits")
    assert [*known] == ["clocked.py:waits time 0", "clocked.py:waits time 1"]
    assert drawn(own, dict.fromkeys(known, "yesterday"), name="waits")[0] > 0


def test_the_clock_goes_on_where_it_stopped(own):
    _, known = drawn(own, name="waits")
    begun = {"clocked.py:waits time 0": "2020-01-01T00:00:00+00:00"}
    seconds, known = drawn(own, begun, name="waits")
    assert 0.04 < seconds < 5
    assert known["clocked.py:waits time 1"].startswith("2020-01-01T00:00:0")


def test_tasks_side_by_side_get_each_its_own(own):
    def gathered(known, *waits):
        values = clock.Values(known)
        with setting(clock.VALUES, values):
            return asyncio.run(own.parts(*waits)), values.recorded

    first, known = gathered({}, (0.03, 0.01), (0.02, 0.03), (0.01, 0.01))
    again, _ = gathered(known, (0.01, 0.01), (0.01, 0.0), (0.03, 0.02))
    assert again == first


def test_a_forked_child_has_the_real_clock(own):
    values = clock.Values({"clocked.py:drawn now 0": "2020-01-01T00:00:00+00:00"})
    with setting(clock.VALUES, values):
        child = os.fork()
        if not child:
            os._exit(int(own.drawn()[0].year == 2020))
        assert os.waitpid(child, 0)[1] == 0
        assert own.drawn()[0].year == 2020


def test_libraries_and_python_have_the_real_clock():
    assert not is_own(orjson.__file__)
    assert not is_own(importlib.__file__)
    assert not is_own(clock.__file__)
    assert is_own(__file__)
