"""A user's own retrievers, and reranking."""

import pytest

from ragrounds.base.errors import GaveUp, UserError
from ragrounds.base.records import Passage
from ragrounds.base.specs import parse
from ragrounds.tools.retriever import open_searcher
from ragrounds.tools.retrievers.rerank import RerankedSearcher


async def test_a_langchain_retriever(tmp_path):
    searcher = open_searcher('langchain[from="tests.tools.embedding_doubles:Two"]', "mine", tmp_path)
    found = await searcher.search("gout", 5)
    assert [(p.id, p.document, p.title, p.text, p.rank, p.score) for p in found] == [
        ("7", "s1", "T", "about gout", 1, 1.0),
        ("x", "x", "", "more", 2, 0.5),
    ]
    assert searcher.corpus == "mine@unversioned"
    assert {p.retriever for p in found} == {searcher.spec}
    assert len(await searcher.search("gout", 1)) == 1
    assert await searcher.search(" ", 1) == []


@pytest.mark.parametrize("name", ["make_store", "make_retriever"])
async def test_scores_of_a_langchain_vector_store_are_kept(name, tmp_path):
    searcher = open_searcher(f'langchain[from="tests.tools.embedding_doubles:{name}"]', "", tmp_path)
    alone = (await searcher.search("asthma", 1))[0]
    found = await searcher.search("asthma", 3)
    assert searcher.corpus == f"{name}@unversioned"
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
    assert found[0].score == pytest.approx(1.0, abs=1e-6)
    assert 0 < found[-1].score < 0.9
    assert alone == found[0]


async def test_distances_get_a_minus_sign(tmp_path):
    searcher = open_searcher('langchain[from="tests.tools.embedding_doubles:make_distances"]', "", tmp_path)
    assert [hit.score for hit in await searcher.search("asthma", 1)] == [-0.25]
    assert [hit.score for hit in await searcher.search("asthma", 3)] == [-0.25, -0.5, -2.0]


async def test_scores_in_metadata_are_kept(tmp_path):
    searcher = open_searcher('langchain[from="tests.tools.embedding_doubles:Scored"]', "mine", tmp_path)
    assert [hit.score for hit in await searcher.search("gout", 2)] == [7.5, 3.0]


@pytest.mark.parametrize(
    ("status", "asked", "kind"), [(503, 3, "server"), (429, 3, "rate_limit"), (400, 1, "bad_request")]
)
async def test_a_server_behind_a_retriever_is_asked_again_and_given_up(status, asked, kind, tmp_path, monkeypatch):
    from ragrounds.extensions.engines import external_index
    from tests.tools import embedding_doubles

    monkeypatch.setattr(external_index, "FIRST_WAIT", 0.01)
    monkeypatch.setenv("CLINIC_API_KEY", "kq-7781-secret-of-ours")
    monkeypatch.setattr(embedding_doubles.Failing, "status", status)
    monkeypatch.setattr(embedding_doubles.Failing, "calls", 0)
    searcher = open_searcher('langchain[from="tests.tools.embedding_doubles:Failing"]', "mine", tmp_path)
    with pytest.raises(GaveUp) as failed:
        await searcher.search("gout", 2)
    assert (failed.value.kind, embedding_doubles.Failing.calls) == (kind, asked)
    assert "7781" not in str(failed.value)
    assert "\n" not in str(failed.value)
    assert (await searcher.search("after", 2))[0].text == "after"


async def test_a_module_of_the_current_folder_is_found(tmp_path, monkeypatch):
    (tmp_path / "own_retriever_here.py").write_text("from tests.tools.embedding_doubles import Two as mine\n")
    monkeypatch.chdir(tmp_path)
    for path in ("own_retriever_here:mine", "./own_retriever_here.py:mine"):
        searcher = open_searcher(f'langchain[from="{path}"]', "", tmp_path)
        assert (await searcher.search("gout", 1))[0].id == "7"


async def test_a_llama_index_retriever(tmp_path):
    pytest.importorskip("llama_index.core", reason="llama-index-core is not installed: the extra `llamaindex`")
    searcher = open_searcher('llamaindex[from="tests.tools.embedding_doubles:make_llama_index"]', "mine", tmp_path)
    found = await searcher.search("asthma", 2)
    assert [(p.id, p.document, p.text, p.score) for p in found] == [
        ("n1", "doc", "asthma", 0.9),
        ("n2", "doc", "gout", 0.3),
    ]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("langchain", "needs an import path"),
        ("langchain[from=nomodule]", "not an import path"),
        ('llamaindex[from="tests.tools.embedding_doubles:Two"]', "LlamaIndex"),
        ('langchain[from="tests.tools.embedding_doubles:Two",k=3]', "no parameter 'k'"),
        ("rerank[of=bm25]", "names no model"),
        ("rerank[of=bm25,model=medcpt]", "no reranker"),
        ("rerank[of=bm25,model=monobert,top=0]", "1 or more"),
    ],
)
def test_what_cannot_be_meant_is_told(spec, reason, tmp_path, beir):
    if spec.startswith("llamaindex"):
        pytest.importorskip("llama_index.core", reason="llama-index-core is not installed: the extra `llamaindex`")
    with pytest.raises(UserError, match=reason):
        open_searcher(spec, beir([("a", "", "x")]), tmp_path)


class _Numbers:
    """Finds p0, p1, … in order."""

    spec = "numbers"
    corpus = "c@1"

    async def search(self, query, k):
        return [
            Passage(id=f"p{n}", document=f"p{n}", title="", text=str(n), corpus="c", score=9.0 - n, rank=n + 1)
            for n in range(6)
        ][:k]


async def test_reranking_moves_the_first_and_keeps_the_rest():
    def scorer(query, texts):
        return [float(text) if text != "2" else -1.0 for text in texts]

    searcher = RerankedSearcher(parse("rerank[of=numbers,model=m,top=3]"), _Numbers(), scorer)
    found = await searcher.search("q", 5)
    assert [p.id for p in found] == ["p1", "p0", "p2", "p3", "p4"]
    assert [p.rank for p in found] == [1, 2, 3, 4, 5]
    assert [p.score for p in found] == sorted((p.score for p in found), reverse=True)
    assert [p.id for p in await searcher.search("q", 1)] == ["p1"]
    assert searcher.spec == "rerank[model=m,of=numbers,top=3]"


@pytest.mark.slow
async def test_a_real_cross_encoder_from_a_folder(tmp_path, beir):
    """Weights of no worth, but of the real kind: a small BERT with two outputs, as MonoBERT has."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("sentence_transformers")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "asthma", "gout", "attack"]
    folder = tmp_path / "cross"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(words))
    config = transformers.BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        num_labels=2,
    )
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    corpus = beir([("a", "", "asthma attack"), ("b", "", "asthma gout"), ("c", "", "asthma")])
    searcher = open_searcher(f"rerank[of=bm25,model={folder},top=2]", corpus, tmp_path)
    found = await searcher.search("asthma attack", 3)
    assert sorted(p.id for p in found[:2]) == sorted(
        p.id for p in await open_searcher("bm25", corpus, tmp_path).search("asthma attack", 2)
    )
    assert len(found) == 3
    assert found == await searcher.search("asthma attack", 3)
