"""Retrievers as objects: found by scanning, by a card's name, by an import path; what each says of itself."""

import json
import sys

import pytest

from ragrounds.base.errors import UserError
from ragrounds.base.specs import Spec, parse
from ragrounds.tools.retriever import Retriever, find_retriever, open_searcher, retrievers

_MODULE = """
from ragrounds.tools.retriever import Retriever

class Nothing:
    spec, corpus = "nothing", "none@0"
    async def search(self, query, k):
        return []

NOTHING = Retriever(name="nothing", summary="finds nothing", example="nothing", open=lambda spec, corpora: Nothing())
"""


@pytest.mark.parametrize("name", sorted(retrievers()))
def test_each_says_what_it_is(name):
    retriever = find_retriever(name)
    assert retriever.summary
    assert retriever.cost
    assert parse(retriever.example).name == retriever.name
    assert json.dumps(retriever.described())
    assert all(parameter.words for parameter in retriever.parameters)


def test_the_example_has_known_parameters():
    for name in ("bm25", "dense", "maxp", "rerank", "web", "langchain", "llamaindex"):
        find_retriever(name).check(parse(find_retriever(name).example))
        with pytest.raises(UserError, match=f"{name} has no parameter 'nosuch'"):
            find_retriever(name).check(Spec(name, {"nosuch": 1}))


def test_a_card_opens_as_dense():
    assert find_retriever("medcpt") is find_retriever("dense")
    with pytest.raises(UserError, match="Did you mean 'medcpt'"):
        find_retriever("medctp")


async def test_one_file_in_a_package_is_a_retriever(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    assert isinstance(find_retriever("mine:NOTHING"), Retriever)
    assert await open_searcher("mine:NOTHING", "sample", tmp_path).search("x", 3) == []
    with pytest.raises(UserError, match="has no 'NOTING'"):
        find_retriever("mine:NOTING")
