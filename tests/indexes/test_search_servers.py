"""Elasticsearch and OpenSearch by their official clients, against a stand-in written from the documented API."""

import asyncio
import importlib.util
import json
import threading
import time

import pytest
from hashed_words import EMBED, TEXTS, exact, hashed, pushed, rows
from search_server import SearchStub, basic

from ragrounds.errors import GaveUp, UserError
from ragrounds.specs import parse
from ragrounds.tools import external_index
from ragrounds.tools.retriever import find_retriever, open_searcher

CLIENTS = {"elasticsearch": "elasticsearch", "opensearch": "opensearchpy"}
KEY = "reader:Xq7-hidden-Pa55word"


@pytest.fixture(params=CLIENTS)
def brand(request):
    if importlib.util.find_spec(CLIENTS[request.param]) is None:
        pytest.skip(f"{CLIENTS[request.param]} is not installed: the extra `{request.param}`")
    return request.param


@pytest.fixture
def stub(brand, monkeypatch):
    monkeypatch.setenv("STUB_LOGIN", KEY)
    monkeypatch.setattr(external_index, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(external_index, "LONGEST_WAIT", 0.05)
    server = SearchStub(brand, basic(KEY))
    yield server
    server.stop()


def spec_of(stub, **more):
    given = {"url": stub.url, "index": "passages", "key_env": "STUB_LOGIN", "mode": "text", **more}
    return parse(stub.brand).having(**given)


def push(stub, texts=None, metric="cosine", **more):
    target = find_retriever(stub.brand).push(
        parse(stub.brand).having(url=stub.url, key_env="STUB_LOGIN", **more), "passages"
    )
    return pushed(target, texts, True, metric)


def opened(stub, tmp_path, **more):
    return open_searcher(spec_of(stub, **more), "", tmp_path)


async def found(stub, tmp_path, query, k=3, **more):
    searcher = opened(stub, tmp_path, **more)
    try:
        return await searcher.search(query, k)
    finally:
        searcher.close()


async def test_words_vectors_and_both(stub, tmp_path):
    assert push(stub) == len(TEXTS)
    words = await found(stub, tmp_path, "allopurinol and uric acid")
    assert [hit.id for hit in words[:2]] == ["gout-2", "gout-1"]
    assert words[0].score > words[1].score > 0
    assert (words[0].title, words[0].text, words[0].document) == (*TEXTS["gout-2"], "gout")
    query = "uric acid in the joint"
    near = await found(stub, tmp_path, query, mode="vector", embed=EMBED)
    wanted = exact(query, 3)
    assert [hit.id for hit in near] == [id for id, _ in wanted]
    assert [hit.score for hit in near] == pytest.approx([(1 + score) / 2 for _, score in wanted], abs=1e-5)
    ours = await found(stub, tmp_path, "inhaler", mode="hybrid", embed=EMBED)
    assert ours[0].id == "asthma-2"
    assert ours[0].score == pytest.approx(2 / 61)
    # Vectors are stored, and never sent along.
    assert "vector" in stub.indices["passages"]["documents"]["gout-1"]
    assert all(json.loads(body)["_source"] == ["text", "title", "document"] for body in _searches(stub))


def _searches(stub):
    return [body for _, path, _, body in stub.asked if path.endswith("_search")]


@pytest.mark.parametrize("mode", ["text", "vector", "hybrid"])
@pytest.mark.parametrize("filter", ["title:Gout", json.dumps({"term": {"document": "gout"}})])
async def test_a_filter_is_kept(stub, tmp_path, mode, filter):
    push(stub)
    more = {} if mode == "text" else {"embed": EMBED}
    hits = await found(stub, tmp_path, "uric acid, breath and ankles", 10, mode=mode, filter=filter, **more)
    assert {hit.id for hit in hits} == {"gout-1", "gout-2"}


async def test_fields_inside_others_and_weights(stub, tmp_path):
    properties = {"meta": {"properties": {"doc": {"properties": {"id": {}}}, "head": {}}}, "body": {"type": "text"}}
    documents = {
        f"n{number}": {"body": text, "meta": {"doc": {"id": id.split("-")[0]}, "head": title}}
        for number, (id, (title, text)) in enumerate(TEXTS.items())
    }
    stub.indices["passages"] = {
        "mappings": {"properties": properties}, "documents": documents, "changes": 7, "uuid": "u"
    }  # fmt: skip
    names = {"text": "body", "title": "meta.head", "document": "meta.doc.id"}
    searcher = opened(stub, tmp_path, searched="meta.head^3,body", **names)
    hits = await searcher.search("asthma", 5)
    assert [(hit.id, hit.document, hit.title) for hit in hits] == [
        ("n2", "asthma", "Asthma"),
        ("n3", "asthma", "Asthma"),
    ]
    assert hits[0].text == TEXTS["asthma-1"][1]
    assert [passage.id for passage in searcher.document("gout")] == ["n0", "n1"]
    searcher.close()
    with pytest.raises(UserError, match=r"no field 'meta.haed'.*|no field 'haed' for title"):
        opened(stub, tmp_path, **{**names, "title": "haed"})
    with pytest.raises(UserError, match=r"no field 'txt' for text=….*_id, body, meta"):
        opened(stub, tmp_path, **{**names, "text": "txt"})
    with pytest.raises(UserError, match="no index 'pasages'"):
        opened(stub, tmp_path, index="pasages")


async def test_many_questions_in_one_call(stub, tmp_path):
    push(stub)
    searcher = opened(stub, tmp_path, mode="vector", embed=EMBED)
    together = await searcher.search_many([text for _, text in TEXTS.values()], 2)
    assert [hits[0].id for hits in together] == list(TEXTS)
    alone = await asyncio.gather(*(searcher.search(text, 2) for _, text in TEXTS.values()))
    assert alone == together
    searcher.close()


async def test_what_passes_is_tried_again_and_what_does_not_is_not(stub, tmp_path):
    push(stub)
    searcher = opened(stub, tmp_path, timeout=0.5)
    stub.faults += [429, 503]
    assert (await searcher.search("allopurinol", 1))[0].id == "gout-2"
    stub.faults += ["cut"]
    assert (await searcher.search("allopurinol", 1))[0].id == "gout-2"
    stub.slow = 1.0
    stub.faults += ["late"]
    assert (await searcher.search("allopurinol", 1))[0].id == "gout-2"
    stub.faults += [429] * 3
    with pytest.raises(GaveUp, match="rate_limit") as caught:
        await searcher.search("allopurinol", 1)
    assert caught.value.kind == "rate_limit"
    asked = len(stub.asked)
    stub.faults += [400]
    with pytest.raises(GaveUp, match="the queue is full"):
        await searcher.search("allopurinol", 1)
    assert len(stub.asked) == asked + 1
    with pytest.raises(GaveUp, match="different dimension"):
        await found(stub, tmp_path, "gout", mode="vector", embed="import:hashed_words:Short")
    searcher.close()


async def test_a_server_that_is_killed_and_comes_back_is_outlived(stub, tmp_path):
    push(stub)
    searcher = opened(stub, tmp_path)
    stub.stop()
    begun = time.monotonic()
    threading.Timer(0.3, stub.start).start()
    assert (await searcher.search("allopurinol", 1))[0].id == "gout-2"
    assert time.monotonic() - begun >= 0.25
    searcher.close()


async def test_a_server_that_stays_away_costs_the_search(stub, tmp_path, monkeypatch):
    push(stub)
    monkeypatch.setattr(external_index, "OUTAGE", 0.2)
    searcher = opened(stub, tmp_path)
    stub.stop()
    with pytest.raises(GaveUp, match=f"{stub.brand} .*gave no answer") as caught:
        await searcher.search("allopurinol", 1)
    assert caught.value.kind == "connection"
    with pytest.raises(UserError, match="gave no answer"):
        opened(stub, tmp_path)
    searcher.close()
    stub.start()


def test_no_error_shows_a_key(stub, tmp_path, monkeypatch):
    push(stub)
    monkeypatch.setenv("STUB_LOGIN", "reader:An0ther-Pa55word")
    header = basic("reader:An0ther-Pa55word").split()[1]
    with pytest.raises(UserError, match="auth") as caught:
        opened(stub, tmp_path)
    assert "An0ther" not in str(caught.value)
    assert header not in str(caught.value)
    monkeypatch.setenv("STUB_URL", stub.url.replace("://", "://reader:Th1rd-Pa55word@"))
    with pytest.raises(UserError, match="auth") as caught:
        open_searcher(parse(stub.brand).having(url_env="STUB_URL", index="passages", mode="text"), "", tmp_path)
    assert "Th1rd" not in str(caught.value)
    with pytest.raises(UserError, match="with a password") as caught:
        opened(stub, tmp_path, url=stub.url.replace("://", "://reader:F0urth-Pa55word@"))
    assert "F0urth" not in str(caught.value)


def test_every_change_changes_the_version(stub, tmp_path, monkeypatch):
    push(stub)

    def corpus():
        searcher = opened(stub, tmp_path)
        searcher.close()
        return searcher.corpus

    before = corpus()
    push(stub)
    assert corpus() == before  # of a small index all texts are read
    push(stub, {**TEXTS, "flu-1": ("Influenza", "fever and cough in spring")})
    assert corpus() != before
    monkeypatch.setattr(external_index, "SAMPLED", 3)  # of a large one the shards' own numbers are
    before = corpus()
    assert corpus() == before
    stub.indices["passages"]["changes"] += 1
    assert corpus() != before


async def test_hostile_and_partial_answers_are_no_results(stub, tmp_path, monkeypatch):
    push(stub)
    searcher = opened(stub, tmp_path)
    real = stub.search
    shards = {"total": 2, "successful": 1, "failed": 1}
    for change, kind in (
        ({"_shards": shards}, "server"),
        ({"timed_out": True}, "server"),
        ({"hits": {}}, "malformed"),
        ({"hits": {"hits": [{"_id": "x", "_score": "<b>9</b>"}]}}, "malformed"),
        ({"hits": {"hits": ["no object"]}}, "malformed"),
    ):
        monkeypatch.setattr(stub, "search", lambda index, asked, change=change: {**real(index, asked), **change})
        with pytest.raises(GaveUp) as caught:
            await searcher.search("gout", 3)
        assert caught.value.kind == kind, change
    searcher.close()


def test_a_push_goes_on_and_tells_what_was_refused(stub):
    way = find_retriever(stub.brand).push
    spec = parse(stub.brand).having(url=stub.url, key_env="STUB_LOGIN")
    target = way(spec, "Passages")
    assert target.begin(32, "cosine") == 0
    target.put(rows()[:3])
    assert target.begin(32, "cosine") == 3
    target.put(rows())
    assert target.end() == len(TEXTS)
    with pytest.raises(UserError, match="dimensions"):
        target.begin(16, "cosine")
    with pytest.raises(external_index.EngineFault, match="too long, must be"):
        target.put([rows()[0]._replace(id="x" * 600)])
    assert target.fault(external_index.EngineFault("rate_limit", "")) == "rate_limit"
    target.close()
    assert parse(target.spec) == spec.having(index="passages")
    assert len(hashed("x")) == 32
