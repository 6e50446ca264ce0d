"""Late interaction with a double, and local encoders with tiny weights."""

import zlib

import numpy as np
import pytest

from ragrounds.base.errors import UserError
from ragrounds.tools.retriever import open_searcher
from ragrounds.tools.retrievers import rerank

_WORDS = "gout uric acid statins lower cholesterol asthma inhaled steroids help renal heart".split()
_ROWS = [(f"d{n}", "", " ".join(_WORDS[(n * step) % 12] for step in range(1, 2 + n % 5))) for n in range(60)]


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
async def test_a_real_late_encoder_with_random_weights(beir, tmp_path, tiny):
    found = await open_searcher(f"rerank[model={tiny},late=true]", beir(_ROWS[:20]), tmp_path).search("gout uric", 20)
    assert [p.score for p in found] == sorted((p.score for p in found), reverse=True)


@pytest.mark.slow
def test_documents_are_shared_among_devices_and_types(tiny):
    from ragrounds.tools.index.embedders import Encoding, open_embedder

    base = {"model": str(tiny), "pooling": "mean"}
    texts = [("", text) for _, _, text in _ROWS[:9]]
    alone = open_embedder(Encoding(**base)).documents(texts)
    shared = open_embedder(Encoding(device="cpu+cpu", batch=2, **base)).documents(texts)
    np.testing.assert_allclose(shared, alone, atol=1e-5)
    half = open_embedder(Encoding(dtype="bfloat16", **base)).documents(texts)
    assert (half * alone).sum(axis=1).min() > 0.99
    assert not np.array_equal(half, alone)
