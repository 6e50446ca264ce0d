"""LanceDB and Qdrant in this process: real engines, each by its official client."""

import asyncio
import importlib.util
import json
import shutil

import pytest

from ragrounds.base.errors import GaveUp, UserError
from ragrounds.base.specs import parse
from ragrounds.extensions.engines.retrievers.qdrant import QdrantEngine, QdrantParameters
from ragrounds.tools.retriever import open_searcher
from tests.extensions.engines.filled_engines import fill
from tests.extensions.engines.hashed_words import EMBED, TEXTS, exact, hashed, rows

CLIENTS = {"lancedb": "lancedb", "qdrant": "qdrant_client"}
GOUT = '{"must": [{"key": "title", "match": {"value": "Gout"}}]}'
FILTERS = {"lancedb": "title = 'Gout'", "qdrant": GOUT}
WORDS = {"lancedb": "table", "qdrant": "collection"}


@pytest.fixture(params=CLIENTS)
def engine(request):
    if importlib.util.find_spec(CLIENTS[request.param]) is None:
        pytest.skip(f"{CLIENTS[request.param]} is not installed: the extra `{request.param}`")
    return request.param


@pytest.fixture
def place(engine, tmp_path):
    return str(tmp_path / {"lancedb": "lance"}.get(engine, "store"))


def spec_of(engine, place, **more):
    return parse(engine).having(**{"path": place, WORDS[engine]: "passages", **more})


def push(engine, place, texts=None, vectors=True, metric="cosine"):
    fill(spec_of(engine, place), rows(texts, vectors), metric)


async def found(engine, place, query, k=3, tmp_path=None, **more):
    searcher = open_searcher(spec_of(engine, place, **more), "", tmp_path)
    try:
        return await searcher.search(query, k)
    finally:
        searcher.close()


async def test_vectors_find_what_a_comparison_with_all_finds(engine, place, tmp_path):
    push(engine, place)
    query = "uric acid in the joint"
    hits = await found(engine, place, query, tmp_path=tmp_path, embed=EMBED)
    wanted = exact(query, 3)
    assert [hit.id for hit in hits] == [id for id, _ in wanted]
    assert [hit.score for hit in hits] == pytest.approx([score for _, score in wanted], abs=1e-5)
    assert [hit.rank for hit in hits] == [1, 2, 3]
    first = hits[0]
    assert (first.title, first.text) == TEXTS[first.id]
    assert first.document == "gout"
    assert first.corpus.startswith("passages@")
    assert parse(first.retriever) == spec_of(engine, place, embed=EMBED)


@pytest.mark.parametrize("metric", ["ip", "l2"])
async def test_scores_of_other_metrics(engine, place, metric, tmp_path):
    push(engine, place, metric=metric)
    query = "fever and cough"
    hits = await found(engine, place, query, k=2, tmp_path=tmp_path, embed=EMBED, metric=metric)
    for hit in hits:
        product = float(hashed(query) @ hashed(TEXTS[hit.id][1]))
        assert hit.score == pytest.approx(product if metric == "ip" else -(2 - 2 * product), abs=1e-4)
    assert hits[0].id == "flu-1"


@pytest.fixture
def searches_words(engine):
    if engine == "qdrant":
        pytest.skip("a model makes Qdrant's sparse vectors: test_qdrant_server looks at what is sent")


@pytest.mark.usefixtures("searches_words")
async def test_words_are_searched_by_their_weight(engine, place, tmp_path):
    push(engine, place, vectors=False)
    hits = await found(engine, place, "uric acid and allopurinol", tmp_path=tmp_path, mode="text")
    assert [hit.id for hit in hits][:2] == ["gout-2", "gout-1"]
    assert hits[0].score > hits[1].score > 0
    assert await found(engine, place, "xylophone", tmp_path=tmp_path, mode="text") == []
    odd = await found(engine, place, 'ankles AND "swollen (x:~ ?*', tmp_path=tmp_path, mode="text")
    assert odd[0].id == "heart-1"


@pytest.mark.usefixtures("searches_words")
async def test_both_are_fused(engine, place, tmp_path):
    push(engine, place)
    hits = await found(engine, place, "inhaler", k=4, tmp_path=tmp_path, mode="hybrid", embed=EMBED)
    assert hits[0].id == "asthma-2"
    assert hits[0].score == pytest.approx(2 / 61)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@pytest.mark.parametrize("mode", ["vector", "text", "hybrid"])
async def test_a_filter_is_kept(engine, place, mode, tmp_path, request):
    if mode != "vector":
        request.getfixturevalue("searches_words")
    push(engine, place)
    hits = await found(
        engine, place, "uric acid, breath and ankles", k=10, tmp_path=tmp_path, mode=mode, filter=FILTERS[engine],
        **({} if mode == "text" else {"embed": EMBED}),
    )  # fmt: skip
    assert {hit.id for hit in hits} == {"gout-1", "gout-2"}


async def test_many_questions_in_one_call_and_many_at_once(engine, place, tmp_path):
    push(engine, place)
    searcher = open_searcher(spec_of(engine, place, embed=EMBED), "", tmp_path)
    queries = [text for _, text in TEXTS.values()]
    together = await searcher.search_many([*queries, " "], 2)
    assert [hits[0].id for hits in together[:-1]] == list(TEXTS)
    assert together[-1] == []
    alone = await asyncio.gather(*(searcher.search(query, 2) for query in queries))
    for one, other in zip(alone, together, strict=False):
        assert [hit.id for hit in one] == [hit.id for hit in other]
        assert [hit.score for hit in one] == pytest.approx([hit.score for hit in other], abs=1e-5)
    searcher.close()


async def test_documents_are_given_whole(engine, place, tmp_path):
    push(engine, place)
    searcher = open_searcher(spec_of(engine, place, embed=EMBED), "", tmp_path)
    assert [passage.id for passage in searcher.document("gout")] == ["gout-1", "gout-2"]
    assert [passage.id for passage in searcher.document("o'neil")] == ["o'neil-1"]
    assert searcher.document("no such") == []
    searcher.close()


async def test_a_changed_passage_changes_the_version(engine, place, tmp_path):
    push(engine, place)

    def corpus():
        searcher = open_searcher(spec_of(engine, place, embed=EMBED), "", tmp_path)
        searcher.close()
        return searcher.corpus

    before = corpus()
    push(engine, place)  # the same passages once more
    assert corpus() == before
    push(engine, place, {**TEXTS, "flu-1": ("Influenza", "fever and cough in spring")})
    changed = corpus()
    assert changed != before
    push(engine, place, {"new-1": ("New", "something else")})
    assert corpus() not in (before, changed)


def test_a_wrong_field_is_told_with_those_there_are(engine, place, tmp_path):
    push(engine, place)
    with pytest.raises(UserError, match=r"no field 'txt' for text=….*Did you mean 'text'.*document, id, .*title"):
        open_searcher(spec_of(engine, place, embed=EMBED, text="txt"), "", tmp_path)
    with pytest.raises(UserError, match=r"no (table|collection) 'passage'.*Did you mean 'passages'"):
        open_searcher(spec_of(engine, place, embed=EMBED, **{WORDS[engine]: "passage"}), "", tmp_path)
    with pytest.raises(UserError, match="no parameter 'tabel'"):
        open_searcher(spec_of(engine, place, embed=EMBED, tabel="passages"), "", tmp_path)


async def test_what_the_engine_refuses_costs_one_search(engine, place, tmp_path):
    push(engine, place)
    with pytest.raises(GaveUp, match=f"{engine} refused") as caught:
        await found(
            engine, place, "gout", tmp_path=tmp_path, embed="import:tests.extensions.engines.hashed_words:Short"
        )
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match=f"{engine} refused|Cannot read filter="):
        open_searcher(spec_of(engine, place, embed=EMBED, filter="((("), "", tmp_path)


async def test_two_retrievers_share_one_place(engine, place, tmp_path):
    push(engine, place)
    near, other = (open_searcher(spec_of(engine, place, embed=EMBED), "", tmp_path) for _ in range(2))
    near.close()
    assert (await other.search("allopurinol lowers uric acid", 1))[0].id == "gout-2"
    other.close()
    again = open_searcher(spec_of(engine, place, embed=EMBED), "", tmp_path)
    assert (await again.search("allopurinol lowers uric acid", 1))[0].id == "gout-2"
    again.close()


async def test_fused_with_an_index_of_ours_by_the_id_of_passages(engine, place, tmp_path):
    push(engine, place)
    corpus = tmp_path / "ours"
    corpus.mkdir()
    lines = [json.dumps({"_id": id, "title": title, "text": text}) for id, (title, text) in TEXTS.items()]
    (corpus / "corpus.jsonl").write_text("\n".join(lines))
    other = spec_of(engine, place, embed=EMBED)
    searcher = open_searcher(parse("rrf").having(a="bm25", b=other), f"beir:{corpus}", tmp_path)
    hits = await searcher.search("allopurinol lowers uric acid", 3)
    assert hits[0].id == "gout-2"
    assert hits[0].score == pytest.approx(2 / 61)
    assert len({hit.id for hit in hits}) == 3


async def test_a_place_that_is_taken_away_costs_the_search(engine, place, tmp_path):
    push(engine, place)
    searcher = open_searcher(spec_of(engine, place, embed=EMBED), "", tmp_path)
    take_away(engine, place)
    with pytest.raises(GaveUp) as caught:
        await searcher.search("allopurinol", 1)
    assert "\n" not in str(caught.value)
    searcher.close()


def take_away(engine, place):
    """Remove what is searched while it is open, by the engine's own means."""
    if engine == "lancedb":
        shutil.rmtree(place)
    else:
        QdrantEngine(QdrantParameters(path=place), parse(engine)).connect().delete_collection("passages")
