"""Qdrant by its address: its client against a stand-in that reads and answers by the client's own models."""

import json
import threading

import pytest

import ragrounds as rr
from ragrounds.base.errors import GaveUp, UserError
from ragrounds.base.specs import parse
from ragrounds.extensions.engines import external_index
from ragrounds.tools.retriever import open_searcher
from tests.extensions.engines.filled_engines import fill
from tests.extensions.engines.hashed_words import EMBED, TEXTS, exact, rows

pytest.importorskip("qdrant_client", reason="qdrant-client is not installed: the extra `qdrant`")
KEY = "Xq7-hidden-qdrant-k3y"


@pytest.fixture
def stub(monkeypatch):
    from tests.extensions.engines.qdrant_server import QdrantStub

    monkeypatch.setenv("STUB_KEY", KEY)
    monkeypatch.setattr(external_index, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(external_index, "LONGEST_WAIT", 0.05)
    server = QdrantStub(KEY)
    yield server
    server.stop()


def spec_of(stub, **more):
    return parse("qdrant").having(**{"url": stub.url, "collection": "passages", "key_env": "STUB_KEY", **more})


def opened(stub, tmp_path, **more):
    return open_searcher(spec_of(stub, **more), "", tmp_path)


@pytest.fixture
def held(stub):
    fill(spec_of(stub), rows())
    return stub


@pytest.mark.filterwarnings("ignore:Api key is used")
async def test_a_server_is_searched_in_one_request_a_ranking(held, tmp_path):
    near = opened(held, tmp_path, embed=EMBED)
    before = len(held.asked)
    found = await near.search_many([TEXTS["asthma-2"][1], TEXTS["gout-2"][1]], 2)
    assert [hits[0].id for hits in found] == ["asthma-2", "gout-2"]
    batches = [json.loads(body)["searches"] for _, path, _, body in held.asked[before:] if path.endswith("query/batch")]
    assert [[one["using"] for one in batch] for batch in batches] == [["vector"] * 2]
    query = "uric acid in the joint"
    hits = await near.search(query, 3)
    assert [hit.id for hit in hits] == [id for id, _ in exact(query, 3)]
    assert [hit.score for hit in hits] == pytest.approx([score for _, score in exact(query, 3)], abs=1e-5)
    near.close()


@pytest.mark.filterwarnings("ignore:Api key is used")
async def test_faults_pass_or_cost_one_search(held, tmp_path, monkeypatch):
    searcher = opened(held, tmp_path, embed=EMBED)
    held.faults += [503, 429]
    assert (await searcher.search("allopurinol lowers", 1))[0].id == "gout-2"
    held.faults += [429] * 3
    with pytest.raises(GaveUp, match="rate_limit"):
        await searcher.search("allopurinol", 1)
    held.stop()
    threading.Timer(0.2, held.start).start()
    assert (await searcher.search("allopurinol lowers", 1))[0].id == "gout-2"
    held.stop()
    monkeypatch.setattr(external_index, "OUTAGE", 0.2)
    with pytest.raises(GaveUp, match="gave no answer") as caught:
        await searcher.search("allopurinol", 1)
    assert caught.value.kind == "connection"
    searcher.close()
    held.start()


@pytest.mark.filterwarnings("ignore:Api key is used")
def test_no_error_shows_a_key(held, tmp_path, monkeypatch):
    monkeypatch.setenv("STUB_KEY", "An0ther-qdrant-k3y")
    with pytest.raises(UserError, match="auth") as caught:
        opened(held, tmp_path, embed=EMBED)
    assert "An0ther" not in str(caught.value)


@pytest.mark.filterwarnings("ignore:Api key is used")
def test_no_file_of_a_run_holds_a_key(held, home):
    retriever = f'qdrant[url="{held.url}",collection=passages,key_env=STUB_KEY,embed={EMBED}]'
    made = rr.run("sample", "vanilla_rag", model="baseline:extractive", retriever=retriever, limit=2, progress=False)
    assert set(made.to_pandas("attempts")["status"]) == {"completed"}
    assert not [file for file in home.rglob("*") if file.is_file() and KEY.encode() in file.read_bytes()]


@pytest.mark.filterwarnings("ignore:Api key is used")
async def test_fields_inside_others_and_a_model_for_terms(held, tmp_path):
    from qdrant_client import models

    held.held.create_collection("mine", vectors_config=models.VectorParams(size=32, distance=models.Distance.EUCLID))
    from tests.extensions.engines.hashed_words import hashed

    held.held.upsert(
        "mine",
        [
            models.PointStruct(
                id=number,
                vector=hashed(text).tolist(),
                payload={"body": text, "meta": {"doc": {"id": id}, "year": number}},
            )
            for number, (id, (_, text)) in enumerate(TEXTS.items())
        ],
    )
    named = {"collection": "mine", "text": "body", "document": "meta.doc.id", "embed": EMBED, "id": "meta.doc.id"}
    later = json.dumps({"must": [{"key": "meta.year", "range": {"gte": 2}}]})
    searcher = opened(held, tmp_path, filter=later, **named)
    hits = await searcher.search("uric acid crystals", 10)
    assert len(hits) == len(TEXTS) - 2
    squared = {id: 2 - 2 * score for id, score in exact("uric acid crystals", 10)}
    assert [hit.score for hit in hits] == pytest.approx([-squared[hit.document] for hit in hits], abs=1e-4)
    assert [passage.text for passage in searcher.document("flu-1")] == [TEXTS["flu-1"][1]]
    searcher.close()
    with pytest.raises(UserError, match=r"no field 'bodi' for text=.*Did you mean 'body'"):
        opened(held, tmp_path, **{**named, "text": "bodi"})
    with pytest.raises(UserError, match=r"no vectors 'dense'.*one without a name"):
        opened(held, tmp_path, vector="dense", **named)
    words = opened(held, tmp_path, mode="text", terms="Qdrant/bm25")
    held.faults += [400]  # the stand-in has no models: what is sent is looked at
    with pytest.raises(GaveUp, match="qdrant refused"):
        await words.search("gout", 3)
    [asked] = json.loads(held.asked[-1][3])["searches"]
    near = asked["query"]["nearest"]
    assert (asked["using"], near["text"], near["model"]) == ("bm25", "gout", "Qdrant/bm25")
    words.close()
