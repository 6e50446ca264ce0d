"""Options are hidden from what takes our context; where another system's query holds them, table and trace say so."""

from __future__ import annotations

from pathlib import Path

import pytest

import ragrounds as rr
from ragrounds.evals.store.store import Store
from ragrounds.records import Noted

SYSTEM = """
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from ragrounds.records import Question

class Notes(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(page_content="a note", id="n1")]

def with_options(question: Question):
    Notes().invoke(" ".join([question.text, *question.options.values()]))
    return "A"

def without(question: Question):
    Notes().invoke(" ".join([question.text, *list(question.options.values())[:1]]))
    return "A"
"""


@pytest.mark.parametrize(("name", "reported"), [("with_options", True), ("without", False)])
def test_a_query_that_holds_options_is_reported(
    name: str, reported: bool, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "searching.py").write_text(SYSTEM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGROUNDS_HOME", str(home))
    run = rr.run("sample", f"./searching.py:{name}", limit=2, progress=False)
    said = [note for note in run.comparison.notes if "its own queries contained options of the question" in note]
    assert bool(said) is reported
    with Store(home) as store:
        attempt = store.attempt(store.runs()[0], "sample/c22", 0)
    assert attempt is not None
    assert attempt.status == "completed"
    assert any(isinstance(one, Noted) and one.what == "options_in_query" for one in attempt.events) is reported
