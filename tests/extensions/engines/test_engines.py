"""Every engine in the same way, by its official client: LanceDB and Qdrant in this process, Chroma and PostgreSQL with
pgvector as real servers."""

import asyncio
import json
import shutil
import uuid

import pytest

from ragrounds.base.errors import GaveUp, UserError
from ragrounds.base.specs import parse
from ragrounds.extensions.engines.retrievers.qdrant import QdrantEngine, QdrantParameters
from ragrounds.tools.retriever import open_searcher
from tests.extensions.engines.hashed_words import EMBED, TEXTS, exact, found, hashed, push

PLACE = {"lancedb": "table", "qdrant": "collection", "pgvector": "table", "chroma": "collection"}
CLIENTS = {"lancedb": "lancedb", "qdrant": "qdrant_client"}
SERVERS = {"pgvector": "pgvector_server", "chroma": "chroma_server"}
FILTERS = {
    "lancedb": "title = 'Gout'",
    "qdrant": json.dumps({"must": [{"key": "title", "match": {"value": "Gout"}}]}),
    "pgvector": "title like 'Gou%'",
    "chroma": json.dumps({"title": "Gout"}),
}
OF_WORDS = pytest.mark.parametrize("target", ["lancedb"], indirect=True)
"""PostgreSQL's words have tests of their own; a model makes Qdrant's: `test_qdrant_server` looks at what is sent."""
IN_FOLDERS = pytest.mark.parametrize("target", CLIENTS, indirect=True)


@pytest.fixture(params=PLACE)
def target(request, tmp_path):
    """A fresh table or collection, as a spec that takes passages."""
    name = request.param
    if name in SERVERS:
        where = {"url": request.getfixturevalue(SERVERS[name]).url}
    else:
        pytest.importorskip(CLIENTS[name], reason=f"{CLIENTS[name]} is not installed: the extra `{name}`")
        where = {"path": str(tmp_path / "engine")}
    return parse(name).having(**where, **{PLACE[name]: "t" + uuid.uuid4().hex[:12]})


def place_of(target):
    return str(target.parameters[PLACE[target.name]])


async def test_vectors_find_what_a_comparison_with_all_finds(target, home):
    spec = push(target)
    query = "uric acid in the joint"
    hits = await found(spec, query, home=home)
    wanted = exact(query, 3)
    assert [hit.id for hit in hits] == [id for id, _ in wanted]
    assert [hit.score for hit in hits] == pytest.approx([score for _, score in wanted], abs=1e-5)
    assert [hit.rank for hit in hits] == [1, 2, 3]
    assert [(hit.title, hit.text) for hit in hits] == [TEXTS[id] for id, _ in wanted]
    assert hits[0].document == "gout"
    assert hits[0].corpus.startswith(f"{place_of(target)}@")
    assert parse(hits[0].retriever) == spec


@pytest.mark.parametrize("metric", ["ip", "l2"])
async def test_scores_of_other_metrics(target, metric, home):
    spec = push(target, metric=metric)
    query = "fever and cough"
    hits = await found(spec.having(metric=metric), query, 2, home=home)
    for hit in hits:
        product = float(hashed(query) @ hashed(TEXTS[hit.id][1]))
        assert hit.score == pytest.approx(product if metric == "ip" else -(2 - 2 * product), abs=1e-4)
    assert hits[0].id == "flu-1"


@OF_WORDS
async def test_words_are_searched_by_their_weight(target, home):
    push(target, vectors=False)
    spec = target.having(mode="text")
    hits = await found(spec, "uric acid and allopurinol", home=home)
    assert [hit.id for hit in hits][:2] == ["gout-2", "gout-1"]
    assert hits[0].score > hits[1].score > 0
    assert await found(spec, "xylophone", home=home) == []
    assert (await found(spec, 'ankles AND "swollen (x:~ ?*', home=home))[0].id == "heart-1"


@OF_WORDS
async def test_both_are_fused(target, home):
    hits = await found(push(target).having(mode="hybrid"), "inhaler", 4, home=home)
    assert hits[0].id == "asthma-2"
    assert hits[0].score == pytest.approx(2 / 61)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


async def test_a_filter_is_kept(target, home):
    spec = push(target).having(filter=FILTERS[target.name])
    specs = [spec]
    if target.name == "lancedb":
        specs += [spec.having(mode="hybrid"), target.having(mode="text", filter=FILTERS[target.name])]
    for one in specs:
        hits = await found(one, "uric acid, breath and ankles", 10, home=home)
        assert {hit.id for hit in hits} == {"gout-1", "gout-2"}, one


async def test_many_questions_in_one_call_and_many_at_once(target, home):
    searcher = open_searcher(push(target), "", home)
    queries = [text for _, text in TEXTS.values()]
    together = await searcher.search_many([*queries, " "], 2)
    assert [hits[0].id for hits in together[:-1]] == list(TEXTS)
    assert together[-1] == []
    alone = await asyncio.gather(*(searcher.search(query, 2) for query in queries))
    for one, other in zip(alone, together, strict=False):
        assert [hit.id for hit in one] == [hit.id for hit in other]
        assert [hit.score for hit in one] == pytest.approx([hit.score for hit in other], abs=1e-5)
    assert (await searcher.search_mean(["fever", "cough"], 1))[0].id == "flu-1"
    with pytest.raises(UserError, match="expected 1 or more"):
        await searcher.search("fever", 0)
    searcher.close()


async def test_documents_are_given_whole(target, home):
    searcher = open_searcher(push(target), "", home)
    assert [passage.id for passage in searcher.document("gout")] == ["gout-1", "gout-2"]
    assert [passage.id for passage in searcher.document("o'neil")] == ["o'neil-1"]
    assert searcher.document("no such") == []
    searcher.close()


async def test_a_changed_passage_changes_the_version(target, home):
    spec = push(target)

    def corpus():
        searcher = open_searcher(spec, "", home)
        searcher.close()
        return searcher.corpus

    before = corpus()
    push(target)  # the same passages once more
    assert corpus() == before
    push(target, {**TEXTS, "flu-1": ("Influenza", "rest and tea")})
    changed = corpus()
    assert changed != before
    assert (await found(spec, "rest and tea", 1, home=home))[0].text == "rest and tea"
    push(target, {"new-1": ("New", "something else")})
    assert corpus() not in (before, changed)
    named = open_searcher(spec.having(version="2026-01"), "mine", home)
    assert named.corpus == "mine@2026-01"
    named.close()


def test_what_is_wrong_is_said_in_one_line(target, home):
    spec = push(target)
    with pytest.raises(UserError, match=r"no field 'txt' for text=….*Did you mean 'text'.*title"):
        open_searcher(spec.having(text="txt"), "", home)
    name = place_of(target)
    with pytest.raises(UserError, match=rf"no (table|collection) '{name}x'"):
        open_searcher(spec.having(**{PLACE[spec.name]: f"{name}x"}), "", home)
    with pytest.raises(UserError, match=r"no parameter 'embd'. Did you mean 'embed'"):
        open_searcher(spec.having(embd="x"), "", home)
    with pytest.raises(UserError, match="needs what makes vectors"):
        open_searcher(target, "", home)


async def test_what_the_engine_refuses_costs_one_search(target, home):
    spec = push(target)
    with pytest.raises(GaveUp, match=f"{target.name} refused") as caught:
        await found(spec.having(embed=EMBED.replace("Hashed", "Short")), "gout", home=home)
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match=f"{target.name} refused|Cannot read filter="):
        open_searcher(spec.having(filter="((("), "", home)


@IN_FOLDERS
async def test_two_retrievers_share_one_place(target, home):
    spec = push(target)
    near, other = (open_searcher(spec, "", home) for _ in range(2))
    near.close()
    assert (await other.search("allopurinol lowers uric acid", 1))[0].id == "gout-2"
    other.close()
    assert (await found(spec, "allopurinol lowers uric acid", home=home))[0].id == "gout-2"


async def test_fused_with_an_index_of_ours_by_the_id_of_passages(target, corpus, home):
    fused = parse("rrf").having(a="bm25", b=push(target))
    hits = await found(fused, "allopurinol lowers uric acid", home=home, corpus=corpus)
    assert hits[0].id == "gout-2"
    assert hits[0].score == pytest.approx(2 / 61)
    assert len({hit.id for hit in hits}) == 3


@IN_FOLDERS
async def test_a_place_that_is_taken_away_costs_the_search(target, home):
    searcher = open_searcher(push(target), "", home)
    path = str(target.parameters["path"])
    if target.name == "lancedb":
        shutil.rmtree(path)
    else:
        client = QdrantEngine(QdrantParameters(path=path), parse(target.name)).connect()
        client.delete_collection(place_of(target))
    with pytest.raises(GaveUp) as caught:
        await searcher.search("allopurinol", 1)
    assert "\n" not in str(caught.value)
    searcher.close()
