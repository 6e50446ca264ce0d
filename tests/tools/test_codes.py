"""Which code a search and an index go by."""

import gc
import os
import weakref

import pytest

from ragrounds.api import index
from ragrounds.tools import retriever
from ragrounds.tools.index.collection_builder import open_collection
from ragrounds.tools.merged import MergedSearcher
from ragrounds.tools.retriever import open_searcher, searcher_code, searcher_codes


def test_an_index_is_built_again_by_other_code_beside_the_old_one(tmp_path, edit):
    open_searcher("bm25", "sample", tmp_path)
    edit("analysers.py")
    searcher = open_searcher("bm25", "sample", tmp_path)
    assert len(searcher_code(searcher)) == 16
    assert len(list(tmp_path.glob("indexes/*/bm25-*"))) == 2


def test_a_corpus_is_read_again_by_other_code(tmp_path, edit):
    first = open_collection("sample", tmp_path)
    stamps = len(list(tmp_path.glob("indexes/.stamps/*")))
    edit("corpora.py")
    assert open_collection("sample", tmp_path).manifest.version == first.manifest.version
    assert len(list(tmp_path.glob("indexes/.stamps/*"))) == stamps + 1


def test_an_index_is_made_again_by_other_code(tmp_path, edit):
    (tmp_path / "a.md").write_text("# Fever\n\nParacetamol lowers it.\n")
    os.utime(tmp_path / "a.md", (1, 1))
    given = {"chunker": "headings", "home": tmp_path, "progress": False}
    first = index.build("notes", tmp_path / "a.md", **given).index.manifest
    edit("chunkers.py")
    again = index.build("notes", tmp_path / "a.md", **given).index.manifest
    assert (again.version, again.code != first.code) == (first.version, True)


def test_a_fusion_goes_by_the_code_of_its_members_too(tmp_path, edit):
    fused = "rrf[a=bm25,b=bm25[k1=2.0]]"
    assert list(searcher_codes(open_searcher(fused, "sample", tmp_path))) == ["rrf", "bm25"]
    before = searcher_codes(open_searcher(fused, "sample", tmp_path))
    edit("bm25.py")
    after = searcher_codes(open_searcher(fused, "sample", tmp_path))
    assert (before["bm25"] != after["bm25"], before["rrf"] == after["rrf"]) == (True, True)


def test_searchers_of_one_s_own_have_a_code(tmp_path):
    alone = MergedSearcher([open_searcher("bm25", "sample", tmp_path)])
    assert len(searcher_code(alone)) == 16


def test_the_cards_that_a_spec_names_are_a_part_of_it(monkeypatch):
    from ragrounds.base.specs import parse
    from ragrounds.tools.index.cards import cards

    before = retriever.spec_code(parse("rerank[of=bm25,model=medcpt-cross]"))
    assert before != retriever.spec_code(parse("rerank[of=bm25,model=bge-reranker]"))
    changed = dict(cards()) | {"medcpt-cross": cards()["bge-reranker"]}
    monkeypatch.setattr(retriever, "cards", lambda: changed)
    assert retriever.spec_code(parse("rerank[of=bm25,model=medcpt-cross]")) != before


def test_how_retrievers_are_found_and_listed_does_not_count(tmp_path, edit):
    before = searcher_code(open_searcher("bm25", "sample", tmp_path))
    edit("retriever.py")
    assert searcher_code(open_searcher("bm25", "sample", tmp_path)) == before
    edit("merged.py")
    assert searcher_code(open_searcher("bm25", "sample", tmp_path)) != before


def test_a_models_server_is_no_code() -> None:
    from ragrounds.base.specs import parse

    plain = retriever.spec_code(parse("dense"))
    assert retriever.spec_code(parse("dense[model=openai:text-embedding-3-small]")) == plain
    assert retriever.spec_code(parse("dense[model=import:json:tool]")) != plain
    assert retriever.spec_code(parse('langchain[from="json:tool"]')) != retriever.spec_code(parse("langchain"))
    assert retriever.code_in(parse('rrf[a=mine:OBJ,b=dense[model=openai:x],of="maxp[of=./own.py:OBJ]"]')) == [
        "mine:OBJ",
        "./own.py:OBJ",
    ]


def test_a_retriever_in_a_file_goes_by_that_file(tmp_path, edit):
    from ragrounds.base.specs import parse

    code = "from ragrounds.tools.retriever import Retriever\nMADE = Retriever('own', 's', 'own', open=len)\n"
    (tmp_path / "own.py").write_text(code)
    spec = parse(f"{tmp_path}/own.py:MADE")
    before = retriever.spec_code(spec)
    edit("retriever.py")
    assert retriever.spec_code(spec) == before
    (tmp_path / "own.py").write_text(f"# a comment\n{code}")
    assert retriever.spec_code(spec) == before
    (tmp_path / "own.py").write_text(code.replace("len", "list"))
    assert retriever.spec_code(spec) != before


@pytest.mark.slow
def test_a_searcher_that_nobody_uses_is_let_go(tmp_path):
    opened = [open_searcher(f"bm25[k1={number}.5]", "sample", tmp_path) for number in range(3)]
    known = {id(searcher) for searcher in opened}
    assert known <= retriever._codes.keys()
    assert list(searcher_codes(opened[0])) == ["bm25"]
    gone = [weakref.ref(searcher) for searcher in opened]
    del opened
    gc.collect()
    assert [one() for one in gone] == [None, None, None]  # with its open files: a study opens hundreds
    assert not known & retriever._codes.keys()


class _Slots:
    """A searcher that cannot be referred to weakly."""

    __slots__ = ("corpus", "spec")

    async def search(self, query, k):
        return []


def test_a_searcher_without_weak_references_has_a_code_too():
    assert len(searcher_code(_Slots())) == 16
