"""Whether a corpus has any of the documents that questions name: said once, before any call."""

import json

from ragrounds.api import data
from ragrounds.base.records import Gold
from ragrounds.tools.gold_documents import absent_words
from ragrounds.tools.index.collection_builder import open_collection


def golds(*documents):
    return [Gold(question_id="q", answer="A", documents=documents), Gold(question_id="r", answer="B")]


def test_that_no_gold_document_is_there_is_said(tmp_path):
    corpus = open_collection("sample", tmp_path)
    held = corpus.store.raw(0)[1]
    said = absent_words(golds("no such", "nor this"), "mirage/bioasq", corpus.corpus, tmp_path)
    assert said.startswith(f"None of the 2 gold documents of mirage/bioasq is in the corpus {corpus.corpus}: ")
    assert said.endswith(f"The questions name 'no such', the corpus has {held!r}.")
    for named, searched in ((("no such", held), corpus.corpus), ((), corpus.corpus), (("no such",), "elastic:here")):
        assert absent_words(golds(*named), "sample", searched, tmp_path) == ""


def test_an_audit_takes_the_name_of_an_index(tmp_path):
    lines = [{"id": "q1", "question": "Which is it?", "options": {"A": "x", "B": "y"}, "answer": "A",
              "documents": ["none"]}]  # fmt: skip
    file = tmp_path / "asked.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    name = open_collection("sample", tmp_path).folder.name
    by_name = data.audit(f"jsonl:{file}", name, home=tmp_path).corpus
    assert by_name == data.audit(f"jsonl:{file}", "sample", home=tmp_path).corpus
    assert by_name.documents > 10
