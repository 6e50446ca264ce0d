"""Learned sparse retrieval and late interaction: what is kept and how it is searched, with doubles and tiny weights."""

import zlib

import numpy as np
import pytest

from ragrounds.errors import UserError
from ragrounds.tools.cards import card_names, cards
from ragrounds.tools.collection_builder import open_collection
from ragrounds.tools.embedders import joined
from ragrounds.tools.retriever import open_searcher
from ragrounds.tools.retrievers import rerank, sparse
from ragrounds.tools.row_files import make_rows, row_ends

_WORDS = "gout uric acid statins lower cholesterol asthma inhaled steroids help renal heart".split()
_ROWS = [(f"d{n}", "", " ".join(_WORDS[(n * step) % 12] for step in range(1, 2 + n % 5))) for n in range(60)]


class Weighted:
    """A sparse model's double: the length of a word is its weight."""

    words = 997

    def __init__(self, encoding):
        pass

    def documents(self, documents):
        return self.queries([joined(*one, "sentence") for one in documents])

    def queries(self, texts):
        rows = []
        for text in texts:
            found = {zlib.crc32(word.encode()) % 997: len(word) / 3 for word in text.split()}
            rows.append(
                {
                    "words.u32": np.array(list(found), np.uint32),
                    "weights.f32": np.array(list(found.values()), np.float32),
                }
            )
        return rows


@pytest.fixture
def doubles(monkeypatch):
    """The retriever with a double of its model."""
    monkeypatch.setattr(sparse, "SparseModel", Weighted)
    monkeypatch.setattr(sparse, "check_embedder", lambda encoding: None)


async def test_sparse_search_is_the_inner_product_of_all_passages(beir, tmp_path, doubles, monkeypatch):
    monkeypatch.setattr(sparse, "_AT_ONCE", 7)  # sorted in many parts
    searcher = open_searcher("sparse[model=any]", beir(_ROWS), tmp_path)
    queries = ["gout steroids", "heart", "nothing of it", " "]
    rows = Weighted(None).documents([("", text) for _, _, text in _ROWS])
    for query, found in zip(queries, await searcher.search_many(queries, 12), strict=True):
        asked = Weighted(None).queries([query])[0]
        weights = dict(zip(asked["words.u32"].tolist(), asked["weights.f32"].tolist(), strict=True))
        right = [
            sum(weights.get(w, 0) * v for w, v in zip(r["words.u32"].tolist(), r["weights.f32"].tolist(), strict=True))
            for r in rows
        ]
        order = sorted((n for n, score in enumerate(right) if score > 0), key=lambda n: (-round(right[n], 4), n))[:12]
        assert [passage.id for passage in found] == [f"d{n}" for n in order]
        assert [passage.score for passage in found] == pytest.approx([right[n] for n in order], rel=1e-5)
        assert [passage.rank for passage in found] == list(range(1, len(order) + 1))


async def test_late_interaction_orders_the_first_by_maxsim(beir, tmp_path, monkeypatch):
    """A fixed random vector stands for every word."""

    class Tokens:
        def encode_document(self, texts, **_):
            return self.encode_query(texts)

        def encode_query(self, texts, **_):
            seeds = [[zlib.crc32(word.encode()) for word in text.split()] for text in texts]
            return [np.array([np.random.default_rng(seed).standard_normal(8) for seed in row]) for row in seeds]

    monkeypatch.setattr(rerank, "load_weights", lambda kind, model, **_: Tokens())
    corpus, query = beir(_ROWS), "uric steroids"
    few = open_searcher("rerank[model=colbertv2,top=5]", corpus, tmp_path)
    first = {p.id for p in await open_searcher("bm25", corpus, tmp_path).search(query, 5)}
    chosen = await few.search(query, 3)
    (asked,) = Tokens().encode_query([query])
    rows = dict(zip((id for id, _, _ in _ROWS), Tokens().encode_query([text for _, _, text in _ROWS]), strict=True))
    best = sorted((float((asked @ rows[name].T).max(axis=1).sum()) for name in first), reverse=True)[:3]
    assert {p.id for p in chosen} <= first
    assert [p.score for p in chosen] == pytest.approx(best, abs=1e-4)
    with pytest.raises(UserError, match=r"is a reranker: use it as rerank\[of=bm25,model=colbertv2"):
        open_searcher("colbertv2", corpus, tmp_path)


def test_rows_go_on_where_a_build_stopped(beir, tmp_path):
    collection = open_collection(beir(_ROWS), tmp_path)
    folder = tmp_path / "rows"
    folder.mkdir()
    calls = []

    def encode(texts):
        if len(calls) == 3:
            calls.append(0)
            raise KeyboardInterrupt
        calls.append(len(texts))
        return [{"a.u32": np.full(len(text.split()), len(text), np.uint32)} for _, text in texts]

    with pytest.raises(KeyboardInterrupt):
        make_rows(collection, folder, {"a.u32": 4}, encode, 8, None)
    with (folder / "a.u32").open("ab") as file:
        file.write(b"junk of a row that was not finished")
    make_rows(collection, folder, {"a.u32": 4}, encode, 8, None)
    assert sum(calls) == 60
    ends = row_ends(folder, 60).astype(int)
    held = np.fromfile(folder / "a.u32", np.uint32)
    for n, (_, _, text) in enumerate(_ROWS):
        assert held[ends[n] : ends[n + 1]].tolist() == [len(text)] * len(text.split())


def test_cards_open_the_retriever_of_their_kind(tmp_path):
    assert set(card_names("sparse", "late")) == {"splade", "splade-doc", "colbertv2", "moderncolbert"}
    assert cards()["splade"].encoding.document_length == 256
    with pytest.raises(UserError, match="splade has no parameter 'store'"):
        open_searcher("splade[store=faiss]", "sample", tmp_path)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A folder of random weights that both kinds of encoders read."""
    pytest.importorskip("sentence_transformers", minversion="6.0")
    import torch
    from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

    folder = tmp_path_factory.mktemp("tiny")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *_WORDS]
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertForMaskedLM(BertConfig(vocab_size=len(vocabulary), max_position_embeddings=64, **sizes)).save_pretrained(folder)
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


@pytest.mark.slow
async def test_real_encoders_with_random_weights(beir, tmp_path, tiny):
    corpus = beir(_ROWS[:20])
    weights = open_searcher(f"sparse[model={tiny},batch=4]", corpus, tmp_path)
    model = sparse.SparseModel(sparse.encoding_of(sparse.Spec("sparse", {"model": str(tiny)}))[0])
    vectors = np.zeros((21, model.words))
    for row, made in zip(
        vectors, [*model.documents([("", t) for _, _, t in _ROWS[:20]]), *model.queries(["gout"])], strict=True
    ):
        row[made["words.u32"]] = made["weights.f32"]
    right = np.sort(vectors[:20] @ vectors[20])[::-1]
    assert [p.score for p in await weights.search("gout", 5)] == pytest.approx(right[:5].tolist(), rel=1e-4)
    found = await open_searcher(f"rerank[model={tiny},late=true]", corpus, tmp_path).search("gout uric", 20)
    assert [p.score for p in found] == sorted((p.score for p in found), reverse=True)


@pytest.mark.slow
def test_documents_are_shared_among_devices_and_types(tiny):
    from ragrounds.tools.embedders import Encoding, open_embedder

    base = {"model": str(tiny), "pooling": "mean"}
    texts = [("", text) for _, _, text in _ROWS[:9]]
    alone = open_embedder(Encoding(**base)).documents(texts)
    shared = open_embedder(Encoding(device="cpu+cpu", batch=2, **base)).documents(texts)
    np.testing.assert_allclose(shared, alone, atol=1e-5)
    half = open_embedder(Encoding(dtype="bfloat16", **base)).documents(texts)
    assert (half * alone).sum(axis=1).min() > 0.99
    assert not np.array_equal(half, alone)
